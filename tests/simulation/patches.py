"""All that is put in place of the product's own while a simulation runs, each with its reason. There are no others.

The product has no seam for this: what is patched is where it meets the kernel, other processes or the network.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import os
import pathlib
import subprocess
import types
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ansible_collections.roundsman.cluster.plugins.plugin_utils import durable_files

from tests.simulation import modules, nodes, processes, threads

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from tests.simulation.world import World

PACKAGE = "ansible_collections.roundsman.cluster"


@dataclass(frozen=True)
class Patch:
    """`name` of `owner` (a module, or a class or function in it behind a colon); `make` gives what stands there."""

    owner: str
    name: str
    make: Callable[[World], Any]
    reason: str


def _monotonic(world: World) -> Callable[[], float]:
    return lambda: world.now - world.booted


def _fsync(world: World) -> Callable[[int], None]:
    def fsync(descriptor: int) -> None:
        if world.writes_on is not None:
            world.writes_on.sync(descriptor)
            return
        world.refuse_the_dead()
        chances = world.rng("sync")
        if chances.random() < 0.5:
            _end_at_sync(world)
            world.disk.sync(descriptor)
        else:
            world.disk.sync(descriptor)
            _end_at_sync(world)

    return fsync


def _end_at_sync(world: World) -> None:
    if world.happens("power-loss-at-sync"):
        world.lose_power("at a sync")
    if world.acting is None and world.happens("kill-at-sync"):
        world.kill("at a sync")


def _renamed(name: str) -> Callable[[World], Callable[[Any, Any], None]]:
    real = getattr(os, name)

    def make(world: World) -> Callable[[Any, Any], None]:
        def rename(source: Any, target: Any) -> None:
            if world.acting is None and world.writes_on is None and not world.is_dead:
                world.disk.moves(Path(source), Path(target))
            real(source, target)
            if Path(target).parent.name == "spool":
                world.on_spooled()

        return rename

    return make


def _point(world: World) -> Callable[[str], None]:
    def point(name: str) -> None:
        if world.acting is None and not world.is_dead and world.happens("kill-at-point"):
            world.kill(name)

    return point


def _uuid4(world: World) -> Callable[[], uuid.UUID]:
    return lambda: uuid.UUID(int=world.rng("uuid").getrandbits(128), version=4)


def _chances(world: World) -> types.SimpleNamespace:
    chances = world.rng("votes")
    return types.SimpleNamespace(sample=chances.sample, SystemRandom=lambda: chances)


def _token_hex(world: World) -> Callable[[int], str]:
    return lambda size: f"{world.rng('votes').getrandbits(8 * size):0{2 * size}x}"


def _time_of_modules(world: World) -> types.SimpleNamespace:
    return types.SimpleNamespace(monotonic=lambda: world.now, sleep=modules.sleep)


def _popen(world: World) -> Any:
    def popen(_words: list[str], *, cwd: Any, **_options: Any) -> processes.Child:
        return processes.spawn(world, cwd)

    return types.SimpleNamespace(
        Popen=popen, DEVNULL=subprocess.DEVNULL, TimeoutExpired=subprocess.TimeoutExpired, PIPE=subprocess.PIPE
    )


def _parse_parts(_world: World) -> Callable[[Sequence[str]], tuple[str, str, list[str]]]:
    parsed = functools.lru_cache(maxsize=20_000)(_PARSE_PARTS)

    def parse_parts(parts: Sequence[str]) -> tuple[str, str, list[str]]:
        drive, root, names = parsed(tuple(parts))
        return drive, root, [*names]

    return parse_parts


_PARSE_PARTS: Any = getattr(getattr(pathlib, "_posix_flavour", None), "parse_parts", None)
"""Python 3.11 and before have it."""
SPEED: tuple[Patch, ...] = tuple(
    Patch("pathlib:_posix_flavour", "parse_parts", _parse_parts, "a tenth of all time; what it returns is the same")
    for _ in filter(None, (_PARSE_PARTS,))
)
PATCHES: tuple[Patch, ...] = (
    *SPEED,
    Patch("time", "time", lambda world: world.wall_clock, "the wall clock is the world's"),
    Patch("time", "time_ns", lambda world: lambda: int(world.wall_clock() * 1e9), "the same"),
    Patch("time", "monotonic", _monotonic, "so is the clock that no step moves"),
    Patch("time", "clock_gettime", lambda world: lambda _clock: _monotonic(world)(), "so is that since the boot"),
    *(
        Patch(f"{PACKAGE}.{owner}", name, _monotonic, "it took the clock as a default when it was defined")
        for owner, name in (
            ("daemon.maintenance.reports:Intake.__init__", "monotonic"),
            ("daemon.maintenance.agents:Agents.__init__", "monotonic"),
            ("daemon.maintenance.dead_nodes:DeadNodes.__init__", "monotonic"),
            ("daemon.maintenance.replicas:Replicas.__init__", "monotonic"),
            ("daemon.maintenance.left_behind:LeftBehind.__init__", "monotonic"),
            ("daemon.maintenance.balancing:Balancer.__init__", "monotonic"),
            ("daemon.maintenance.unfinished_moves:UnfinishedMoves.__init__", "monotonic"),
        )
    ),
    Patch("uuid", "uuid4", _uuid4, "the same seed gives the same names"),
    Patch("secrets", "token_hex", _token_hex, "the same"),
    Patch("socket", "gethostname", lambda _: lambda: "controller", "the same on each machine"),
    Patch(f"{PACKAGE}.plugins.plugin_utils.voting", "random", _chances, "the same seed asks nodes in the same order"),
    Patch(f"{PACKAGE}.daemon.maintenance.leadership", "random", _chances, "the same seed asks again at the same time"),
    Patch(
        f"{PACKAGE}.plugins.module_utils.instance_lock", "time", _time_of_modules, "modules wait in the world's time"
    ),
    Patch("os", "fsync", _fsync, "what is durable, and where a daemon is killed, is the world's matter"),
    Patch("os", "replace", _renamed("replace"), "a name that changes its folder changes it at once on the disk, too"),
    Patch("os", "rename", _renamed("rename"), "the same; a file that gets a name in the spool is told of"),
    Patch("asyncio", "open_connection", nodes.open_connection, "the network has the nodes of the world"),
    Patch(f"{PACKAGE}.daemon.service", "Reader", nodes.reader, "it read BMCs in a process of its own"),
    Patch(f"{PACKAGE}.daemon.service", "SshVotes", nodes.ssh_votes, "it asked nodes by a play"),
    Patch("asyncio", "to_thread", threads.to_thread, "threads are pieces of work that end when the world says so"),
    Patch(f"{PACKAGE}.daemon.writing:Writer", "_submit", threads.in_order, "the same, one after the other"),
    Patch("concurrent.futures", "ThreadPoolExecutor", lambda _: threads.Pool, "files are written one after the other"),
    Patch(f"{PACKAGE}.daemon.maintenance.reports", "ThreadPoolExecutor", lambda _: threads.Pool, "the same"),
    Patch(f"{PACKAGE}.daemon.jobs.process", "_in_own_thread", threads.in_own_thread, "as `to_thread`"),
    Patch(f"{PACKAGE}.daemon.jobs.process", "subprocess", _popen, "a process of an opcode is one of the world"),
    Patch(
        f"{PACKAGE}.plugins.plugin_utils.run_group",
        "end",
        lambda world: functools.partial(processes.end, world),
        "the same: it looked for processes of the kernel",
    ),
    Patch(f"{PACKAGE}.plugins.plugin_utils.run_group", "oom_kills", lambda _: lambda: 0, "it reads a control group"),
    Patch(
        f"{PACKAGE}.plugins.plugin_utils.livelocks",
        "is_alive",
        lambda world: functools.partial(processes.is_alive, world),
        "a process of the world holds no flock",
    ),
    Patch(
        f"{PACKAGE}.daemon.locks.desk",
        "ended",
        lambda world: functools.partial(processes.ended, world),
        "the same, and it waited in a thread",
    ),
    Patch(f"{PACKAGE}.daemon.faults", "point", _point, "the points at which other tests kill the daemon, too"),
    Patch(
        f"{PACKAGE}.plugins.plugin_utils.unsynced",
        "BOOT_ID",
        lambda world: types.SimpleNamespace(read_text=lambda: world.here.boot_id),
        "the machine of the world boots by itself",
    ),
    Patch(
        f"{PACKAGE}.plugins.action.failover_check",
        "UPTIME",
        lambda world: types.SimpleNamespace(read_text=lambda: f"{_monotonic(world)():.6f} 1.00"),
        "plays read the uptime of the controller",
    ),
    Patch(f"{PACKAGE}.daemon.maintenance.spool", "keep_watching", nodes.keep_watching, "it waits for inotify"),
)


@contextlib.contextmanager
def installed(world: World) -> Iterator[None]:
    """Have all patches in place as long as this lasts."""
    with contextlib.ExitStack() as undo:
        for patch in PATCHES:
            undo.callback(_put(patch, patch.make(world)))
        yield


def _put(patch: Patch, value: Any) -> Callable[[], None]:
    """Put a value in its place; returns what takes it back."""
    module, _, path = patch.owner.partition(":")
    owner: Any = importlib.import_module(module)
    for part in filter(None, path.split(".")):
        owner = getattr(owner, part)
    if path.endswith("__init__"):
        defaults = owner.__kwdefaults__
        before = defaults[patch.name]
        defaults[patch.name] = value
        return lambda: defaults.__setitem__(patch.name, before)
    before = getattr(owner, patch.name)
    setattr(owner, patch.name, value)
    return lambda: setattr(owner, patch.name, before)


def new_process() -> None:
    """What a new process of the daemon does not know of the one before: that its disk failed."""
    durable_files._DISK = durable_files.Disk()
