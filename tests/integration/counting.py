"""The instance that counts on the containers of a bed, and what is seen of it from outside."""

from __future__ import annotations

import shutil
import threading
import time
import uuid
from typing import TYPE_CHECKING

import pytest
from ansible_collections.roundsman.cluster.daemon.lab import world
from ansible_collections.roundsman.cluster.plugins.plugin_utils.cluster import cluster as clusters
from ansible_collections.roundsman.cluster.plugins.plugin_utils.config import store

from tests.testbed import counter

from . import labs

if TYPE_CHECKING:
    from pathlib import Path

    from tests.testbed import beds

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


class Counting:
    """A bed whose configuration has the instance, with an empty disk; `hand` runs plays and asks the daemon."""

    def __init__(self, bed: beds.Bed, made: clusters.Instance) -> None:
        self.bed = bed
        self.hand = labs.Running(world.Lab(bed.folder), {})
        self.made = made
        store.write(bed.where.config, clusters.with_instance(store.read(bed.where.config), made))
        self.disk.parent.mkdir()
        self.disk.write_bytes(counter.disk())
        (bed.shared / "counting.serial").unlink(missing_ok=True)

    @property
    def disk(self) -> Path:
        return self.bed.shared / self.made.uuid / "disk0"

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

    def await_moving(self) -> None:
        """Wait until it is on its way from node1 to another."""
        self.bed.run("node1", f"until virsh domjobinfo {NAME} 2>/dev/null | grep -q Outgoing; do sleep 0.1; done")

    def primary(self) -> str:
        """The node where the configuration has it."""
        cluster = self.hand.cluster()
        return cluster.node_name(cluster.instance(NAME).primary_node)


def instance(cluster: clusters.Cluster, *, admin_state: str, **hvparams: str) -> clusters.Instance:
    """The instance, on node1."""
    return clusters.Instance(
        uuid=str(uuid.uuid4()),
        name=NAME,
        primary_node=cluster.node("node1").uuid,
        disk_template="sharedfile",
        disks=(clusters.Disk(size=1),),
        memory=16,
        admin_state=admin_state,
        hvparams={**HVPARAMS, **hvparams},
        ctime=time.time(),
    )


def leave_empty(bed: beds.Bed, empty: clusters.Cluster) -> None:
    """End the instance, and have the configuration as it was."""
    for node in bed.addresses():
        bed.run(node, f"virsh destroy {NAME}", check=False)
        bed.say(node, {"status": "Ok"})
    # What was told and done goes with the test: a report of an earlier one would be an incident of the next.
    for path in (bed.where.queue, bed.where.reports, bed.where.rounds, bed.where.spool):
        shutil.rmtree(path, ignore_errors=True)
    bed.where.spool.mkdir()
    store.write(bed.where.config, empty)
