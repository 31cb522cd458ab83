"""Jobs and their opcodes as values (seed 003, "Job queue"; DESIGN, "Jobs")."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping  # noqa: TC003 - pydantic reads the annotations at run time
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from ...plugins.module_utils.domain.values import errors
from ..locks import holders

HIGHEST, LOWEST = -20, 19
SUBMITTABLE = {"high": -10, "normal": 0, "low": 10}
CLIENT = "gnt:client:"
"""What the source of an entry of a reason trail begins with whose text is the user who asked; the door follows."""
UNREADABLE = "unreadable"
"""The kind of the only opcode of a job that stands in for one whose file was damaged; nobody can submit it."""


class Status(Enum):
    """The statuses of jobs and opcodes."""

    QUEUED = "queued"
    WAITING = "waiting"
    RUNNING = "running"
    CANCELING = "canceling"
    CANCELED = "canceled"
    SUCCESS = "success"
    ERROR = "error"


FINAL = frozenset({Status.CANCELED, Status.SUCCESS, Status.ERROR})


@dataclass(frozen=True)
class Opcode:
    """One step of a job; `text` says how it ended, `run` names the run folder of one that touches nodes.

    `result` is the JSON value that it leaves; with `dry_run` it says what it would do. `aged` is by how much waiting
    for locks has improved `priority`: their sum is the priority that was asked for.
    """

    kind: str
    params: Mapping[str, Any]
    priority: int = 0
    status: Status = Status.QUEUED
    run: str = ""
    text: str = ""
    started: float = 0.0
    ended: float = 0.0
    result: Any = None
    dry_run: bool = False
    aged: int = 0


@dataclass(frozen=True)
class Dependency:
    """Another job, and the final statuses of it that let this one start; no statuses stand for any.

    In a submission a negative number names a job of the same submission: -1 is the one just before.
    """

    job: int
    statuses: tuple[Status, ...] = (Status.SUCCESS,)


@dataclass(frozen=True)
class Reason:
    """One entry of a reason trail: who, why, and when in ns."""

    source: str
    text: str
    timestamp: int


@dataclass(frozen=True)
class Job:
    """A list of opcodes that run one after the other; `canceling` lets a running opcode finish and starts no other.

    `archived` says where it was read from, and is in no file.
    """

    id: int
    opcodes: tuple[Opcode, ...]
    depends: tuple[Dependency, ...] = ()
    reason: tuple[Reason, ...] = ()
    received: float = 0.0
    ended: float = 0.0
    canceling: bool = False
    names: Mapping[str, str] = field(default_factory=dict)
    archived: bool = False

    @property
    def status(self) -> Status:
        """The first opcode that ended badly decides, else the one at work, else all are a success or queued."""
        statuses = [opcode.status for opcode in self.opcodes]
        bad = next((status for status in statuses if status in {Status.ERROR, Status.CANCELED}), None)
        if bad is not None:
            return bad if all(status in FINAL for status in statuses) else Status.CANCELING
        if all(status is Status.SUCCESS for status in statuses):
            return Status.SUCCESS
        active = next((status for status in statuses if status in {Status.RUNNING, Status.WAITING}), Status.QUEUED)
        return Status.CANCELING if self.canceling else active

    @functools.cached_property
    def is_final(self) -> bool:
        # Asked of all jobs again and again; as `status` says it.
        return all(opcode.status in FINAL for opcode in self.opcodes)

    @property
    def priority(self) -> int:
        """The priority of the first unfinished opcode."""
        return next((opcode.priority for opcode in self.opcodes if opcode.status not in FINAL), 0)

    @property
    def next_opcode(self) -> int | None:
        """The index of the first unfinished opcode; after one that ended badly none is started."""
        if any(opcode.status in {Status.ERROR, Status.CANCELED} for opcode in self.opcodes):
            return None
        return next((index for index, opcode in enumerate(self.opcodes) if opcode.status not in FINAL), None)

    @property
    def has_begun(self) -> bool:
        """Whether an opcode of it has been at work."""
        return any(opcode.status not in {Status.QUEUED, Status.WAITING} for opcode in self.opcodes)

    @property
    def is_unreadable(self) -> bool:
        """Whether it stands in for a job whose file was damaged."""
        return self.opcodes[0].kind == UNREADABLE if self.opcodes else False

    @property
    def text(self) -> str:
        """Why it ended as it did."""
        return next((opcode.text for opcode in self.opcodes if opcode.status is Status.ERROR), "")

    def with_opcode(self, index: int, opcode: Opcode) -> Job:
        """The job with another opcode in this place."""
        return dataclasses.replace(self, opcodes=(*self.opcodes[:index], opcode, *self.opcodes[index + 1 :]))

    def over(self, *, now: float, text: str) -> Job:
        """The job at its end: whatever has not ended never starts, and says why."""
        opcodes = tuple(
            opcode
            if opcode.status in FINAL
            else dataclasses.replace(opcode, status=Status.CANCELED, text=text, ended=now)
            for opcode in self.opcodes
        )
        return dataclasses.replace(self, opcodes=opcodes, ended=now)

    def with_priority(self, priority: int) -> Job:
        """The job with another priority of all opcodes that are queued or wait.

        Raises:
            Refused: it has ended, is being canceled, or all that is left of it runs.
        """
        if self.is_final or self.canceling:
            raise errors.Refused(f"job {self.id} keeps its priority: it is {self.status.value}")
        opcodes = tuple(
            dataclasses.replace(opcode, priority=priority, aged=0)
            if opcode.status in {Status.QUEUED, Status.WAITING}
            else opcode
            for opcode in self.opcodes
        )
        if opcodes == self.opcodes and not any(
            opcode.status in {Status.QUEUED, Status.WAITING} for opcode in self.opcodes
        ):
            raise errors.Refused(f"job {self.id} keeps its priority: its last opcode runs")
        return dataclasses.replace(self, opcodes=opcodes)


def lock_owner(job: int) -> holders.Owner:
    """How a job is called in the lock table."""
    return holders.Owner(f"job {job}")


def check_priority(priority: int) -> None:
    """A priority is from -20 to 19.

    Raises:
        InvalidInput: it is not.
    """
    if not HIGHEST <= priority <= LOWEST:
        raise errors.InvalidInput(f"the priority {priority} is not from {HIGHEST} to {LOWEST}")


def check_submittable(priority: int) -> None:
    """A person or program outside the daemon chooses from three priorities (seed 004, "Job priorities").

    Raises:
        InvalidInput: it is another one.
    """
    if priority not in SUBMITTABLE.values():
        choices = ", ".join(f"{number} ({name})" for name, number in SUBMITTABLE.items())
        raise errors.InvalidInput(f"the priority {priority} cannot be asked for: use {choices}")


def unreadable(number: int, text: str, *, status: Status) -> Job:
    """A job that stands in for one whose file was damaged."""
    return Job(number, (Opcode(UNREADABLE, {}, status=status, text=text),))
