"""Every acknowledged write that is gone: stated, within the limit or accepted by a person, else a violation.

That a node was silent is no excuse: the rule counts what it may have written. And no good replica is destroyed.
"""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from . import journals
from .orders import RENEWING
from .simulator import fake, simulated_world

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from .journals import Event
    from .orders import Orders
    from .sightings import Sightings

MAX_LOSS = 120.0
"""The limit in seconds where none is set; the judge has its own."""


@dataclass
class _Writes:
    """Of an instance: the last acknowledged write, and where and when (ns) the instance ended with it.

    `given_up` is the last one of those writes that were given up by order.
    """

    acknowledged: int = 0
    given_up: int = 0
    node: str = ""
    ended: float = 0.0


@dataclass(frozen=True)
class Lost:
    """Acknowledged writes that an instance did not find where it started, in writes and in seconds of them.

    `stated` and `accepted` are the seconds that were said to be lost at most, and that a person accepted, None where
    nobody did; `limit` is the longest loss without a person. `is_given_up` is one whose size nobody asked about:
    consistency was ignored, or a side was named to be discarded. `problem` says why it must not be, '' where it may.
    """

    instance: str
    node: str
    opcode: str
    verb: str
    found: int
    acknowledged: int
    stated: float | None
    limit: float
    accepted: float | None
    is_given_up: bool
    known: str = ""

    @property
    def writes(self) -> int:
        return self.acknowledged - self.found

    @property
    def seconds(self) -> float:
        return self.writes / simulated_world.WRITES_PER_SECOND

    @property
    def problem(self) -> str:
        if self.is_given_up:
            return ""
        if self.known:
            return self.known
        if self.stated is None or self.writes > _most(self.stated):
            return f"only the loss of {self.stated or 0.0:g} s was stated"
        if self.accepted is not None:
            return "" if self.writes <= _most(self.accepted) else f"only the loss of {self.accepted:g} s was accepted"
        return "" if self.writes <= _most(self.limit) else f"nobody accepted more than the limit of {self.limit:g} s"

    @property
    def text(self) -> str:
        """What is gone, and why it may be or not."""
        gone = (
            f"{self.instance} lost {self.writes} acknowledged writes ({self.seconds:g} s): "
            f"it {self.verb} on {self.node} with write {self.found}, and {self.acknowledged} was acknowledged before "
            f"(opcode {self.opcode})"
        )
        if self.problem:
            return f"{gone}; {self.problem}"
        if self.is_given_up:
            return f"{gone}; a person gave them up"
        by = f"a person accepted {self.accepted:g} s" if self.accepted is not None else f"the limit is {self.limit:g} s"
        return f"{gone}; {self.stated:g} s were stated, and {by}"


def _most(seconds: float) -> int:
    """The most writes of so many seconds."""
    return math.ceil(seconds * simulated_world.WRITES_PER_SECOND)


def lost(events: Iterable[Event], orders: Orders, seen: Sightings, limits: Mapping[str, float]) -> list[Lost]:
    """Every start that did not find all acknowledged writes; `limits` are the seconds by instance."""
    return [found for found in _all(events, orders, seen, limits) if isinstance(found, Lost)]


def writes(events: Iterable[Event], orders: Orders, seen: Sightings, limits: Mapping[str, float]) -> list[str]:
    """No acknowledged write is lost beyond what was allowed, and no replica that has writes which no other has."""
    found = _all(events, orders, seen, limits)
    return [one.text if isinstance(one, Lost) else one for one in found if not isinstance(one, Lost) or one.problem]


def _all(events: Iterable[Event], orders: Orders, seen: Sightings, limits: Mapping[str, float]) -> Iterator[Lost | str]:
    """The losses at starts, and each newest replica that was destroyed, in their order."""
    known: dict[str, _Writes] = defaultdict(_Writes)
    for event in journals.second_copies(events)[0]:
        if orders.kind(event) in RENEWING and event["event"].startswith("replica "):
            known[event["instance"]] = _Writes(given_up=_highest(known[event["instance"]]))
        elif event["event"] in fake.ARRIVALS and "counter" in event:
            yield from _started(event, known[event["instance"]], orders, seen, limits)
        elif event["event"] in fake.DEPARTURES and "counter" in event:
            writes = known[event["instance"]]
            writes.acknowledged = max(writes.acknowledged, event["counter"])
            writes.node, writes.ended = event["node"], event["ns"]
        elif event["event"] in {"replica removed", "overwritten"} and "counter" in event:
            yield from _destroyed(event, known[event["instance"]], orders)


def _highest(writes: _Writes) -> int:
    return max(writes.acknowledged, writes.given_up)


def _started(
    event: Event, writes: _Writes, orders: Orders, seen: Sightings, limits: Mapping[str, float]
) -> Iterator[Lost]:
    before, writes.acknowledged = writes.acknowledged, event["counter"]
    if event["counter"] >= before:
        return
    found = Lost(
        instance=event["instance"],
        node=event["node"],
        opcode=event["opcode"],
        verb=_verb(event),
        found=event["counter"],
        acknowledged=before,
        stated=orders.stated_loss(event),
        limit=limits.get(event["instance"], MAX_LOSS),
        accepted=orders.accepted_loss(event),
        is_given_up=orders.ignores_consistency(event, ended=writes.ended),
        known=_known(event, writes, orders, seen),
    )
    if not found.problem:
        writes.given_up = max(writes.given_up, before)
    yield found


def _known(event: Event, writes: _Writes, orders: Orders, seen: Sightings) -> str:
    """What the dead node itself had said against a start that loses writes, whatever was said of it; '' for nothing."""
    if not writes.ended:
        return ""
    until = min(writes.ended, orders.ns(orders.decided(event)))
    told = seen.told_alone(writes.node, event["instance"], until)
    return (
        f"{writes.node} had reported for {told:.0f} s that it wrote {event['instance']} without its secondary"
        if told
        else ""
    )


def _verb(event: Event) -> str:
    return "started" if event["event"] == "started" else "arrived"


def _destroyed(event: Event, writes: _Writes, orders: Orders) -> Iterator[str]:
    newest = event.get("newest") or 0
    # Of a replica that was overwritten the world knows which writes no other had, wherever the numbers stand.
    lost = event.get("lost", event["counter"] - newest)
    # Whoever ignored consistency gave writes up for a start, and decided nothing about the disk that has them.
    was_given_up = event["event"] == "replica removed" and event["counter"] <= writes.given_up
    if lost <= 0 or was_given_up or orders.allows_discard(event):
        return
    what = "was removed" if event["event"] == "replica removed" else "was overwritten by a resync"
    yield (
        f"the newest replica of {event['instance']} {what} on {event['node']}: it had write {event['counter']}, "
        f"and no other had more than {newest} (opcode {event.get('opcode', '')})"
    )
