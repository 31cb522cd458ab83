"""Small clusters of many kinds, for hypothesis: what balances, and what stands in its way."""

from __future__ import annotations

import random
from dataclasses import replace

from ansible_collections.roundsman.cluster.plugins.plugin_utils.placement.models import model
from hypothesis import strategies as st

from tests import generated_clusters

MIGRATION = ("htools:migration:kernel", "htools:allowmigration:kernel:1::kernel:2")


@st.composite
def clusters(draw: st.DrawFn) -> model.Model:
    """Two to seven nodes in one or two groups; each kind of trouble comes and goes by itself."""
    nodes = draw(st.integers(2, 7))
    groups = draw(st.integers(1, 2)) if nodes > 3 else 1
    made = generated_clusters.make(
        nodes=nodes,
        instances=draw(st.integers(0, 5 * nodes)),
        seed=draw(st.integers(0, 10_000)),
        groups=groups,
        offline=draw(st.integers(0, 2)) if nodes > 3 else 0,
        exclusion=draw(st.booleans()),
        locations=draw(st.booleans()),
        shared=draw(st.sampled_from((0.0, 0.3))),
        plain=draw(st.sampled_from((0.0, 0.2))),
        stopped=draw(st.sampled_from((0.0, 0.3))),
        split=draw(st.integers(0, 2)) if groups > 1 else 0,
    )
    for change in (forthcoming, loaded, exclusive, migrating, tight):
        if draw(st.integers(0, 3)) == 0:
            made = change(made)
    return made


def forthcoming(cluster: model.Model) -> model.Model:
    """Every fifth instance is promised, but not made."""
    found = (replace(one, forthcoming=number % 5 == 0) for number, one in enumerate(cluster.instances))
    return replace(cluster, instances=tuple(found))


def loaded(cluster: model.Model) -> model.Model:
    """Measured loads, in eighths."""
    chance = random.Random(len(cluster.instances))

    def load() -> model.Load:
        return model.Load(*(chance.randrange(16) / 8 for _ in range(4)))

    return replace(cluster, instances=tuple(replace(one, load=load()) for one in cluster.instances))


def exclusive(cluster: model.Model) -> model.Model:
    """Every other node has exclusive storage."""
    nodes = (
        replace(one, exclusive_storage=number % 2 == 0, free_spindles=3) for number, one in enumerate(cluster.nodes)
    )
    found = (replace(one, spindles=int(one.template.is_on_volumes)) for one in cluster.instances)
    return replace(cluster, nodes=tuple(nodes), instances=tuple(found))


def migrating(cluster: model.Model) -> model.Model:
    """Three kernels; the first's instances move to the second's nodes, and not back."""
    nodes = (replace(one, tags=(*one.tags, f"kernel:{number % 3 + 1}")) for number, one in enumerate(cluster.nodes))
    return replace(cluster, nodes=tuple(nodes), tags=(*cluster.tags, *MIGRATION))


def tight(cluster: model.Model) -> model.Model:
    """Memory is missing on all nodes, and some fail N+1."""
    nodes = (replace(one, f_mem=one.f_mem // (2 + 6 * (number % 2))) for number, one in enumerate(cluster.nodes))
    return replace(cluster, nodes=tuple(nodes))


def failing(cluster: model.Model) -> model.Model:
    """Every node has about as much memory free as it reserves: a little more, or a little less."""
    nodes = []
    for number, one in enumerate(cluster.nodes):
        reserved: dict[str, int] = {one.name: 0}
        for mine in cluster.instances:
            if mine.secondary == one.name and mine.reserves_memory:
                reserved[mine.primary] = reserved.get(mine.primary, 0) + mine.memory
        nodes.append(replace(one, f_mem=max(0, max(reserved.values()) + 3000 * (number % 3 - 1))))
    return replace(cluster, nodes=tuple(nodes))
