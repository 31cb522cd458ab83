"""Basis: what moves are planned from, looked up once and handed down to every rule."""

from __future__ import annotations

import functools
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Collection, Mapping

from ..cluster import cluster as clusters

if TYPE_CHECKING:
    from ..disks.possible_loss import Answer


@dataclass(frozen=True)
class Basis:
    """A cluster, and what is known of its nodes (UUIDs) and instances (UUIDs) beside it.

    Nodes that incidents are about (`avoid`) and those that the plan empties (`leaving`) are no targets; of those to
    avoid the `recovered` ones say Ok since an incident of them failed: they are a last resort for an instance that has
    a replica there. `evidence` has, of the instances of nodes that cannot be asked, whether their replicas count as in
    sync.
    """

    cluster: clusters.Cluster
    avoid: Collection[str] = frozenset()
    leaving: Collection[str] = frozenset()
    recovered: Collection[str] = frozenset()
    evidence: Mapping[str, Answer] = field(default_factory=dict)

    @functools.cached_property
    def reachable(self) -> frozenset[str]:
        """The nodes that can be reached."""
        return frozenset(uuid for uuid, node in self.cluster.nodes.items() if clusters.reachable(self.cluster, node))
