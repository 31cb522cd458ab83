"""Settings about silent nodes that cannot work are named, with what helps."""

from __future__ import annotations

import dataclasses

import pytest
from ansible_collections.roundsman.cluster.plugins.plugin_utils.cluster import cluster as clusters
from ansible_collections.roundsman.cluster.plugins.plugin_utils.silent_nodes import dead_node_settings


def asking(**settings: object) -> clusters.Cluster:
    """Nodes that agents are asked of, with these settings beside those of a minute's polls."""
    cluster = clusters.Cluster(
        clusters.Parameters("c", "c", "n1"),
        nodegroups={"g": clusters.Group("g", "default")},
        nodes={f"n{one}": clusters.Node(f"n{one}", f"node{one}", "g") for one in range(1, 7)},
    )
    known: dict[str, object] = {"agent_port": 1815, "dead_after": 5, "dead_node_policy": "failover", **settings}
    stands = dataclasses.replace(cluster.maintenance.settings, **known)  # type: ignore[arg-type]
    return dataclasses.replace(cluster, maintenance=clusters.Maintenance(settings=stands))


@pytest.mark.parametrize(("changed", "is_told"), [({}, True), ({"dead_node_policy": "none", "dead_after": 0}, False)])
def test_settings_about_silent_nodes_do_nothing_without_agents_and_the_nodes_and_the_remedy_are_named(
    changed: dict[str, object], *, is_told: bool
) -> None:
    text = dead_node_settings.without_agents(asking(agent_port=0, **changed))
    assert bool(text) is is_told
    if is_told:
        assert text.startswith("dead_after=5 and dead_node_policy=failover do nothing for node1, node2, node3")
        assert "roundsman.cluster.node_agent" in text
        assert "`roundsman cluster modify agent_port=1815`" in text
    assert dead_node_settings.without_agents(asking(**changed)) == ""


def test_limits_that_the_detection_of_a_dead_node_cannot_meet_and_large_ones_are_told() -> None:
    assert dead_node_settings.problems(asking()) == [], "the defaults do"
    slow = dataclasses.replace(asking().cluster, failover_max_loss=114)
    (text,) = dead_node_settings.problems(dataclasses.replace(asking(), cluster=slow))
    assert text.startswith("failover_max_loss is 114 s, and a dead node's failover may lose 115 s (diagnose_interval")
    assert "not every one goes on unattended" in text
    group = dataclasses.replace(asking().nodegroups["g"], failover_max_loss=601)
    large = dataclasses.replace(asking(), nodegroups={"g": group})
    (text,) = dead_node_settings.problems(large)
    assert text.startswith(
        "failover_max_loss of the node group default is 601 s: a failover that nobody ordered may lose"
    )
    assert dead_node_settings.problems(asking(dead_node_policy="none")) == []
    (text,) = dead_node_settings.problems(asking(dead_after=0))
    assert "dead_node_policy=failover does nothing: dead_after is 0" in text
    assert len(dead_node_settings.problems(asking(agent_port=0))) == 1
