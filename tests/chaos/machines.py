"""Machines that carry a controller each: a person starts, stops, kills, freezes and copies their daemons."""

from __future__ import annotations

import contextlib
import json
import os
import select
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from ansible_collections.roundsman.cluster.daemon.jobs import store as job_store
from ansible_collections.roundsman.cluster.daemon.jobs import values
from ansible_collections.roundsman.cluster.daemon.lab import processes, world
from ansible_collections.roundsman.cluster.daemon.serving import not_leading
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.values import errors, tree
from ansible_collections.roundsman.cluster.plugins.plugin_utils import controller_epoch
from ansible_collections.roundsman.cluster.plugins.plugin_utils.config import store

from tests.chaos import turns, victims

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tests.chaos.chronicle import Chronicle

LOCKED = "config.lock is held by"
"""Part of what a daemon says that ends because a play by hand, or the daemon before, has the right to write."""


@dataclass(frozen=True)
class Seat(world.Lab):
    """A lab as one of its controllers has it; `roots` are the folders of all of them."""

    root: Path = Path()
    roots: tuple[Path, ...] = field(default=())

    @property
    def controller(self) -> Path:
        """The folder of this controller."""
        return self.root

    @property
    def controllers(self) -> tuple[Path, ...]:
        """The folders of all controllers of the lab."""
        return self.roots


class Machine:
    """A machine with the folder of a controller; `number` says which one, as the numbers of its jobs do."""

    def __init__(self, root: Path, *, number: int, chronicle: Chronicle) -> None:
        self.where = tree.Tree(root)
        self.number = number
        self._chronicle = chronicle
        self._process: subprocess.Popen[bytes] | None = None
        self._ready = -1
        self._started_at = 0.0
        self._is_ended_by_a_person = False
        self.frozen_until = 0.0
        self.is_ready = False
        self.is_retired = False

    @property
    def is_ending(self) -> bool:
        """Whether a person has stopped or killed its daemon, and it has not ended."""
        return self.is_up and self._is_ended_by_a_person

    def __str__(self) -> str:
        return f"controller {self.number}"

    @property
    def root(self) -> Path:
        """Its folder."""
        return self.where.root

    @property
    def is_up(self) -> bool:
        """Whether its daemon lives, frozen or not."""
        return self._process is not None and self._process.poll() is None

    @property
    def is_frozen(self) -> bool:
        """Whether its daemon is stopped and answers nobody."""
        return self.is_up and bool(self.frozen_until)

    @property
    def serves(self) -> bool:
        """Whether its daemon said that it is ready, and is at work."""
        return self.is_up and self.is_ready and not (self.is_frozen or self._is_ended_by_a_person)

    @property
    def seconds_up(self) -> float:
        """How long ago its daemon was started."""
        return time.monotonic() - self._started_at

    @property
    def pid(self) -> int:
        """The process of its daemon, 0 for none."""
        return self._process.pid if self._process is not None and self.is_up else 0

    @property
    def epoch(self) -> int:
        """The number of the epoch in which it led last, 0 for none."""
        with contextlib.suppress(errors.RoundsmanError):
            record = controller_epoch.read(self.where)
            if record is not None and record.order is not None and record.place == controller_epoch.place(self.where):
                return record.order.epoch.number
        return 0

    @property
    def serial(self) -> int:
        """The serial number of its configuration."""
        return store.read(self.where.config).serial_no

    def start(self, *words: str) -> None:
        """Start its daemon, and do not wait until it leads."""
        self._close()
        self._ready, tell = os.pipe()
        command = [sys.executable, "-m", processes.PACKAGE, "--root", str(self.root), *words]
        with (self.where.log / "daemon.log").open("ab") as log:
            self._process = subprocess.Popen(
                [*command, "--ready-fd", str(tell)],
                pass_fds=(tell,),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                cwd="/",
            )
        os.close(tell)
        self._started_at, self.frozen_until = time.monotonic(), 0.0
        self.is_ready = self._is_ended_by_a_person = False
        self._chronicle.count("controllers", " ".join(("start", *words)), str(self))

    def end(self, number: signal.Signals) -> None:
        """Stop or kill its daemon; one that is frozen and stopped ends once it goes on."""
        if self._process is not None and self.is_up:
            self._is_ended_by_a_person = True
            self._process.send_signal(number)
            self._chronicle.count("controllers", "stop" if number is signal.SIGTERM else "kill", str(self))

    def freeze(self, seconds: float) -> None:
        """Stop the process of its daemon for so many seconds."""
        if self._process is not None and self.is_up:
            self._process.send_signal(signal.SIGSTOP)
            self.frozen_until = time.monotonic() + seconds
            self._chronicle.count("controllers", "freeze", f"{self} for {seconds:g} s")

    def thaw(self) -> None:
        """Let its daemon go on."""
        if self._process is not None and self.is_frozen:
            self._process.send_signal(signal.SIGCONT)
            self._chronicle.count("controllers", "thaw", str(self))
        self.frozen_until = 0.0

    def tend(self) -> list[str]:
        """See whether its daemon is ready, or has ended; returns what is wrong with its end."""
        if self._process is None:
            return []
        if self._ready >= 0 and select.select([self._ready], [], [], 0)[0]:
            self.is_ready = os.read(self._ready, 16) == b"ready\n"
            self._close()
            if self.is_ready:
                self._chronicle.count("controllers", "leads", f"{self} in epoch {self.epoch}")
        code = self._process.poll()
        if code is None:
            return []
        self._process, self.frozen_until = None, 0.0
        self._close()
        return self._judge_end(code)

    def _judge_end(self, code: int) -> list[str]:
        last = self.last_lines(1)
        told = f"{self}: {last}"
        if code == not_leading.EXIT_STATUS:
            self._chronicle.count("controllers", "exit status 11", told)
        elif self._is_ended_by_a_person:
            self._chronicle.count("controllers", "ended by a person", f"{self} with status {code}")
        elif LOCKED in last:
            self._chronicle.count("controllers", "found the lock held", told)
        else:
            return [f"{self} ended by itself with status {code}: {self.last_lines(5)}"]
        return []

    def last_lines(self, count: int) -> str:
        """The last lines of the daemon's log."""
        return "\n".join((self.where.log / "daemon.log").read_text(errors="replace").splitlines()[-count:])

    def retire(self) -> None:
        """Its machine is installed again: all its processes end."""
        self.is_retired = True
        self.end(signal.SIGKILL)
        kill_all(self.root)
        if self._process is not None:
            self._process.wait()
        self.tend()

    def jobs(self) -> dict[int, values.Job]:
        """The jobs of its queue."""
        return job_store.Store(self.where.queue).load()

    def _close(self) -> None:
        if self._ready >= 0:
            os.close(self._ready)
            self._ready = -1


def kill_all(root: Path) -> None:
    """Kill all processes that name a folder, until none is left."""
    end = time.monotonic() + victims.DYING
    while (left := victims.naming(root)) and time.monotonic() < end:
        for pid in left:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.05)


def copy(machine: Machine, *, number: int, known: turns.Turns, chronicle: Chronicle) -> Machine:
    """A machine with a copy of the state of another one, as it is at this moment, and an inventory beside it.

    Its daemon serves on another port, and the numbers of its jobs are above all of the others, so that the judge knows
    whose a step is.
    """
    root = machine.root.with_name(f"copy{number}")
    if machine.pid and not machine.is_frozen:
        os.kill(machine.pid, signal.SIGSTOP)
    try:
        unfinished = {job.id for job in machine.jobs().values() if not job.is_final}
        # Processes of opcodes go on meanwhile, and remove files.
        with contextlib.suppress(shutil.Error):
            shutil.copytree(machine.root, root, ignore=shutil.ignore_patterns("run", "rapi*"), symlinks=True)
    finally:
        if machine.pid and not machine.is_frozen:
            os.kill(machine.pid, signal.SIGCONT)
    made = Machine(root, number=number, chronicle=chronicle)
    known.shared |= unfinished
    settings = json.loads(made.where.daemon_settings.read_bytes())
    made.where.daemon_settings.write_text(json.dumps({**settings, "port": processes.free_port()}))
    now = time.time()
    mark = values.Opcode("tags_set", {}, status=values.Status.SUCCESS, started=now, ended=now)
    job_store.Store(made.where.queue).save(values.Job(number * turns.NUMBERS, (mark,), received=now, ended=now))
    inventory = root.parent / f"inventory-{root.name}"
    inventory.mkdir()
    (inventory / "roundsman.yml").write_text(f"plugin: roundsman.cluster.cluster\nroot: ../{root.name}\n")
    chronicle.count("controllers", "copy", f"{made} of {machine}, with jobs {sorted(unfinished)} unfinished")
    return made


def leader(machines: Iterable[Machine]) -> Machine | None:
    """The one that leads, by the highest epoch of those that serve."""
    return max((each for each in machines if each.serves), key=lambda each: each.epoch, default=None)
