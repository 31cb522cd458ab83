"""No two nodes are reached by SSH in one place: what one answers would count as the other's."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import pytest
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.values import errors
from ansible_collections.roundsman.cluster.plugins.plugin_utils.cluster import cluster as clusters
from ansible_collections.roundsman.cluster.plugins.plugin_utils.settings import addresses, joining, parameters

from tests.unit import small_cluster

if TYPE_CHECKING:
    from collections.abc import Callable


def cluster_of(**fields: object) -> clusters.Cluster:
    """Two nodes more than one: n1 has 192.0.2.1, n2 these fields."""
    made = small_cluster.make()
    first = dataclasses.replace(made.node("n1"), primary_ip="192.0.2.1")
    second = dataclasses.replace(made.node("n2"), primary_ip="192.0.2.2", **fields)  # type: ignore[arg-type]
    return clusters.with_node(clusters.with_node(made, first), second)


@pytest.mark.parametrize(
    ("hostvars", "is_refused"),
    [
        ({"ansible_host": "192.0.2.1"}, True),
        ({"ansible_host": "node1"}, True),
        ({"ansible_host": "NODE1"}, True),
        ({"ansible_host": "192.0.2.1", "ansible_port": "22"}, True),
        ({"ansible_host": "192.0.2.1", "ansible_port": "2202"}, False),
        ({"ansible_host": "192.0.2.2"}, False),
        ({"ansible_host": "127.0.0.1"}, False),
        ({"ansible_user": "ops"}, False),
    ],
)
def test_a_node_is_not_reached_where_another_one_is(hostvars: dict[str, str], *, is_refused: bool) -> None:
    cluster, fields = cluster_of(), {"hostvars": hostvars}
    refusal = "port 22, is where SSH reaches node1 already"
    attempts: tuple[Callable[[], object], ...] = (
        lambda: parameters.node_modify(cluster, "node2", fields),
        lambda: joining.add(cluster, "n9", {"name": "node9", "primary_ip": "192.0.2.9", "group": "rack one", **fields}),
    )
    for attempt in attempts[: 1 if hostvars.get("ansible_host") == "192.0.2.2" else 2]:
        if is_refused:
            with pytest.raises(errors.InvalidInput, match=refusal):
                attempt()
        else:
            attempt()
    found = addresses.doubled_places(cluster_of(**fields).nodes.values())
    assert (("n2", "n1") in [(node.uuid, other.uuid) for node, other in found]) is is_refused
    assert is_refused or not found


def test_a_node_takes_no_address_where_another_one_is_reached() -> None:
    cluster = cluster_of(hostvars={"ansible_host": "192.0.2.7"})
    with pytest.raises(errors.InvalidInput, match=r"192\.0\.2\.7, port 22, is where SSH reaches node2 already"):
        parameters.node_modify(cluster, "node1", {"primary_ip": "192.0.2.7"})


def test_two_nodes_behind_one_address_have_ports_of_their_own() -> None:
    made = cluster_of(hostvars={"ansible_host": "gate.example", "ansible_port": "2202"})
    fields = {"hostvars": {"ansible_host": "gate.example", "ansible_port": "2201"}}
    parameters.node_modify(made, "node1", fields)
    fields["hostvars"]["ansible_port"] = "2202"
    with pytest.raises(errors.InvalidInput, match=r"gate\.example, port 2202, is where SSH reaches node2 already"):
        parameters.node_modify(made, "node1", fields)
