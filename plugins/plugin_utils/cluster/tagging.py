"""Tags of the cluster, its groups, nodes and instances: what one may be, who has it, and how it comes and goes."""

from __future__ import annotations

import dataclasses
import re
from dataclasses import dataclass
from typing import Callable, Mapping

from ...module_utils.domain.values import errors
from . import cluster as clusters
from . import cluster_changes


@dataclass(frozen=True)
class Tagged:
    """Whether an object (kind cluster, group, node or instance) carries a tag."""

    kind: str
    object: str
    tag: str
    present: bool


def check_tag(tag: str) -> None:
    """A tag has 1 to 128 letters, digits and characters of `_.+*/:@-` (Ganeti's rule).

    Raises:
        InvalidInput: it has not.
    """
    if not re.fullmatch(r"[A-Za-z0-9_.+*/:@-]{1,128}", tag):
        raise errors.InvalidInput(f"{tag[:140]!r} is no tag: use 1 to 128 letters, digits and characters of _.+*/:@-")


def tag_owner(cluster: clusters.Cluster, kind: str, name: str) -> clusters.Object:
    """The object of a kind (cluster, group, node, instance) whose tags are meant."""
    finders: Mapping[str, Callable[[str], clusters.Object]] = {
        "cluster": lambda _: cluster.cluster,
        "group": cluster.group,
        "node": cluster.node,
        "instance": cluster.instance,
    }
    if kind not in finders:
        raise errors.InvalidInput(f"{kind!r} has no tags: use one of {', '.join(finders)}")
    return finders[kind](name)


def _tagged(cluster: clusters.Cluster, change: Tagged, now: float) -> clusters.Cluster:
    owner = tag_owner(cluster, change.kind, change.object)
    if (change.tag in owner.tags) is change.present:
        return cluster
    tags = (*owner.tags, change.tag) if change.present else tuple(tag for tag in owner.tags if tag != change.tag)
    stands = dataclasses.replace(owner, tags=tags, **cluster_changes.touched(owner, now=now))  # type: ignore[arg-type]
    if isinstance(stands, clusters.Node):
        return clusters.with_node(cluster, stands)
    if isinstance(stands, clusters.Instance):
        return clusters.with_instance(cluster, stands)
    if isinstance(stands, clusters.Group):
        return dataclasses.replace(cluster, nodegroups={**cluster.nodegroups, stands.uuid: stands})
    return dataclasses.replace(cluster, cluster=stands)


RULES: Mapping[type, Callable[[clusters.Cluster, object, float], clusters.Cluster]] = {
    Tagged: _tagged,  # type: ignore[dict-item]
}
