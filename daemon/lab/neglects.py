"""What a controller that listened had to do, or not to do: outdate a lost secondary, place nothing on a silent node."""

from __future__ import annotations

import itertools
import math
from typing import TYPE_CHECKING

from .orders import FENCING, TAKING, has_succeeded
from .sightings import MARGIN, REPORTS, SECOND, overlap, spans_without

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from .journals import Event
    from .orders import Orders
    from .sightings import Sightings, Span, State

RETRY, QUEUE = 60.0, 30.0
"""Seconds after which an outdating that failed is repeated, and those that its job may need until it runs.

One that succeeded and left the secondary promotable is an error itself: nothing more is excused after it.
"""
OFTEN_FAILED, SELDOM = 30, 600.0
"""After so many outdatings in a row, of which the last failed, it is repeated after these seconds."""
PLACING = ("replica created", "replica removed")


def never_outdated(
    orders: Orders, seen: Sightings, *, pairs: Mapping[str, tuple[str, str]], now: float
) -> Iterator[str]:
    """No secondary that its running primary has lost stays promotable while both nodes answer and somebody listens.

    One that was itself written alone since they disconnected only a person may give up. `pairs` are the primary and the
    secondary of instances as the configuration has them: no others are judged.
    """
    limit = RETRY + QUEUE + REPORTS * seen.poll
    for (instance, resource, node), states in seen.states.items() if seen.poll else ():
        primary, peer = pairs.get(instance, ("", ""))
        if node != primary:
            continue
        alone = _spans(states, now, lambda state: state.is_alone)
        others = seen.states.get((instance, resource, peer), [])
        stale = _spans(others, now, lambda state: state.may_be_promoted)
        held = [*_held(orders, instance, (node, peer)), *seen.deaf, *seen.unwell[node], *seen.unwell[peer]]
        for first, second in itertools.product(alone, stale):
            span = max(first[0], second[0]), min(first[1], second[1])
            if span[0] >= span[1]:
                continue
            joined = max(
                (state.ns for state in (*states, *others) if state.is_connected and state.ns < span[0]), default=0.0
            )
            if any(joined < state.ns < span[0] and state.is_alone for state in others):
                continue
            waits = _seldom_repeated(orders, instance, joined)
            seconds = max(
                (_heard(seen, (node, peer), free) for free in spans_without(span, [*held, *waits])), default=0.0
            )
            if seconds >= limit:
                text = f"{resource} on {peer} was not outdated for {seconds:.0f} s"
                yield f"{text}, though {node} ran {instance} without it and both nodes reported"


def _spans(states: Iterable[State], now: float, is_so: Callable[[State], bool]) -> list[Span]:
    """When a replica was so without an interruption."""
    spans: list[Span] = []
    begin = math.inf
    for state in [*states, None]:
        if state is not None and is_so(state):
            begin = min(begin, state.ns)
        elif begin < math.inf:
            spans.append((begin, state.ns if state is not None else now))
            begin = math.inf
    return spans


def _held(orders: Orders, instance: str, nodes: Iterable[str]) -> Iterator[Span]:
    """When opcodes kept the controller from outdating a replica: any for its instance, and nodes out of service."""
    for _, opcode in orders.opcodes_about("instance", instance):
        yield (
            orders.ns(opcode.started) if opcode.started else 0.0,
            orders.ns(opcode.ended) if opcode.ended else math.inf,
        )
    for node in nodes:
        yield from _out_of_service(orders, node)


def _seldom_repeated(orders: Orders, instance: str, since: float) -> Iterator[Span]:
    """The longer waits after outdatings that failed often, of a pair that was connected last at a moment."""
    tried = [
        opcode
        for _, opcode in orders.opcodes_about("instance", instance)
        if opcode.kind == "outdate_replica" and opcode.ended
    ]
    in_a_row = sorted((opcode for opcode in tried if orders.ns(opcode.ended) > since), key=lambda opcode: opcode.ended)
    for times, opcode in enumerate(in_a_row, start=1):
        if times >= OFTEN_FAILED and not has_succeeded(opcode):
            yield orders.ns(opcode.ended), orders.ns(opcode.ended + SELDOM - RETRY)


def _out_of_service(orders: Orders, node: str) -> Iterator[Span]:
    """From each opcode that takes a node out of service or its power until one brings it back."""
    since = math.inf
    for _, opcode in sorted(orders.opcodes_about("node", node), key=lambda found: found[1].started):
        leaves = opcode.params.get("offline") is True or opcode.params.get("command") in TAKING | FENCING
        returns = opcode.params.get("offline") is False or opcode.params.get("command") == "on"
        if leaves and opcode.started:
            since = min(since, orders.ns(opcode.started))
        elif returns and opcode.ended and since < math.inf:
            yield since, orders.ns(opcode.ended)
            since = math.inf
    yield since, math.inf


def _heard(seen: Sightings, nodes: Iterable[str], span: Span) -> float:
    """From the first to the last report of each of these nodes in a span, the shortest of these times (seconds)."""
    times = []
    for node in nodes:
        made = [report.ns for report in seen.reports[node] if span[0] <= report.ns <= span[1]]
        times.append(made[-1] - made[0] if len(made) >= REPORTS else 0.0)
    return min(times) / SECOND


def silent_targets(events: Iterable[Event], orders: Orders, seen: Sightings) -> list[str]:
    """No opcode changes replicas for a node that had not answered for long when the opcode began."""
    placing = {event["opcode"] for event in events if event["event"] in PLACING and event.get("opcode")}
    wrong = []
    for name in sorted(placing & orders.opcodes.keys()):
        opcode = orders.opcodes[name]
        new, old = (orders.names.get(str(opcode.params.get(key, "")), "") for key in ("new", "old"))
        if opcode.kind != "replace_disks" or not opcode.started or not new:
            continue
        began = orders.ns(opcode.started)
        silence = next((begin for begin, end in seen.gone[new] if begin <= began < end), began)
        seconds = (began - silence) / SECOND
        if seen.poll and seconds >= REPORTS * seen.poll + MARGIN and _was_polled(seen, new, silence, began):
            text = f"opcode {name} gave {orders.names.get(opcode.params['instance'], '')} a replica on {new}"
            wrong.append(f"{text} in place of {old}, and {new} had not answered for {seconds:.0f} s")
    return wrong


def _was_polled(seen: Sightings, node: str, since: float, until: float) -> bool:
    """Whether somebody listened all the time, and other nodes made their reports."""
    others = [other for other in seen.reports if other != node]
    return not overlap(seen.deaf, since, until) and any(_heard(seen, [other], (since, until)) for other in others)
