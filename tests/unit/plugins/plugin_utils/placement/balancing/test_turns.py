from __future__ import annotations

import random
from dataclasses import replace

import pytest
from ansible_collections.roundsman.cluster.plugins.plugin_utils.placement.balancing import turns
from ansible_collections.roundsman.cluster.plugins.plugin_utils.placement.models import model
from ansible_collections.roundsman.cluster.plugins.plugin_utils.placement.plan import Refusal
from ansible_collections.roundsman.cluster.plugins.plugin_utils.placement.score import columns, state
from hypothesis import given
from hypothesis import strategies as st

from tests import generated_clusters

from . import walking

A, B, C, D = range(4)
DISK, MEMORY = 10240, 2048


def _cluster(*instances: model.Instance, offline: str = "", memory: int = 8192, disk: int = 102400) -> state.State:
    used = {
        name: sum(one.memory for one in instances if one.primary == name and one.status == "running")
        for name in ("a", "b", "c", "d")
    }
    full = {name: sum(one.disk for one in instances if name in {one.primary, one.secondary}) for name in used}
    nodes = tuple(
        model.Node(
            *(name, "g", memory, 0, memory - used[name], disk, disk - full[name], 16),
            offline=name in offline,
        )
        for name in used
    )
    return state.build(model.Model((model.Group("g", "g"),), nodes, instances))


def _pair(name: str = "one", primary: str = "a", secondary: str = "b", memory: int = MEMORY) -> model.Instance:
    return model.Instance(name, memory, DISK, 1, "running", auto_balance=True, primary=primary, secondary=secondary)


@pytest.mark.parametrize(
    ("place", "action"),
    [
        ((B, A), "f"),
        ((A, C), "r:c"),
        ((B, C), "f r:c"),
        ((C, A), "r:c f"),
        ((C, B), "f r:c f"),
        ((C, D), "r:c f r:d"),
    ],
)
def test_an_instance_gets_to_each_place_with_a_copy_on_the_way_at_all_times(place: turns.Place, action: str) -> None:
    found = turns.ordered(_cluster(_pair()), {0: place})
    (turn,) = found.turns
    assert turn.move.action == action
    assert (turn.primary, turn.secondary) == tuple("abcd"[node] for node in place)
    assert found.data_gib * 1024 == action.count("r") * DISK + action.count("f") * MEMORY


def test_from_an_offline_primary_the_instance_starts_on_its_copy_first() -> None:
    found = turns.ordered(_cluster(_pair(), offline="a"), {0: (C, D)})
    assert [turn.move.action for turn in found.turns] == ["f r:c f r:d"]


def test_an_instance_on_shared_storage_runs_elsewhere_in_one_step() -> None:
    one = replace(_pair(secondary=""), template=model.Template.RBD)
    found = turns.ordered(_cluster(one), {0: (C, columns.NOWHERE)})
    assert [(turn.move.action, turn.primary, turn.secondary) for turn in found.turns] == [("f:c", "c", "")]


def test_where_an_instance_is_already_nothing_is_done() -> None:
    assert turns.ordered(_cluster(_pair()), {0: (A, B)}) == turns.Schedule()


def test_moves_that_share_no_node_run_side_by_side_and_others_wait() -> None:
    cluster = _cluster(_pair("one", "a", "b"), _pair("two", "c", "d"), _pair("three", "a", "b", memory=128))
    found = turns.ordered(cluster, {0: (B, A), 1: (D, C), 2: (B, A)})
    assert [(turn.move.instance, turn.wave) for turn in found.turns] == [("one", 0), ("two", 0), ("three", 1)]
    assert found.waves == 2
    assert found.turns[-1].move.after == ("one",)
    assert found.turns[-1].start == found.turns[0].seconds
    assert found.seconds == found.turns[-1].start + found.turns[-1].seconds


def test_a_move_waits_for_the_room_that_another_one_makes() -> None:
    cluster = _cluster(_pair("large", "a", "b", memory=3072), _pair("next", "b", "c", memory=2048), memory=4096)
    found = turns.ordered(cluster, {0: (B, A), 1: (C, D)})
    assert [turn.move.instance for turn in found.turns] == ["next", "large"]
    assert found.kept == ()


def test_what_never_has_room_stays_and_says_why() -> None:
    two = replace(_pair("two", "c", "b", memory=2048), auto_balance=False)
    cluster = _cluster(_pair("one", "a", "b", memory=3072), two, memory=4096)
    found = turns.ordered(cluster, {0: (B, A), 1: (B, C)})
    assert [turn.move.instance for turn in found.turns] == ["one"]
    assert found.kept == (Refusal("two", "b would lack 1024 MiB of memory"),)
    assert cluster.placement() == {"one": ("b", "a"), "two": ("c", "b")}


def test_a_step_that_would_take_what_starts_when_a_node_fails_is_not_taken() -> None:
    reserved = _pair("kept", "d", "b", memory=3072)
    cluster = _cluster(_pair("one", "a", "c", memory=2048), reserved, memory=4096)
    found = turns.ordered(cluster, {0: (B, A)})
    assert found.kept == (Refusal("one", "b would lack 1024 MiB for what starts there when another node fails"),)


@given(seed=st.integers(0, 10_000), share=st.floats(0.1, 1.0))
def test_whatever_is_wanted_each_step_in_order_has_its_room_and_the_end_is_as_promised(seed: int, share: float) -> None:
    cluster = generated_clusters.make(nodes=6, instances=24, seed=seed, offline=seed % 2, exclusion=seed % 3 == 0)
    searched = state.build(cluster)
    chance = random.Random(seed)
    online = [number for number, one in enumerate(cluster.nodes) if not one.offline]
    wanted = {
        number: (pair[0], pair[1])
        for number in range(len(cluster.instances))
        if chance.random() < share and (pair := chance.sample(online, 2))
    }
    found = turns.ordered(searched, wanted)
    again = state.build(cluster)
    for turn in found.turns:
        for primary, secondary in walking.places(again, turn.move):
            before = (again.nodes.memory.copy(), again.nodes.disk.copy())
            again.move(again.by_instance[turn.move.instance], primary=primary, secondary=secondary)
            assert primary != secondary
            for now, was in zip((again.nodes.memory, again.nodes.disk), before, strict=True):
                assert not ((now < 0) & (now < was)).any()
    assert again.placement() == searched.placement()
    moved = {turn.move.instance for turn in found.turns}
    stays = {refusal.subject for refusal in found.kept}
    names = searched.nodes.names
    for number, place in wanted.items():
        name = cluster.instances[number].name
        if name in stays:
            assert name not in moved
        else:
            assert again.placement()[name] == tuple(names[node] for node in place)


def test_the_same_question_has_the_same_plan() -> None:
    cluster = generated_clusters.make(nodes=6, instances=24, seed=3)
    wanted = {number: (number % 5, 5) for number in range(24)}
    assert turns.ordered(state.build(cluster), wanted) == turns.ordered(state.build(cluster), wanted)
