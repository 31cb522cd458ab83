from __future__ import annotations

import random
from dataclasses import fields, replace
from typing import TYPE_CHECKING

import hypothesis
import numpy as np
import pytest
from ansible_collections.roundsman.cluster.plugins.plugin_utils.placement.models import tags
from ansible_collections.roundsman.cluster.plugins.plugin_utils.placement.score import (
    columns,
    oracle,
    scoring,
    settling,
    state,
)
from hypothesis import strategies as st

from ...rounds import kinds, small_models

if TYPE_CHECKING:
    from ansible_collections.roundsman.cluster.plugins.plugin_utils.placement.models import model

FEW = hypothesis.settings(max_examples=30, deadline=None)


def moved(found: state.State, *, seed: int, count: int) -> list[state.Undo]:
    """Moves wherever, whether it fits or not."""
    chance, done = random.Random(seed), []
    for _ in range(count if found.instances.names else 0):
        instance = chance.randrange(len(found.instances.names))
        primary, secondary = chance.sample(range(len(found.nodes.names)), 2)
        mirrored = bool(found.instances.mirrored[instance])
        done.append(found.move(instance, primary=primary, secondary=secondary if mirrored else columns.NOWHERE))
    return done


def numbers(found: state.State) -> dict[str, columns.Numbers]:
    values = {one.name: getattr(found.nodes, one.name) for one in fields(columns.Nodes)}
    return {name: value.copy() for name, value in values.items() if isinstance(value, np.ndarray)}


def one_by_one(made: state.State) -> dict[str, columns.Numbers]:
    """The columns of the nodes when each instance is counted by itself, where it is."""
    tag_ids, location_ids = ({name: at for at, name in enumerate(names)} for names in (made.tags, made.locations))
    nodes = columns.nodes_of(made.cluster, tags.steering(made.cluster), tag_ids=tag_ids, location_ids=location_ids)
    found, started = replace(made, nodes=nodes), np.zeros(len(nodes.names))
    nodes.memory_expected[:] = made.f_mem
    for number, one in enumerate(made.cluster.instances):
        for node in (found.instances.primary[number], found.instances.secondary[number]):
            if node != columns.NOWHERE and not one.forthcoming:
                for free in (nodes.disk, nodes.disk_expected):
                    free[node] += found.instances.disk[number]
                for free in (nodes.free_spindles, nodes.free_spindles_expected):
                    free[node] += found.instances.own_spindles[number]
        started[found.instances.primary[number]] += one.memory * one.takes_memory
        found.count(number, state.TAKEN)
    for node in range(len(nodes.names)):
        found.rank(node)
    nodes.memory -= np.maximum(0.0, nodes.memory - (made.f_mem - started))
    return numbers(found)


def unevenly_loaded(cluster: model.Model, *, seed: int) -> model.Model:
    """Loads whose sum depends on the order in which they are added."""
    chance = random.Random(seed)
    loads = [replace(one.load, cpu=chance.random(), disk=chance.random() * 1e6) for one in cluster.instances]
    found = (replace(one, load=load) for one, load in zip(cluster.instances, loads, strict=True))
    return replace(cluster, instances=tuple(found))


@FEW
@hypothesis.given(kinds.clusters(), st.integers(0, 99), st.booleans())
def test_all_instances_at_once_are_counted_as_one_by_one(cluster: model.Model, seed: int, uneven: bool) -> None:
    found = state.build(unevenly_loaded(cluster, seed=seed) if uneven else cluster)
    wanted = one_by_one(found)
    for name, value in numbers(found).items():
        assert np.array_equal(value, wanted[name]), name


def as_model(found: state.State) -> model.Model:
    """The cluster of a state with its instances where they are now; free memory and disk follow them."""
    placed = found.placement()
    instances = (
        replace(one, primary=placed[one.name][0], secondary=placed[one.name][1]) for one in found.cluster.instances
    )
    held = found.instances
    started = settling.by_node(held.primary, held.started, len(found.nodes.names))
    nodes = (
        replace(
            node,
            f_mem=int(found.f_mem[number] - started[number]),
            f_disk=int(found.nodes.disk[number]),
            free_spindles=int(found.nodes.free_spindles[number]),
        )
        for number, node in enumerate(found.cluster.nodes)
    )
    return replace(found.cluster, instances=tuple(instances), nodes=tuple(nodes))


@FEW
@hypothesis.given(kinds.clusters())
def test_a_state_that_nothing_moved_in_is_its_model(cluster: model.Model) -> None:
    assert as_model(state.build(cluster)) == cluster


@FEW
@hypothesis.given(kinds.clusters(), st.integers(0, 99))
def test_after_moves_it_is_as_if_made_of_the_model_it_has_become(cluster: model.Model, seed: int) -> None:
    found = state.build(cluster)
    moved(found, seed=seed, count=12)
    again = state.build(as_model(found))
    assert again.placement() == found.placement()
    fresh = numbers(again)
    for name, value in numbers(found).items():
        if name != "reserved_for":
            assert np.array_equal(value, fresh[name]), name


@FEW
@hypothesis.given(kinds.clusters(), st.integers(0, 99))
def test_undone_moves_leave_nothing_behind(cluster: model.Model, seed: int) -> None:
    found = state.build(cluster)
    before = numbers(found)
    for undo in reversed(moved(found, seed=seed, count=12)):
        found.undo(undo)
    assert found.placement() == {one.name: (one.primary, one.secondary) for one in cluster.instances}
    after = numbers(found)
    assert all(np.array_equal(value, after[name]) for name, value in before.items() if name != "reserved_for")


@FEW
@hypothesis.given(kinds.clusters(), st.integers(0, 99))
def test_its_score_is_the_oracles_to_the_last_bit(cluster: model.Model, seed: int) -> None:
    found = state.build(cluster)
    for _ in range(3):
        moved(found, seed=seed, count=3)
        for group in cluster.groups:
            where = scoring.scope(found, group=group.name)
            told = oracle.components(cluster, found.placement(), group=group.name)
            assert scoring.components(found, where) == told
        assert scoring.score(found, scoring.scope(found)) == oracle.score(cluster, found.placement())


def test_the_two_largest_reservations_of_a_node_are_known() -> None:
    found = state.build(
        small_models.make("node1 9\nnode2 9\nnode3 9\na 3 node1 node3\nb 2 node2 node3\nc 2 node2 node3")
    )
    assert (found.nodes.reserved[2], found.nodes.reserved_for[2], found.nodes.reserved_next[2]) == (4, 1, 3)
    found.move(2, primary=1, secondary=0)
    assert (found.nodes.reserved[2], found.nodes.reserved_for[2], found.nodes.reserved_next[2]) == (3, 0, 2)


def test_free_memory_lacks_what_was_missing_at_first() -> None:
    made = small_models.make("node1 4096 missing=1000\nnode2 4096\nweb 1024 node1 node2")
    found = state.build(made)
    assert list(found.nodes.memory) == [2072, 4096]
    found.move(0, primary=1, secondary=0)
    assert list(found.nodes.memory) == [3096, 3072]
    assert as_model(found).nodes == tuple(
        replace(one, f_mem=free) for one, free in zip(made.nodes, (3096, 3072), strict=True)
    )


def test_a_node_without_disks_counts_as_free() -> None:
    made = small_models.make("node1 4096 disk=0\nnode2 4096 disk=100\nweb 1024 node2 disk=50")
    found = state.build(made)
    assert scoring.components(found, scoring.scope(found))["free_disk_cv"] == pytest.approx(0.25)
    assert oracle.components(made)["free_disk_cv"] == pytest.approx(0.25)
