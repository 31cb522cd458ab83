"""Emergency power off and its return on a lab: real plays and modules, simulated nodes and BMCs."""

from __future__ import annotations

import dataclasses
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from ansible_collections.roundsman.cluster.daemon.lab.simulator import fake
from ansible_collections.roundsman.cluster.plugins.plugin_utils import controller_epoch
from ansible_collections.roundsman.cluster.plugins.plugin_utils.cluster import changes

from tests.unit import other_users

from . import labs

if TYPE_CHECKING:
    from collections.abc import Callable

    from ansible_collections.roundsman.cluster.plugins.plugin_utils.cluster import cluster as clusters

STOP, OFF = "Stop the instances of each node: ", "Power off every node on which nothing runs any more"
ON, START = "powered on: ", "Start the instances of each node: "
EVACUATE = '{"status": "evacuate"}'


def command(one: labs.Running, *arguments: str) -> list[str]:
    program = str(Path(sys.executable).with_name("roundsman"))
    return [program, "--dir", str(one.lab.folder), "cluster", "epo", "--power-delay", "0", *arguments]


def epo(one: labs.Running, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command(one, *arguments), capture_output=True, text=True, check=False)


def killed_after(one: labs.Running, words: str, *arguments: str) -> None:
    """Run the command, and kill it with its play and all that this started as soon as the play has said the words."""
    play = subprocess.Popen(command(one, *arguments), stdout=subprocess.PIPE, text=True, start_new_session=True)
    assert play.stdout is not None
    said = []
    for line in play.stdout:
        said.append(line)
        if line.startswith(words):
            break
    os.killpg(play.pid, signal.SIGKILL)
    play.wait()
    assert said[-1].startswith(words), "".join(said)


def powered(one: labs.Running) -> list[str]:
    """The nodes that have power in truth."""
    return [node.name for node in one.lab.nodes() if node.is_powered()]


def running(one: labs.Running) -> list[str]:
    return sorted(name for node in one.lab.nodes() for name in fake.Driver(node.root, opcode="test").running())


def one_is_down(cluster: clusters.Cluster) -> clusters.Cluster:
    return changes.apply(cluster, changes.InstanceState(cluster.instance("instance1").uuid, "down"), now=1.0)


@pytest.fixture
def world(lab: Callable[..., labs.Running]) -> labs.Running:
    """Six nodes of two groups; of twelve instances the first is down."""
    one = lab(nodes=6, instances=12, edit=one_is_down)
    primary = one.cluster().node_name(one.cluster().instance("instance1").primary_node)
    fake.Driver(one.lab.node(primary).root, opcode="test").stop("instance1", time_limit=0)
    return one


UP = sorted(f"instance{number}" for number in range(2, 13))


@pytest.mark.slow
def test_all_goes_off_but_the_own_node_and_what_ran_runs_again(world: labs.Running) -> None:
    labs.drop(world, "r.json", labs.report(world, "node3", '{"status": "Ok"}'))

    off = epo(world, "--all", "--force")

    assert off.returncode == 0, off.stdout + off.stderr
    assert (running(world), powered(world)) == ([], ["node1"])
    assert [node.name for node in world.cluster().nodes.values() if node.powered] == ["node1"]
    assert "The last step is yours: node1 runs this" in off.stdout
    again = epo(world, "--all", "--force")
    assert (again.returncode, running(world), powered(world)) == (0, [], ["node1"])

    on = epo(world, "--on", "--force")

    assert on.returncode == 0, on.stdout + on.stderr
    assert "maintenance goes on" in on.stdout
    assert (running(world), len(powered(world)), world.cluster().maintenance.epo) == (UP, 6, None)
    assert world.wrong() == []
    audited = world.where.audit_log.read_text()
    begins = [audited.index(text) for text in ("an emergency power off by", "the return of", "is lifted")]
    assert begins == sorted(begins)
    assert "node3 is recorded as powered off, was on" in audited


@pytest.mark.slow
def test_after_a_loss_of_power_that_nobody_ordered_what_should_run_runs_again(world: labs.Running) -> None:
    for node in world.lab.nodes():
        node.lose_power()
    for back in ("node1", "node2"):  # the controller's own, and one whose BIOS does it
        world.lab.node(back).set_power(True)
    assert running(world) == []
    unnamed = epo(world, "--on", "--force")
    assert (unnamed.returncode, world.cluster().maintenance.epo) == (1, None)
    assert "`roundsman cluster epo --on --all`" in unnamed.stderr

    killed_after(world, START, "--on", "--all", "--force")
    on = epo(world, "--on", "--force")

    assert on.returncode == 0, on.stdout + on.stderr
    assert (running(world), len(powered(world)), world.cluster().maintenance.epo) == (UP, 6, None)
    world.until(lambda one: all(node["health"] != "unknown" for node in one.get("/1/nodes")), "all report again")
    assert world.wrong() == []
    assert "the return of 6 nodes and 11 instances from a loss of power begins" in world.where.audit_log.read_text()


@pytest.mark.slow
def test_killed_twice_it_goes_on_where_it_stopped_in_both_directions(world: labs.Running) -> None:
    killed_after(world, STOP, "--all", "--force")
    assert len(powered(world)) == len(world.lab.nodes())
    assert world.cluster().maintenance.epo is not None
    assert epo(world, "--force").returncode == 0
    assert (running(world), powered(world)) == ([], ["node1"])

    killed_after(world, ON, "--on", "--force")
    assert running(world) == []
    killed_after(world, START, "--on", "--force")
    done = epo(world, "--on", "--force")

    assert done.returncode == 0, done.stdout
    assert (running(world), len(powered(world)), world.cluster().maintenance.epo) == (UP, 6, None)
    assert world.wrong() == []


@pytest.mark.slow
def test_a_node_that_does_not_confirm_stops_no_other_and_is_told_the_loudest(world: labs.Running) -> None:
    world.lab.node("node3").set_faults(["stubborn"])
    world.lab.node("node5").cut(is_cut=True)

    off = epo(world, "--all", "--force", "--deadline", "4")

    assert off.returncode == 2
    last = off.stdout[off.stdout.index("NOT CONFIRMED OFF") :]
    assert "node3: accepted, but the node does not read off (not_off; it reads on)" in last
    assert "node5 keeps its power" in last
    assert powered(world) == ["node1", "node3", "node5"]

    world.lab.node("node3").set_faults([])
    world.lab.node("node5").cut(is_cut=False)
    assert epo(world, "--force").returncode == 0
    assert powered(world) == ["node1"]


@other_users.only_root
@pytest.mark.slow
def test_a_node_that_the_inventory_leaves_out_keeps_its_power_stops_no_other_and_is_named(world: labs.Running) -> None:
    [variables] = world.where.host_vars.glob("node3.*")
    os.chown(variables, other_users.DAEMON, other_users.DAEMON)

    off = epo(world, "--all", "--force")

    assert off.returncode == 2, off.stdout + off.stderr
    last = off.stdout[off.stdout.index("NOT CONFIRMED OFF") :]
    assert f"node3 keeps its power: node3 is left out of plays: {variables} is owned by uid" in last
    assert powered(world) == ["node1", "node3"]

    os.chown(variables, 0, 0)
    assert epo(world, "--force").returncode == 0
    assert powered(world) == ["node1"]


@pytest.mark.slow
def test_a_node_that_does_not_return_keeps_only_its_own_instances_and_the_hold(world: labs.Running) -> None:
    assert epo(world, "--all", "--force").returncode == 0
    world.lab.node("node4").cut(is_cut=True)
    held = {one.name for one in world.cluster().instances.values() if world.cluster().node("node4").uuid in one.nodes}

    on = epo(world, "--on", "--force", "--wait", "3")

    assert on.returncode == 2
    assert "node4 does not answer" in on.stdout[on.stdout.index("NOT BACK") :]
    assert running(world) == [name for name in UP if name not in held]
    assert world.cluster().maintenance.epo is not None

    world.lab.node("node4").cut(is_cut=False)
    assert epo(world, "--on", "--force").returncode == 0
    assert (running(world), world.cluster().maintenance.epo, world.wrong()) == (UP, None, [])


@pytest.mark.slow
def test_while_it_stands_the_daemon_starts_nothing_of_its_own(world: labs.Running) -> None:
    assert epo(world, "node2", "--force").returncode == 0
    labs.drop(world, "r.json", labs.report(world, "node4", EVACUATE))
    world.until(lambda one: one.incident("node4"), "the incident is known")

    refusals = world.get("/2/plan")["refusals"]

    assert [one["reason"] for one in refusals if "emergency" in one["reason"]]
    assert world.get("/2/jobs") == []
    assert epo(world, "--on", "--force").returncode == 0
    ended = world.until(world.ended("node4"), "the evacuation ends")
    assert ended["repair-status"] == "completed"
    assert world.wrong() == []


@pytest.mark.slow
def test_a_dry_run_and_a_wrong_code_change_nothing(world: labs.Running) -> None:
    before = world.cluster()
    assert epo(world, "--all", "--dry-run").returncode == 0
    wrong = epo(world, "--all", "--confirm", "000000")
    assert wrong.returncode == 2
    assert "confirms another preview than this one" in wrong.stdout
    nobody = epo(world, "--all")
    assert (nobody.returncode, "add --confirm" in nobody.stderr) == (1, True)
    assert dataclasses.replace(world.cluster(), serial_no=0, mtime=0) == dataclasses.replace(
        before, serial_no=0, mtime=0
    )
    assert len(powered(world)) == len(world.lab.nodes())


@pytest.mark.slow
@pytest.mark.parametrize("is_served", [True, False], ids=["with a daemon", "without one"])
def test_nodes_that_vote_are_off_and_back_twice_at_once(lab: Callable[..., labs.Running], *, is_served: bool) -> None:
    # Each boot of a node is one more in which it has not been asked who leads.
    one = lab(nodes=3, instances=3, agents=True)

    def asked() -> controller_epoch.Record | None:
        # A start needs two of them; the third is asked once the daemon serves.
        record = controller_epoch.read(one.where)
        return record if record is not None and len(record.boots) == 3 else None

    one.until(lambda _: asked(), "the nodes were asked")
    known = asked()
    assert known is not None
    if not is_served:
        one.stop()
    before = running(one)

    for _ in range(2):
        off = epo(one, "--all", "--force")
        assert off.returncode == 0, off.stdout + off.stderr
        assert (running(one), powered(one)) == ([], ["node1"])
        on = epo(one, "--on", "--force")
        assert on.returncode == 0, on.stdout + on.stderr
        assert (running(one), len(powered(one))) == (before, 3)

    after = controller_epoch.read(one.where)
    assert after is not None
    assert (after.order, after.boots.keys()) == (known.order, known.boots.keys())
    assert {after.boots[uuid] == known.boots[uuid] for uuid in known.boots} == {True, False}
    assert one.wrong() == []
