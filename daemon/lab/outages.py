"""No instance stays down though the rule and the policy allow it to run elsewhere; by the nodes' journals alone.

An instance that went down with its node has to run again within the stated time: a poll, `dead_after` questions and
`LIMIT` seconds in which nothing of the world was against it. What Roundsman believes of the node is no excuse.
"""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from .orders import FENCING, TAKING, has_succeeded
from .sightings import SECOND, spans_without
from .simulator import fake

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from ...plugins.plugin_utils.cluster.maintenance_settings import Settings
    from .journals import Event
    from .orders import Orders
    from .sightings import Sightings, Span, State

QUESTION = 5.0
"""Seconds between two questions to a node that missed one."""
LIMIT = 180.0
"""Seconds beyond `dead_after` questions: for the fence, the round, its jobs, and another try of one that failed."""
NOTICED = 60.0
"""Seconds after its death within which a node has to be known to be off: they are a part of the possible loss."""
WITH_THE_NODE = frozenset({"power", "reboot", "panic"})
"""Why an instance stopped that went down with its node."""
FENCES = "fence"


@dataclass(frozen=True)
class Policy:
    """What the configuration allows: seconds of writes by instance, and whether nobody holds the rounds."""

    settings: Settings
    limits: Mapping[str, float]
    is_held: bool = False

    @property
    def acts(self) -> bool:
        """Whether dead nodes are failed over unattended."""
        asks = self.settings.dead_after and self.settings.diagnose_interval and self.settings.agent_port
        return bool(asks) and self.settings.dead_node_policy != "none" and not (self.is_held or self.settings.paused)


@dataclass(frozen=True)
class _Outage:
    """An instance that went down with its node, from a moment to another (ns)."""

    instance: str
    node: str
    since: float
    until: float


def wrong(
    events: Iterable[Event], orders: Orders, seen: Sightings, policy: Policy, *, now: float, wanted: Iterable[str]
) -> Iterator[str]:
    """Each outage that lasted though nothing was against its end, up to a moment (ns); `wanted` have to run now."""
    if not policy.acts:
        return
    known, settings = list(events), policy.settings
    limit = settings.diagnose_interval + settings.dead_after * QUESTION + LIMIT
    off = _off(known)
    for outage in _outages(known, now=now, wanted=frozenset(wanted)):
        needs_off = (
            [] if settings.dead_node_policy == FENCES else spans_without((outage.since, outage.until), off[outage.node])
        )
        held = [*needs_off, *_held(outage, orders, seen)]
        for target in sorted(_survivors(outage, seen, limit=policy.limits.get(outage.instance, 0.0))):
            restarted = [(ns, math.inf) for ns in _boots(known, target) if ns >= outage.since - NOTICED * SECOND]
            against = [*held, *restarted, *_unfit(outage, seen, target)]
            free = spans_without((outage.since, outage.until), against)
            seconds = max(((end - begin) / SECOND for begin, end in free), default=0.0)
            if seconds >= limit:
                text = f"{outage.instance} was down for {(outage.until - outage.since) / SECOND:.0f} s"
                yield (
                    f"{text} since {outage.node} died, though {target} has its data and nothing was against a failover "
                    f"for {seconds:.0f} s (at most {limit:.0f} s are allowed)"
                )


def _outages(events: Iterable[Event], *, now: float, wanted: frozenset[str]) -> Iterator[_Outage]:
    """The times in which instances were down because their nodes were; one that is down now counts if it is wanted."""
    down: dict[str, _Outage] = {}
    for event in events:
        if event["event"] == "stopped" and event.get("why") in WITH_THE_NODE:
            down[event["instance"]] = _Outage(event["instance"], event["node"], event["ns"], now)
        elif event["event"] in fake.ARRIVALS | fake.DEPARTURES and event["instance"] in down:
            before = down.pop(event["instance"])
            yield _Outage(before.instance, before.node, before.since, event["ns"])
    yield from (outage for name, outage in down.items() if name in wanted)


def _off(events: Iterable[Event]) -> dict[str, list[Span]]:
    """When each node had no power."""
    found: dict[str, list[Span]] = defaultdict(list)
    for event in events:
        spans = found[event["node"]]
        is_open = bool(spans) and spans[-1][1] == math.inf
        if event["event"] == "powered off" and not is_open:
            spans.append((event["ns"], math.inf))
        elif event["event"] == "powered on" and is_open:
            spans[-1] = (spans[-1][0], event["ns"])
    return found


def _boots(events: Iterable[Event], node: str) -> list[float]:
    return [event["ns"] for event in events if event["node"] == node and event["event"] in {"powered off", "rebooted"}]


def _survivors(outage: _Outage, seen: Sightings, *, limit: float) -> set[str]:
    """The nodes whose replicas the rule allows: in sync with the dead node until so shortly before its end."""
    resources: dict[str, set[str]] = defaultdict(set)
    fit: dict[str, set[str]] = defaultdict(set)
    for (instance, resource, node), states in seen.states.items():
        if instance != outage.instance:
            continue
        resources[node].add(resource)
        last = _last_together(states, outage)
        if node != outage.node and (outage.since - last) / SECOND + NOTICED <= limit:
            fit[node].add(resource)
    if seen.told_alone(outage.node, outage.instance, outage.since):
        return set()
    return {node for node, names in fit.items() if names == resources[node] == resources[outage.node]}


def _last_together(states: Iterable[State], outage: _Outage) -> float:
    """Until when a replica was in sync with that of the dead node, at most until its end; -inf for never."""
    last, was = -math.inf, False
    for state in states:
        if state.ns > outage.since:
            break
        if was:
            last = state.ns
        was = state.is_connected and state.disk == "UpToDate" and state.peer == outage.node
    return outage.since if was else last


def _unfit(outage: _Outage, seen: Sightings, node: str) -> Iterator[Span]:
    """When a replica could not be started."""
    for (instance, _, where), states in seen.states.items():
        if (instance, where) == (outage.instance, node):
            begins = [state.ns for state in states[1:]]
            for state, until in zip(states, [*begins, math.inf], strict=True):
                if state.disk != "UpToDate":
                    yield state.ns, until


def _held(outage: _Outage, orders: Orders, seen: Sightings) -> Iterator[Span]:
    """When something kept an honest rule from ending an outage, whichever node would run the instance."""
    yield from seen.deaf
    yield from spans_without((outage.since, outage.until), seen.gone[outage.node])
    yield from seen.bmc[outage.node]
    for node, gone in seen.unwell.items():
        if node != outage.node:  # a storm, or the controller's own network
            yield from gone
    for begin, end in orders.emergencies:
        yield orders.ns(begin), orders.ns(end) if math.isfinite(end) else math.inf
    for _, opcode in orders.opcodes_about("instance", outage.instance):
        # What failed is tried again, by a round or by a person.
        if opcode.started and not has_succeeded(opcode):
            yield orders.ns(opcode.started), orders.ns(opcode.ended) if opcode.ended else math.inf
    for _, opcode in orders.opcodes_about("node", outage.node):
        command = opcode.params.get("command")
        if opcode.params.get("offline") is True or (command in TAKING and command not in FENCING):
            yield orders.ns(opcode.started), math.inf
