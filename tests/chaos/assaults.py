"""What is done to the processes and files of a lab: kills, stops, crashes of the whole controller, full disks."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from tests.chaos import services, small_disk, torn
from tests.chaos.victims import Pauses, Victim

if TYPE_CHECKING:
    import random
    from collections.abc import Callable

    from tests.chaos.chronicle import Chronicle
    from tests.chaos.doors import Doors
    from tests.chaos.victims import Victims
    from tests.integration import labs

KILLS = {
    Victim.DAEMON: 2,
    Victim.OPCODE: 6,
    Victim.SERVER: 2,
    Victim.GUARD: 2,
    Victim.BMCS: 1,
    Victim.AGENT: 2,
    Victim.POLL: 3,
    Victim.RAPI: 1,
    Victim.HAND: 3,
}
"""How often each kind is killed or stopped, in proportion."""
BEYOND = 125.0
"""Seconds: longer than any run in the tree of a chaos test may take, with the margin that the daemon adds."""


class Assaults:
    """Kills and stops processes, tears files, and fills the disk.

    `stopped` are the opcodes (`JOB/INDEX`) of which a process was stopped beyond their time limits.
    """

    def __init__(
        self, lab: labs.Running, doors: Doors, victims: Victims, chance: random.Random, chronicle: Chronicle
    ) -> None:
        self._lab, self._doors, self._victims = lab, doors, victims
        self._chance, self._chronicle = chance, chronicle
        self._pauses: Pauses | None = Pauses()
        self._daemon_stopped_until = 0.0
        self.stopped: set[str] = set()

    @property
    def is_daemon_stopped(self) -> bool:
        """Whether the daemon is stopped and answers nobody."""
        return time.monotonic() < self._daemon_stopped_until

    def any(self) -> Victim:
        """A kind, as often as its proportion says."""
        return self._chance.choices(list(KILLS), weights=list(KILLS.values()))[0]

    def kill(self, kind: Victim) -> None:
        """Kill one of a kind; of a daemon that starts again files may be torn meanwhile."""
        if kind is Victim.DAEMON:
            self._chronicle.count("kills", kind.value)
            self._lab.kill()
            self._start_with_torn_files()
        elif pid := self._victims.kill(kind):
            self._chronicle.count("kills", kind.value, str(pid))

    def crash(self) -> bool:
        """Kill all processes of the controller in one moment, and tear what they were writing."""
        self._chronicle.count("kills", "whole controller")
        self._lab.kill()
        for run in self._victims.end_runs():
            if path := torn.tear_records(run, chance=self._chance):
                self._chronicle.count("torn files", path.name, str(path))
        self._start_with_torn_files()
        return True

    def pause(self, kind: Victim, *, seconds: float) -> None:
        """Stop one of a kind for so many seconds."""
        if self._pauses is None or not self._victims.pause(kind, self._pauses, seconds=seconds):
            return
        self._chronicle.count("stops", kind.value, f"for {seconds:g} s")
        if kind is Victim.DAEMON:
            self._daemon_stopped_until = time.monotonic() + seconds
            self._lab.lab.note_controller("frozen", is_deaf=True)
            self._lab.lab.note_controller("frozen", is_deaf=False, after=seconds)

    def pause_beyond_limit(self) -> bool:
        """Stop a process of an opcode for longer than the opcode may take; returns whether there was one."""
        opcodes = self._victims.opcodes()
        pid = self._victims.pause(Victim.OPCODE, self._pauses, seconds=BEYOND) if self._pauses is not None else 0
        if pid in opcodes:
            self.stopped.add(opcodes[pid])
            self._chronicle.count("stops", "opcodes beyond their time limit", f"{opcodes[pid]}, process {pid}")
        return pid in opcodes

    def resume(self) -> None:
        """Let all that are stopped go on."""
        if self._pauses is not None:
            self._pauses.end()
            self._pauses = None
        self._daemon_stopped_until = 0.0

    def fill_disk(self, meanwhile: Callable[[], object]) -> None:
        """Leave no room for the controller's state while some things happen."""
        self._chronicle.count("faults", "full disk")
        self._doors.is_full = True
        self._lab.lab.note_controller("disk", is_deaf=True)
        small_disk.fill(self._lab.where.lib)
        try:
            for _ in range(self._chance.randint(1, 4)):
                meanwhile()
                time.sleep(self._chance.uniform(0, 1.5))
        finally:
            small_disk.free(self._lab.where.lib)
        self._doors.is_full = False
        self._lab.lab.note_controller("disk", is_deaf=False)

    def _start_with_torn_files(self) -> None:
        for _ in range(self._chance.choice((0, 0, 1, 1, 2))):
            if path := torn.tear(self._lab.where, chance=self._chance):
                self._chronicle.count("torn files", path.split("/")[3], path)
        time.sleep(self._chance.choice((0, 0, 1, 5)))
        services.start_daemon(self._lab)
