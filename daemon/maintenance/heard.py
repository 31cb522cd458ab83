"""What the nodes said last, and what accepted and rejected reports and notes of unreachable nodes make of it."""

from __future__ import annotations

import logging
from collections import Counter
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import pydantic

from ...plugins.module_utils.domain.agent import reports, signing
from ...plugins.module_utils.domain.disks import replicas
from ...plugins.module_utils.domain.values import errors

if TYPE_CHECKING:
    from ...plugins.plugin_utils.cluster import cluster as clusters

LOG = logging.getLogger(__name__)
TEXT_LIMIT = 500
_OF_CLOCKS = frozenset({signing.Reason.FUTURE.value, signing.Reason.STALE.value})


@dataclass(frozen=True)
class Note:
    """What a note of an unreachable node holds: its name, the unix time of the attempt, and why."""

    node: str
    time: pydantic.FiniteFloat
    text: str


_NOTE = pydantic.TypeAdapter(Note)


@dataclass(frozen=True)
class Received:
    """An accepted report and the unix time of its acceptance."""

    report: reports.Report
    accepted: float
    floor: int = 0
    """What it demands of later timestamps (ns): its own, save where that lay ahead of the clock."""
    is_dated: bool = True
    """Whether `accepted` is known; it is not where the clock was set back since."""


@dataclass(frozen=True)
class RefusedReport:
    """Why the newest report that a node signed does not count, and the unix time at which it came."""

    reason: str
    text: str
    at: float


@dataclass(frozen=True)
class Rejected:
    """Why the newest of the reports that came from a node's address was rejected, since when some are, and how many."""

    reason: str
    text: str
    since: float
    at: float
    times: int


@dataclass(frozen=True)
class Heard:
    """What the nodes said last, by UUID; `unreachable` is by name, `rejections` by reason.

    `refused` holds the nodes whose clocks keep their newest reports from being accepted, `rejected` those that were
    asked and of which nothing has been accepted since their reports were rejected, `tracks` what nodes reported of
    their replicas.
    """

    diagnosed: dict[str, Received] = field(default_factory=dict)
    problems: dict[str, Received] = field(default_factory=dict)
    unreachable: dict[str, dict[str, Any]] = field(default_factory=dict)
    rejections: Counter[str] = field(default_factory=Counter)
    refused: dict[str, RefusedReport] = field(default_factory=dict)
    rejected: dict[str, Rejected] = field(default_factory=dict)
    tracks: dict[str, replicas.NodeTrack] = field(default_factory=dict)

    def copy(self) -> Heard:
        """The same once more, to be changed."""
        return Heard(
            dict(self.diagnosed),
            dict(self.problems),
            dict(self.unreachable),
            self.rejections.copy(),
            dict(self.refused),
            dict(self.rejected),
            dict(self.tracks),
        )

    def floor(self, node: str) -> int:
        """The timestamp (ns) that a node's next report must exceed, 0 for none."""
        known = [kept[node].floor for kept in (self.diagnosed, self.problems) if node in kept]
        return max(known, default=0)

    def lower_floor(self, node: str, *, now: float) -> float:
        """Lower a floor that lies ahead of the clock to the present; returns by how many seconds.

        The order of what the node said stays. What was made before now is not accepted again.
        """
        ahead = self.floor(node) - int(now * 1e9)
        if ahead <= 0:
            return 0.0
        for kept in (self.diagnosed, self.problems):
            if node in kept:
                kept[node] = replace(kept[node], floor=kept[node].floor - ahead)
        return ahead / 1e9

    def follow_clock(self, *, now: float) -> None:
        """After a step of the clock, bound what lies ahead of it: no honest floor does by more than 300 s."""
        for node in {**self.diagnosed, **self.problems}:
            if self.floor(node) > (now + signing.FRESH_SECONDS) * 1e9:
                ahead = self.lower_floor(node, now=now)
                LOG.warning("the last report of node %s was dated %.0f s ahead; newer ones count again", node, ahead)
        for kept in (self.diagnosed, self.problems):
            for node, last in kept.items():
                if last.accepted > now:
                    kept[node] = replace(last, accepted=now, is_dated=False)

    def refuse(self, error: errors.ReportRejected, *, at: float, asked: str = "") -> None:
        """Count a rejected report of the node (UUID) that was asked, '' if that is not known, and note what is wrong.

        What may be wrong is its clock, or the controller's; the same report once more is no trouble.
        """
        self.rejections[error.reason] += 1
        if asked and error.reason != signing.Reason.REPLAYED.value:
            before = self.rejected.get(asked)
            since, times = (at, 1) if before is None else (before.since, before.times + 1)
            self.rejected[asked] = Rejected(error.reason, str(error)[:TEXT_LIMIT], since, at, times)
        ahead = error.reason == signing.Reason.REPLAYED.value and self.floor(error.node) > at * 1e9
        if error.node and (ahead or error.reason in _OF_CLOCKS):
            self.refused[error.node] = RefusedReport(error.reason, str(error), at)

    def keep(self, report: reports.Report, *, name: str, accepted: float, monotonic: float | None = None) -> None:
        """Take over the accepted report of the node of this name, in the order in which it made them."""
        moment = replicas.Moment(accepted, monotonic)
        at = replicas.made_at(report.timestamp, moment)
        before = self.tracks.get(report.node)
        self.tracks[report.node] = replicas.followed(before, report.facts, at=at, lag=moment.after(at))
        kept = self.diagnosed if report.diagnosis is not None else self.problems
        kept[report.node] = Received(report, accepted, floor=report.timestamp)
        self.unreachable.pop(name, None)
        self.refused.pop(report.node, None)
        self.rejected.pop(report.node, None)
        if report.problem is not None:
            LOG.warning("node %s cannot be diagnosed: %s: %s", name, report.problem.reason, report.problem.text)


def note_unreachable(data: bytes, heard: Heard, cluster: clusters.Cluster) -> None:
    """Keep a note of an unreachable node, unless its node reported since.

    Raises:
        ReportRejected: it is none.
    """
    try:
        note = _NOTE.validate_json(data)
    except ValueError as error:
        raise errors.ReportRejected("malformed", f"not a note of an unreachable node: {error}") from error
    node = next((node for node in cluster.nodes.values() if node.name == note.node), None)
    if node is None:
        raise errors.ReportRejected("wrong-node", f"no node of the cluster: {note.node[:80]!a}")
    if note.time * 1e9 > heard.floor(node.uuid):
        heard.unreachable[node.name] = {"time": note.time, "text": note.text[:TEXT_LIMIT]}
