"""What of a change of the configuration belongs in the audit log, in sentences; pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from . import wording

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ...module_utils.domain import cluster as clusters

WORDS = {True: "on", False: "off"}


def lines(before: clusters.Cluster, after: clusters.Cluster) -> list[str]:
    """Each node whose power of record changed (seed 001, "Logging"), and how an emergency power off went on."""
    return [*_power(before, after), *_epo(before, after)]


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
            yield f"the emergency power off by {known.by or 'somebody'} is lifted; {left} were on its list at last"
        return
    held = f"of {wording.both(len(stands.nodes), len(stands.instances))}"
    if known is None:
        yield f"an emergency power off by {stands.by or 'somebody'} {held} stands"
    elif stands.returning and not known.returning:
        yield f"the return {held} from the emergency power off by {stands.by or 'somebody'} begins"
    elif not stands.returning and (known.returning or set(stands.nodes) - set(known.nodes)):
        yield f"the emergency power off by {stands.by or 'somebody'} goes on, now {held}"
