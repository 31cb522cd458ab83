"""What the nodes' journals prove: rules over their events, each of which goes through them once.

An event has `ns` (monotonic), `node` and `event`; most have `instance`, and `opcode`: `JOB/INDEX` of the queue, or the
name of whoever acted. `counter` is the number of a write: what the guest read from its disk when it started or arrived,
the last one that was acknowledged when it stopped or left, and the newest one on a replica that was removed.
"""

from __future__ import annotations

import datetime as dt
import math
import re
import time
from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ...plugins.module_utils.hypervisor import fake
from ...plugins.module_utils.storage import simulated_world

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ..jobs import values
    from . import world

Event = Mapping[str, Any]
UNSETTLED = 1.0
"""Seconds: what a node did so shortly ago may not be in its journal yet."""
RENEWING = frozenset({"recreate_disks", "instance_create", "instance_remove", "reinstall"})
"""Opcodes by which a person gives up what is on the disks of an instance."""
BMC = "bmc"
TAKING, FENCING = frozenset({"off", "cycle"}), frozenset({"fence", "confirm_off"})
"""The commands of the opcode `power` that take the power of a node, and those that are for nodes that do not answer."""
BY_ITSELF = "autostart"
"""The opcode of what a node starts when it boots, and nobody ordered."""
ASKED_BEFORE = 5.0
"""Seconds before it is brought online within which a node may have been asked what it runs."""
BY_HAND = "by hand"
"""The opcode of what a play by hand does."""
LATE_POWER_OFF = 120.0
"""Seconds after the end of its opcode within which a slow BMC may still carry out a command."""
LONGEST_PLAY = 600.0
"""Seconds for which a failover by hand that was announced may be at work."""


def read(lab: world.Lab) -> list[Event]:
    """The events of all nodes in the order in which they happened."""
    found = [{**entry, "node": node.name} for node in lab.nodes() for entry in node.journal()]
    return sorted(found, key=lambda entry: entry["ns"])


def read_settled(lab: world.Lab) -> list[Event]:
    """The events of all nodes up to a moment ago: while nodes act, the journals are not read at the same time."""
    end = time.monotonic_ns() - int(UNSETTLED * 1e9)
    return [entry for entry in read(lab) if entry["ns"] < end]


@dataclass(frozen=True)
class Stated:
    """What a play by hand said in the audit log before it failed an instance over; the loss is None for any."""

    at: float
    instance: str
    source: str
    target: str
    seconds: float | None

    def allows(self, event: Event, lost: int, *, at: float) -> bool:
        """Whether a start on its target at a unix time may find so many writes fewer.

        The source may write on until it is fenced, which comes after this was said.
        """
        if (self.instance, self.target) != (event["instance"], event["node"]) or not self.is_about(at):
            return False
        if self.seconds is None:
            return True
        return lost <= math.ceil((self.seconds + at - self.at) * simulated_world.WRITES_PER_SECOND)

    def is_about(self, at: float) -> bool:
        """Whether what happened at a unix time may be this play's."""
        return self.at - UNSETTLED <= at <= self.at + LONGEST_PLAY


_BY_HAND = re.compile(
    r"^(?P<at>\S+ \S+) .* record user=\S+ uid=\d+ play=\S+: failover (?P<instance>\S+): (?P<source>\S+) -> "
    r"(?P<target>[^ ,]+)(?: \(possible loss: (?:writes of the last (?P<seconds>\d+) s|[^)]*)\))?(?P<ignored>,.*)?$"
)


def stated_by_hand(audit_log: str) -> list[Stated]:
    """The failovers that plays by hand have announced in the audit log."""
    found = (_BY_HAND.match(line) for line in audit_log.splitlines())
    return [
        Stated(
            dt.datetime.strptime(one["at"], "%Y-%m-%d %H:%M:%S,%f").astimezone().timestamp(),
            one["instance"],
            one["source"],
            one["target"],
            float(one["seconds"]) if one["seconds"] and not one["ignored"] else None,
        )
        for one in found
        if one
    ]


@dataclass(frozen=True)
class Orders:
    """What persons and policies ordered: the opcodes of all jobs by the names that journals give them.

    `names` are the names of nodes and instances by UUID. `clock_offset` plus the seconds of a journal is unix time.
    `by_hand` is what plays by hand have announced.
    """

    opcodes: Mapping[str, values.Opcode]
    names: Mapping[str, str] = field(default_factory=dict)
    clock_offset: float = 0.0
    by_hand: tuple[Stated, ...] = ()

    def kind(self, event: Event) -> str:
        """The kind of the opcode that did it, or ''."""
        found = self.opcodes.get(event.get("opcode", ""))
        return found.kind if found is not None else ""

    def at(self, event: Event) -> float:
        """When it happened (unix seconds)."""
        return float(event["ns"]) / 1e9 + self.clock_offset

    def allows_loss(self, event: Event, lost: int) -> bool:
        """Whether a start may find fewer writes: its opcode said so, or a person gave up what was on the disks."""
        if event.get("opcode") == BY_HAND:
            return any(one.allows(event, lost, at=self.at(event)) for one in self.by_hand)
        found = self.opcodes.get(event.get("opcode", ""))
        if found is None:
            return False
        if found.params.get("ignore_consistency") or found.params.get("discard"):
            return True
        return lost <= math.ceil(possible_loss(found) * simulated_world.WRITES_PER_SECOND)

    def allows_discard(self, event: Event) -> bool:
        """Whether a person gave up what was on a replica of this instance."""
        return any(
            self.names.get(opcode.params.get("instance", "")) == event["instance"]
            and (opcode.params.get("discard") or opcode.kind in RENEWING)
            for opcode in self.opcodes.values()
            if opcode.started and opcode.started <= self.at(event) + UNSETTLED
        )

    def allows_power_off(self, event: Event) -> bool:
        """Whether an opcode at work then may power off a node that runs instances."""
        now = self.at(event)
        if any(one.source == event["node"] and one.is_about(now) for one in self.by_hand):
            return True
        return any(
            opcode.started
            and opcode.started - UNSETTLED <= now
            and (not opcode.ended or now <= opcode.ended + LATE_POWER_OFF)
            and event["node"] in self._may_power_off(opcode)
            for opcode in self.opcodes.values()
        )

    def _may_power_off(self, opcode: values.Opcode) -> set[str]:
        """The nodes (names) whose power an opcode may take though instances run there.

        A failover fences a source that does not confirm the stop; the policy for dead nodes commands `fence`.
        """
        command, is_forced = opcode.params.get("command"), bool(opcode.params.get("force"))
        if opcode.kind == "power" and (command in FENCING or (is_forced and command in TAKING)):
            uuids = [*opcode.params.get("nodes", ()), opcode.params.get("node", "")]
        elif opcode.kind == "failover":
            uuids = [opcode.params.get("source", "")]
        else:
            return set()
        return {self.names.get(uuid, "") for uuid in uuids}


def possible_loss(opcode: values.Opcode) -> float:
    """The seconds of writes that an opcode said it may lose; 0 when it said nothing, or nothing exact."""
    stated = opcode.result.get("possible_loss") if isinstance(opcode.result, dict) else None
    return float((stated or {}).get("seconds") or 0.0)


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
    return _stays(events, frozenset({"copy created"}), frozenset({"copy removed"}))


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


def returned(events: Iterable[Event], orders: Orders) -> list[str]:
    """No node is brought online while it runs an instance that runs elsewhere, too."""
    own, second = second_copies(events)
    runs, copies = runs_of(own), runs_of(second)
    wrong = []
    for opcode in orders.opcodes.values():
        node = orders.names.get(opcode.params.get("node", ""), "")
        if opcode.kind != "node_role" or opcode.params.get("offline") is not False or not _has_succeeded(opcode):
            continue
        # A moment before it began the node was asked: whoever comes later was not there yet.
        when = (opcode.started - ASKED_BEFORE - orders.clock_offset) * 1e9, (opcode.ended - orders.clock_offset) * 1e9
        wrong += [
            f"{node} was brought online while it ran a second copy of {instance}"
            for instance, where in sorted(copies.spans)
            if where == node
            and copies.was_there_throughout(instance, node, since=when[0], until=when[1])
            and runs.was_anywhere_throughout(instance, since=when[0], until=when[1])
        ]
    return wrong


def _has_succeeded(opcode: values.Opcode) -> bool:
    return opcode.status.value == "success"


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


@dataclass
class _Writes:
    """Of an instance: the last acknowledged write, and the last one of those that were given up by order."""

    acknowledged: int = 0
    given_up: int = 0


def writes(events: Iterable[Event], orders: Orders) -> list[str]:
    """No acknowledged write is lost beyond what was ordered, and no replica that has writes which no other has."""
    known: dict[str, _Writes] = defaultdict(_Writes)
    wrong: list[str] = []
    for event in second_copies(events)[0]:
        if orders.kind(event) in RENEWING and event["event"].startswith("copy "):
            known[event["instance"]] = _Writes(given_up=_highest(known[event["instance"]]))
        elif event["event"] in fake.ARRIVALS and "counter" in event:
            wrong += _started(event, known[event["instance"]], orders)
        elif event["event"] in fake.DEPARTURES and "counter" in event:
            one = known[event["instance"]]
            one.acknowledged = max(one.acknowledged, event["counter"])
        elif event["event"] in {"copy removed", "overwritten"} and "counter" in event:
            wrong += _destroyed(event, known[event["instance"]], orders)
    return wrong


def _highest(one: _Writes) -> int:
    return max(one.acknowledged, one.given_up)


def _started(event: Event, one: _Writes, orders: Orders) -> list[str]:
    counter, before = event["counter"], one.acknowledged
    one.acknowledged = counter
    if counter >= before:
        return []
    if orders.allows_loss(event, before - counter):
        one.given_up = max(one.given_up, before)
        return []
    text = (
        f"{event['instance']} lost {before - counter} acknowledged writes: it {_verb(event)} on {event['node']} with "
        f"write {counter}, and {before} was acknowledged before (opcode {event['opcode']})"
    )
    return [text]


def _verb(event: Event) -> str:
    return "started" if event["event"] == "started" else "arrived"


def _destroyed(event: Event, one: _Writes, orders: Orders) -> list[str]:
    newest = event.get("newest") or 0
    # Of a replica that was overwritten the world knows which writes no other had, wherever the numbers stand.
    lost = event.get("lost", event["counter"] - newest)
    # Whoever ignored consistency gave writes up for a start, and decided nothing about the disk that has them.
    was_given_up = event["event"] == "copy removed" and event["counter"] <= one.given_up
    if lost <= 0 or was_given_up or orders.allows_discard(event):
        return []
    what = "was removed" if event["event"] == "copy removed" else "was overwritten by a resync"
    text = (
        f"the newest replica of {event['instance']} {what} on {event['node']}: it had write {event['counter']}, "
        f"and no other had more than {newest} (opcode {event.get('opcode', '')})"
    )
    return [text]


def power_offs(events: Iterable[Event], orders: Orders, *, is_epo: bool = False) -> list[str]:
    """No BMC powers off a node that runs instances, unless a policy or a person's force says so."""
    return [
        f"{event['node']} was powered off while it ran {', '.join(sorted(event['ran']))}: "
        "no policy and nobody's force says so"
        for event in events
        if event["event"] == "powered off"
        and event.get("ran")
        and BMC in str(event.get("by", "")).lower()
        and not is_epo
        and not orders.allows_power_off(event)
    ]


def repeated(events: Iterable[Event], orders: Orders) -> list[str]:
    """Whatever became of an opcode, nothing was done twice for it."""
    seen = Counter(
        (event["opcode"], event["instance"], event["event"], event["node"])
        for event in events
        if event.get("opcode") in orders.opcodes and "instance" in event and event["event"] != "overwritten"
    )
    return [
        f"opcode {name}: {instance} was {times} times {event} on {node}"
        for (name, instance, event, node), times in seen.items()
        if times > 1
    ]


def orders(jobs: Iterable[values.Job], names: Mapping[str, str], *, audit_log: str = "") -> Orders:
    """What all these jobs and the plays of the audit log ordered.

    Names of what has left the cluster are those that the jobs keep.
    """
    jobs = list(jobs)
    kept = {uuid: name for job in jobs for uuid, name in job.names.items()}
    opcodes = {f"{job.id}/{index}": opcode for job in jobs for index, opcode in enumerate(job.opcodes)}
    offset = time.time() - time.monotonic()
    return Orders(opcodes, {**kept, **names}, clock_offset=offset, by_hand=tuple(stated_by_hand(audit_log)))
