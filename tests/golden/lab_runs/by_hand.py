"""What a person has done: jobs asked for one after another, and an emergency power off."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .story import Scenario

if TYPE_CHECKING:
    from .story import Story

WEB = {"name": "web", "hypervisor": "fake", "disk_template": "drbd", "disks": [{"size": 1024}]}
INSTANCE = "/2/instances/instance1"


def migration_and_failover(story: Story) -> None:
    story.run("PUT", f"{INSTANCE}/migrate", {})
    story.lab.node("node3").cut_link("node2", is_cut=True)
    story.note("the replication link of node2 and node3 is cut")
    story.run("PUT", f"{INSTANCE}/failover", {})
    story.lab.node("node3").cut_link("node2", is_cut=False)
    story.note("the link is restored")
    story.run("PUT", f"{INSTANCE}/failover", {})


def failing_migration(story: Story) -> None:
    story.lab.node("node2").fail_migrations("during")
    story.note("migrations from node2 fail half-way")
    story.run("PUT", f"{INSTANCE}/migrate", {})


def replaced_disks(story: Story) -> None:
    body = {"mode": "replace_new_secondary", "remote_node": "node1"}
    story.run("POST", f"{INSTANCE}/replace-disks", body)
    story.lab.node("node2").lose_disk("instance1", is_lost=True)
    story.note("the disk of the primary fails")
    story.run("POST", f"{INSTANCE}/replace-disks", {**body, "remote_node": "node3"})


def instance_life(story: Story) -> None:
    story.run("POST", "/2/instances", {**WEB, "beparams": {"memory": 512}, "pnode": "node1", "snode": "node2"})
    story.run("PUT", "/2/instances/web/shutdown", {})
    story.run("PUT", "/2/instances/web/modify", {"beparams": {"memory": 768}})
    story.run("PUT", "/2/instances/web/startup", {})
    story.lab.node("node1").crash("web")
    story.note("web crashes")
    story.run("PUT", "/2/instances/web/startup", {})
    story.run("DELETE", "/2/instances/web", {})


def node_power(story: Story) -> None:
    for node, command in (("node2", "off"), ("node3", "cycle"), ("node3", "status")):
        story.run("PUT", f"/2/nodes/{node}/power", {"command": command})
    story.lab.node("node4").set_faults(["dead"])
    story.note("the BMC of node4 is dead")
    story.run("PUT", "/2/power", {"command": "off", "nodes": ["node3", "node4"]})
    story.run("PUT", "/2/nodes/node3/power", {"command": "on"})


def repaired_disks(story: Story) -> None:
    story.lab.node("node3").lose_disk("instance1", is_lost=True)
    story.note("the disk of the secondary fails")
    story.run("PUT", f"{INSTANCE}/verify-disks", {})
    story.lab.node("node3").lose_disk("instance1", is_lost=False)
    story.note("the disk works again, with the data that it had")
    story.run("PUT", f"{INSTANCE}/repair-disks", {})
    story.run("PUT", f"{INSTANCE}/verify-disks", {})


def emergency_power_off_and_return(story: Story) -> None:
    story.command("cluster", "epo", "--power-delay", "0", "--all", "--force")
    story.command("explain", "node2")
    story.command("cluster", "epo", "--power-delay", "0", "--on", "--force")


def roles_and_tags(story: Story) -> None:
    story.run("PUT", "/2/nodes/node3/role", "drained")
    story.run("PUT", "/2/nodes/node3/role?force=1", "offline")
    story.run("PUT", "/2/nodes/node1/tags?tag=a&tag=b")
    story.run("DELETE", "/2/nodes/node1/tags?tag=a")
    story.run("POST", "/2/nodes/node2/modify", {"ndparams": {"oob_program": "!"}})
    story.run("PUT", "/2/nodes/node3/role?force=1", "online")
    story.run("POST", "/2/nodes/node2/migrate", {})
    story.run("PUT", "/2/verify")


PAIR = (("node2", "node3"),)
SCENARIOS = (
    Scenario("migration_and_failover", migration_and_failover, ("instance1",), {"pairs": PAIR}),
    Scenario("failing_migration", failing_migration, ("node2",), {"pairs": PAIR}),
    Scenario("replaced_disks", replaced_disks, ("instance1",), {"pairs": PAIR}),
    Scenario("instance_life", instance_life, (), {"pairs": PAIR}),
    Scenario("node_power", node_power, ("node2", "node4"), {"nodes": 4, "pairs": ()}),
    Scenario("repaired_disks", repaired_disks, ("node3",), {"pairs": PAIR}),
    Scenario("emergency_power_off_and_return", emergency_power_off_and_return, (), {"pairs": PAIR}),
    Scenario("roles_and_tags", roles_and_tags, ("node3",), {"pairs": PAIR}),
)
