"""A replacement of disks that breaks off in its resync: the old secondary does not count, and the new one is named."""

from __future__ import annotations

import re
import time
from typing import TYPE_CHECKING, Any

import pytest
from ansible_collections.roundsman.cluster.daemon.lab.simulator import simulated_programs, simulated_world
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.disks.drbd import Disk
from ansible_collections.roundsman.cluster.plugins.module_utils.storage import drbd_resource, replica_facts, templates
from ansible_collections.roundsman.cluster.plugins.plugin_utils.cluster import changes, left_replicas
from ansible_collections.roundsman.cluster.plugins.plugin_utils.cluster import cluster as clusters

from . import labs, states
from .test_dead_nodes import runs
from .test_world_left_behind import is_ahead

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from ansible_collections.roundsman.cluster.plugins.module_utils.domain.disks import replicas

NAME = "instance1"
OTHER = "with `--to` another node, or with `--to node3`, which replaces the replica there"
FINISH = "`roundsman instance replace-disks instance1 --to node4`"


def fact(one: labs.Running, node: str) -> replicas.ReplicaFact | None:
    """How the replica of instance1 on a node is, as its DRBD says."""
    found = replica_facts.read(one.lab.node(node).root, hypervisor="fake").replicas or ()
    return next((each for each in found if each.resource.startswith(NAME)), None)


def secondary(one: labs.Running) -> str:
    """The secondary of instance1 on record."""
    cluster = one.cluster()
    found = next(each for each in cluster.instances.values() if each.name == NAME)
    return cluster.node_name(found.secondary_nodes[0])


def is_copying(one: labs.Running) -> bool:
    """Whether node4 receives the data of node2."""
    found = fact(one, "node4")
    return found is not None and found.is_connected and found.disk is Disk.INCONSISTENT


def is_in_sync(one: labs.Running) -> bool:
    """Whether node4 has the data of node2."""
    found = fact(one, "node4")
    return found is not None and found.is_connected and found.disk is Disk.UP_TO_DATE


def copying(one: labs.Running) -> int:
    """The job of a replacement that copies to node4, and takes so long that the test goes on meanwhile."""
    simulated_world.set_resync_speed(one.lab.node("node4").root, 1)
    body = {"mode": "replace_new_secondary", "remote_node": "node4"}
    job: int = one.ask("POST", f"/2/instances/{NAME}/replace-disks", body).json()
    one.until(is_copying, "node2 copies to node4")
    return job


def cancel(one: labs.Running, job: int) -> dict[str, Any]:
    """Cancel a job; how its opcode has ended."""
    assert states.command(one, "jobs", "cancel", str(job)).returncode == 0
    ended: dict[str, Any] = states.job_ended(one, job)["opcodes"][0]
    return ended


def removals(one: labs.Running) -> list[str]:
    """What became of the jobs that were to remove a replica."""
    steps = [job["opcodes"][0] for job in one.get("/1/jobs")]
    return [step["text"] for step in steps if step["kind"] == "remove_replica" and step["status"] in states.FINAL]


@pytest.mark.slow
def test_a_replacement_that_is_canceled_in_its_resync_is_on_record_and_can_be_finished(
    lab: Callable[..., labs.Running],
) -> None:
    one = lab(nodes=4, pairs=[("node2", "node3"), ("node1", "node2")])
    labs.report_all(one)
    job = copying(one)
    assert removals(one) == [], "its job makes it"

    ended = cancel(one, job)

    assert "a replica is on node4, not on record as its node, and may be in use" in ended["text"]
    assert is_copying(one), "who looks for an instance changes no peer"
    labs.report_all(one)
    assert FINISH in states.command(one, "explain", NAME).stdout
    assert FINISH in states.command(one, "cluster", "verify").stdout
    one.until(removals, "a job looked at the new replica")
    assert "is kept on node4 while its primary is not in sync with its peer" in removals(one)[0]

    simulated_world.set_resync_speed(one.lab.node("node4").root, None)
    again = states.command(one, "instance", "replace-disks", NAME, "--to", "node4")

    assert again.returncode == 0, again.stdout + again.stderr
    assert one.cluster().maintenance.left_behind == ()
    holders = [node.name for node in one.lab.nodes() if NAME in templates.replicated(node.root)]
    assert holders == ["node2", "node4"]
    one.until(states.at_rest, "its jobs end")
    assert one.wrong() == []


@pytest.mark.slow
@pytest.mark.parametrize("target", ["node4", "node3"])
def test_a_replacement_that_broke_off_can_be_finished_though_drbd_has_forgotten_what_the_old_secondary_has(
    target: str,
    lab: Callable[..., labs.Running],
) -> None:
    one = lab(nodes=4, pairs=[("node2", "node3"), ("node1", "node2")])
    labs.report_all(one)
    job = copying(one)
    cancel(one, job)
    simulated_world.set_resync_speed(one.lab.node("node4").root, None)
    one.until(is_in_sync, "the resync ends by itself")
    one.lab.node("node2").cut_link("node4", is_cut=True)
    one.until(lambda _: not is_in_sync(one), "node4 has lost node2")
    time.sleep(3)
    one.lab.node("node2").cut_link("node4", is_cut=False)
    one.until(is_in_sync, "they are in sync again")

    again = states.command(one, "instance", "replace-disks", NAME, "--to", target)

    assert again.returncode == 0, again.stdout + again.stderr
    assert secondary(one) == target
    cluster = one.cluster()
    assert not left_replicas.being_made(cluster, cluster.instance(NAME).uuid)
    left = ["node4"] if target == "node3" else []
    assert [cluster.node_name(entry.node) for entry in cluster.maintenance.left_behind] == left
    one.until(states.at_rest, "its jobs end")
    assert one.wrong() == []


@pytest.mark.slow
def test_an_old_secondary_that_cannot_be_told_is_not_taken_for_the_new_one(lab: Callable[..., labs.Running]) -> None:
    one = lab(nodes=4, pairs=[("node2", "node3"), ("node1", "node2")])
    one.lab.node("node3").silence(is_silent=True)

    first = states.command(one, "instance", "replace-disks", NAME, "--to", "node4")

    assert first.returncode != 0
    told = first.stdout + first.stderr
    assert "stands alone" in told
    assert f"{NAME} keeps its replica on node3: " in told
    assert f"{FINISH} again" in told
    assert secondary(one) == "node3"

    again = states.command(one, "instance", "replace-disks", NAME, "--to", "node4")

    assert again.returncode == 0, again.stdout + again.stderr
    new, old = fact(one, "node4"), fact(one, "node3")
    assert new is not None
    assert (new.is_connected, new.disk) == (True, Disk.UP_TO_DATE)
    assert old is not None, "its replica is left behind"
    assert not old.is_connected
    one.until(states.at_rest, "its jobs end")
    assert one.wrong() == []


@pytest.mark.slow
def test_a_replacement_whose_node_is_lost_before_it_has_a_replica_ends_with_one_on_the_old_secondary(
    lab: Callable[..., labs.Running],
) -> None:
    one = lab(nodes=4, pairs=[("node2", "node3"), ("node1", "node2")], edit=being_made)
    one.lab.node("node4").lose_power()

    assert_it_ends(one, "node3")


@pytest.mark.slow
@pytest.mark.parametrize("target", ["node3", "node1"])
def test_a_replacement_whose_node_is_lost_in_its_resync_ends_with_one_on_the_old_secondary_or_another_node(
    target: str, lab: Callable[..., labs.Running]
) -> None:
    one = lab(nodes=4, pairs=[("node2", "node3"), ("node1", "node2")])
    job = copying(one)
    one.lab.node("node4").lose_power()
    cancel(one, job)

    assert_it_ends(one, target)

    one.lab.node("node4").set_power(on=True)
    labs.drop(one, "back.json", labs.report(one, "node4", '{"status": "Ok"}'))
    one.until(lambda _: one.cluster().maintenance.left_behind == (), "what was left on node4 is removed")
    assert NAME not in templates.replicated(one.lab.node("node4").root)
    one.until(states.at_rest, "its jobs end")
    assert one.wrong() == []


@pytest.mark.slow
@pytest.mark.parametrize("target", ["node3", "node1"])
def test_a_replacement_whose_new_node_lives_is_given_up_at_the_first_attempt(
    target: str, lab: Callable[..., labs.Running]
) -> None:
    # The new node dials on, and would be refused in place of the one that is chosen now: both would stand alone.
    one = lab(nodes=4, pairs=[("node2", "node3"), ("node1", "node2")])
    job = copying(one)
    cancel(one, job)

    replaced = states.command(one, "instance", "replace-disks", NAME, "--to", target)

    assert replaced.returncode == 0, replaced.stdout + replaced.stderr
    new = fact(one, target)
    assert new is not None
    assert (new.is_connected, new.disk) == (True, Disk.UP_TO_DATE)
    labs.report_all(one)
    one.until(lambda _: one.cluster().maintenance.left_behind == (), "what was left is removed")
    holders = [node.name for node in one.lab.nodes() if NAME in templates.replicated(node.root)]
    assert holders == sorted(["node2", target])
    one.until(states.at_rest, "its jobs end")
    assert one.wrong() == []


@pytest.mark.slow
def test_from_a_replacement_that_broke_off_beside_an_outdated_secondary_each_command_works_or_names_one_that_does(
    lab: Callable[..., labs.Running],
) -> None:
    """Each of start, replace-disks and failover refused for another one, and nothing brought the instance up."""
    one = lab(nodes=4, pairs=[("node2", "node3"), ("node1", "node2")])
    labs.report_all(one)
    cancel(one, copying(one))
    simulated_world.set_resync_speed(one.lab.node("node4").root, None)
    one.until(is_in_sync, "the resync ends by itself")
    for verb in ("primary", "secondary", "outdate"):
        simulated_programs.SimulatedPrograms(one.lab.node("node3").root).run("drbdadm", verb, f"{NAME}-disk0")
    for _ in range(4):
        # Each cut begins a generation, and DRBD keeps few of those before.
        one.lab.node("node2").cut_link("node4", is_cut=True)
        one.until(lambda _: is_ahead(one, "node2", "node4"), "node2 writes alone")
        one.lab.node("node2").cut_link("node4", is_cut=False)
        one.until(is_in_sync, "they are in sync again")
    assert states.command(one, "instance", "stop", NAME, "--yes").returncode == 0

    failover = states.command(one, "instance", "failover", NAME)
    assert failover.returncode != 0
    assert f"start {NAME} with `roundsman instance start {NAME}`" in failover.stderr
    started = states.command(one, "instance", "start", NAME)
    assert started.returncode == 0, started.stdout + started.stderr
    assert runs(one, "node2") == [NAME]
    assert "may have writes that no other replica has: it is kept there" in started.stdout
    replaced = states.command(one, "instance", "replace-disks", NAME, "--to", "node4")
    assert replaced.returncode == 0, replaced.stdout + replaced.stderr
    assert secondary(one) == "node4"

    told = replaced.stdout
    assert f"`roundsman instance repair-disks {NAME} --discard node3`" in told, "how the outdated one is removed"
    discarded = states.command(one, "instance", "repair-disks", NAME, "--discard", "node3", "--yes")
    assert discarded.returncode == 0, discarded.stdout + discarded.stderr
    assert one.cluster().maintenance.left_behind == ()
    one.until(states.at_rest, "its jobs end")
    assert one.wrong() == []


def being_made(cluster: clusters.Cluster) -> clusters.Cluster:
    """A replacement onto node4 has broken off before the primary was told of the new replica."""
    making = left_replicas.ReplicaLeft(
        cluster.instance(NAME).uuid, cluster.node("node4").uuid, present=True, is_new=True
    )
    return changes.apply(cluster, making, now=time.time())


def assert_it_ends(one: labs.Running, target: str) -> None:
    """Replace the secondary with a replica on the target, as the explanation says, though node4 is lost."""
    told = states.command(one, "explain", NAME).stdout
    assert f"if node4 does not come back, {OTHER}" in told, told
    refused = states.command(one, "node", "remove", "node4", "--yes")
    assert OTHER in refused.stderr, refused.stderr
    refused = states.command(one, "instance", "repair-disks", NAME, "--discard", "node4", "--yes")
    assert (refused.returncode, OTHER in refused.stderr) == (1, True), refused.stdout + refused.stderr

    replaced = states.command(one, "instance", "replace-disks", NAME, "--to", target)

    assert replaced.returncode == 0, replaced.stdout + replaced.stderr
    cluster = one.cluster()
    assert [cluster.node_name(uuid) for uuid in cluster.instance(NAME).nodes] == ["node2", target]
    assert not left_replicas.being_made(cluster, cluster.instance(NAME).uuid)
    assert [(cluster.node_name(left.node), left.is_new) for left in cluster.maintenance.left_behind] == [
        ("node4", False)
    ]
    holders = [node.name for node in one.lab.nodes() if NAME in templates.replicated(node.root)]
    assert [name for name in holders if name != "node4"] == sorted(["node2", target])


@pytest.mark.slow
def test_a_new_replica_that_broke_off_before_the_primary_had_its_secret_is_replaced_as_the_repair_says(
    lab: Callable[..., labs.Running],
) -> None:
    one = lab(nodes=4, pairs=[("node2", "node3"), ("node1", "node2")])
    make_with_another_secret(one.lab.node("node3").root)

    refused = states.command(one, "instance", "repair-disks", NAME)

    assert (
        "the secondary replaced (roundsman instance replace-disks NAME --to SECONDARY)"
        in refused.stdout + refused.stderr
    )
    replaced = states.command(one, "instance", "replace-disks", NAME, "--to", "node3")
    assert replaced.returncode == 0, replaced.stdout + replaced.stderr
    new = fact(one, "node3")
    assert new is not None
    assert (new.is_connected, new.disk) == (True, Disk.UP_TO_DATE)
    one.until(states.at_rest, "its jobs end")
    assert one.wrong() == []


def make_with_another_secret(root: Path) -> None:
    """Leave what a replacement on the same node leaves that breaks off before its primary was told of the secret."""
    programs, resource = simulated_programs.SimulatedPrograms(root), f"{NAME}-disk0"
    file = root / drbd_resource.FOLDER / f"roundsman-{resource}.res"
    programs.run("drbdadm", "down", resource)
    file.write_text(re.sub('shared-secret "[^"]*"', 'shared-secret "another"', file.read_text()))
    programs.run("drbdadm", "create-md", "--force", resource)
    programs.run("drbdadm", "adjust", resource)


@pytest.mark.slow
def test_a_replacement_that_fails_before_its_resync_says_where_and_how_to_go_on(
    lab: Callable[..., labs.Running],
) -> None:
    one = lab(nodes=4, pairs=[("node2", "node3"), ("node1", "node2")])
    hindrance = one.lab.node("node4").root / drbd_resource.FOLDER / f"roundsman-{NAME}-disk0.res.new"
    hindrance.mkdir(parents=True)

    failed = states.command(one, "instance", "replace-disks", NAME, "--to", "node4")

    assert failed.returncode != 0
    assert "instance1 keeps its replica on node3: node4: " in failed.stdout + failed.stderr
    assert f"Is a directory. Run {FINISH} again" in failed.stdout + failed.stderr
    hindrance.rmdir()
    again = states.command(one, "instance", "replace-disks", NAME, "--to", "node4")
    assert again.returncode == 0, again.stdout + again.stderr
    assert secondary(one) == "node4"
    one.until(states.at_rest, "its jobs end")
    assert one.wrong() == []


@pytest.mark.slow
def test_a_busy_node_tells_nobody_the_secret_of_a_pair(lab: Callable[..., labs.Running]) -> None:
    one = lab(nodes=4, pairs=[("node2", "node3"), ("node1", "node2")], edit=being_made)
    assert states.command(one, "instance", "stop", NAME, "--yes").returncode == 0
    root = one.lab.node("node2").root
    simulated_programs.SimulatedPrograms(root).run("drbdadm", "disconnect", f"{NAME}-disk0")
    text = (root / f"{drbd_resource.FOLDER}/roundsman-{NAME}-disk0.res").read_text()
    secret = text.split('shared-secret "')[1].split('"')[0]
    simulated_world.set_busy(root, is_busy=True)

    done = states.command(one, "instance", "activate-disks", NAME)

    assert "did not terminate within 5 seconds" in done.stdout + done.stderr
    assert secret not in done.stdout + done.stderr
    files = [path for path in one.lab.controller.rglob("*") if path.is_file()]
    assert [path for path in files if secret.encode() in path.read_bytes()] == []
