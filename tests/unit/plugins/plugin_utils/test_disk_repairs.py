from __future__ import annotations

from typing import Any

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
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.disks.drbd_pairs import Where
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.values import errors
from ansible_collections.roundsman.cluster.plugins.module_utils.storage import drbd_sides
from ansible_collections.roundsman.cluster.plugins.plugin_utils import disk_repairs

INSTANCE = {"name": "web1", "uuid": "u1", "disks": [{"name": ""}, {"name": "old"}]}
NODES = {Where.PRIMARY: "n1", Where.SECONDARY: "n2"}
DETACH = [{"resource": "web1-disk0", "action": "attach", "where": "secondary", "node": "n2"}]

REPLACED = (
    "where the data of the primary count, the secondary set offline (roundsman node offline SECONDARY), then its "
    "replica replaced by one on another node (roundsman instance replace-disks NAME) with `--to`"
)


def side(role: Role, disk: Disk = Disk.UP_TO_DATE, connection: Connection = Connection.CONNECTED, **more: Any) -> Side:
    volume = Volume(0, disk, Disk.UP_TO_DATE, 0, Replication.ESTABLISHED, **more)
    return Side("web1-disk0", role, connection, (volume,))


def judged(
    primary: Any, secondary: Any, tried: list[dict[str, str]] | None = None, discard: Where | None = None
) -> dict[str, Any]:
    def answer(one: Any) -> dict[str, Any]:
        return one if isinstance(one, dict) else {"sides": [drbd_sides.encode(one)]}

    answers: dict[str, Any] = {"primary": answer(primary), "secondary": answer(secondary)}
    found = disk_repairs.judge(["web1-disk0"], **answers, tried=tried or [], discard=discard)
    return disk_repairs.as_result(found, NODES, tried=tried or [])


def test_resources_are_named_as_on_the_nodes() -> None:
    assert disk_repairs.resources(INSTANCE) == ["web1-disk0", "old"]


def test_a_healthy_pair_needs_nothing() -> None:
    told = judged(side(Role.PRIMARY), side(Role.SECONDARY))
    assert told == {
        "resources": ["web1-disk0"],
        "lines": ["web1-disk0: healthy"],
        "tried": [],
        "steps": [],
        "refused": [],
        "replaced": [],
        "waiting": [],
    }


def test_a_resource_that_a_node_cannot_read_is_refused_with_the_reason() -> None:
    told = judged(side(Role.PRIMARY), {"sides": [], "unread": {"web1-disk0": "it has 2 peers", "other": "no"}})
    (text,) = told["refused"]
    assert text == (
        "web1-disk0: refused, the resource cannot be read on the secondary: it has 2 peers; needed: a state there that "
        f"can be read: `drbdsetup status` prints its peers, of which it may have one; {REPLACED}"
    )
    other = {"sides": [drbd_sides.encode(side(Role.SECONDARY))], "unread": {"other": "no"}}
    told = judged(side(Role.PRIMARY), other)
    assert told["lines"] == ["web1-disk0: healthy"]


def test_a_step_names_its_node_and_when_it_did_not_help_the_secondary_is_replaced() -> None:
    pair = side(Role.PRIMARY), side(Role.SECONDARY, Disk.DISKLESS)
    told = judged(*pair)
    assert told["steps"] == [{**DETACH[0], "node": "n2"}]
    assert told["lines"] == [
        "web1-disk0: repair, the secondary has lost its disk, attach the disk again on the secondary"
    ]
    told = judged(*pair, tried=DETACH)
    assert told["tried"] == ["web1-disk0: tried to attach the disk again on n2"]
    assert told["steps"] == []
    assert told["replaced"] == [
        "web1-disk0: repair, the disk of the secondary cannot be attached, replace the secondary"
    ]
    other = [{**DETACH[0], "resource": "old"}]
    assert judged(*pair, tried=other)["steps"]


def test_split_brain_is_repaired_in_the_order_of_its_steps_once_a_person_names_the_node() -> None:
    ours, theirs = Generation(0x10, 0x30, (0x50,)), Generation(0x20, 0x30, (0x50,))
    alone = Connection.STANDALONE
    pair = (
        side(Role.PRIMARY, connection=alone, generation=ours),
        side(Role.SECONDARY, connection=alone, generation=theirs),
    )
    told = judged(*pair)
    assert told["steps"] == []
    assert "--discard NODE" in told["refused"][0]
    told = judged(*pair, discard=disk_repairs.node_to_discard("n2", NODES))
    assert [(one["action"], one["node"]) for one in told["steps"]] == [("discard", "n2"), ("connect", "n1")]


def test_only_a_node_with_a_replica_is_named_for_a_discard() -> None:
    assert disk_repairs.node_to_discard("", NODES) is None
    with pytest.raises(errors.InvalidInput, match="'n3' has no replica; use n1 or n2"):
        disk_repairs.node_to_discard("n3", NODES)


@pytest.mark.parametrize(
    ("silent", "said"),
    [({"unreachable": True}, ""), ({"failed": True, "msg": "no\nroute"}, ": no route"), ({}, "")],
)
def test_a_node_that_could_not_be_asked_is_refused_and_not_taken_for_down(silent: dict[str, Any], said: str) -> None:
    told = judged(side(Role.PRIMARY), silent)
    (text,) = told["refused"]
    assert text == (
        f"web1-disk0: refused, the secondary could not be asked{said}; needed: the secondary reachable again; "
        f"{REPLACED}"
    )
    assert judged(side(Role.PRIMARY), {"sides": []})["steps"][0]["action"] == "up"


def test_a_resync_is_waited_for() -> None:
    sync = Side(
        "web1-disk0",
        Role.SECONDARY,
        Connection.CONNECTED,
        (Volume(0, Disk.INCONSISTENT, Disk.UP_TO_DATE, 0, Replication.SYNC_TARGET, done=12.5),),
    )
    told = judged(side(Role.PRIMARY), sync)
    assert told["waiting"] == ["web1-disk0: waiting, its replicas are being resynced (SyncTarget, 12.5 % done)"]


def test_what_is_no_step_is_an_error() -> None:
    with pytest.raises(errors.InvalidInput, match="no step of a repair"):
        judged(side(Role.PRIMARY), side(Role.SECONDARY), tried=[{**DETACH[0], "action": "explode"}])


@pytest.mark.parametrize("disk", [Disk.DISKLESS, Disk.INCONSISTENT, Disk.UP_TO_DATE])
def test_no_disk_of_the_secondary_is_given_up_in_full_where_the_primary_has_not_all_disks(disk: Disk) -> None:
    alone, base = Connection.STANDALONE, 0x10
    # One side was in sync with another node since: DRBD would copy a part.
    generations = Generation(0x20, 0x50, history=(base, 0x40)), Generation(0x30, base, history=(base, 0x40))

    def answer(one: Generation, other: Disk) -> dict[str, Any]:
        volumes = (
            ("web1-disk0", Volume(0, Disk.UP_TO_DATE, replication=Replication.OFF, generation=one)),
            ("old", Volume(0, other, replication=Replication.OFF, generation=Generation(base))),
        )
        sides = [Side(name, Role.SECONDARY, alone, (volume,)) for name, volume in volumes]
        return {"sides": [drbd_sides.encode(each) for each in sides]}

    answers: dict[str, Any] = {
        "primary": answer(generations[0], disk),
        "secondary": answer(generations[1], Disk.UP_TO_DATE),
    }
    found = disk_repairs.judge(["web1-disk0", "old"], **answers, tried=[], discard=Where.SECONDARY)
    told = disk_repairs.as_result(found, NODES)
    assert ("give_up" in [step["action"] for step in told["steps"]]) is (disk is Disk.UP_TO_DATE)
    if disk is not Disk.UP_TO_DATE:
        assert "needed: the other disks of the instance repaired first" in " ".join(told["refused"])
