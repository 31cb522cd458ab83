"""What of a change of the configuration belongs in the audit log, in sentences with fields; pure."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from . import wording

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ...module_utils.domain import cluster as clusters

STANDS, RETURNS, LIFTED = "stands", "returns", "lifted"
"""How it is with an emergency from a line on, in its field `emergency`."""
WORDS = {True: "on", False: "off"}


def lines(before: clusters.Cluster, after: clusters.Cluster) -> list[str]:
    """Each node whose power of record changed (seed 001, "Logging"), and how an emergency power off went on."""
    return [*_power(before, after), *_epo(before, after)]


def with_fields(text: str, **fields: object) -> str:
    """A line for people that ends with the same as data."""
    return f"{text} {json.dumps(fields, sort_keys=True)}"


def fields(line: str) -> dict[str, Any]:
    """The data at the end of a line; empty where there are none."""
    start = line.rfind(" {")
    try:
        found = json.loads(line[start + 1 :]) if start >= 0 else {}
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


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
    if known is None:
        yield with_fields(f"an emergency power off by {by} {held} stands", emergency=STANDS)
    elif stands.returning and not known.returning:
        text = f"the return {held} from the emergency power off by {by} begins"
        yield with_fields(text, emergency=RETURNS)
    elif not stands.returning and (known.returning or set(stands.nodes) - set(known.nodes)):
        yield with_fields(f"the emergency power off by {by} goes on, now {held}", emergency=STANDS)
