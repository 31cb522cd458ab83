from __future__ import annotations

import dataclasses
from typing import Any

from ansible_collections.roundsman.cluster.plugins.module_utils.domain import cluster as clusters
from ansible_collections.roundsman.cluster.plugins.plugin_utils.opcodes import cluster_verify, contract

from tests.unit import small_cluster

# In it, n1 and n2 are the candidates, n1 is the master, and only n3 has a BMC, by a helper program.
CLUSTER = small_cluster.make()
VERIFY = cluster_verify.ClusterVerify()


def with_node(uuid: str, **fields: Any) -> clusters.Cluster:
    return clusters.with_node(CLUSTER, dataclasses.replace(CLUSTER.node(uuid), **fields))


def test_programs_are_looked_for_on_the_candidates_and_power_is_read_where_there_is_oob() -> None:
    told = VERIFY.variables(CLUSTER)
    assert (told["cluster_candidates"], told["cluster_paths"], told["cluster_unseen"]) == (
        ["node1", "node2"],
        ["/bin/oob"],
        {},
    )
    assert [one["name"] for one in told["cluster_targets"]] == ["node3"]
    assert VERIFY.hosts(CLUSTER) == ["n1", "n2"]
    assert VERIFY.wants(CLUSTER) == dict.fromkeys(["node/n1", "node/n2", "node/n3"], contract.SHARED)
    assert told["cluster_held"] == ["n1", "n2", "n3"]


def test_a_candidate_out_of_reach_is_told_and_not_contacted() -> None:
    told = VERIFY.variables(with_node("n2", offline=True))
    assert (told["cluster_candidates"], told["cluster_unseen"]) == (["node1"], {"node2": "is not contacted"})


def test_built_in_drivers_need_no_look_at_anybody() -> None:
    told = VERIFY.variables(with_node("n3", ndparams={"oob_program": "ipmi"}))
    assert (told["cluster_candidates"], told["cluster_paths"]) == ([], [])


def test_host_variables_that_no_run_uses_are_verified_without_oob_too() -> None:
    old = {"ansible_connection": "local", "ansible_user": "ops", "ansible_host": "-oProxyCommand=x"}
    found = with_node("n3", ndparams={}, hostvars=old)
    assert VERIFY.moot(found) == ""
    assert VERIFY.variables(found)["cluster_ignored"] == {"node3": ["ansible_connection", "ansible_host"]}


def test_another_diagnose_command_is_verified_without_oob_too() -> None:
    one = cluster_verify.ClusterVerify(differing={"node2": "node2 runs other"})
    without = with_node("n3", ndparams={})
    assert one.moot(without) == ""
    assert one.variables(without)["cluster_differing"] == {"node2": "node2 runs other"}


def test_without_oob_there_is_nothing_to_verify() -> None:
    assert VERIFY.moot(with_node("n3", ndparams={})) == "no node supports OOB commands: there is nothing to verify"
    assert VERIFY.moot(CLUSTER) == ""
