from __future__ import annotations

import json

import pytest
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.disks.drbd import (
    Connection,
    Disk,
    Generation,
    Replication,
    Role,
    Side,
    Volume,
)
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.values import errors
from ansible_collections.roundsman.cluster.plugins.module_utils.storage import drbd_sides

SPLIT = Generation(0xB973DA07ACB97AA1, 0x56405A77C745066F, (0x6D4CDE33A1C1F033, 0), crashed_primary=True)
SIDE = Side(
    "r0",
    Role.PRIMARY,
    Connection.STANDALONE,
    (
        Volume(0, Disk.UP_TO_DATE, minor=3, out_of_sync=36, generation=SPLIT),
        Volume(1, Disk.INCONSISTENT, Disk.UP_TO_DATE, 4, Replication.PAUSED_SYNC_T, 5, 1.5, paused_by_user=True),
    ),
    Role.SECONDARY,
)


def test_a_side_comes_back_as_it_was_through_json() -> None:
    assert drbd_sides.decode(json.loads(json.dumps(drbd_sides.encode(SIDE)))) == SIDE


def test_what_is_no_side_is_an_error() -> None:
    whole = drbd_sides.encode(SIDE)
    for wrong in ({}, {**whole, "role": "Boss"}, {**whole, "volumes": [{}]}, {**whole, "volumes": 5}):
        with pytest.raises(errors.InvalidInput, match="no side of a DRBD resource"):
            drbd_sides.decode(wrong)
