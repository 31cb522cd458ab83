"""Rounds on real hosts: a QEMU that counts leaves a node that reports itself broken, whatever is killed."""

from __future__ import annotations

import shutil
import threading
import time
import uuid
from typing import TYPE_CHECKING, Any

import pytest
from ansible_collections.roundsman.cluster.daemon.lab import processes, world
from ansible_collections.roundsman.cluster.plugins.module_utils.domain import cluster as clusters
from ansible_collections.roundsman.cluster.plugins.plugin_utils.config import store

from tests.testbed import building, counter

from . import labs

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.testbed import beds

pytestmark = [pytest.mark.slow, pytest.mark.containers, pytest.mark.timeout(900)]
NAME = "counting"
SERIAL = "/srv/roundsman/disks/counting.serial"
HVPARAMS = {
    "accel": "tcg",
    "migration_unsafe": "yes",
    "migration_transport": "tcp",
    "serial_log": SERIAL,
    # It does not know how to shut itself down.
    "shutdown_timeout": "1",
}


class Round:
    """A daemon at work for the containers, one instance on node1, and what is seen of it from outside."""

    def __init__(self, bed: beds.Bed, cluster: clusters.Cluster) -> None:
        self.bed = bed
        self.daemon = labs.Running(world.Lab(bed.folder), {})
        self._uuid = cluster.instance(NAME).uuid
        store.write(bed.where.config, cluster)

    @property
    def disk(self) -> Path:
        return self.bed.shared / self._uuid / "disk0"

    def counts(self) -> list[counter.Count]:
        return counter.told((self.bed.shared / "counting.serial").read_bytes())

    def await_more(self) -> None:
        """Wait until it has counted on."""
        known, pause = counter.on_disk(self.disk.read_bytes()), threading.Event()
        for _ in range(1200):
            if counter.on_disk(self.disk.read_bytes()) > known:
                return
            pause.wait(0.1)
        pytest.fail(f"it stands still at {known}")

    def running(self) -> list[str]:
        """The nodes whose libvirt runs it."""
        listed = {node: self.bed.run(node, "virsh list --name --state-running") for node in self.bed.addresses()}
        return [node for node, done in listed.items() if NAME in done.stdout.decode().split()]

    def ended(self, node: str) -> dict[str, Any]:
        """The incident of a node, at its end."""
        found: dict[str, Any] = self.daemon.until(self.daemon.ended(node), f"the incident of {node} ends")
        return found

    def start(self) -> None:
        self.daemon.start()
        assert self.daemon.put(f"/2/instances/{NAME}/startup").status_code == 200
        self.daemon.until(lambda _: self.disk.exists() and self.running() == ["node1"], f"{NAME} runs")
        self.await_more()


@pytest.fixture
def at_work(containers: beds.Bed) -> Iterator[Callable[..., Round]]:
    """Makes a round's world for one test; after it the containers are empty and the configuration is as it was."""
    empty, made = store.read(containers.where.config), []

    def make(**hvparams: str) -> Round:
        one = Round(containers, clusters.with_instance(empty, instance(empty, **hvparams)))
        made.append(one)
        one.disk.parent.mkdir()
        one.disk.write_bytes(counter.disk())
        (containers.shared / "counting.serial").unlink(missing_ok=True)
        one.start()
        return one

    yield make
    for one in made:
        processes.down(one.daemon.lab)
    for node in containers.addresses():
        containers.run(node, f"virsh destroy {NAME}", check=False)
        containers.say(node, {"status": "Ok"})
    # What was told and done goes with the test: a report of an earlier one would be an incident of the next.
    for path in (containers.where.queue, containers.where.reports, containers.where.rounds, containers.where.spool):
        shutil.rmtree(path, ignore_errors=True)
    containers.where.spool.mkdir()
    store.write(containers.where.config, empty)
    building.start_bmcs(containers)


def instance(cluster: clusters.Cluster, **hvparams: str) -> clusters.Instance:
    return clusters.Instance(
        uuid=str(uuid.uuid4()),
        name=NAME,
        primary_node=cluster.node("node1").uuid,
        disk_template="sharedfile",
        disks=(clusters.Disk(size=1),),
        memory=16,
        admin_state="down",
        hvparams={**HVPARAMS, **hvparams},
        ctime=time.time(),
    )


def assert_left(one: Round, incident: dict[str, Any]) -> str:
    """node1 is empty, offline and tagged, and one copy runs where the configuration says; gives that node."""
    cluster = one.daemon.cluster()
    node = cluster.node("node1")
    assert (incident["repair-status"], cluster.primaries(node.uuid)) == ("completed", [])
    assert (node.offline, node.tags) == (True, (f"maintd:repairready:{incident['id']}",))
    [where] = one.running()
    assert cluster.instance(NAME).primary_node == cluster.node(where).uuid
    assert where != "node1"
    return where


def test_it_counts_on_while_a_round_takes_it_from_a_node_that_reports_evacuate(
    at_work: Callable[..., Round],
) -> None:
    one = at_work()
    one.bed.say("node1", {"status": "evacuate", "details": {"disk": "sda"}})
    assert_left(one, one.ended("node1"))
    one.await_more()
    counter.check(one.counts(), boots=1)


def test_it_is_started_elsewhere_when_a_node_reports_evacuate_failover(at_work: Callable[..., Round]) -> None:
    one = at_work()
    one.bed.say("node1", {"status": "evacuate-failover"})
    assert_left(one, one.ended("node1"))
    one.await_more()
    counter.check(one.counts(), boots=2)
    assert one.counts()[-1].boots == 2


def test_it_runs_once_though_daemon_and_play_are_killed_while_it_moves(at_work: Callable[..., Round]) -> None:
    one = at_work(migration_bandwidth="2")
    one.bed.say("node1", {"status": "evacuate"})
    one.bed.run("node1", f"until virsh domjobinfo {NAME} 2>/dev/null | grep -q Outgoing; do sleep 0.1; done")
    one.daemon.kill()
    one.daemon.start()
    assert_left(one, one.ended("node1"))
    one.await_more()
    counter.check(one.counts(), boots=1)
