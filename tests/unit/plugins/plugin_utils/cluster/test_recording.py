from __future__ import annotations

import json

import pytest
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.values import errors
from ansible_collections.roundsman.cluster.plugins.plugin_utils.cluster import (
    changes,
    left_replicas,
    membership,
    recording,
    tagging,
)
from ansible_collections.roundsman.cluster.plugins.plugin_utils.cluster import cluster as clusters
from ansible_collections.roundsman.cluster.plugins.plugin_utils.cluster.locks import Mode

RECORDED: list[changes.Change] = [
    changes.InstanceNodes("i1", "n3", ("n10",)),
    changes.InstanceState("i1", "down"),
    changes.NodeRole("n3", drained=True, offline=False, master_candidate=False),
    changes.NodePowered("n3", powered=False),
    changes.NodeLived("n3", at=5.5),
    membership.InstanceMade("i1"),
    membership.InstanceGone("i1"),
    left_replicas.ReplicaLeft("i1", "n3", present=True, is_new=True, generations=("00000000000000a0",)),
]
OTHERS: list[changes.Change] = [
    tagging.Tagged("cluster", "", "new", present=True),
    changes.IncidentForgotten("aaaa-1"),
    changes.RoundStands(4, (9,)),
    changes.SettingsStand(clusters.Settings(paused="tea")),
]


@pytest.mark.parametrize("change", RECORDED, ids=str)
def test_a_recorded_change_survives_its_line(change: changes.Change) -> None:
    assert recording.decode(json.loads(json.dumps(recording.encode(change)))) == change


def test_a_replica_that_an_older_version_recorded_has_no_generations() -> None:
    told = {"change": "replica_left", "instance": "i1", "node": "n3", "present": True, "is_new": True}
    assert recording.decode(told) == left_replicas.ReplicaLeft("i1", "n3", present=True, is_new=True)
    with pytest.raises(errors.InvalidInput, match="generations"):
        recording.decode({**told, "generations": [160]})


def test_a_sign_of_life_without_its_time_is_one_of_now() -> None:
    assert recording.decode({"change": "node_lived", "node": "n3"}) == changes.NodeLived("n3")


@pytest.mark.parametrize("change", OTHERS, ids=str)
def test_a_play_records_nothing_else(change: changes.Change) -> None:
    with pytest.raises(errors.InvalidInput):
        recording.encode(change)
    with pytest.raises(errors.InvalidInput):
        recording.lock_of(change)


def test_whoever_records_holds_the_object() -> None:
    instance, node = "instance/i1", "node/n3"
    assert [recording.lock_of(one) for one in RECORDED] == [instance, instance, *[node] * 3, *[instance] * 3]


def test_a_sign_of_life_may_be_recorded_by_whoever_shares_the_node() -> None:
    shared, alone = {"node/n3": Mode.SHARED}, {"node/n3": Mode.EXCLUSIVE}
    recording.refuse_unheld(shared, changes.NodeLived("n3"))
    recording.refuse_unheld(alone, changes.NodePowered("n3", powered=False))
    with pytest.raises(errors.Refused, match="only shared"):
        recording.refuse_unheld(shared, changes.NodePowered("n3", powered=False))
    recording.refuse_unheld({**shared, "node-res/n3": Mode.EXCLUSIVE}, changes.NodePowered("n3", powered=False))
    with pytest.raises(errors.Refused, match="only shared"):
        recording.refuse_unheld(
            {**alone, "node/n3": Mode.SHARED, "node-res/n2": Mode.EXCLUSIVE}, changes.NodePowered("n3", powered=False)
        )
    with pytest.raises(errors.Refused, match="not held"):
        recording.refuse_unheld({}, changes.NodeLived("n3"))


@pytest.mark.parametrize(
    ("value", "field"),
    [
        ({"change": "node_powered", "node": "n1"}, "powered"),
        ({"change": "node_powered", "node": "n1", "powered": "yes"}, "powered"),
        ({"change": "node_powered", "node": "n1", "powered": 1}, "powered"),
        ({"change": "node_powered", "node": 1, "powered": True}, "node"),
        ({"change": "node_powered", "node": "n1", "powered": True, "why": "x"}, "why"),
        ({"change": "instance_nodes", "instance": "i1", "primary": "n1", "secondaries": "n2"}, "secondaries"),
        ({"change": "instance_nodes", "instance": "i1", "primary": "n1", "secondaries": [1]}, "secondaries"),
        ({"change": "node_lived", "node": "n1", "at": float("inf")}, "at"),
        ({"change": "node_lived", "node": "n1", "at": float("nan")}, "at"),
        ({"change": "node_lived", "node": "n1", "at": -1}, "at"),
        ({"change": "node_lived", "node": "n1", "at": True}, "at"),
        ({"change": "node_lived", "node": "n1", "at": None}, "at"),
        ({"change": "tagged"}, "tagged"),
        ({}, "None"),
        ([], r"\[\]"),
        (5, "5"),
    ],
)
def test_a_wrong_line_is_refused_with_the_name_of_the_field(value: dict[str, object], field: str) -> None:
    with pytest.raises(errors.InvalidInput, match=field):
        recording.decode(value)
