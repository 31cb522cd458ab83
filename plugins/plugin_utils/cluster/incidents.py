"""Incidents: what a node asked for, and how far the answer has come (seed 000, "Repair-event life cycle")."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache
from typing import Iterable, Optional

from ...module_utils.domain.agent import diagnosis
from ...module_utils.domain.values import errors, json_values

READY_TAG = "maintd:repairready:"
FAILED_TAG = "maintd:repairfailed:"
MOST_POWER_JOBS = 20
DEAD_NODE = "dead-node"
"""The kind, in the details of its report, of an incident that was noted for silence."""
ORIGINALS_KEPT = 10
"""Of a node's incidents that are over, so many of the newest keep the whole of a large report."""


class RepairStatus(Enum):
    """The seed's five statuses."""

    NOTED = "noted"
    PENDING = "pending"
    CANCELED = "canceled"
    FAILED = "failed"
    COMPLETED = "completed"


SHORT_ID = 8


@dataclass(frozen=True)
class Incident:
    """One observed diagnosis of one node, from its first report until it is forgotten.

    `original` is the exact text of the JSON object that the node reported; of a large one it is an abbreviation, and
    `digest` is the SHA-256 of the canonical JSON of the whole, which is '' otherwise. `node` is the node's UUID;
    `ctime` and `mtime` are unix seconds. `jobs` decide its status; `power_jobs` read or cut the power of a dead node,
    and one of them that fails is tried again. `returned_at` is when a dead node was known to answer again (unix
    seconds), 0 while it has not, and for all other incidents: its next death is another incident.
    """

    uuid: str
    node: str
    original: str
    action: diagnosis.Status
    repair_status: RepairStatus
    tag: str
    ctime: float
    mtime: float
    command: Optional[str] = None
    jobs: tuple[int, ...] = ()
    reason: str = ""
    serial_no: int = 1
    power_jobs: tuple[int, ...] = ()
    digest: str = ""
    returned_at: float = 0.0

    @property
    def is_open(self) -> bool:
        return self.repair_status in {RepairStatus.NOTED, RepairStatus.PENDING}

    @property
    def acknowledgement(self) -> str:
        """The command by which a person acknowledges it; the daemon needs the first characters of its id only."""
        return f"`roundsman incident ack {self.uuid[:SHORT_ID]}`"

    @property
    def all_jobs(self) -> tuple[int, ...]:
        """The jobs about it, in the order of their numbers."""
        return tuple(sorted({*self.jobs, *self.power_jobs}))

    @property
    def evacuates(self) -> bool:
        return self.action in {diagnosis.Status.EVACUATE, diagnosis.Status.EVACUATE_FAILOVER}

    @property
    def is_of_a_dead_node(self) -> bool:
        """Whether it was noted for silence, and not for what the node said."""
        return _is_of_silence(self.original)

    @property
    def is_asking(self) -> bool:
        """Whether its node is to be left: that of a dead node that is back is not."""
        return self.is_open and self.evacuates and not self.returned_at


def note(report: diagnosis.Diagnosis, *, node: str, uuid: str, now: float) -> Incident:
    """A valid report that is not Ok, and that no incident of its node holds, becomes a noted incident."""
    return Incident(
        uuid=uuid,
        node=node,
        original=report.abbreviated if report.is_large else report.original,
        digest=report.digest if report.is_large else "",
        action=report.status,
        command=diagnosis.short_command(report.command) if report.command is not None else None,
        repair_status=RepairStatus.NOTED,
        tag=READY_TAG + uuid,
        ctime=now,
        mtime=now,
    )


def holds(incident: Incident, report: diagnosis.Diagnosis) -> bool:
    """Two reports are the same event when their JSON values are equal, key order aside.

    The death of a node is no event any more once the node has come back.
    """
    return not incident.returned_at and (incident.digest or _digest(incident.original)) == report.digest


@lru_cache(maxsize=1000)
def _is_of_silence(original: str) -> bool:
    try:
        value = json_values.parse(original)
    except errors.InvalidInput:
        return False
    details = value.get("details") if isinstance(value, dict) else None
    return isinstance(details, dict) and details.get("kind") == DEAD_NODE and set(details) == {"kind", "node"}


@lru_cache(maxsize=1000)
def _digest(original: str) -> str:
    """That of a report's text: every step of the rounds asks for it."""
    return diagnosis.parse(original).digest


def submit(incident: Incident, jobs: Iterable[int], *, now: float) -> Incident:
    """The first submitted job makes an incident pending; later jobs are added to its list."""
    _must_be_open(incident, "get jobs")
    return _moved(incident, RepairStatus.PENDING, now=now, jobs=incident.jobs + tuple(jobs))


def add_power_jobs(incident: Incident, jobs: Iterable[int], *, now: float) -> Incident:
    """The incident with further jobs that read or cut its node's power, the last ones of which are listed."""
    listed = tuple(sorted({*incident.power_jobs, *jobs}))[-MOST_POWER_JOBS:]
    return dataclasses.replace(_moved(incident, incident.repair_status, now=now), power_jobs=listed)


def come_back(incident: Incident, *, now: float) -> Incident:
    """The incident of a dead node that answers again: it is over, and has no more to do than its jobs at work."""
    reason = incident.reason or "its node answers again"
    return dataclasses.replace(_moved(incident, incident.repair_status, now=now, reason=reason), returned_at=now)


def complete(incident: Incident, *, now: float) -> Incident:
    """All actions are done: the node is ready for a person."""
    _must_be_open(incident, "be completed")
    return _moved(incident, RepairStatus.COMPLETED, now=now)


def fail(incident: Incident, reason: str, *, now: float) -> Incident:
    """A job failed, or an instance can never be moved: nothing more is done for this incident."""
    _must_be_open(incident, "fail")
    return _moved(incident, RepairStatus.FAILED, now=now, reason=reason, tag=FAILED_TAG + incident.uuid)


def cancel(incident: Incident, *, now: float) -> Incident:
    """Cancel an incident at any time (seed 000): nothing further happens, and it is kept while it is observed.

    Raises:
        Refused: the incident is canceled already.
    """
    if incident.repair_status is RepairStatus.CANCELED:
        raise errors.Refused(
            f"incident {incident.uuid} is canceled already; it is forgotten once its node reports something else"
        )
    return _moved(incident, RepairStatus.CANCELED, now=now)


def is_forgotten(incident: Incident, *, observed: bool, tagged: bool) -> bool:
    """Whether an incident of a node that is still in the cluster vanishes.

    `observed` says that the node's last diagnosis holds this incident's value, `tagged` that the node carries
    the incident's tag. A pending incident runs to its end, whatever is observed meanwhile.
    """
    if incident.repair_status in {RepairStatus.NOTED, RepairStatus.CANCELED}:
        return not observed
    if incident.repair_status is RepairStatus.COMPLETED:
        return not tagged and not observed
    if incident.repair_status is RepairStatus.FAILED:
        return not tagged
    return False


def most_invasive(incidents: Iterable[Incident]) -> Optional[Incident]:
    """Of one node's open incidents the most invasive counts, the older one on ties."""
    candidates = [incident for incident in incidents if incident.is_open]
    return min(candidates, key=lambda incident: (-incident.action.rank, incident.ctime, incident.uuid), default=None)


def digests_in_use(incidents: Iterable[Incident]) -> set[str]:
    """The digests of the large reports that are kept whole: of open incidents, and of the newest of each node."""
    used: set[str] = set()
    over: dict[str, list[Incident]] = {}
    for incident in incidents:
        if incident.digest and incident.is_open:
            used.add(incident.digest)
        elif incident.digest:
            over.setdefault(incident.node, []).append(incident)
    for known in over.values():
        newest = sorted(known, key=lambda closed: (closed.mtime, closed.uuid))[-ORIGINALS_KEPT:]
        used |= {incident.digest for incident in newest}
    return used


def named(incidents: Iterable[Incident], uuid: str) -> Incident:
    """The incident with this UUID, or with the one UUID that starts so (at least 4 characters).

    Raises:
        NotFound: there is none, or there are several.
    """
    known = list(incidents)
    found = [incident for incident in known if incident.uuid == uuid]
    if not found and len(uuid) >= 4:  # noqa: PLR2004 - fewer characters name an incident by accident
        found = [incident for incident in known if incident.uuid.startswith(uuid)]
    if len(found) != 1:
        raise errors.NotFound(f"there is no incident {uuid!r}" if not found else f"{uuid!r} names several incidents")
    return found[0]


def _must_be_open(incident: Incident, what: str) -> None:
    if not incident.is_open:
        is_canceled = incident.repair_status is RepairStatus.CANCELED
        way_out = "it is forgotten once no longer observed" if is_canceled else "acknowledge it to have it forgotten"
        raise errors.Refused(f"incident {incident.uuid} is {incident.repair_status.value} and cannot {what}; {way_out}")


def _moved(
    incident: Incident,
    status: RepairStatus,
    *,
    now: float,
    jobs: Optional[tuple[int, ...]] = None,
    reason: Optional[str] = None,
    tag: Optional[str] = None,
) -> Incident:
    return dataclasses.replace(
        incident,
        repair_status=status,
        mtime=now,
        serial_no=incident.serial_no + 1,
        jobs=incident.jobs if jobs is None else jobs,
        reason=incident.reason if reason is None else reason,
        tag=incident.tag if tag is None else tag,
    )
