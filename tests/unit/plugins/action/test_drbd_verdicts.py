from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.disks.drbd import (
    Connection,
    Disk,
    Replication,
    Role,
    Side,
    Volume,
)
from ansible_collections.roundsman.cluster.plugins.module_utils.storage import drbd_sides

if TYPE_CHECKING:
    from .running import Controller

INSTANCE = {"name": "inst1", "uuid": "i1", "disks": [{"name": "r0"}]}
NODES = {"primary": "node2", "secondary": "node3"}


def answer(role: Role, disk: Disk = Disk.UP_TO_DATE) -> dict[str, Any]:
    volume = Volume(0, disk, Disk.UP_TO_DATE, 0, Replication.ESTABLISHED)
    return {"version": 9, "sides": [drbd_sides.encode(Side("r0", role, Connection.CONNECTED, (volume,)))]}


PRIMARY, SECONDARY, DISKLESS = answer(Role.PRIMARY), answer(Role.SECONDARY), answer(Role.SECONDARY, Disk.DISKLESS)
ATTACH = {"resource": "r0", "action": "attach", "where": "secondary", "node": "node3"}


@pytest.mark.parametrize(
    ("secondary", "tried", "counts"),
    [
        (SECONDARY, [], {"steps": 0, "refused": 0, "replaced": 0}),
        (DISKLESS, [], {"steps": 1, "refused": 0, "replaced": 0}),
        (DISKLESS, [ATTACH], {"steps": 0, "refused": 0, "replaced": 1}),
        ({"unreachable": True, "msg": "no route"}, [], {"steps": 0, "refused": 1, "replaced": 0}),
        ({"version": 9, "sides": None}, [], {"steps": 0, "refused": 1, "replaced": 0}),
    ],
)
def test_what_both_nodes_said_becomes_steps_or_is_left_to_people(
    controller: Controller, secondary: dict[str, Any], tried: list[dict[str, str]], counts: dict[str, int]
) -> None:
    options: dict[str, Any] = {
        "instance": INSTANCE,
        "primary": PRIMARY,
        "secondary": secondary,
        "nodes": NODES,
        "tried": tried,
    }
    for is_check in (False, True):
        result = controller.run("drbd_verdicts", is_check=is_check, **options)
        assert (result.get("failed"), result["changed"], result["resources"]) == (None, False, ["r0"])
        assert {key: len(result[key]) for key in counts} == counts
        assert result["steps"] == [ATTACH][: counts["steps"]]
    assert (controller.held, controller.recorded) == ({}, [])


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"discard": "node9\x1b[2J"}, "discard: 'node9\\x1b[2J' has no replica; use node2 or node3"),
        ({"secondary": {"sides": [{"resource": "r0"}]}}, "this is no side of a DRBD resource: KeyError"),
        ({"secondary": {"sides": [{**SECONDARY["sides"][0], "role": "\x1b[2J"}]}}, "this is no side of a DRBD"),
        ({"secondary": {"sides": [{**SECONDARY["sides"][0], "volumes": None}]}}, "this is no side of a DRBD"),
        ({"tried": [{**ATTACH, "action": "format"}]}, "this is no step of a repair: 'FORMAT'"),
    ],
)
def test_an_answer_that_is_none_and_a_wrong_name_are_refused(
    controller: Controller, changed: dict[str, Any], said: str
) -> None:
    options: dict[str, Any] = {
        "instance": INSTANCE,
        "primary": PRIMARY,
        "secondary": DISKLESS,
        "nodes": NODES,
        **changed,
    }
    assert said in controller.refusal("drbd_verdicts", **options)
