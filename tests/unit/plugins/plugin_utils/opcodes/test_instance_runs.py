from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.values import errors
from ansible_collections.roundsman.cluster.plugins.plugin_utils.cluster import cluster as clusters
from ansible_collections.roundsman.cluster.plugins.plugin_utils.opcodes import contract, instance_runs

from tests.unit import small_cluster

CLUSTER = small_cluster.make()


PRIMARY = {"uuid": "n2", "name": "node2", "address": "node2"}


@pytest.mark.parametrize(("kind", "hosts"), [(instance_runs.Startup, ["n2", "n3"]), (instance_runs.Shutdown, ["n2"])])
def test_an_instance_is_started_and_stopped_on_its_primary(kind: Any, hosts: list[str]) -> None:
    one = kind("i1")
    nodes = {f"node/{uuid}": contract.SHARED for uuid in hosts}
    assert one.wants(CLUSTER) == {"instance/i1": contract.EXCLUSIVE, **nodes}
    assert one.hosts(CLUSTER) == hosts
    assert one.variables(CLUSTER)["primary"] == PRIMARY
    assert [member["uuid"] for member in one.variables(CLUSTER)["members"]] == hosts
    assert one.about() == ("i1",)
    assert one.moot(CLUSTER) == ""
    with pytest.raises(errors.NotFound):
        kind("gone").variables(CLUSTER)


def test_an_instance_starts_without_a_secondary_that_may_not_be_contacted() -> None:
    offline = clusters.with_node(CLUSTER, dataclasses.replace(CLUSTER.node("n3"), offline=True))
    assert instance_runs.Startup("i1").hosts(offline) == ["n2"]
    assert instance_runs.Startup("i1").variables(offline)["members"] == [PRIMARY]


def test_only_the_data_of_the_secondary_are_given_up_for_a_start() -> None:
    assert instance_runs.Startup("i1").variables(CLUSTER)["discarded"] == ""
    assert instance_runs.Startup("i1", "n3").variables(CLUSTER)["discarded"] == "node3"
    with pytest.raises(errors.Refused, match=r"node2 is not the secondary of .* any more: nothing is given up"):
        instance_runs.Startup("i1", "n2").variables(CLUSTER)


def moving(**primary: Any) -> clusters.Cluster:
    """A migration of inst1 from node2 to node3 has not ended."""
    cluster = clusters.with_node(CLUSTER, dataclasses.replace(CLUSTER.node("n2"), **primary))
    return clusters.with_instance(cluster, dataclasses.replace(cluster.instance("i1"), moving="n3"))


@pytest.mark.parametrize("discard", ["", "n3"])
def test_a_start_that_may_have_to_fail_over_does_not_skip_what_may_be_lost(discard: str) -> None:
    found = instance_runs.Startup("i1", discard).variables(moving())
    assert (found["ignore_consistency"], found["max_loss"]) == (False, -1)


def test_the_result_of_a_start_that_waits_for_a_person_as_a_failover_has_why() -> None:
    waits = {"reason": "it may lack some", "unblock": "a person", "basis": [120, 0.0, "n2", "n3"]}
    assert instance_runs.Startup("i1").outcome({"waits": waits}) == {"waits": waits}
    assert instance_runs.Startup("i1").outcome(None) is None


def test_a_start_on_a_primary_that_is_not_contacted_names_the_failover_to_where_a_migration_may_have_taken_it() -> None:
    assert instance_runs.Startup("i1").variables(moving())["unfinished"]
    with pytest.raises(errors.Refused, match=r"may run on node3: run `roundsman instance failover inst1`"):
        instance_runs.Startup("i1").variables(moving(offline=True))


class Facts:
    """What the daemon has followed of a node that is off."""

    def off(self, node: str) -> tuple[float, float]:
        assert node == "n3"
        return 1000.0, 7.5


def test_a_start_that_fails_over_from_where_a_migration_took_it_is_told_since_when_that_node_is_off() -> None:
    told: Any = Facts()
    assert instance_runs.Startup("i1").check_facts(moving(), told) == contract.Start((1000.0, 7.5))
    assert instance_runs.Startup("i1").check_facts(CLUSTER, told) is None
