from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from ansible_collections.roundsman.cluster.plugins.module_utils.storage import disks, peer_data, programs

from tests.unit.plugins.module_utils.storage.machine import Machine

if TYPE_CHECKING:
    from pathlib import Path

NAME = "web1-disk0"


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    """A node with one resource that has its peer."""
    found = Machine(tmp_path / "n1")
    found.place()
    monkeypatch.setattr(programs, "runner_for", lambda _root, **_: found)
    return found


def lacks(machine: Machine, *names: str, template: str = "drbd") -> str:
    asked = disks.Disks("web1", "u-1", tuple(disks.Disk(64, name) for name in names or ("",)))
    return peer_data.PeerData(asked, template, root=machine.root, hypervisor="kvm").lacks()


def test_a_peer_in_sync_lacks_nothing_and_one_without_a_link_may(machine: Machine) -> None:
    assert lacks(machine) == ""
    machine.set_link(is_cut=True)
    machine.clock.wait(60)
    assert lacks(machine).startswith(f"{NAME} is Connecting, UpToDate here and DUnknown there")


def test_what_cannot_be_read_counts_as_lacking(machine: Machine) -> None:
    machine.broken["drbdsetup status"] = "it did not end within 5 s"
    assert lacks(machine).startswith("they cannot be read: drbdsetup status")


def test_a_replica_that_is_down_counts_as_lacking_and_disks_of_other_kinds_never_do(machine: Machine) -> None:
    assert lacks(machine, NAME, "other") == "other is down"
    machine.drbdadm("down", NAME)
    assert lacks(machine) == f"{NAME} is down"
    assert lacks(machine, template="plain") == ""


def test_a_disk_that_failed_here_takes_nothing_from_the_peer(machine: Machine) -> None:
    machine.drbdadm("detach", NAME)
    assert machine.resources[NAME].disk == "Diskless"
    assert lacks(machine) == ""
