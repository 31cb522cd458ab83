"""An emergency power off, and its return, on guests whose QEMU really ends and boots."""

from __future__ import annotations

import time
import uuid
from typing import TYPE_CHECKING

import pytest
from ansible_collections.roundsman.cluster.daemon.lab import world
from ansible_collections.roundsman.cluster.plugins.module_utils.domain import cluster as clusters
from ansible_collections.roundsman.cluster.plugins.plugin_utils.config import store

from tests.testbed import building, counter, nodes

from . import labs

if TYPE_CHECKING:
    from tests.testbed import beds

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1500)]
NAME, DISK = "counting", "/var/lib/roundsman/disks/counting"


def test_the_guests_end_and_boot_and_what_ran_there_goes_on_from_its_disk(guests: beds.Bed) -> None:
    by_hand, empty = labs.Running(world.Lab(guests.folder), {}), store.read(guests.where.config)
    guests.run("node1", f"cat >{DISK}", given=counter.disk())
    store.write(guests.where.config, clusters.with_instance(empty, instance(empty)))
    by_hand.start()
    assert by_hand.put(f"/2/instances/{NAME}/startup").status_code == 200
    await_more(guests, counter.Count(0, 0))
    by_hand.stop()

    off = by_hand.play("epo.yml", "-e", "epo_all=true", "-e", "epo_force=true")
    assert off.returncode == 0, off.stdout
    assert nodes.running(guests) == set()
    assert [one.powered for one in by_hand.cluster().nodes.values() if one.vm_capable] == [False, False]

    on = by_hand.play("epo.yml", "-e", "epo_on=true", "-e", "epo_force=true")
    assert on.returncode == 0, on.stdout
    assert nodes.running(guests) == {"node1", "node2"}
    for node in guests.addresses():
        building.await_node(guests, node, seconds=building.BOOT)
    assert await_more(guests, counter.Count(1, 1 << 30)).boots == 2
    guests.run("node1", f"virsh destroy {NAME}; rm {DISK}")
    store.write(guests.where.config, empty)


def instance(cluster: clusters.Cluster) -> clusters.Instance:
    return clusters.Instance(
        uuid=str(uuid.uuid4()),
        name=NAME,
        primary_node=cluster.node("node1").uuid,
        disk_template="file",
        disks=(clusters.Disk(size=1, name=DISK),),
        memory=16,
        admin_state="down",
        hvparams={"accel": "tcg", "shutdown_timeout": "1"},
        ctime=time.time(),
    )


def await_more(guests: beds.Bed, known: counter.Count) -> counter.Count:
    """Wait until its disk says that it counted on from there."""
    end = time.monotonic() + 300
    while (now := counter.on_disk(guests.run("node1", f"head -c 1024 {DISK}").stdout)) <= known:
        assert time.monotonic() < end, f"it stands still at {now}"
    return now
