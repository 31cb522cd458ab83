"""What the nodes' journals prove: rules over their events, each of which goes through them once.

An event has `ns` (monotonic), `node` and `event`; most have `instance`, and `opcode`: `JOB/INDEX` of the queue, or the
name of whoever acted. `counter` is the number of a write: what the guest read from its disk when it started or arrived,
the last one that was acknowledged when it stopped or left, and the newest one on a replica that was removed. Events of
no node (`node` is '') are the lab's: when it started, stopped or froze the controller.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from .simulator import fake

if TYPE_CHECKING:
    from collections.abc import Iterable

    from . import world

Event = Mapping[str, Any]
UNSETTLED = 1.0
"""Seconds: what a node did so shortly ago may not be in its journal yet."""
BY_ITSELF = "autostart"
"""The opcode of what a node starts when it boots, and nobody ordered."""


def read(lab: world.Lab, *, until: float = math.inf) -> list[Event]:
    """The events of all nodes, and those of the lab itself, in the order in which they happened before a moment (ns).

    While nodes act, the journals are not read at the same time: what happened so long as `UNSETTLED` ago is in them.
    """
    found = [{**entry, "node": node.name} for node in lab.nodes() for entry in node.journal()]
    found += [{**entry, "node": ""} for entry in lab.journal()]
    return sorted((entry for entry in found if entry["ns"] < until), key=lambda entry: entry["ns"])


@dataclass
class Stays:
    """Where something was, and from when to when (ns), by instance and node."""

    spans: dict[tuple[str, str], list[list[float]]] = field(default_factory=lambda: defaultdict(list))

    def begin(self, event: Event) -> None:
        self.spans[event["instance"], event["node"]].append([event["ns"], math.inf])

    def end(self, event: Event) -> None:
        for span in self.spans[event["instance"], event["node"]][-1:]:
            span[1] = min(span[1], event["ns"])

    def was_there(self, instance: str, node: str, *, since: float, until: float) -> bool:
        """Whether it was there at some moment between two (ns)."""
        return any(begin <= until and end >= since for begin, end in self.spans.get((instance, node), ()))

    def was_anywhere(self, instance: str, *, since: float, until: float) -> bool:
        """Whether it was on any node at some moment between two (ns)."""
        nodes = [node for name, node in self.spans if name == instance]
        return any(self.was_there(instance, node, since=since, until=until) for node in nodes)

    def was_there_throughout(self, instance: str, node: str, *, since: float, until: float) -> bool:
        """Whether it was there all the time between two (ns)."""
        return any(begin <= since and end >= until for begin, end in self.spans.get((instance, node), ()))

    def was_anywhere_throughout(self, instance: str, *, since: float, until: float) -> bool:
        """Whether it was on one node all the time between two (ns)."""
        nodes = [node for name, node in self.spans if name == instance]
        return any(self.was_there_throughout(instance, node, since=since, until=until) for node in nodes)


def runs_of(events: Iterable[Event]) -> Stays:
    """Where instances ran."""
    return _stays(events, fake.ARRIVALS, fake.DEPARTURES)


def replicas_of(events: Iterable[Event]) -> Stays:
    """Where instances had replicas of their disks."""
    return _stays(events, frozenset({"replica created"}), frozenset({"replica removed"}))


def _stays(events: Iterable[Event], begins: frozenset[str], ends: frozenset[str]) -> Stays:
    found = Stays()
    for event in events:
        if event["event"] in begins:
            found.begin(event)
        elif event["event"] in ends:
            found.end(event)
    return found


def second_copies(events: Iterable[Event]) -> tuple[list[Event], list[Event]]:
    """The events without those of second copies that nodes started by themselves, and these."""
    own: list[Event] = []
    second: list[Event] = []
    runs: dict[str, set[str]] = defaultdict(set)
    copies: set[tuple[str, str]] = set()
    for event in events:
        if event["event"] not in fake.ARRIVALS | fake.DEPARTURES:
            own.append(event)
            continue
        name, node = event["instance"], event["node"]
        if event["event"] == "started" and event["opcode"] == BY_ITSELF and runs[name] - {node}:
            copies.add((name, node))
        if (name, node) in copies:
            second.append(event)
            if event["event"] in fake.DEPARTURES:
                copies.discard((name, node))
            continue
        own.append(event)
        if event["event"] in fake.ARRIVALS:
            runs[name].add(node)
        else:
            runs[name].discard(node)
    return own, second


def resumed(events: Iterable[Event]) -> list[str]:
    """No interrupted migration goes on at its source once the instance has run on its target."""
    handed: dict[str, str] = {}
    wrong = []
    for event in events:
        if event["event"] == "handed over":
            handed[event["instance"]] = event["node"]
        elif event["event"] == "resumed" and handed.get(event["instance"]) == event["node"]:
            told = f"{event['instance']} was resumed on {event['node']} after it had been handed over"
            wrong.append(f"{told} (opcode {event['opcode']})")
        elif event["event"] == "started":
            handed.pop(event["instance"], None)
    return wrong


def running(events: Iterable[Event]) -> tuple[dict[str, set[str]], list[str]]:
    """The nodes where each instance runs after all events, and what contradicts itself on the way.

    What a node starts by itself is a second copy until it ends, and nobody's fault.
    """
    where: dict[str, set[str]] = {}
    wrong: list[str] = []
    for event in second_copies(events)[0]:
        if event["event"] not in fake.ARRIVALS | fake.DEPARTURES:
            continue
        name, node = event["instance"], event["node"]
        nodes = where.setdefault(name, set())
        if event["event"] in fake.ARRIVALS:
            nodes.add(node)
        else:
            if node not in nodes:
                wrong.append(f"{name} was {event['event']} on {node}, where it did not run")
            nodes.discard(node)
        if len(nodes) > 1:
            wrong.append(f"{name} ran twice, on {' and '.join(sorted(nodes))} (opcode {event['opcode']})")
    return where, wrong
