from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.values import errors, ip_addresses
from ansible_collections.roundsman.cluster.plugins.plugin_utils.cluster import changes
from ansible_collections.roundsman.cluster.plugins.plugin_utils.cluster import cluster as clusters
from ansible_collections.roundsman.cluster.plugins.plugin_utils.settings import addresses, joining, parameters

from tests.unit import small_cluster

CLUSTER = small_cluster.make()


def after(stated: list[changes.Change], cluster: clusters.Cluster = CLUSTER) -> clusters.Cluster:
    return changes.apply_all(cluster, stated, now=99.0)


def dual_homed() -> clusters.Cluster:
    return after(parameters.node_modify(CLUSTER, "node1", {"secondary_ip": "10.0.0.1"}))


def of_version_6() -> clusters.Cluster:
    own = dataclasses.replace(CLUSTER.cluster, primary_ip_version=6)
    master = dataclasses.replace(CLUSTER.nodes["n1"], primary_ip="2001:db8::1", secondary_ip="10.0.0.1")
    return dataclasses.replace(clusters.with_node(CLUSTER, master), cluster=own)


def added(cluster: clusters.Cluster, **fields: Any) -> clusters.Node:
    stated = joining.add(cluster, "n9", {"name": "node9", "group": "other", **fields})
    return after(stated, cluster).node("node9")


@pytest.mark.parametrize(
    ("cluster", "fields", "told"),
    [
        (CLUSTER, {"primary_ip": "2001:db8::9"}, "primary_ip: '2001:db8::9' is no IPv4 address"),
        (CLUSTER, {"primary_ip": "192.0.2.1"}, "192.0.2.1 is an address of node1 already"),
        (dual_homed(), {"primary_ip": "10.0.0.1", "secondary_ip": "10.0.0.9"}, "10.0.0.1 is an address of node1"),
        (CLUSTER, {"primary_ip": "192.0.2.9", "secondary_ip": "10.0.0.9"}, "secondary_ip: the master node1 has no"),
        (dual_homed(), {"primary_ip": "192.0.2.9"}, "secondary_ip: the master node1 has a secondary address, and"),
        (dual_homed(), {"primary_ip": "192.0.2.9", "secondary_ip": "2001:db8::9"}, "secondary_ip: '2001:db8::9' is no"),
        (of_version_6(), {"primary_ip": "192.0.2.9", "secondary_ip": "10.0.0.9"}, "primary_ip: '192.0.2.9' is no IPv6"),
        (of_version_6(), {"primary_ip": "2001:db8::9"}, "secondary_ip: where primary addresses are IPv6"),
        (of_version_6(), {"secondary_ip": "10.0.0.9"}, "primary_ip: where primary addresses are IPv6"),
    ],
)
def test_a_node_with_addresses_that_do_not_fit_the_cluster_does_not_join(
    cluster: clusters.Cluster, fields: dict[str, str], told: str
) -> None:
    with pytest.raises(errors.InvalidInput) as refused:
        added(cluster, **fields)
    assert str(refused.value).startswith(told)


def test_nodes_are_reached_for_migrations_at_their_secondary_address() -> None:
    found = added(dual_homed(), primary_ip="192.0.2.9", secondary_ip="10.0.0.9")
    assert addresses.replicating(found) == "10.0.0.9"
    assert addresses.replicating(added(CLUSTER, primary_ip="192.0.2.9", secondary_ip="192.0.2.9")) == "192.0.2.9"
    assert addresses.replicating(added(of_version_6(), primary_ip="2001:db8::9", secondary_ip="10.0.0.9")) == "10.0.0.9"
    assert addresses.replicating(CLUSTER.node("node2")) == "node2"


def test_where_the_master_takes_no_instances_the_first_node_that_does_says_whether_there_are_secondary_addresses() -> (
    None
):
    bare = dataclasses.replace(dual_homed(), nodes={"n1": dataclasses.replace(CLUSTER.nodes["n1"], vm_capable=False)})
    first = added(bare, primary_ip="192.0.2.9", secondary_ip="10.0.0.9")
    assert first.secondary_ip == "10.0.0.9"
    assert added(bare, primary_ip="192.0.2.9").secondary_ip == ""
    two = clusters.with_node(bare, first)
    third = {"name": "node10", "group": "other", "primary_ip": "192.0.2.10"}
    with pytest.raises(errors.InvalidInput, match="secondary_ip: node9 has a secondary address, and node10 none"):
        joining.add(two, "n10", third)
    assert joining.add(two, "n10", {**third, "vm_capable": False})


def test_only_ipv6_addresses_are_in_brackets_in_a_url() -> None:
    assert [ip_addresses.bracketed(one) for one in ("2001:db8::1", "[::1]", "192.0.2.1", "bmc1")] == [
        "[2001:db8::1]",
        "[::1]",
        "192.0.2.1",
        "bmc1",
    ]


@pytest.mark.parametrize("offline", [True, False])
def test_a_node_that_joins_again_keeps_its_uuid_and_instances_and_is_offline_until_it_was_looked_at(
    *, offline: bool
) -> None:
    gone = dataclasses.replace(
        CLUSTER.nodes["n3"], offline=offline, powered=False, off_confirmed=5.0, off_since=5.0, primary_ip="192.0.2.3"
    )
    cluster = clusters.with_node(CLUSTER, gone)
    found = after(joining.again(cluster, "node3", {"name": "node3", "primary_ip": "192.0.2.33"}), cluster)
    node = found.node("node3")
    assert (node.uuid, node.offline, node.drained, node.powered) == ("n3", True, False, True)
    assert (node.off_confirmed, node.off_since) == (0.0, 0.0)
    assert (node.primary_ip, node.group, node.ndparams) == ("192.0.2.33", "g1", {"oob_program": "/bin/oob"})
    assert found.instances == CLUSTER.instances
    assert not node.master_candidate


def test_a_node_in_service_that_joins_again_becomes_a_candidate_while_the_pool_is_short() -> None:
    short = small_cluster.make(pool=3)
    assert after(joining.again(short, "node3", {}), short).node("node3").master_candidate


@pytest.mark.parametrize(
    ("name", "fields", "told"),
    [
        ("node9", {}, "there is no node 'node9'"),
        ("node1", {}, "node1 is the master"),
        ("node3", {"group": "other"}, "group: node3 is added again to the group that it has"),
        ("node3", {"secondary_ip": "10.0.0.3"}, "secondary_ip: node3 had none"),
        ("node3", {"vm_capable": False}, "node3 holds inst1: it stays vm_capable"),
        ("node3", {"primary_ip": "192.0.2.1"}, "192.0.2.1 is an address of node1 already"),
    ],
)
def test_what_is_another_node_than_before_does_not_join_again(name: str, fields: dict[str, Any], told: str) -> None:
    with pytest.raises(errors.RoundsmanError) as refused:
        joining.again(CLUSTER, name, fields)
    assert str(refused.value).startswith(told)


def test_addresses_are_looked_at_when_they_change() -> None:
    with pytest.raises(errors.InvalidInput, match="an address of node1 already"):
        parameters.node_modify(CLUSTER, "node2", {"primary_ip": "192.0.2.1"})
    found = dual_homed()
    assert after(parameters.node_modify(found, "node2", {"secondary_ip": "10.0.0.2"}), found).node("node2").secondary_ip


def test_a_node_stays_in_the_cluster_and_takes_instances_while_a_migration_may_have_taken_one_there() -> None:
    known = small_cluster.make()
    cluster = clusters.with_instance(known, dataclasses.replace(known.instances["i1"], moving="n10"))
    with pytest.raises(errors.Refused, match=r"may run on node10: run `roundsman instance start inst1`"):
        joining.remove(cluster, "node10")
    with pytest.raises(errors.Refused, match="node10 holds inst1: it stays vm_capable"):
        parameters.refuse_without_instances(cluster, dataclasses.replace(cluster.nodes["n10"], vm_capable=False))
