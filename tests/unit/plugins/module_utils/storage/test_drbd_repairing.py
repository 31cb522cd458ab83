from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import pytest
from ansible_collections.roundsman.cluster.plugins.module_utils.domain import errors
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.drbd_repairs import Action
from ansible_collections.roundsman.cluster.plugins.module_utils.storage import drbd_repairing, templates

from tests.unit.plugins.module_utils.storage.machine import USED_GI, Machine, Resource

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    one = Resource(0, "192.0.2.2", disk="UpToDate", gi=USED_GI)
    one.meet(disk="UpToDate")
    return Machine(tmp_path, loaded=True, resources={"r0": one})


def mend(machine: Machine, action: Action, **changed: Any) -> list[str]:
    """What an action runs on a node whose resource is changed so."""
    for name, value in changed.items():
        setattr(machine.resources["r0"], name, value)
    templates.done(drbd_repairing.Repairs(machine, machine.node).steps(action, "r0"))
    return machine.ran


@pytest.mark.parametrize(
    ("action", "changed", "ran"),
    [
        (Action.ATTACH, {"disk": "Diskless"}, ["drbdadm attach r0/0"]),
        (Action.RESUME, {"paused": True}, ["drbdadm resume-sync r0"]),
        (Action.CONNECT, {"state": "StandAlone"}, ["drbdadm connect r0"]),
        (Action.INVALIDATE, {"disk": "Inconsistent"}, ["drbdadm invalidate r0"]),
        (Action.DISCARD, {"state": "StandAlone"}, ["drbdadm connect --discard-my-data r0"]),
        (
            Action.DISCARD,
            {"state": "WFConnection"},
            ["drbdadm disconnect r0", "drbdadm connect --discard-my-data r0"],
        ),
    ],
)
def test_a_step_is_done(machine: Machine, action: Action, changed: dict[str, Any], ran: list[str]) -> None:
    assert mend(machine, action, **changed) == ran


@pytest.mark.parametrize("action", [Action.UP, Action.ATTACH, Action.RESUME, Action.CONNECT])
def test_what_is_done_already_is_not_done_again(machine: Machine, action: Action) -> None:
    assert mend(machine, action) == []


@pytest.mark.parametrize(
    ("action", "changed", "text"),
    [
        (Action.INVALIDATE, {"state": "WFConnection"}, "this copy is kept"),
        (Action.INVALIDATE, {"peer_disk": "Inconsistent"}, "this copy is kept"),
        (Action.DISCARD, {"state": "StandAlone", "role": "Primary"}, "what it writes is kept"),
        (Action.DISCARD, {}, "there is no split brain"),
        (Action.REPLACE, {}, "it is the opcode replace_disks"),
    ],
)
def test_nothing_is_thrown_away_that_may_be_the_only_copy(
    machine: Machine, action: Action, changed: dict[str, Any], text: str
) -> None:
    with pytest.raises(errors.Refused, match=text):
        mend(machine, action, **changed)
    assert machine.ran == []


def test_what_is_down_is_brought_up_before_anything_else(machine: Machine) -> None:
    machine.resources.clear()
    with pytest.raises(errors.Refused, match="r0 is down on this node: bring it up first"):
        mend(machine, Action.ATTACH)
    machine.broken["drbdadm adjust r0"] = "not defined in your config"
    with pytest.raises(errors.Failed, match="not defined"):
        mend(machine, Action.UP)


def test_connections_are_waited_for_until_the_limit(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    one = machine.resources["r0"]
    one.state = "WFConnection"
    (side,) = drbd_repairing.settled(machine.node, ["r0"], time_limit=0.0)
    assert side.connection.value == "Connecting"
    assert drbd_repairing.settled(machine.node, [], time_limit=60.0)

    def met(_seconds: float) -> None:
        one.state = "Connected"
        machine._proc()

    monkeypatch.setattr(time, "sleep", met)
    (side,) = drbd_repairing.settled(machine.node, ["r0"], time_limit=60.0)
    assert side.connection.value == "Connected"


def test_the_identifiers_are_read_of_sides_that_have_parted(machine: Machine) -> None:
    (side,) = machine.node.sides()
    assert drbd_repairing.parted(machine.node, side) is None
    machine.resources["r0"].state = "StandAlone"
    machine._proc()
    (side,) = machine.node.sides()
    parted = drbd_repairing.parted(machine.node, side)
    assert parted is not None
    assert parted.volumes[0].generation is not None
    machine.broken["drbdadm get-gi"] = "no metadata"
    parted = drbd_repairing.parted(machine.node, side)
    assert parted is not None
    assert parted.volumes[0].generation is None


def test_a_node_without_drbd_has_no_resources(tmp_path: Path) -> None:
    node = Machine(tmp_path).node
    assert (node.version(), node.sides(), node.allowing_two()) == (None, [], frozenset())


def test_what_was_killed_while_it_came_up_is_as_good_as_down(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    half = "half role:Secondary suspended:no\n    write-ordering:drain\n"
    monkeypatch.setattr(machine, "_drbdsetup_status", lambda *_: half)
    assert machine.node.sides() == []
