"""No acknowledged write is lost beyond what was said and what nobody could know, and no good replica is destroyed."""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ...plugins.module_utils.hypervisor import fake
from ...plugins.module_utils.storage import simulated_world
from . import journals
from .orders import RENEWING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from .journals import Event
    from .orders import Orders
    from .sightings import Sightings


@dataclass
class _Writes:
    """Of an instance: the last acknowledged write, and where and when (ns) the instance ended with it.

    `given_up` is the last one of those writes that were given up by order.
    """

    acknowledged: int = 0
    given_up: int = 0
    node: str = ""
    ended: float = 0.0


def writes(events: Iterable[Event], orders: Orders, seen: Sightings) -> list[str]:
    """No acknowledged write is lost beyond what was ordered, and no replica that has writes which no other has."""
    known: dict[str, _Writes] = defaultdict(_Writes)
    wrong: list[str] = []
    for event in journals.second_copies(events)[0]:
        if orders.kind(event) in RENEWING and event["event"].startswith("replica "):
            known[event["instance"]] = _Writes(given_up=_highest(known[event["instance"]]))
        elif event["event"] in fake.ARRIVALS and "counter" in event:
            wrong += _started(event, known[event["instance"]], orders, seen)
        elif event["event"] in fake.DEPARTURES and "counter" in event:
            writes = known[event["instance"]]
            writes.acknowledged = max(writes.acknowledged, event["counter"])
            writes.node, writes.ended = event["node"], event["ns"]
        elif event["event"] in {"replica removed", "overwritten"} and "counter" in event:
            wrong += _destroyed(event, known[event["instance"]], orders)
    return wrong


def _highest(writes: _Writes) -> int:
    return max(writes.acknowledged, writes.given_up)


def _started(event: Event, writes: _Writes, orders: Orders, seen: Sightings) -> list[str]:
    counter, before = event["counter"], writes.acknowledged
    writes.acknowledged = counter
    if counter >= before:
        return []
    lost = before - counter
    is_ignored = orders.ignores_consistency(event, ended=writes.ended)
    knew = "" if is_ignored else _known(event, lost, writes, orders, seen)
    if is_ignored or (orders.states_loss(event, lost) and not knew):
        writes.given_up = max(writes.given_up, before)
        return []
    text = (
        f"{event['instance']} lost {lost} acknowledged writes: it {_verb(event)} on {event['node']} with "
        f"write {counter}, and {before} was acknowledged before (opcode {event['opcode']})"
    )
    return [f"{text}; {knew}" if knew else text]


def _known(event: Event, lost: int, writes: _Writes, orders: Orders, seen: Sightings) -> str:
    """What Roundsman had to know against a start that loses writes, whatever was said of it; '' for nothing."""
    if not writes.ended:
        return ""
    instance, until = event["instance"], min(writes.ended, orders.ns(orders.decided(event)))
    told = seen.told_alone(writes.node, instance, until)
    if told:
        return f"{writes.node} had reported for {told:.0f} s that it wrote {instance} without its secondary"
    seconds = seen.unknowable(writes.node, writes.ended)
    if lost > math.ceil(seconds * simulated_world.WRITES_PER_SECOND):
        return f"only writes of the last {seconds:.0f} s before it ended on {writes.node} could be unknown"
    return ""


def _verb(event: Event) -> str:
    return "started" if event["event"] == "started" else "arrived"


def _destroyed(event: Event, writes: _Writes, orders: Orders) -> list[str]:
    newest = event.get("newest") or 0
    # Of a replica that was overwritten the world knows which writes no other had, wherever the numbers stand.
    lost = event.get("lost", event["counter"] - newest)
    # Whoever ignored consistency gave writes up for a start, and decided nothing about the disk that has them.
    was_given_up = event["event"] == "replica removed" and event["counter"] <= writes.given_up
    if lost <= 0 or was_given_up or orders.allows_discard(event):
        return []
    what = "was removed" if event["event"] == "replica removed" else "was overwritten by a resync"
    text = (
        f"the newest replica of {event['instance']} {what} on {event['node']}: it had write {event['counter']}, "
        f"and no other had more than {newest} (opcode {event.get('opcode', '')})"
    )
    return [text]
