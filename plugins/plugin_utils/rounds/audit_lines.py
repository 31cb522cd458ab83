"""What of a change of the configuration belongs in the audit log, in sentences with fields; pure."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from . import wording

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..cluster import cluster as clusters

STANDS, RETURNS, LIFTED = "stands", "returns", "lifted"
"""How it is with an emergency from a line on, in its field `emergency`."""
WORDS = {True: "on", False: "off"}
FAILOVER = "failover"
"""The field of a line that states what a failover may lose, before it is done."""


def lines(before: clusters.Cluster, after: clusters.Cluster) -> list[str]:
    """Each node whose power of record changed (seed 001, "Logging"), and how an emergency power off went on."""
    return [*_power(before, after), *_epo(before, after)]


def with_fields(text: str, **fields: object) -> str:
    """A line for people that ends with the same as data."""
    return f"{text} {json.dumps(fields, sort_keys=True)}"


def failover(
    text: str,
    *,
    instance: str,
    source: str,
    target: str,
    by: str,
    seconds: float | None,
    accepted: float | None = None,
    is_ignored: bool = False,
) -> str:
    """A line that states the possible loss of a failover; the names are those of nodes and of the instance.

    `seconds` is the stated loss, None where nobody can tell it, and `accepted` the loss that a person accepted, None
    where nobody did. `by` is the opcode (`JOB/INDEX`) that does it, or the user who runs a play by hand.
    """
    stated = {"instance": instance, "source": source, "target": target, "by": by, "seconds": seconds}
    return with_fields(text, **{FAILOVER: {**stated, "accepted": accepted, "ignored": is_ignored}})


def fields(line: str) -> dict[str, Any]:
    """The data at the end of a line; empty where there are none."""
    # It may be nested: the first brace after which all is data.
    for brace in re.finditer(r" \{", line):
        try:
            found: dict[str, Any] = json.loads(line[brace.end() - 1 :])
        except ValueError:
            continue
        return found
    return {}


def _power(before: clusters.Cluster, after: clusters.Cluster) -> Iterator[str]:
    if before.nodes is after.nodes:
        return
    for uuid, node in after.nodes.items():
        known = before.nodes.get(uuid)
        if known is not None and known.powered is not node.powered:
            yield f"{node.name} is recorded as powered {WORDS[node.powered]}, was {WORDS[known.powered]}"


def _epo(before: clusters.Cluster, after: clusters.Cluster) -> Iterator[str]:
    known, stands = before.maintenance.epo, after.maintenance.epo
    if stands is None:
        if known is not None:
            left = wording.both(len(known.nodes), len(known.instances))
            text = f"the emergency power off by {known.by or 'somebody'} is lifted; {left} were on its list at last"
            yield with_fields(text, emergency=LIFTED)
        return
    by = stands.by or "somebody"
    held = f"of {wording.both(len(stands.nodes), len(stands.instances))}"
    if known is None and stands.lost:
        yield with_fields(f"the return {held} from a loss of power begins, by {by}", emergency=RETURNS)
    elif known is None:
        yield with_fields(f"an emergency power off by {by} {held} stands", emergency=STANDS)
    elif stands.returning and not known.returning:
        text = f"the return {held} from the emergency power off by {by} begins"
        yield with_fields(text, emergency=RETURNS)
    elif not stands.returning and (known.returning or set(stands.nodes) - set(known.nodes)):
        yield with_fields(f"the emergency power off by {by} goes on, now {held}", emergency=STANDS)
