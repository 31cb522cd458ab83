"""Jobs and their opcodes as values (seed 003, "Job queue"; DESIGN, "Jobs")."""

from __future__ import annotations

from collections.abc import Mapping  # noqa: TC003 - pydantic reads the annotations at run time
from dataclasses import dataclass, field
from enum import Enum
from typing import Any


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
    """One step of a job; `text` says how it ended, `run` names the run folder of one that touches nodes."""

    kind: str
    params: Mapping[str, Any]
    priority: int = 0
    status: Status = Status.QUEUED
    run: str = ""
    text: str = ""
    started: float = 0.0
    ended: float = 0.0


@dataclass(frozen=True)
class Dependency:
    """Another job, and the final statuses of it that let this one start."""

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
    """A list of opcodes that run one after the other; `canceling` lets a running opcode finish and starts no other."""

    id: int
    opcodes: tuple[Opcode, ...]
    depends: tuple[Dependency, ...] = ()
    reason: tuple[Reason, ...] = ()
    received: float = 0.0
    ended: float = 0.0
    canceling: bool = False
    names: Mapping[str, str] = field(default_factory=dict)

    @property
    def status(self) -> Status:
        """The first opcode that ended badly decides, else the one at work, else all are a success or queued."""
        statuses = [one.status for one in self.opcodes]
        bad = next((one for one in statuses if one in {Status.ERROR, Status.CANCELED}), None)
        if bad is not None:
            return bad if all(one in FINAL for one in statuses) else Status.CANCELING
        if all(one is Status.SUCCESS for one in statuses):
            return Status.SUCCESS
        active = next((one for one in statuses if one in {Status.RUNNING, Status.WAITING}), Status.QUEUED)
        return Status.CANCELING if self.canceling else active

    @property
    def is_final(self) -> bool:
        return self.status in FINAL

    @property
    def priority(self) -> int:
        """The priority of the first unfinished opcode."""
        return next((one.priority for one in self.opcodes if one.status not in FINAL), 0)

    @property
    def next_opcode(self) -> int | None:
        """The index of the first unfinished opcode; after one that ended badly none is started."""
        if any(one.status in {Status.ERROR, Status.CANCELED} for one in self.opcodes):
            return None
        return next((index for index, one in enumerate(self.opcodes) if one.status not in FINAL), None)

    @property
    def text(self) -> str:
        """Why it ended as it did."""
        return next((one.text for one in self.opcodes if one.status is Status.ERROR), "")
