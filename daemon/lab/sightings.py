"""What a controller that listens had to know, by the journals: who answered, what reports said, how replicas were.

Moments are in ns, by the clock of the journals.
"""

from __future__ import annotations

import itertools
import math
from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ...plugins.plugin_utils.silent_nodes import report_ages
from . import world
from .simulator import simulated_node

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ...plugins.plugin_utils.cluster.maintenance_settings import Settings
    from .journals import Event

SECOND = 1e9
REPORTS = 3
"""So many reports that say the same must have been heard: some may be lost on their way."""
MARGIN = 5.0
"""Seconds beyond those that the rules need: processes share a machine."""
Span = tuple[float, float]


@dataclass(frozen=True)
class Report:
    """A node made a report, which said that these instances write there without their secondary."""

    ns: float
    alone: frozenset[str]


@dataclass(frozen=True)
class State:
    """How a replica is from a moment on: DRBD's words."""

    ns: float
    role: str
    disk: str
    peer: str
    is_connected: bool

    @property
    def is_alone(self) -> bool:
        """Whether a primary with all data lacks its peer; one whose peer lost only its disk has nothing to outdate."""
        return self.role == "Primary" and self.disk == "UpToDate" and not self.is_connected

    @property
    def may_be_promoted(self) -> bool:
        """Whether a secondary that lacks its peer would let itself be promoted with what it has."""
        return self.role == "Secondary" and self.disk in {"UpToDate", "Consistent"} and not self.is_connected


@dataclass
class Sightings:
    """By node when it did not answer (`gone`) or not well (`unwell`), and its reports; when nobody listened.

    `states` are those of replicas by instance, resource and node, `bmc` when a node's BMC had a fault. `poll` is the
    seconds between two polls of a node, 0 where nobody is polled.
    """

    poll: float = 0.0
    gone: dict[str, list[Span]] = field(default_factory=lambda: defaultdict(list))
    unwell: dict[str, list[Span]] = field(default_factory=lambda: defaultdict(list))
    bmc: dict[str, list[Span]] = field(default_factory=lambda: defaultdict(list))
    deaf: list[Span] = field(default_factory=list)
    reports: dict[str, list[Report]] = field(default_factory=lambda: defaultdict(list))
    states: dict[tuple[str, str, str], list[State]] = field(default_factory=lambda: defaultdict(list))

    def is_disturbed(self, node: str, since: float, until: float) -> bool:
        """Whether the controller may have heard nothing of a node at some moment between two."""
        return overlap([*self.unwell[node], *self.deaf], since, until) > 0

    def told_alone(self, node: str, instance: str, until: float) -> float:
        """Seconds for which a node's reports, the last one before a moment, told a listener that it writes alone.

        0 unless so many reports came without a disturbance that one of them must have been heard.
        """
        best, count = 0.0, 0
        first = last = until
        for report in reversed([report for report in self.reports[node] if report.ns <= until]):
            if instance not in report.alone:
                break
            if not count or self.is_disturbed(node, report.ns, first):
                count, last = 0, report.ns
            first, count = report.ns, count + 1
            if count >= REPORTS and last - first >= (2 * self.poll + MARGIN) * SECOND:
                best = max(best, (last - first) / SECOND)
        return best

    def seems_alive(self, node: str, since: float, until: float) -> bool:
        """Whether a node answered well between two moments, all the time, and made its reports."""
        if until - since < 6 * MARGIN * SECOND or self.is_disturbed(node, since, until):
            return False
        moments = [since, *(report.ns for report in self.reports[node] if since <= report.ns <= until), until]
        return max(after - before for before, after in itertools.pairwise(moments)) <= 3 * MARGIN * SECOND


def covers(spans: Iterable[Span], moment: float) -> bool:
    """Whether a moment is in one of some spans."""
    return any(begin <= moment < end for begin, end in spans)


def overlap(spans: Iterable[Span], since: float, until: float) -> float:
    """How much of the time between two moments some spans are; those that overlap count twice."""
    return sum(max(0.0, min(end, until) - max(begin, since)) for begin, end in spans)


def spans_without(span: Span, held: Iterable[Span]) -> list[Span]:
    """The parts of a span in which nothing held it up."""
    begin, free = span[0], []
    for since, until in sorted(held):
        if since > begin and begin < span[1]:
            free.append((begin, min(since, span[1])))
        begin = max(begin, until)
    if begin < span[1]:
        free.append((begin, span[1]))
    return free


def read(events: Iterable[Event], settings: Settings, *, nodes: int) -> Sightings:
    """What the events of all nodes and of the lab say, in a cluster with these settings and so many nodes."""
    is_of_agents = settings.agent_port or not settings.diagnose_interval
    seen = Sightings(poll=settings.diagnose_interval if is_of_agents else report_ages.cycle(settings, nodes=nodes))
    keeping: set[str] = set()
    for event in events:
        ns, node = float(event["ns"]), event["node"]
        if event["event"] == "reported":
            seen.reports[node].append(Report(ns, frozenset(event["alone"])))
        elif event["event"] == simulated_node.ANSWERS:
            _toggle(seen.gone[node], ns, is_on=event["how"] == "not")
            _toggle(seen.unwell[node], ns, is_on=event["how"] != "well")
        elif event["event"] == world.BMC_FAULTS:
            _toggle(seen.bmc[node], ns, is_on=bool(event["faults"]))
        elif event["event"] == world.CONTROLLER:
            _follow(keeping, event)
            _toggle(seen.deaf, ns, is_on=bool(keeping))
        elif event["event"] == "replica":
            seen.states[event["instance"], event["resource"], node].append(_state(event, ns))
    return seen


def _follow(keeping: set[str], event: Event) -> None:
    """Note what keeps the controller from listening; one that was started is not frozen any more."""
    why = event["why"]
    if event["is_deaf"]:
        keeping.add(why)
    else:
        keeping -= {why, "frozen"} if why == "stopped" else {why}


def _toggle(spans: list[Span], ns: float, *, is_on: bool) -> None:
    was_on = bool(spans) and spans[-1][1] == math.inf
    if is_on and not was_on:
        spans.append((ns, math.inf))
    elif not is_on and was_on:
        spans[-1] = (spans[-1][0], ns)


def _state(event: Event, ns: float) -> State:
    return State(ns, event["role"], event["disk"], event["peer"], event["is_connected"])
