from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest
from ansible_collections.roundsman.cluster.daemon.lab.simulator import simulated_lvm
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.disks.drbd_pairs import Action
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.values import errors
from ansible_collections.roundsman.cluster.plugins.module_utils.storage import drbd_repairing, templates

from tests.unit.plugins.module_utils.storage.machine import Machine

if TYPE_CHECKING:
    from pathlib import Path

R0 = "web1-disk0"
DISK = "roundsman/u-1.disk0"


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    """A node with a replica in sync, whose resyncs copy nothing; its disk is a partition for who asks."""
    made = Machine(tmp_path / "n1", answers={"drbdadm sh-ll-dev": "/dev/vda3\n"})
    made.place()
    made.set_resync_speed(0)
    return made


def happen(machine: Machine, *deeds: str) -> None:
    """What happened to the resource: `cut`, a verb of drbdadm on this node, or `n2` and a verb on the peer."""
    for deed in deeds:
        if deed == "cut":
            machine.set_link(is_cut=True)
        else:
            (machine.peer() if deed.startswith("n2 ") else machine).drbdadm(deed.split()[-1], R0)


def mend(machine: Machine, action: Action, *deeds: str) -> list[str]:
    """What an action runs on a node after these deeds."""
    happen(machine, *deeds)
    templates.done(drbd_repairing.Repairs(machine, machine.node).steps(action, R0))
    return machine.ran


@pytest.mark.parametrize(
    ("action", "deeds", "ran"),
    [
        (Action.ATTACH, ["detach"], [f"drbdadm attach {R0}/0"]),
        (Action.RESUME, ["pause-sync"], [f"drbdadm resume-sync {R0}"]),
        (Action.RESUME, ["invalidate", "pause-sync"], [f"drbdadm resume-sync {R0}"]),
        (Action.CONNECT, ["disconnect"], [f"drbdadm connect {R0}"]),
        (Action.INVALIDATE, [], [f"drbdadm invalidate {R0}"]),
        (Action.DISCARD, ["disconnect"], [f"drbdadm connect --discard-my-data {R0}"]),
        (
            Action.DISCARD,
            ["n2 disconnect"],
            [f"drbdadm disconnect {R0}", f"drbdadm connect --discard-my-data {R0}"],
        ),
        (Action.OUTDATE, ["cut"], [f"drbdadm outdate {R0}"]),
        (Action.OUTDATE, ["disconnect"], [f"drbdadm outdate {R0}"]),
        (Action.OUTDATE, ["cut", "outdate"], []),
        (Action.OUTDATE, ["invalidate", "cut"], []),
    ],
)
def test_a_step_is_done(machine: Machine, action: Action, deeds: list[str], ran: list[str]) -> None:
    assert mend(machine, action, *deeds) == ran


def test_a_replica_that_waits_for_its_peers_word_is_outdated_too(machine: Machine) -> None:
    # So DRBD calls it with a fencing policy, which a resource may have that Roundsman did not make.
    machine.garbled["ds:UpToDate/"] = "ds:Consistent/"
    assert mend(machine, Action.OUTDATE, "disconnect") == [f"drbdadm outdate {R0}"]


@pytest.mark.parametrize("lower", [f"/dev/{DISK}", "/dev/mapper/roundsman-u--1.disk0"])
def test_what_is_discarded_is_kept_in_a_snapshot_first(machine: Machine, lower: str) -> None:
    machine.make_volume(f"{DISK}.discarded1", 64)
    machine.answers["drbdadm sh-ll-dev"] = lower
    assert mend(machine, Action.DISCARD, "disconnect") == [
        f"lvcreate --yes --snapshot --size 66m --name u-1.disk0.discarded2 {DISK}",
        f"drbdadm connect --discard-my-data {R0}",
    ]
    assert f"{DISK}.discarded2" in machine.volumes


def test_without_room_for_a_snapshot_the_discard_says_so_and_goes_on(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine.answers.clear()
    monkeypatch.setattr(simulated_lvm, "GROUP_SIZE", sum(one.size for one in machine.volumes.values()) + 65)
    happen(machine, "disconnect")
    first, *_ = drbd_repairing.Repairs(machine, machine.node).steps(Action.DISCARD, R0)
    assert isinstance(first, drbd_repairing.Kept)
    assert first.text == f"no snapshot of {DISK}: roundsman has 65 MiB free, and 66 are needed"
    assert mend(machine, Action.DISCARD) == [f"drbdadm connect --discard-my-data {R0}"]


def test_where_a_snapshot_fails_nothing_is_discarded(machine: Machine) -> None:
    machine.answers.clear()
    machine.broken["lvcreate"] = "I/O error"
    with pytest.raises(errors.Failed, match="I/O error"):
        mend(machine, Action.DISCARD, "disconnect")
    assert machine.ran == []


@pytest.mark.parametrize("action", [Action.UP, Action.ATTACH, Action.RESUME, Action.CONNECT, Action.OUTDATE])
def test_what_is_done_already_is_not_done_again(machine: Machine, action: Action) -> None:
    assert mend(machine, action) == []


@pytest.mark.parametrize(
    ("action", "deeds", "text"),
    [
        (Action.INVALIDATE, ["cut"], "this replica is kept"),
        (Action.INVALIDATE, ["n2 invalidate"], "this replica is kept"),
        (Action.DISCARD, ["primary", "disconnect"], "what it writes is kept"),
        (Action.DISCARD, [], "there is no split brain"),
        (Action.OUTDATE, ["primary", "cut"], "its replica here is not outdated"),
        # It was promoted since it lost its peer: the newest data may be here.
        (Action.OUTDATE, ["primary", "cut", "secondary"], "a person decides whose data count"),
        (Action.REPLACE, [], "it is the opcode replace_disks"),
    ],
)
def test_nothing_is_thrown_away_that_may_be_the_only_copy(
    machine: Machine, action: Action, deeds: list[str], text: str
) -> None:
    with pytest.raises(errors.Refused, match=text):
        mend(machine, action, *deeds)
    assert machine.ran == []


def test_what_is_down_is_brought_up_before_anything_else(machine: Machine) -> None:
    happen(machine, "down")
    with pytest.raises(errors.Refused, match=f"{R0} is down on this node: bring it up first"):
        mend(machine, Action.ATTACH)
    machine.broken[f"drbdadm adjust {R0}"] = "not defined in your config"
    with pytest.raises(errors.Failed, match="not defined"):
        mend(machine, Action.UP)


def test_connections_are_waited_for_until_the_limit(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    happen(machine, "cut")
    (side,) = drbd_repairing.settled(machine.node, [R0], time_limit=0.0).sides
    assert side.connection.value == "Connecting"
    assert drbd_repairing.settled(machine.node, [], time_limit=60.0)
    monkeypatch.setattr(time, "sleep", lambda _seconds: machine.set_link(is_cut=False))
    (side,) = drbd_repairing.settled(machine.node, [R0], time_limit=60.0).sides
    assert side.connection.value == "Connected"


def test_the_identifiers_are_read_of_sides_that_have_parted(machine: Machine) -> None:
    (side,) = machine.node.resources().sides
    assert drbd_repairing.parted(machine.node, side) is None
    happen(machine, "disconnect")
    (side,) = machine.node.resources().sides
    parted = drbd_repairing.parted(machine.node, side)
    assert parted is not None
    assert parted.volumes[0].generation is not None
    machine.broken["drbdadm get-gi"] = "no metadata"
    parted = drbd_repairing.parted(machine.node, side)
    assert parted is not None
    assert parted.volumes[0].generation is None


def test_a_node_without_drbd_has_no_resources(tmp_path: Path) -> None:
    node = Machine(tmp_path / "n1").node
    assert (node.version(), node.resources().sides, node.allowing_two()) == (None, [], frozenset())


def test_what_was_killed_while_it_came_up_is_as_good_as_down(machine: Machine) -> None:
    machine.answers["drbdsetup status"] = "half role:Secondary suspended:no\n    write-ordering:drain\n"
    assert machine.node.resources().sides == []


@pytest.mark.parametrize("action", [action for action in Action if action is not Action.REPLACE])
def test_each_action_has_its_steps_on_a_node(machine: Machine, action: Action) -> None:
    """All but the replacement, which is an opcode of its own; one may refuse this replica, but none is unknown."""
    refusals: list[type[errors.Refused]] = []
    try:
        drbd_repairing.Repairs(machine, machine.node).steps(action, R0)
    except errors.Refused as refused:
        refusals.append(type(refused))
    assert errors.InvalidInput not in refusals
