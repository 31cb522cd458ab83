"""No node loses its power while it runs instances, but by a fence of a dead node, a person's force or an emergency."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .orders import is_fence

if TYPE_CHECKING:
    from collections.abc import Iterable

    from .journals import Event
    from .orders import Orders
    from .sightings import Sightings

BMC = "bmc"
FELL_SILENT_BEFORE = 180.0
"""Seconds before a fence began within which its node must have been silent, or in doubt, at some moment."""


def wrong(events: Iterable[Event], orders: Orders, seen: Sightings) -> list[str]:
    """Every node that its BMC powered off while it ran instances, though nothing allowed it."""
    found: list[str] = []
    for event in events:
        if event["event"] != "powered off" or not event.get("ran") or BMC not in str(event.get("by", "")).lower():
            continue
        told = f"{event['node']} was powered off while it ran {', '.join(sorted(event['ran']))}"
        if not orders.is_emergency(event) and (reason := _objection(event, orders, seen)):
            found.append(f"{told}: {reason}")
    return found


def _objection(event: Event, orders: Orders, seen: Sightings) -> str:
    now, node = orders.at(event), event["node"]
    if any(play.source == node and play.is_about(now) for play in orders.by_hand):
        return ""
    allowing = orders.powering_off(event)
    if not allowing:
        return "no policy and nobody's force says so"
    if all(
        is_fence(opcode)
        and seen.seems_alive(node, orders.ns(opcode.started - FELL_SILENT_BEFORE), orders.ns(opcode.started))
        for _, opcode in allowing
    ):
        names = ", ".join(name for name, _ in allowing)
        return f"it was fenced (opcode {names}), and had answered all the time"
    return ""
