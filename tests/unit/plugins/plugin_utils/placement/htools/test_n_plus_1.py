from __future__ import annotations

import hypothesis
import pytest
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.values import errors
from ansible_collections.roundsman.cluster.plugins.plugin_utils.placement.htools import n_plus_1
from ansible_collections.roundsman.cluster.plugins.plugin_utils.placement.models import model, node_memory
from hypothesis import strategies as st

from tests import thoroughness

from ...rounds import kinds, small_models

STARTS, NO_ROOM, NO_REPLICA = n_plus_1.Fate.STARTS, n_plus_1.Fate.NO_ROOM, n_plus_1.Fate.NO_REPLICA
UNMIRRORED, NOT_RUNNING = n_plus_1.Fate.UNMIRRORED, n_plus_1.Fate.NOT_RUNNING
PAIRS = """
node1 10240
node2 8192
node3 8192
web1 4096 node1 node3
web2 3072 node1 node3
web3 2048 node2 node3
own3 1000 node3 node1
"""


def _short(text: str) -> dict[tuple[str, ...], list[tuple[str, int, int, int]]]:
    return {
        failure.nodes: [(one.node, one.needed, one.free, one.missing) for one in failure.shortages]
        for failure in n_plus_1.not_survived(small_models.make(text))
    }


def _fates(text: str, *failed: str) -> dict[str, tuple[n_plus_1.Fate, str]]:
    failure = n_plus_1.what_if(small_models.make(text), failed=failed)
    return {one.instance: (one.fate, one.node) for one in failure.outcomes}


def test_a_failure_is_survived_while_the_secondaries_have_more_memory_free_than_they_need() -> None:
    assert _short(PAIRS) == {}
    assert _short(PAIRS.replace("own3 1000", "own3 1023")) == {}
    assert _short(PAIRS.replace("own3 1000", "own3 1024")) == {("node1",): [("node3", 7168, 7168, 1)]}
    assert _short(PAIRS.replace("own3 1000", "own3 2024")) == {("node1",): [("node3", 7168, 6168, 1001)]}


def test_memory_that_is_missing_counts_as_used() -> None:
    text = PAIRS.replace("node3 8192", "node3 8192 missing=500")
    assert _short(text) == {("node1",): [("node3", 7168, 6692, 477)]}


def test_who_has_no_place_is_the_one_whose_turn_comes_when_the_room_is_gone() -> None:
    model = small_models.make(PAIRS.replace("own3 1000", "own3 2024"))
    (failure,) = n_plus_1.not_survived(model)
    assert [
        (one.instance, one.fate, one.memory, one.free) for one in failure.outcomes if one.fate in {STARTS, NO_ROOM}
    ] == [
        ("web1", STARTS, 4096, 6168),
        ("web2", NO_ROOM, 3072, 2072),
    ]
    assert [one.text for one in failure.lost] == ["has no room on node3: 3072 MiB needed, 2072 MiB free"]


def test_for_n_plus_1_a_stopped_instance_counts_and_one_that_nobody_would_start_does_not() -> None:
    text = PAIRS.replace("own3 1000", "own3 2024")
    assert _short(text + "\n").keys() == {("node1",)}
    assert _short(text.replace("web2 3072 node1 node3", "web2 3072 node1 node3 down")).keys() == {("node1",)}
    assert _short(text.replace("web2 3072 node1 node3", "web2 3072 node1 node3 gone")) == {}
    assert _short(text.replace("web2 3072 node1 node3", "web2 3072 node1 node3 loose")) == {}


def test_what_has_no_copy_is_lost_with_its_node() -> None:
    text = "node1 4096\nnode2 4096\nnode3 4096 offline\nlone 1024 node1\nweb1 10 node2 node3"
    failures = n_plus_1.not_survived(small_models.make(text))
    assert [(failure.nodes, [one.text for one in failure.lost]) for failure in failures] == [
        (("node1",), ["has no other replica: its disks are plain on node1"]),
        (("node2",), ["has no other replica: node3 takes no instances"]),
    ]


def test_a_shared_instance_starts_where_most_is_free_in_its_group() -> None:
    text = "node1 4096\nnode2 4096\nnode3 6000\nnode4 9000 group=b\nnode5 9000 offline\n"
    text += "rbd1 2000 node1 rbd\nrbd2 2500 node1 rbd"
    assert _fates(text, "node1") == {"rbd1": (STARTS, "node2"), "rbd2": (STARTS, "node3")}
    text += "\nrbd3 3000 node1 rbd"
    failure = n_plus_1.what_if(small_models.make(text), failed=["node1"])
    assert [one.text for one in failure.lost] == []
    assert [one.text for one in n_plus_1.what_if(small_models.make(text), failed=["node1", "node3"]).lost] == [
        "has no room on node2: 2000 MiB needed, 1096 MiB free",
        "has no room on node2: 2500 MiB needed, 1096 MiB free",
    ]
    alone = "node1 4096\nnode2 9000 group=b\nrbd1 1 node1 rbd"
    (outcome,) = n_plus_1.what_if(small_models.make(alone), failed=["node1"]).lost
    assert outcome.text == "has no room: no other node of its group takes instances"


def test_a_pair_has_one_place_and_so_chooses_before_what_can_start_anywhere() -> None:
    text = "node1 8192\nnode2 4096\nnode3 4000\nrbd1 3000 node1 rbd\nweb1 2000 node1 node2"
    assert _fates(text, "node1") == {"rbd1": (STARTS, "node3"), "web1": (STARTS, "node2")}


def test_several_nodes_at_once_take_both_copies_and_the_room_of_their_neighbours() -> None:
    assert _fates(PAIRS, "node1", "node2") == {
        "web1": (STARTS, "node3"),
        "web2": (STARTS, "node3"),
        "web3": (NO_ROOM, "node3"),
        "own3": (UNMIRRORED, "node3"),
    }
    assert _fates(PAIRS, "node1", "node3") == {
        "web1": (NO_REPLICA, ""),
        "web2": (NO_REPLICA, ""),
        "web3": (UNMIRRORED, "node2"),
        "own3": (NO_REPLICA, ""),
    }
    failure = n_plus_1.what_if(small_models.make(PAIRS), failed=["node1", "node2", "node1"])
    assert failure.nodes == ("node1", "node2")
    assert failure.shortages == (n_plus_1.Shortage("node3", 9216, 7192),)


def test_only_who_runs_starts_and_who_need_not_comes_last() -> None:
    text = "node1 9000\nnode2 3000\nweb1 2000 node1 node2 down\nweb2 2000 node1 node2 loose\nweb3 1500 node1 node2"
    assert _fates(text, "node1") == {
        "web1": (NOT_RUNNING, ""),
        "web2": (NO_ROOM, "node2"),
        "web3": (STARTS, "node2"),
    }


def test_what_an_offline_node_holds_needs_its_room_too() -> None:
    text = PAIRS.replace("own3 1000", "own3 2024").replace("node1 10240", "node1 10240 offline")
    assert _short(text)[("node1",)] == [("node3", 7168, 6168, 1001)]


def test_a_node_that_is_not_there_is_named() -> None:
    with pytest.raises(errors.NotFound, match="there is no node 'node9'"):
        n_plus_1.what_if(small_models.make(PAIRS), failed=["node9"])


@thoroughness.tried(200)
@hypothesis.given(kinds.clusters(), st.data())
def test_each_instance_of_failed_nodes_has_one_fate_and_those_that_start_have_room(
    cluster: model.Model, data: st.DataObject
) -> None:
    names = [node.name for node in cluster.nodes]
    failed = data.draw(st.lists(st.sampled_from(names), min_size=1, max_size=3, unique=True))
    failure = n_plus_1.what_if(cluster, failed=failed)
    there = [one for one in cluster.instances if not one.forthcoming and {one.primary, one.secondary} & set(failed)]
    assert [one.instance for one in failure.outcomes] == [one.name for one in there]
    free = node_memory.free(cluster)
    serving = {node.name for node in cluster.nodes if node_memory.takes_instances(node)} - set(failed)
    for one, outcome in zip(there, failure.outcomes, strict=True):
        if outcome.fate is STARTS:
            assert outcome.node in serving
            assert one.secondary in {"", outcome.node}
            free[outcome.node] -= one.memory
            assert free[outcome.node] > 0
        assert (outcome.fate is UNMIRRORED) == (one.primary not in failed)
    for short in failure.shortages:
        assert short.missing > 0


@thoroughness.tried(200)
@hypothesis.given(kinds.clusters())
def test_who_is_short_is_who_has_less_free_than_another_nodes_pairs_need(cluster: model.Model) -> None:
    free = node_memory.free(cluster)
    serving = {node.name for node in cluster.nodes if node_memory.takes_instances(node)}
    expected: dict[tuple[str, str], int] = {}
    for one in cluster.instances:
        if one.reserves_memory and one.secondary in serving:
            key = (one.primary, one.secondary)
            expected[key] = expected.get(key, 0) + one.memory
    short = {key for key, needed in expected.items() if needed >= free[key[1]]}
    pairs = {one.name for one in cluster.instances if one.secondary}
    found = {
        (failure.nodes[0], one.node)
        for failure in n_plus_1.not_survived(cluster)
        for one in failure.lost
        if one.instance in pairs and one.fate is NO_ROOM
    }
    assert found == short
