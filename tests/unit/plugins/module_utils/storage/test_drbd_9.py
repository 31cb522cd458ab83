"""What version 9 needs beside version 8.4, on a simulated node that follows its manual and sources."""

from __future__ import annotations

import dataclasses
import json
from typing import TYPE_CHECKING

import pytest
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.values import errors
from ansible_collections.roundsman.cluster.plugins.module_utils.storage import drbd_resource, templates
from ansible_collections.roundsman.cluster.plugins.module_utils.storage.disks import State

from tests.unit.plugins.module_utils.storage.copies import DATA, META, NAME, THREE, TWO, become, storage, up_to_date

if TYPE_CHECKING:
    from tests.unit.plugins.module_utils.storage.machine import Machine


@pytest.fixture
def nine(machine: Machine) -> Machine:
    """As `pair`, with version 9."""
    machine.use_version_9()
    return up_to_date(machine)


def test_version_9_tells_of_a_pair_in_json(nine: Machine) -> None:
    assert "web1" not in (nine.root / "proc/drbd").read_text()
    (disk,) = storage(nine).local_disks()
    assert (disk.path, disk.is_synced, disk.is_connected, disk.text) == (
        "/dev/drbd3",
        True,
        True,
        "Secondary, Connected, UpToDate/UpToDate",
    )
    nine.set_resync_speed(16384)
    nine.peer().drbdadm("invalidate", NAME)
    nine.clock.wait(3)
    (disk,) = storage(nine).local_disks()
    assert (disk.is_synced, disk.peer_disk, disk.progress) == (False, "Inconsistent", 75.0)
    nine.set_link(is_cut=True)
    (disk,) = storage(nine).local_disks()
    assert disk.text == "Secondary, Connecting, UpToDate/Inconsistent"


def test_a_resource_with_several_peers_harms_no_other(nine: Machine) -> None:
    told = json.loads(nine.do("drbdsetup", "status", "--json"))
    several = {**told[0], "name": "other", "connections": told[0]["connections"] * 2}
    nine.answers["drbdsetup status"] = json.dumps([several, *told])
    assert [disk.is_synced for disk in storage(nine).local_disks()] == [True]
    nine.answers["drbdsetup status"] = json.dumps([{**several, "name": NAME}])
    with pytest.raises(errors.InvalidInput, match=f"{NAME} cannot be read on this node: it has 2 peers"):
        storage(nine).local_disks()


def test_version_9_would_take_what_the_old_peer_lacks_for_what_a_new_one_lacks(nine: Machine) -> None:
    path = nine.root / f"etc/drbd.d/roundsman-{NAME}.res"
    path.write_text(path.read_text().replace("on n2 ", "on n3 "))
    with pytest.raises(errors.Failed, match="node-id 1 keeps what n2 lacks: forget that peer first"):
        nine.do("drbdadm", "adjust", NAME)


@pytest.mark.parametrize("is_nine", [False, True])
def test_only_the_file_of_version_9_has_numbers_of_nodes(machine: Machine, is_nine: bool) -> None:
    if is_nine:
        machine.use_version_9()
    become(machine, State.PRESENT)
    text = machine.configured(NAME)
    assert drbd_resource.written_ids(text) == ([0, 1] if is_nine else [])
    assert machine.metadata(NAME).node_id == (0 if is_nine else None)
    assert storage(machine).local_disks()[0].node_id == (0 if is_nine else None)


def test_version_9_forgets_the_old_peer_before_a_new_one_takes_its_number(nine: Machine) -> None:
    become(nine, State.ACTIVE)
    nine.ran.clear()
    texts = become(nine, State.ACTIVE, peer=THREE)
    assert texts == [
        f"disconnect {NAME}",
        f"forget n2 in {NAME}",
        f"write {nine.root}/etc/drbd.d/roundsman-{NAME}.res with n3 as peer",
        f"adjust {NAME}",
    ]
    assert nine.ran == [
        f"drbdadm disconnect {NAME}",
        f"drbdsetup del-peer {NAME} 1",
        f"drbdadm forget-peer {NAME}",
        f"drbdadm adjust {NAME}",
    ]
    one = nine.resources[NAME]
    assert (one.role, one.connection, one.peer, one.peer_id) == ("Primary", "WFConnection", "n3", 1)
    assert nine.metadata(NAME).known_peers == ((1, "n3"),)


@pytest.mark.parametrize(
    "command", ["drbdadm disconnect", "drbdsetup del-peer", "drbdadm forget-peer", "drbdadm adjust"]
)
def test_a_change_of_peers_of_version_9_that_was_interrupted_goes_on(nine: Machine, command: str) -> None:
    nine.broken[command] = "killed"
    with pytest.raises(errors.Failed, match="killed"):
        templates.done(storage(nine, peer=THREE).steps(State.PRESENT))
    nine.broken.clear()
    become(nine, State.PRESENT, peer=THREE)
    assert nine.metadata(NAME).known_peers == ((1, "n3"),)
    assert nine.resources[NAME].connection == "WFConnection"


def test_version_9_forgets_the_old_peer_of_a_resource_that_is_down_too(nine: Machine) -> None:
    nine.drbdadm("down", NAME)
    become(nine, State.PRESENT, peer=THREE)
    assert nine.metadata(NAME).known_peers == ((1, "n3"),)


def test_the_same_peer_with_another_address_is_not_forgotten(nine: Machine) -> None:
    moved = dataclasses.replace(TWO, address="192.0.2.22")
    assert [step.text.split()[0] for step in storage(nine, peer=moved).steps(State.PRESENT)] == [
        "disconnect",
        "write",
        "adjust",
    ]


@pytest.mark.parametrize("number", [0, 1])
def test_the_new_secondary_takes_the_number_that_the_primary_has_not(machine: Machine, number: int) -> None:
    machine.use_version_9()
    become(machine, State.PRESENT, peer=dataclasses.replace(THREE, node_id=number))
    assert drbd_resource.written_ids(machine.configured(NAME)) == [1 - number, number]


def test_an_older_copy_with_the_number_of_the_primary_is_left_and_told(nine: Machine) -> None:
    primary = dataclasses.replace(THREE, node_id=0)
    with pytest.raises(errors.Refused, match="n3 has the number 0, and 1 in the file of an older replica here"):
        storage(nine, peer=primary).steps(State.PRESENT)
    assert nine.ran == []
    become(nine, State.ABSENT)
    become(nine, State.PRESENT, peer=primary)
    assert drbd_resource.written_ids(nine.configured(NAME)) == [1, 0]


def test_the_file_of_volumes_that_are_gone_says_no_numbers_any_more(nine: Machine) -> None:
    nine.drbdadm("down", NAME)
    for name in (DATA, META):
        nine.do("lvremove", "--yes", name)
    become(nine, State.PRESENT, peer=dataclasses.replace(THREE, node_id=0))
    assert drbd_resource.written_ids(nine.configured(NAME)) == [1, 0]
