"""`evacuate.yml` by hand: with and without the daemon, in check mode, and never beside a round."""

from __future__ import annotations

import contextlib
import dataclasses
import fcntl
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from ansible_collections.roundsman.cluster.daemon.lab import processes
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.values import errors
from ansible_collections.roundsman.cluster.plugins.module_utils.storage import drbd_resource
from ansible_collections.roundsman.cluster.plugins.plugin_utils import ansible_runs
from ansible_collections.roundsman.cluster.plugins.plugin_utils.cluster import cluster as clusters

from tests.unit.daemon.lab import replicas

from . import labs, states

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

PAIRS = (("node2", "node3"), ("node1", "node2"), ("node3", "node1"))
LIVE_REPAIR = '{"status": "live-repair", "command": "lab-repair"}'


def _with_plain_disk(cluster: clusters.Cluster) -> clusters.Cluster:
    one = dataclasses.replace(cluster.instance("instance3"), disk_template="plain", secondary_nodes=())
    return clusters.with_instance(cluster, one)


def _with_an_adopted_disk(cluster: clusters.Cluster) -> clusters.Cluster:
    one = cluster.instance("instance4")
    disks = [
        dataclasses.replace(disk, name=drbd_resource.name(one.name, one.uuid, number))
        for number, disk in enumerate(one.disks)
    ]
    return clusters.with_instance(cluster, dataclasses.replace(one, disks=tuple(disks)))


def _on(one: labs.Running, node: str) -> list[str]:
    cluster = one.cluster()
    uuid = cluster.node(node).uuid
    return [instance.name for instance in (*cluster.primaries(uuid), *cluster.secondaries(uuid))]


@contextlib.contextmanager
def _playing(one: labs.Running, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    """Run `evacuate.yml` beside the test."""
    program = str(Path(sys.executable).with_name("ansible-playbook"))
    play = subprocess.Popen(
        [program, "-i", str(one.lab.folder / "inventory"), str(ansible_runs.PLAYBOOKS / "evacuate.yml"), *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        yield play
    finally:
        play.kill()
        play.wait()


def _read_until(play: subprocess.Popen[str], words: str) -> None:
    assert play.stdout is not None
    read = []
    for line in play.stdout:
        read.append(line)
        if words in line:
            return
    raise AssertionError("".join(read))


def test_check_mode_says_what_would_move_and_what_would_stay_and_changes_nothing(
    lab: Callable[..., labs.Running],
) -> None:
    one = lab(nodes=3, pairs=PAIRS, edit=_with_plain_disk)
    replicas.remove(one.lab, "node1", "instance3", one.cluster().instance("instance3").uuid)
    processes.stop(one.lab, "daemon")
    before = states.digest(one.lab.folder)

    done = one.play("evacuate.yml", "-e", "node=node3", "--check")

    assert states.digest(one.lab.folder) == before
    assert "replace_disks instance1: node3 -> node1" in done.stdout
    assert "instance3: disk template plain keeps its only replica on node3" in done.stdout
    assert one.wrong() == []


@pytest.mark.slow
def test_an_instance_with_adopted_disks_keeps_no_other_instance_on_the_node(lab: Callable[..., labs.Running]) -> None:
    one = lab(nodes=3, pairs=(*PAIRS, ("node3", "node2")), edit=_with_an_adopted_disk)
    processes.stop(one.lab, "daemon")

    done = one.play("evacuate.yml", "-e", "node=node3")

    assert done.returncode != 0
    text = "instance4: instance4 runs on node2 then; its replica stays on node3: Roundsman does not replace its disk"
    assert text in done.stdout
    assert _on(one, "node3") == ["instance4"]
    assert one.cluster().node_name(one.cluster().instance("instance4").primary_node) == "node2"
    assert one.wrong() == []


@pytest.mark.slow
def test_what_runs_elsewhere_than_the_configuration_says_is_found_before_anything_is_planned(
    lab: Callable[..., labs.Running],
) -> None:
    one = lab(nodes=3, pairs=(("node2", "node3"),), edit=_with_its_nodes_exchanged)
    processes.stop(one.lab, "daemon")
    looked = one.play("evacuate.yml", "-e", "node=node3", "-e", "failover=true", "--check", check=True)
    assert "instance1 is not on node3, where the configuration has it" in looked.stdout
    done = one.play("evacuate.yml", "-e", "node=node3", "-e", "failover=true", check=True)
    assert "replace_disks instance1: node3 -> node1" in done.stdout
    assert (_on(one, "node3"), _on(one, "node2")) == ([], ["instance1"])
    assert one.wrong() == []


def _with_its_nodes_exchanged(cluster: clusters.Cluster) -> clusters.Cluster:
    known = cluster.instance("instance1")
    [secondary] = known.secondary_nodes
    one = dataclasses.replace(known, primary_node=secondary, secondary_nodes=(known.primary_node,))
    return clusters.with_instance(cluster, one)


# Three plays, which take more than the usual limit together where the machine is busy.
@pytest.mark.timeout(900)
@pytest.mark.slow
def test_by_hand_without_the_daemon_the_play_commits_and_keeps_the_daemon_from_starting(
    lab: Callable[..., labs.Running],
) -> None:
    one = lab(nodes=3, pairs=PAIRS)
    processes.stop(one.lab, "daemon")
    with _playing(one, "-e", "node=node2") as play:
        _read_until(play, "TASK [roundsman.cluster.instance : ")
        os.kill(play.pid, signal.SIGSTOP)
        with pytest.raises(errors.Failed, match=rf"config.lock is held by ansible-playbook, pid {play.pid}"):
            one.start()
        os.kill(play.pid, signal.SIGCONT)
        told, _ = play.communicate()

    assert play.returncode == 0, told
    assert _on(one, "node2") == []
    _wait_for_the_end_of_the_keeper(one)
    one.start()
    assert [node["primaries"] for node in one.get("/1/nodes") if node["name"] == "node2"] == [[]]

    with_daemon = one.play("evacuate.yml", "-e", "node=node3")
    assert with_daemon.returncode == 0, with_daemon.stdout
    assert _on(one, "node3") == []
    _wait_until_nothing_is_held(one)
    assert one.wrong() == []


def _wait_until_nothing_is_held(one: labs.Running) -> None:
    """The daemon sees a moment after a play that it has ended."""
    one.until(
        lambda _: not any("play" in held["owner"] for lock in one.get("/2/locks") for held in lock["owners"]),
        "the locks of the play are free",
    )


def _wait_for_the_end_of_the_keeper(one: labs.Running) -> None:
    """What a play holds is free when its last process has ended, which is a moment after the play."""
    with one.where.config_lock.open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)


@pytest.mark.slow
def test_by_hand_beside_a_round_the_play_waits_for_the_locks_of_the_round(lab: Callable[..., labs.Running]) -> None:
    one = lab(nodes=3, pairs=PAIRS)
    # The lab's repair command reads this pipe and goes on when somebody has written to it.
    pipe = one.lab.node("node2").root / "lab/repair-seconds"
    os.mkfifo(pipe)
    labs.drop(one, "r.json", labs.report(one, "node2", LIVE_REPAIR))
    with pipe.open("w") as repair, _playing(one, "-e", "node=node2") as play:
        waiting = one.until(
            lambda _: {who["owner"] for lock in one.get("/2/locks") for who in lock["waiting"]},
            "the play waits for the repair",
        )
        assert [owner.startswith("play-") for owner in waiting] == [True]
        assert sorted(_on(one, "node2")) == ["instance1", "instance2"]
        repair.write("0\n")
        repair.close()
        told, _ = play.communicate()

    assert play.returncode == 0, told
    assert _on(one, "node2") == []
    incident = one.until(states.reads("node2", "completed"), "the repair is completed too")
    repair_job = one.get(f"/2/jobs/{incident['jobs'][0]}")
    moves = [entry for node in one.lab.nodes() for entry in node.journal() if entry["opcode"] == "by hand"]
    assert (repair_job["status"], len(moves)) == ("success", 6)
    _wait_until_nothing_is_held(one)
    assert one.wrong() == []


@pytest.mark.slow
def test_power_by_hand_reads_first_refuses_who_runs_instances_and_is_recorded(lab: Callable[..., labs.Running]) -> None:
    one = lab(nodes=4, pairs=(("node2", "node3"),))
    command = ["power.yml", "-e", "power=off", "-e", "nodes=node2,node4"]
    looked = one.play(*command, "--check")
    assert "node4: on, would be off" in looked.stdout, looked.stdout
    assert (one.lab.node("node4").is_powered(), one.cluster().node("node4").powered) == (True, True)
    done = one.play(*command)
    assert done.returncode != 0
    assert "node2: node2 still runs instance1: evacuate it first" in done.stdout
    assert [one.lab.node(name).is_powered() for name in ("node2", "node4")] == [True, False]
    assert [one.cluster().node(name).powered for name in ("node2", "node4")] == [True, False]
    again = one.play("power.yml", "-e", "power=off", "-e", "nodes=node4", check=True)
    assert "changed=0" in again.stdout.splitlines()[-2], again.stdout
