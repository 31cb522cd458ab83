"""What no opcode may do by the journals: something twice, or bring a node online that runs a second copy."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from . import journals

if TYPE_CHECKING:
    from collections.abc import Iterable

    from .journals import Event
    from .orders import Orders

ASKED_BEFORE = 5.0
"""Seconds before it is brought online within which a node may have been asked what it runs."""


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


def returned(events: Iterable[Event], orders: Orders) -> list[str]:
    """No node is brought online while it runs an instance that runs elsewhere, too."""
    own, second = journals.second_copies(events)
    runs, copies = journals.runs_of(own), journals.runs_of(second)
    wrong = []
    for opcode in orders.opcodes.values():
        node = orders.names.get(opcode.params.get("node", ""), "")
        if opcode.kind != "node_role" or opcode.params.get("offline") is not False or opcode.status.value != "success":
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
