"""Who may become primary, by what is known of a side before anything is done."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.disks.drbd import (
    Connection,
    Disk,
    Role,
    Side,
    Volume,
)
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.values import errors
from ansible_collections.roundsman.cluster.plugins.module_utils.storage import drbd_roles
from ansible_collections.roundsman.cluster.plugins.module_utils.storage.disks import State

from tests.unit.plugins.module_utils.storage.copies import NAME

if TYPE_CHECKING:
    from tests.unit.plugins.module_utils.storage.machine import Machine


@pytest.mark.parametrize(
    ("connection", "disks", "is_forced"),
    [
        (Connection.CONNECTING, [Disk.OUTDATED], True),
        (Connection.CONNECTING, [Disk.CONSISTENT, Disk.UP_TO_DATE], True),
        (Connection.CONNECTING, [Disk.UP_TO_DATE], False),
        (Connection.CONNECTING, [Disk.OUTDATED, Disk.INCONSISTENT], False),
        (Connection.CONNECTING, [Disk.OUTDATED, Disk.DISKLESS], False),
        (Connection.CONNECTED, [Disk.OUTDATED], False),
    ],
)
def test_force_is_for_a_whole_replica_that_lost_its_peer(
    machine: Machine, connection: Connection, disks: list[Disk], is_forced: bool
) -> None:
    side = Side(NAME, Role.SECONDARY, connection, tuple(Volume(number, disk) for number, disk in enumerate(disks)))
    roles = drbd_roles.Roles(machine, machine.node)
    steps = roles.primary(NAME, side, State.ACTIVE, may_be_two=False, alone=True, force=True)
    assert ["by force" in step.text for step in steps] == [is_forced]


def test_a_resource_of_which_no_disk_is_known_is_primary_on_one_node_only(machine: Machine) -> None:
    side = Side(NAME, Role.SECONDARY, Connection.CONNECTED, ())
    roles = drbd_roles.Roles(machine, machine.node)
    with pytest.raises(errors.Refused, match="not up to date on both"):
        roles.primary(NAME, side, State.SHARED, may_be_two=False, alone=False, force=False)
