"""Prospects: the score that a cluster would have if an instance went to a node; what decides between those with room.

The score is Ganeti's, of the group of the node that the instance leaves; nodes that are left or avoided are offline to
it. Room is not looked at here.
"""

from __future__ import annotations

import contextlib
import dataclasses
import math
from typing import TYPE_CHECKING

import numpy as np

from ..placement.balancing import actions, candidates
from ..placement.balancing.actions import Action
from ..placement.models import model
from ..placement.score import columns, scoring, state
from . import configured

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from ..cluster import cluster as clusters

TEMPLATES = frozenset(template.value for template in model.Template)
PLACES = {action: place for place, action in enumerate(actions.TO_TARGET)}
PLACES[Action.FAILOVER_TO_ANY] = PLACES[Action.REPLACE_PRIMARY]


class Prospects:
    """The scores after moves of one instance; making it costs O(nodes² + instances), a look O(nodes² + instances).

    Instances whose nodes have left the cluster, or whose disk template is unknown, count nowhere and have no scores.
    """

    def __init__(self, cluster: clusters.Cluster) -> None:
        known = {uuid: instance for uuid, instance in cluster.instances.items() if _is_known(cluster, instance)}
        self._state = state.build(configured.model_of(dataclasses.replace(cluster, instances=known)))
        nodes, index = self._state.nodes, self._state.nodes.index
        self._index = {node.uuid: index[node.name] for node in cluster.nodes.values()}
        self._uuids = {number: uuid for uuid, number in self._index.items()}
        self._candidates: dict[int, candidates.Candidates] = {}
        self._closed = {self._uuids[int(number)] for number in np.flatnonzero(nodes.offline)}

    def close(self, nodes: Collection[str]) -> None:
        """From now on these nodes (UUIDs) are offline to the score."""
        more = {uuid for uuid in nodes if uuid in self._index} - self._closed
        if more:
            self._state.nodes.offline[[self._index[uuid] for uuid in more]] = True
            self._closed |= more
            self._candidates.clear()

    def move(self, instance: clusters.Instance, *, primary: str, secondaries: tuple[str, ...]) -> None:
        """Put an instance on these nodes (UUIDs)."""
        number = self._state.by_instance.get(instance.name)
        if number is not None:
            second = self._index[secondaries[0]] if secondaries else columns.NOWHERE
            self._state.move(number, primary=self._index[primary], secondary=second)

    @contextlib.contextmanager
    def moved(self, instance: clusters.Instance, *, primary: str, secondaries: tuple[str, ...]) -> Iterator[None]:
        """As long as this lasts the instance is on these nodes."""
        number, held = self._state.by_instance.get(instance.name), self._state.instances
        if number is None:
            yield
            return
        here = (int(held.primary[number]), int(held.secondary[number]))
        self.move(instance, primary=primary, secondaries=secondaries)
        try:
            yield
        finally:
            self._state.move(number, primary=here[0], secondary=here[1])

    def scores(self, instance: clusters.Instance, action: Action) -> Mapping[str, float]:
        """By node (UUID) the score after this action with it as the new node; nodes without one are not in it."""
        number = self._state.by_instance.get(instance.name)
        if number is None:
            return {}
        looked = self._within(int(self._state.nodes.group[self._state.instances.primary[number]]))
        for block in looked.blocks(np.array([number])):
            scores = zip(block.targets.tolist(), block.moved[PLACES[action]][0].tolist(), strict=True)
            return {self._uuids[target]: round(score, 9) for target, score in scores if math.isfinite(score)}
        return {}

    def _within(self, group: int) -> candidates.Candidates:
        if group not in self._candidates:
            nodes = self._state.nodes
            mine = nodes.group == group
            where = scoring.Scope(np.flatnonzero(mine), np.flatnonzero(mine & ~nodes.offline))
            self._candidates[group] = candidates.in_scope(self._state, where, ignore_soft=True)
        return self._candidates[group]


def _is_known(cluster: clusters.Cluster, instance: clusters.Instance) -> bool:
    return instance.disk_template in TEMPLATES and all(node in cluster.nodes for node in instance.nodes)
