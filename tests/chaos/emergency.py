"""An emergency power off of the whole cluster and its return, during which processes are killed.

A command that says it has done its work is taken at its word: whatever has power or runs then is a violation.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from ansible_collections.roundsman.cluster.daemon.lab.simulator import fake

from tests.chaos.faults import MASTER
from tests.chaos.scenes import Until
from tests.chaos.victims import Victim
from tests.integration import states

if TYPE_CHECKING:
    import random
    from collections.abc import Generator, Iterator

    from tests.chaos.assaults import Assaults
    from tests.chaos.chronicle import Chronicle
    from tests.chaos.doors import Doors
    from tests.integration import labs

TRIES = 4
"""How often the power off, or the return, is called until it has done its work."""
LONGEST = 300.0
"""Seconds after which a person ends a command, and calls it again."""
OFF = ("--all", "--shutdown-timeout", "10")
ON = ("--on", "--wait", "60")
SHARED = ("--force", "--power-delay", "0", "--deadline", "10")
VICTIMS = (Victim.HAND, Victim.HAND, Victim.BMCS, Victim.DAEMON)


class Emergency:
    """A person who powers the cluster off and brings it back; `wrong` are the violations."""

    def __init__(
        self, lab: labs.Running, doors: Doors, assaults: Assaults, chance: random.Random, chronicle: Chronicle
    ) -> None:
        self._lab, self._doors, self._assaults = lab, doors, assaults
        self._chance, self._chronicle = chance, chronicle
        self._steps: Iterator[Until] | None = None
        self._waits, self._due = Until(lambda: True), 0.0
        self.wrong: list[str] = []

    @property
    def is_on(self) -> bool:
        """Whether it has begun and not ended."""
        return self._steps is not None

    def begin(self) -> None:
        """Begin."""
        self._steps = self._play()

    def tend(self) -> None:
        """Go on as soon as what is waited for has come."""
        now = time.monotonic()
        if self._steps is None or (now < self._due and not self._waits.is_so()):
            return
        waits = next(self._steps, None)
        if waits is None:
            self._steps = None
        else:
            self._waits, self._due = waits, now + waits.seconds

    def _play(self) -> Iterator[Until]:
        yield Until(self._is_quiet)
        before = self._running()
        for attempt in range(TRIES):
            status = yield from self._call("power off", *OFF, is_disturbed=attempt == 0)
            if status == 0:
                self._judge_off()
                break
        yield Until(lambda: False, self._chance.uniform(3, 15))
        for attempt in range(TRIES):
            is_last = attempt == TRIES - 1
            words = (*ON, "--ignore-failures") if is_last else ON
            status = yield from self._call("return", *words, is_disturbed=attempt == 0)
            if status == 0 and not is_last:
                self._judge_return(before)
            if self._lab.cluster().maintenance.epo is None:
                return

    def _call(self, what: str, *words: str, is_disturbed: bool) -> Generator[Until, None, int]:
        """Run the command to its end; returns its exit status, negative if it was killed."""
        command = self._doors.command("cluster", "epo", *words, *SHARED, longest=LONGEST)
        if command is None:
            yield Until(lambda: not self._doors.pids(), LONGEST)
            return -1
        if is_disturbed and self._chance.random() < 0.7:
            yield Until(lambda: command.process.poll() is not None, self._chance.uniform(2, 25))
            self._assaults.kill(self._chance.choice(VICTIMS))
        yield Until(lambda: command.process.poll() is not None, LONGEST + 5)
        self._doors.tend()
        status = command.process.poll()
        self._chronicle.count("emergencies", f"{what}: exit status {status}")
        return -1 if status is None else status

    def _is_quiet(self) -> bool:
        jobs = self._doors.get("/1/jobs")
        return jobs is not None and all(job["status"] in states.FINAL for job in jobs) and not self._doors.pids()

    def _running(self) -> set[str]:
        return {name for node in self._lab.lab.nodes() for name in fake.Driver(node.root, opcode="").running()}

    def _judge_off(self) -> None:
        powered = [node.name for node in self._lab.lab.nodes() if node.is_powered() and node.name != MASTER]
        self._report("the emergency power off had succeeded, and these had power", powered)
        self._report("the emergency power off had succeeded, and these ran", sorted(self._running()))

    def _judge_return(self, before: set[str]) -> None:
        down = sorted(before - self._running())
        self._report("the return from the emergency power off had succeeded, and these did not run", down)

    def _report(self, what: str, names: list[str]) -> None:
        if names:
            self.wrong.append(f"{what}: {', '.join(names)}")
            self._chronicle.note(f"VIOLATION: {self.wrong[-1]}")
