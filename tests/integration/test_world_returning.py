"""Nodes that come back and still run what runs elsewhere now are not taken into service, and are found."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import pytest
from ansible_collections.roundsman.cluster.daemon.lab.simulator import fake
from ansible_collections.roundsman.cluster.plugins.plugin_utils.cluster import changes
from ansible_collections.roundsman.cluster.plugins.plugin_utils.config import store

from . import labs, states

if TYPE_CHECKING:
    from collections.abc import Callable


def back(one: labs.Running, *, force: int = 0) -> dict[str, Any]:
    return states.job_ended(one, one.put(f"/2/nodes/node2/role?force={force}", "online").json())


def role(one: labs.Running) -> str:
    found: str = next(node["role"] for node in one.get("/1/nodes") if node["name"] == "node2")
    return found


def findings(one: labs.Running) -> list[tuple[str, str]]:
    """What `cluster verify` finds about instances: node and text."""
    job = states.job_ended(one, one.put("/2/verify").json()["id"])
    assert job["status"] == "success", job["text"]
    return [(found["node"], found["text"]) for found in job["results"][0]["findings"] if found["check"] == "instances"]


@pytest.mark.slow
def test_a_node_that_comes_back_with_a_second_copy_is_refused_whatever_is_forced_and_verify_finds_it(
    lab: Callable[..., labs.Running],
) -> None:
    one = lab(nodes=3, pairs=(("node2", "node3"),))
    assert findings(one) == []
    one.lab.node("node2").break_with({"status": "evacuate"})
    one.diagnose()
    incident = one.until(one.ended("node2"), "node2 is evacuated")
    assert one.put(f"/2/incidents/{incident['id']}/ack").is_success
    one.until(states.forgotten("node2"), "the acknowledged incident is forgotten")

    # It boots, and its own hypervisor starts what it ran before.
    node = one.lab.node("node2")
    node.break_with({"status": "Ok"})
    powered = one.put("/2/nodes/node2/power", {"command": "on"}).json()["id"]
    assert states.job_ended(one, powered)["status"] == "success"
    hypervisor = fake.Driver(node.root, opcode="by hand")
    assert hypervisor.start("instance1", {"memory": 128})

    (found,) = findings(one)
    assert found[0] == "node2"
    assert "instance1 is running on node2, and its primary is node3, where it is running too" in found[1]
    for force in (0, 1):
        refused = back(one, force=force)
        assert (refused["status"], role(one)) == ("error", "offline")
        assert "instance1 is running on node2, and its primary is node3" in refused["text"]

    hypervisor.stop("instance1", time_limit=0)
    assert back(one)["status"] == "success"
    assert role(one) == "candidate"

    hypervisor.start("instance1", {"memory": 128})
    ((where, text),) = findings(one)
    assert where == "node2"
    assert text.startswith("instance1 is running on node2, and its primary is node3, where it is running too")
    fake.Driver(one.lab.node("node3").root, opcode="by hand").stop("instance1", time_limit=0)
    hypervisor.stop("instance1", time_limit=0)
    ((where, text),) = findings(one)
    assert (where, "instance1 does not run on its primary node3" in text) == ("node3", True)


def lived(one: labs.Running, *off: changes.Change) -> None:
    """Record these changes, and that node2 has lived since, as by the word of a peer."""
    one.stop()
    known = changes.apply_all(one.cluster(), list(off), now=time.time() - 1)
    store.write(one.where.config, changes.apply(known, changes.NodeLived(known.node("node2").uuid), now=time.time()))
    one.start()


def advised(one: labs.Running, command: str) -> bool:
    """Whether `explain` names a command for node2."""
    return f"`roundsman {command}`" in states.command(one, "explain", "node2").stdout.replace("\n", " ")


def succeeds(one: labs.Running, command: str) -> bool:
    return states.command(one, *command.split()).returncode == 0


@pytest.mark.slow
def test_a_node_that_is_on_and_whose_bmc_is_dead_comes_back_by_the_commands_that_are_advised(
    lab: Callable[..., labs.Running],
) -> None:
    # node2 has never reported: within a minute of a report a statement that it is off would be refused.
    one = lab(nodes=3, pairs=(("node2", "node3"),))
    uuid = one.cluster().node("node2").uuid
    assert succeeds(one, "lab break node2 --bmc dead")

    lived(one, changes.NodeOffConfirmed(uuid, time.time() - 1))
    on, taken_back = "node power on node2", "node confirm-off node2 --undo"
    assert advised(one, on)
    assert advised(one, taken_back)
    assert not succeeds(one, on)
    assert succeeds(one, taken_back)
    assert not advised(one, on)

    # Known to be off it left service: now it may run second copies.
    out_of_service = changes.NodeRole(uuid, drained=False, offline=True, master_candidate=False)
    lived(one, changes.NodePowered(uuid, powered=False), out_of_service)
    stated, corrected = "node confirm-off node2", "node modify node2 --powered yes"
    assert advised(one, stated)
    assert advised(one, corrected)
    assert advised(one, "node online node2")
    one.lab.node("node2").set_power(False)
    assert succeeds(one, f"{stated} --confirm node2")
    one.lab.node("node2").set_power(True)
    assert succeeds(one, corrected)
    assert not succeeds(one, "node online node2")
    assert succeeds(one, "node online node2 --force")
    assert role(one) == "candidate"
