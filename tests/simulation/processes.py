"""The processes of opcodes: they do what their plays would do in the world, with the records of real ones."""

from __future__ import annotations

import asyncio
import contextlib
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ansible_collections.roundsman.cluster.daemon.jobs import opcode_process, task_log
from ansible_collections.roundsman.cluster.daemon.lab.simulator.simulated_replica import Rejected
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.values import errors
from ansible_collections.roundsman.cluster.plugins.plugin_utils import durable_files, run_group, run_records

from tests.simulation import acts, plays
from tests.simulation.world import Killed

if TYPE_CHECKING:
    from collections.abc import Generator

    from tests.simulation.world import World

STARTING, STEP, EXIT, REST = 1.0, 4.0, 0.5, 60.0
"""Seconds that a part of a process's life takes at the most, and the module that outlives it."""


class Living:
    """What holds a livelock until it ends, whatever becomes of the daemon; `instance` is at work in it."""

    def __init__(self, world: World, name: str) -> None:
        self.world = world
        self.controller = world.here
        self.name = name
        self.instance = ""
        self.is_over = False
        self._waiting: list[tuple[asyncio.AbstractEventLoop, asyncio.Future[None]]] = []

    def end(self, how: str) -> None:
        """It is no more, and its livelock is free."""
        if self.is_over:
            return
        self.is_over = True
        self.world.tell("process", self.name, how)
        self._free()

    @property
    def has_livelock(self) -> bool:
        return not self.is_over

    def _free(self) -> None:
        """Its livelock is free."""
        for loop, future in self._waiting:
            if not loop.is_closed() and not future.done():
                future.set_result(None)
        self._waiting.clear()

    async def ended(self) -> None:
        """Wait for its end."""
        if self.has_livelock:
            loop = asyncio.get_running_loop()
            future = loop.create_future()
            self._waiting.append((loop, future))
            await future


class Process(Living):
    """One process of a run, from its start on; it lives on whatever becomes of the daemon.

    `is_rest`: it was killed, and the module that it was at is about to do what it is for.
    """

    def __init__(self, world: World, run: Path) -> None:
        super().__init__(world, f"{run.parent.name}/{run.name}")
        self.run = run
        self.is_hung = self.is_rest = False
        self.kind = ""
        self.outcome: dict[str, Any] = {}
        self.disk = durable_files.Disk()
        self._life = self._lived()
        self._chances = world.rng("process")
        self._next(STARTING)

    def _next(self, most: float) -> None:
        self.world.at(self._chances.random() * most, self._step)

    def _step(self) -> None:
        if self.is_over:
            return
        if self.is_rest:
            self._go_on()
            self.end("ends, after its play")
        elif self.world.happens("process-killed"):
            self._be_killed()
        elif self.world.happens("process-hangs"):
            self.is_hung = True
            self.world.tell("process", self.name, "hangs")
        else:
            self._go_on()

    @property
    def has_livelock(self) -> bool:
        return not self.is_over and not self.is_rest

    @property
    def leaves_unknown(self) -> bool:
        """Whether it began, and does not say what it has made true: it was lost, or failed without a value."""
        is_told = self.outcome and (self.outcome["status"] == "success" or self.outcome.get("value") is not None)
        return self.run in self.world.begun and not is_told

    def _be_killed(self) -> None:
        if self.kind and self.world.happens("module-outlives-play"):
            self.is_rest = True
            self.world.tell("process", self.name, "is killed, but for a module")
            self._free()
            self._next(REST)
        else:
            self.end("is killed")

    def _go_on(self) -> None:
        self.world.acting, before = self, durable_files._DISK
        durable_files._DISK = self.disk
        try:
            most = next(self._life)
        except StopIteration:
            self.end("ends")
        except (Killed, errors.RoundsmanError, OSError) as error:
            self.end(f"breaks off: {type(error).__name__}")
        else:
            self._next(most)
        finally:
            self.world.acting = None
            durable_files._DISK = before

    def _lived(self) -> Generator[float, None, None]:
        if self.world.happens("process-never-begins"):
            return
        opcode_process._begin(self.run)
        if self.run.name.isdecimal():
            self.world.begun.add(self.run)
        spec = json.loads((self.run / "opcode.json").read_bytes())
        self.kind, step = _kind(spec), spec["variables"].get("step", {})
        self.instance = step.get("instance", {}).get("uuid", "") if isinstance(step.get("instance"), dict) else ""
        self.world.tell("process", self.name, "begins", self.kind)
        check_alone(self.world, self)
        check_others_are_done(self.world, self)
        yield STEP
        try:
            value = yield from plays.play(self.world, self.run, self.kind, step)
            outcome = {"status": "success", "text": "", "value": value}
        except acts.PlayFailed as failure:
            outcome = {"status": "error", "text": str(failure), "value": failure.value}
        except Rejected as error:
            outcome = {"status": "error", "text": str(error)}
        if self.is_rest:
            return
        self.outcome = outcome
        run_records.conclude(self.run, outcome)
        yield EXIT


def check_alone(world: World, living: Living) -> None:
    """An instance is at work in one run or play by hand at a time."""
    for other in (*world.processes.values(), *world.plays.values()):
        is_beside = other is not living and not other.is_over and other.controller is living.controller
        if is_beside and living.instance and other.instance == living.instance:
            name = world.names[living.instance]
            world.violated(f"{name} is at work in two runs at once: {living.name} and {other.name}")


def check_others_are_done(world: World, process: Process) -> None:
    """Each node of its instance that may do what another controller orders follows the one that took over from it."""
    at, number = process.controller.took_over
    known = process.controller.known
    if not number or not process.instance or known is None:
        return
    for node in known.instances[process.instance].nodes:
        found = world.nodes[node]
        kept = found.followed.kept
        # One that has booted since runs nothing.
        if found.is_on and found.booted < at and (kept is None or kept.epoch.number < number):
            name = world.names[process.instance]
            world.violated(f"{process.name} is at work on {name}, and {found.name} does not follow epoch {number} yet")


def _kind(spec: dict[str, Any]) -> str:
    return str(spec["variables"].get("roundsman_kind") or Path(spec["playbook"]).stem)


class Child:
    """What the daemon holds of a process that it has started (`subprocess.Popen`)."""

    def __init__(self, process: Process) -> None:
        self._process = process

    def poll(self) -> int | None:
        return None if self._process.has_livelock else 0

    def wait(self, _timeout: float | None = None) -> int:
        return 0


def spawn(world: World, cwd: Path) -> Child:
    """Start the process of a run; a run begins once."""
    world.refuse_the_dead()
    run = Path(cwd)
    before = world.processes.get(run)
    if before is not None and not before.is_over:
        world.violated(f"run {run.parent.name}/{run.name} is started while its process runs")
    if run in world.begun:
        world.violated(f"run {run.parent.name}/{run.name} is begun twice")
    _check_durable(world, run)
    world.tell("process", f"{run.parent.name}/{run.name}", "is started")
    world.processes[run] = Process(world, run)
    if run.name == task_log.LOOKUP:
        world.looks[run.parent] = False
    return Child(world.processes[run])


def _check_durable(world: World, run: Path) -> None:
    """What a process works under is found after a loss of power: that its job runs, and its locks."""
    lib = world.root / "var/lib/roundsman"
    name, *rest = run.relative_to(lib / "queue").parts
    table = json.loads(world.disk.durable(lib / "locks.data") or '{"held": []}')
    held = {lock: mode for row in table["held"] if row["owner"] == f"job {name}" for lock, mode in row["locks"].items()}
    granted = json.loads((run / "granted.json").read_bytes())
    if missing := sorted(lock for lock, mode in granted.items() if held.get(lock) != mode):
        world.violated(f"run {name}/{'/'.join(rest)} is started under locks that are not on the disk: {missing}")
    job = json.loads(world.disk.durable(lib / "queue" / name / "job.json") or '{"opcodes": []}')
    if "running" not in {opcode["status"] for opcode in job["opcodes"]}:
        world.violated(f"run {name}/{'/'.join(rest)} is started by a job that does not run on the disk")


def is_alive(world: World, livelock: Path) -> bool:
    living = world.living(livelock)
    return living is not None and living.has_livelock


async def ended(world: World, livelock: Path) -> None:
    await asyncio.sleep(world.rng("ended").random() * 0.1)
    living = world.living(livelock)
    if living is not None:
        await living.ended()


def end(world: World, run: Path) -> run_group.Ended:
    """Kill all that is left of a run."""
    world.refuse_the_dead()
    process = world.processes.get(run)
    if process is None or process.is_over:
        return run_group.Ended(0, frozenset())
    with contextlib.suppress(Killed):
        process.end("is ended by the daemon")
    return run_group.Ended(1, frozenset())
