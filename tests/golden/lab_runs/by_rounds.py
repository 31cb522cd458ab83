"""What rounds do by themselves: a node's report comes in, and its end is awaited."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from ansible_collections.roundsman.cluster.plugins.plugin_utils.cluster import cluster as clusters

from tests.integration import labs, states
from tests.unit.daemon.lab import replicas

from .story import Scenario

if TYPE_CHECKING:
    from .story import Story

OK = {"status": "Ok"}
EVACUATE = {"status": "evacuate", "details": {"disk": "sdb"}}
REPAIR = {"status": "live-repair", "command": "lab-repair", "details": {"fan": 2}}
ENDED = ("completed", "failed", "canceled")
LEFT, MEMORY = "instance1", 2048


def with_plain_disk(cluster: clusters.Cluster) -> clusters.Cluster:
    """The first instance has its only replica on its primary."""
    instance = dataclasses.replace(cluster.instance(LEFT), disk_template="plain", secondary_nodes=())
    return clusters.with_instance(cluster, instance)


def evacuation_and_return(story: Story) -> None:
    story.report("node2", EVACUATE)
    incident = story.await_incident("node2", *ENDED)
    story.command("explain", "node2")
    story.call("PUT", f"/2/incidents/{incident['id']}/ack?")
    story.until(states.forgotten("node2"), "the acknowledged incident is forgotten")
    story.note("the incident is forgotten")
    story.run("PUT", "/2/nodes/node2/role", "online")
    story.run("PUT", "/2/nodes/node2/power", {"command": "on"})
    story.lab.node("node2").break_with(OK)
    story.note("the diagnose command of node2 says Ok")
    story.run("PUT", "/2/nodes/node2/role", "online")


def impossible_evacuation(story: Story) -> None:
    instance = story.cluster().instance(LEFT)
    replicas.remove(story.lab, "node3", LEFT, instance.uuid)
    story.note(f"{LEFT} has its only disk on node2")
    story.report("node2", EVACUATE)
    story.await_incident("node2", *ENDED)


def failover_of_a_silent_node(story: Story) -> None:
    labs.report_all(story)
    story.lab.node("node2").silence(is_silent=True)
    story.note("all nodes have reported Ok; node2 answers no more, and its BMC reads on")
    story.report("node2", {"status": "evacuate-failover"})
    story.await_incident("node2", *ENDED)
    story.command("explain", "node2")
    story.lab.node("node2").set_power(False)
    story.note("node2 is powered off by a person")
    # How long reports count is a clock's matter, and a person does without them.
    story.run("PUT", "/2/instances/instance1/failover", {"ignore_consistency": True})


def live_repairs(story: Story) -> None:
    story.report("node2", REPAIR)
    story.await_incident("node2", *ENDED)
    (story.lab.node("node3").root / "lab/repair-fails").touch()
    story.note("the repair command of node3 fails")
    story.report("node3", REPAIR)
    story.await_incident("node3", *ENDED)
    story.report("node4", {"status": "live-repair", "details": "fan 2"})
    story.await_incident("node4", *ENDED)
    story.note(f"repair commands ran {[story.lab.node(f'node{number}').repairs() for number in (2, 3, 4)]} times")


def canceled_incident(story: Story) -> None:
    story.report("node2", EVACUATE)
    story.await_running("migrate")
    incident = story.incident("node2")
    assert incident is not None
    story.call("PUT", f"/2/incidents/{incident['id']}/cancel?")
    story.await_incident("node2", *ENDED)
    story.report("node2", OK)
    story.until(states.forgotten("node2"), "the canceled incident is forgotten")
    story.note("the incident is forgotten")


def balance(story: Story) -> None:
    story.until(lambda _: story.get("/1/rounds") and states.at_rest(story), "a round has balanced the lab")
    story.report("node3", OK)
    story.until(
        lambda _: story.get("/1/reports")["nodes"]["node3"]["diagnosis"] is not None and states.at_rest(story),
        "the report is accepted",
    )
    story.command("plan")


def replica_left_behind(story: Story) -> None:
    story.lab.node("node3").cut(is_cut=True)
    story.note("the links of node3 are cut")
    story.run("POST", "/2/instances/instance1/replace-disks", {"mode": "replace_new_secondary", "remote_node": "node1"})
    story.command("explain", "node3")
    story.lab.node("node3").cut(is_cut=False)
    story.note("the links of node3 are restored")
    story.report("node3", OK)
    story.until(lambda _: all(not node["left_behind"] for node in story.get("/1/nodes")), "nothing is left behind")
    story.note("nothing is left behind any more")


PAIR = (("node2", "node3"),)
SCENARIOS = (
    Scenario("evacuation_and_return", evacuation_and_return, ("node2",), {"pairs": PAIR}),
    Scenario("impossible_evacuation", impossible_evacuation, ("node2",), {"pairs": PAIR, "edit": with_plain_disk}),
    Scenario("failover_of_a_silent_node", failover_of_a_silent_node, ("node2",), {"pairs": PAIR}),
    Scenario("live_repairs", live_repairs, ("node2", "node3", "node4"), {"nodes": 4, "pairs": ()}),
    Scenario(
        "canceled_incident",
        canceled_incident,
        ("node2",),
        {"pairs": PAIR, "migration_seconds": 2.0, "settings": {"moves_per_node": 1}},
    ),
    Scenario("balance", balance, (), {"pairs": (("node1", "node2"),) * 2, "settings": {"balance": True}}),
    Scenario("replica_left_behind", replica_left_behind, ("node3",), {"pairs": PAIR}),
)
