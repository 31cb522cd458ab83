"""The digest of everything that a plan depends on: if it is the same, the same plan is still right."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ..cluster import cluster as clusters
from . import rounds

if TYPE_CHECKING:
    from collections.abc import Iterable

BOOKKEEPING = frozenset(
    {
        "serial_no",
        "ctime",
        "mtime",
        "hostvars",
        "primary_ip",
        "secondary_ip",
        "master_candidate",
        "off_since",
        "off_read",
        "powered_on_at",
        "alive_at",
    }
)


def digest(cluster: clusters.Cluster) -> str:
    """`sha256:` and the digest, in hex, of groups, nodes, instances and the settings that plans follow.

    When something was changed, how a node is reached and who is a candidate are left out; so is what maintenance does,
    but for the nodes that take no instances meanwhile. It costs O(nodes + instances).
    """
    told = {
        "cluster": _facts(cluster.cluster),
        "nodegroups": _each(cluster.nodegroups.values()),
        "nodes": _each(cluster.nodes.values()),
        "instances": _each(cluster.instances.values()),
        "reachable": sorted(node.uuid for node in cluster.nodes.values() if clusters.reachable(cluster, node)),
        "no_targets": sorted(rounds.no_targets(cluster)),
        "moves_per_node": cluster.maintenance.settings.moves_per_node,
    }
    text = json.dumps(told, sort_keys=True, separators=(",", ":"), default=_plain)
    return f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"


def _each(found: Iterable[clusters.Object]) -> list[dict[str, Any]]:
    return [_facts(known) for known in sorted(found, key=lambda known: known.uuid)]


def _facts(known: clusters.Object) -> dict[str, Any]:
    return {name: value for name, value in vars(known).items() if name not in BOOKKEEPING}


def _plain(value: Any) -> Any:
    """What JSON has no word for: the values inside the objects."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return vars(value)
    return dict(value) if isinstance(value, Mapping) else str(value)
