from __future__ import annotations

import dataclasses
from typing import Any

from ansible_collections.roundsman.cluster.plugins.module_utils.domain.disks import replicas
from ansible_collections.roundsman.cluster.plugins.plugin_utils.cluster import changes, left_replicas
from ansible_collections.roundsman.cluster.plugins.plugin_utils.cluster import cluster as clusters
from ansible_collections.roundsman.cluster.plugins.plugin_utils.opcodes import cluster_verify, contract, time_limits

from tests.unit import small_cluster

# In it, n1 and n2 are the candidates, n1 is the master, and only n3 has a BMC, by a helper program.
CLUSTER = small_cluster.make()
VERIFY = cluster_verify.ClusterVerify()


def with_node(uuid: str, **fields: Any) -> clusters.Cluster:
    return clusters.with_node(CLUSTER, dataclasses.replace(CLUSTER.node(uuid), **fields))


def test_programs_are_looked_for_on_the_candidates_and_power_is_read_where_there_is_oob() -> None:
    told = VERIFY.variables(CLUSTER)
    assert (told["candidates"], told["paths"], told["unseen"]) == (
        ["node1", "node2"],
        ["/bin/oob"],
        {},
    )
    assert [one["name"] for one in told["targets"]] == ["node3"]
    assert VERIFY.hosts(CLUSTER)[:2] == ["n1", "n2"]


def test_every_reachable_node_is_asked_what_runs_there_and_no_instance_is_held_meanwhile() -> None:
    asked = ["n1", "n2", "n3", "n10"]
    assert VERIFY.hosts(CLUSTER) == asked
    told = VERIFY.variables(CLUSTER)
    assert told["running"] == ["node1", "node2", "node3", "node10"]
    assert VERIFY.wants(CLUSTER) == dict.fromkeys([f"node/{uuid}" for uuid in asked], contract.SHARED)
    assert sorted(told["held"]) == sorted(asked)
    assert "inst1" in told["records"]
    assert VERIFY.hosts(with_node("n10", vm_capable=False)) == ["n1", "n2", "n3"]


def test_offline_and_drained_nodes_are_asked_too_but_none_that_is_recorded_as_off() -> None:
    offline = with_node("n3", offline=True)
    told = VERIFY.variables(offline)
    assert (told["running"], told["offline"], told["not_asked"]) == (["node1", "node2", "node10"], ["node3"], {})
    assert VERIFY.hosts(offline) == ["n1", "n2", "n10", "n3"]
    assert "node/n3" in VERIFY.wants(offline)
    assert VERIFY.variables(with_node("n3", drained=True))["running"] == ["node1", "node2", "node3", "node10"]
    for off in ({"powered": False}, {"off_confirmed": 5.0}):
        for role in ({}, {"offline": True}):
            known = with_node("n3", **off, **role)
            assert "n3" not in VERIFY.hosts(known)
            assert list(VERIFY.variables(known)["not_asked"]) == ["node3"]


def test_a_node_that_no_run_can_have_is_not_asked_and_named_with_the_reason() -> None:
    one = cluster_verify.ClusterVerify(refused={"node2": "its file is not root's", "node3": "its name is none"})
    cluster = with_node("n3", offline=True)
    told = one.variables(cluster)
    assert one.hosts(cluster) == ["n1", "n10"]
    assert (told["candidates"], told["unseen"]) == (["node1"], {"node2": "is not contacted"})
    assert (told["running"], told["offline"]) == (["node1", "node10"], [])
    assert told["refused"] == told["not_asked"] == one.refused


def test_offline_nodes_are_asked_all_at_once_and_the_others_by_default() -> None:
    assert VERIFY.forks(with_node("n3", offline=True)) == time_limits.FORKS
    nodes = {f"o{i}": dataclasses.replace(CLUSTER.node("n3"), uuid=f"o{i}", offline=True) for i in range(60)}
    assert VERIFY.forks(dataclasses.replace(CLUSTER, nodes={**CLUSTER.nodes, **nodes})) == cluster_verify.AT_ONCE


def test_a_candidate_out_of_reach_is_told_and_not_contacted() -> None:
    told = VERIFY.variables(with_node("n2", offline=True))
    assert (told["candidates"], told["unseen"]) == (["node1"], {"node2": "is not contacted"})


def test_built_in_drivers_need_no_look_at_anybody() -> None:
    told = VERIFY.variables(with_node("n3", ndparams={"oob_program": "ipmi"}))
    assert (told["candidates"], told["paths"]) == ([], [])


def test_host_variables_that_no_run_uses_are_verified_without_oob_too() -> None:
    old = {"ansible_connection": "local", "ansible_user": "ops", "ansible_host": "-oProxyCommand=x"}
    found = with_node("n3", ndparams={}, hostvars=old)
    assert VERIFY.moot(found) == ""
    assert VERIFY.variables(found)["ignored"] == {"node3": ["ansible_connection", "ansible_host"]}


def test_another_diagnose_command_is_verified_without_oob_too() -> None:
    one = cluster_verify.ClusterVerify(differing={"node2": "node2 runs other"})
    without = with_node("n3", ndparams={})
    assert one.moot(without) == ""
    assert one.variables(without)["differing"] == {"node2": "node2 runs other"}


def test_without_oob_and_instances_there_is_nothing_to_verify() -> None:
    empty = dataclasses.replace(with_node("n3", ndparams={}), instances={})
    assert VERIFY.moot(empty) == "no node has OOB, and there are no instances: there is nothing to verify"
    assert VERIFY.hosts(empty) == []
    assert VERIFY.moot(CLUSTER) == ""


def test_the_limit_grows_with_the_turns_of_nodes_that_are_asked_in_parallel_and_not_with_each() -> None:
    node = CLUSTER.node("n10")

    def limit(more: int) -> int:
        added = {f"m{n}": dataclasses.replace(node, uuid=f"m{n}", name=f"m{n}", ndparams={}) for n in range(more)}
        return VERIFY.time_limit(dataclasses.replace(CLUSTER, nodes={**CLUSTER.nodes, **added}))

    assert limit(1) == limit(0)
    assert limit(6) - limit(1) == limit(11) - limit(6) > 0
    assert VERIFY.variables(CLUSTER)["look_seconds"] >= time_limits.look()


def test_a_new_replica_that_may_be_written_is_told_of_the_primary_and_is_not_left_behind() -> None:
    making = left_replicas.ReplicaLeft("i1", "n10", present=True, is_new=True)
    told = VERIFY.variables(changes.apply(small_cluster.make(), making, now=9.0))
    assert told["left_behind"] == {}
    (degraded,) = told["degraded"]
    assert degraded["node"] == "node2"
    assert "inst1 may be written to a new replica on node10 and not to node3 any more" in degraded["text"]


def test_a_degraded_instance_is_told_with_what_to_do() -> None:
    parted = changes.InstanceParted("i1", replicas.Parted(5.0, 4.0, "n2"))
    (degraded,) = VERIFY.variables(changes.apply(small_cluster.make(), parted, now=9.0))["degraded"]
    assert "inst1 is degraded since" in degraded["text"]
    assert "restore the replication link between node2 and node3" in degraded["text"]
    assert degraded["text"].endswith("then run `roundsman instance repair-disks inst1`")


def test_nodes_that_are_not_asked_have_their_reason() -> None:
    def not_asked(cluster: clusters.Cluster) -> Any:
        return VERIFY.variables(cluster)["not_asked"]

    assert not_asked(CLUSTER) == {}
    assert not_asked(with_node("n3", powered=False)) == {"node3": "it is recorded as powered off"}
    assert not_asked(with_node("n10", off_confirmed=5.0)) == {"node10": "a person stated that it is off"}
    assert not_asked(with_node("n10", vm_capable=False, off_confirmed=5.0)) == {}


def test_failed_disks_are_findings_of_replicas() -> None:
    entry = {"node": "node2", "text": "the disk of inst1 on node2 has failed"}
    for one in (cluster_verify.ClusterVerify(failed_disks=[entry]), cluster_verify.ClusterVerify(unmeasured=[entry])):
        assert one.variables(CLUSTER)["degraded"] == [entry]
        assert one.moot(dataclasses.replace(with_node("n3", ndparams={}), instances={})) == ""
