"""The life of one instance on two real machines: it counts, its disk is DRBD's, and each test goes on after the last.

The machines are guests of QEMU whose BMCs, simulated ones, take their power and give it. What the instance counted is
read from its serial port and its disk, from outside.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from ansible_collections.roundsman.cluster.daemon.lab import world

from tests.testbed import building, counter, nodes, wires

from . import counting_guests, labs, states
from .counting_guests import DEVICE, LIMIT, NAME, RESOURCE, Story

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.testbed import beds

pytestmark = [pytest.mark.slow, pytest.mark.guests, pytest.mark.timeout(1500)]


@pytest.fixture(scope="module")
def story(guests: beds.Bed) -> Iterator[Story]:
    """The daemon at work, and the instance."""
    with counting_guests.at_work(guests) as one:
        yield one


def test_it_is_made_and_counts(story: Story) -> None:
    story.assert_healthy("node1")
    assert story.await_more("node1").boots == 1


def test_a_round_takes_it_live_from_a_node_that_reports_evacuate(story: Story) -> None:
    story.bed.say("node1", {"status": "evacuate"})

    def has_moved(one: labs.Running) -> bool:
        cluster = one.cluster()
        return cluster.instance(NAME).primary_node == cluster.node("node2").uuid and states.at_rest(one)

    story.daemon.until(has_moved, "the round has done what it can", seconds=LIMIT)
    story.assert_healthy("node2")
    story.await_more("node2")
    counter.check(story.counts(), boots=1)
    waits = "no other node of group default takes it (node2 holds its other replica)"
    assert waits in story.command("explain", "node1")


def test_its_node_comes_back(story: Story) -> None:
    incident = story.daemon.incident("node1")
    assert incident is not None
    story.bed.say("node1", {"status": "Ok"})
    story.command("incident", "cancel", incident["id"])
    story.daemon.until(states.forgotten("node1"), "its report says Ok", seconds=LIMIT)
    story.command("node", "undrain", "node1")


def test_a_new_controller_adopts_the_hosts_as_they_are(story: Story, tmp_path: Path) -> None:
    reached = (
        f"ansible_user=root ansible_ssh_private_key_file={story.bed.key} ansible_ssh_timeout=60 "
        f"ansible_ssh_common_args='{' '.join(story.bed.ssh_options())}' ansible_python_interpreter=/usr/bin/python3"
    )
    hosts = tmp_path / "hosts.ini"
    hosts.write_text("".join(f"{name} ansible_host={at} {reached}\n" for name, at in story.bed.addresses().items()))
    other = labs.Running(world.Lab(tmp_path), {})
    other.where.root.mkdir()

    def adopt(*options: str) -> str:
        new = ("--controller", "ctl:192.0.2.250")
        done = states.command(other, "cluster", "adopt", "-i", str(hosts), "--name", "adopted", *new, *options)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    refusal = f"{NAME}: on node2, its definition has the element log in domain/devices/serial: change it there"
    assert refusal in adopt("--dry-run")
    changed = f"virsh dumpxml --inactive {NAME} | grep -v '<log ' >/tmp/{NAME}.xml; virsh define /tmp/{NAME}.xml"
    story.bed.run("node2", changed)
    try:
        adopt("--yes")
    finally:
        story.bed.run("node2", f"virsh undefine {NAME}; rm /tmp/{NAME}.xml")
    found, known = other.cluster(), story.daemon.cluster()
    there, here = found.instance(NAME), known.instance(NAME)
    assert (there.uuid, there.disk_template, there.memory) == (here.uuid, "drbd", here.memory)
    assert [(disk.name, disk.minor, disk.size) for disk in there.disks] == [(RESOURCE, 0, 8)]
    assert [found.node_name(uuid) for uuid in there.nodes] == [known.node_name(uuid) for uuid in here.nodes]
    addresses = {one.name: one.secondary_ip for one in found.nodes.values()}
    assert addresses == {one.name: one.secondary_ip for one in known.nodes.values() if one.vm_capable}


def test_a_disk_that_was_detached_is_attached_by_a_job(story: Story) -> None:
    story.bed.run("node1", f"drbdadm detach {RESOURCE}")
    story.await_more("node2")
    assert "tried to attach the disk again on node1" in story.command("instance", "repair-disks", NAME)
    story.assert_healthy("node2")


def test_its_secondary_gets_another_disk_while_it_counts(story: Story) -> None:
    before = story.bed.run("node1", "lvs --noheadings -o lv_uuid").stdout
    story.command("instance", "replace-disks", NAME, "--to", "node1")
    after = story.bed.run("node1", "lvs --noheadings -o lv_uuid").stdout
    assert set(before.split()).isdisjoint(after.split())
    story.assert_healthy("node2")
    story.await_more("node2")
    counter.check(story.counts(), boots=1)


def test_a_failover_to_a_stale_replica_is_refused_before_the_stop_and_the_replica_is_outdated_for_good(
    story: Story,
) -> None:
    wires.cut(story.bed, "node1", "secondary", is_cut=True)
    try:
        story.until(lambda: story.pair("node2").startswith("cs:WFConnection"), "the primary has noticed")
        story.until(lambda: story.pair("node1").startswith("cs:WFConnection"), "the secondary has noticed")
        story.await_more("node2")
        refused = states.command(story.daemon, "instance", "failover", NAME)
        assert refused.returncode != 0
        said = " ".join((refused.stdout + refused.stderr).split())
        assert f"{NAME} was not failed over, and not stopped: the replicas of {NAME} are not in sync" in said
        assert story.running() == ["node2"]
        story.await_more("node2")
        story.until(lambda: "ds:Outdated" in story.pair("node1"), "the controller has outdated the stale replica")
        story.command("node", "power", "off", "node1", "--yes")
        story.command("node", "power", "on", "node1")
        building.await_node(story.bed, "node1", seconds=building.BOOT)
        promoted = story.bed.run("node1", f"drbdadm up {RESOURCE}; drbdadm primary {RESOURCE}", check=False)
        assert b"Need access to UpToDate data" in promoted.stderr
    finally:
        wires.cut(story.bed, "node1", "secondary", is_cut=False)
    story.command("node", "online", "node1", "--force")
    story.assert_healthy("node2")
    counter.check(story.counts(), boots=1)


def test_a_failover_to_a_node_whose_hypervisor_does_not_answer_leaves_the_instance_running(story: Story) -> None:
    services = "libvirtd.service libvirtd.socket libvirtd-ro.socket libvirtd-admin.socket"
    story.bed.run("node1", f"systemctl stop {services}")
    try:
        refused = states.command(story.daemon, "instance", "failover", NAME)
    finally:
        story.bed.run("node1", "systemctl start libvirtd.service")
        building.await_node(story.bed, "node1")
    assert refused.returncode != 0
    assert "and not stopped: " in " ".join((refused.stdout + refused.stderr).split())
    story.assert_healthy("node2")
    counter.check(story.counts(), boots=1)


def test_the_only_good_replica_is_not_replaced_on_its_own_node(story: Story) -> None:
    story.bed.run("node2", f"drbdadm detach {RESOURCE}")
    story.until(lambda: "ds:Diskless/UpToDate" in story.pair("node2"), "the primary works on the secondary's disk")
    before = story.bed.run("node1", "lvs --noheadings -o lv_uuid").stdout
    refused = states.command(story.daemon, "instance", "replace-disks", NAME, "--to", "node1")
    assert refused.returncode != 0
    assert "is not up to date" in " ".join((refused.stdout + refused.stderr).split())
    assert story.bed.run("node1", "lvs --noheadings -o lv_uuid").stdout == before
    story.command("instance", "repair-disks", NAME)
    story.assert_healthy("node2")
    counter.check(story.counts(), boots=1)


def test_it_goes_on_elsewhere_once_its_node_has_no_power_and_the_node_that_returns_follows(story: Story) -> None:
    in_sync = f"node2: {RESOURCE}: Primary, Connected, UpToDate/UpToDate, reported"
    story.until(lambda: in_sync in story.command("explain", NAME), "the primary has reported that its disk is back")
    known = story.disk("node2")
    refused = states.command(story.daemon, "node", "power", "off", "node2", "--yes")
    assert refused.returncode != 0
    assert story.running() == ["node2"]
    story.command("node", "power", "off", "node2", "--force", "--ignore-status")
    assert nodes.running(story.bed) == {"node1"}
    story.command("instance", "failover", NAME)
    assert story.running() == ["node1"]
    assert story.await_more("node1").boots == known.boots + 1
    assert story.disk("node1").count > known.count
    story.command("node", "power", "on", "node2")
    building.await_node(story.bed, "node2", seconds=building.BOOT)
    story.command("node", "online", "node2", "--force")
    verdict = f"{RESOURCE}: repair, the resource is down on the secondary, bring the resource up on the secondary"
    before = story.pair("node2")
    assert verdict in story.play("repair.yml", "-e", f"instance_name={NAME}", "--check")
    assert story.pair("node2") == before
    assert verdict in story.play("repair.yml", "-e", f"instance_name={NAME}")
    story.assert_healthy("node1")
    counter.check(story.counts(), boots=2)


def test_an_emergency_ends_the_guests_and_its_return_boots_them(story: Story) -> None:
    known = story.disk("node1")
    story.play("epo.yml", "-e", "epo_all=true", "-e", "epo_force=true")
    assert nodes.running(story.bed) == set()
    story.play("epo.yml", "-e", "epo_on=true", "-e", "epo_force=true")
    assert nodes.running(story.bed) == {"node1", "node2"}
    story.assert_healthy("node1")
    assert story.await_more("node1").boots == known.boots + 1
    assert story.disk("node1").count >= known.count


def test_after_a_split_brain_nothing_is_discarded_until_a_person_names_the_node(story: Story) -> None:
    (primary,) = story.running()
    secondary = "node2" if primary == "node1" else "node1"
    known = story.await_more(primary)
    parted = f"drbdadm disconnect {RESOURCE} && drbdadm primary {RESOURCE}"
    written = f"printf lost | dd of={DEVICE} bs=4096 seek=9 conv=notrunc,sync oflag=direct 2>/dev/null"
    met = f"drbdadm secondary {RESOURCE} && drbdadm connect {RESOURCE}"
    story.bed.run(secondary, f"{parted} && {written} && {met}")
    story.until(lambda: story.pair(primary).startswith("cs:StandAlone"), "DRBD has found that both were written")
    for options in ((), ("--discard", primary, "--yes")):
        refused = states.command(story.daemon, "instance", "repair-disks", NAME, *options)
        assert refused.returncode != 0
        assert "split brain" in refused.stdout + refused.stderr
        assert story.pair(primary).endswith("ro:Primary/Unknown ds:UpToDate/DUnknown")
        assert "ro:Secondary/Unknown" in story.pair(secondary)
    told = story.command("instance", "repair-disks", NAME, "--discard", secondary, "--yes")
    (snapshot,) = re.findall(r"lvremove (\S+\.disk0\.discarded1)", " ".join(told.split()))
    story.assert_healthy(primary)
    assert story.await_more(primary).count > known.count
    lost = f"dd if=/dev/{snapshot} bs=4096 skip=9 count=1 iflag=direct 2>/dev/null"
    assert story.bed.run(secondary, lost).stdout.startswith(b"lost")
    story.bed.run(secondary, f"lvremove --yes {snapshot}")


def test_it_is_removed_and_leaves_nothing(story: Story) -> None:
    story.command("instance", "remove", NAME, "--yes")
    for node in story.bed.addresses():
        left = story.bed.run(
            node, "ls /etc/drbd.d | grep roundsman; lvs --noheadings; virsh list --all --name", check=False
        )
        assert left.stdout.split() == []
