from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING

import pytest
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.power import bmc, health, power
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.values import errors
from ansible_collections.roundsman.cluster.plugins.module_utils.oob import drivers

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

ON, OFF, UNKNOWN = power.State.ON, power.State.OFF, power.State.UNKNOWN


def driver(state: power.State, *, first: Callable[[], object] = lambda: None) -> drivers.Driver:
    """A driver whose nodes all read so, once it has done something."""

    def run(targets: Sequence[power.Target], *, command: power.Command, deadline: float) -> list[power.Outcome]:
        first()
        return [power.judge(command, name=one.name, before=state, seconds=deadline) for one in targets]

    def ask_health(targets: Sequence[power.Target], *, deadline: float) -> list[health.Health]:
        first()
        return [health.Health(one.name, [health.Item(one.driver, health.Status.OK)]) for one in targets]

    def describe(targets: Sequence[power.Target], *, deadline: float) -> list[bmc.Description]:
        first()
        return [bmc.Description(one.name, one.driver, supports=("status",)) for one in targets]

    return drivers.Driver(check=lambda _: None, run=run, health=ask_health, describe=describe)


def targets(**of: str) -> list[power.Target]:
    return [power.Target(name=name, driver=kind) for name, kind in of.items()]


MIXED = targets(node1="left", node2="right", node3="left")
STATUS = power.Command.STATUS


def test_each_driver_serves_its_own_nodes_in_the_order_asked_for() -> None:
    known = {"left": driver(ON), "right": driver(OFF)}
    outcomes = drivers.run(MIXED, command=STATUS, deadline=7.0, drivers=known)
    assert [(one.name, one.after, one.seconds) for one in outcomes] == [
        ("node1", ON, 7.0),
        ("node2", OFF, 7.0),
        ("node3", ON, 7.0),
    ]


def test_health_and_description_come_from_each_node_s_own_driver() -> None:
    known = {"left": driver(ON), "right": driver(OFF)}
    assert [one.items[0].name for one in drivers.health(MIXED, drivers=known)] == ["left", "right", "left"]
    assert [(one.driver, one.supports) for one in drivers.describe(MIXED, drivers=known)] == [
        ("left", ("status",)),
        ("right", ("status",)),
        ("left", ("status",)),
    ]


def test_no_driver_waits_for_another(tmp_path: Path) -> None:
    meeting = tmp_path / "meeting"
    os.mkfifo(meeting)
    known = {
        "left": driver(ON, first=lambda: meeting.write_text("here")),
        "right": driver(ON, first=meeting.read_text),
    }
    assert all(one.confirmed for one in drivers.run(MIXED, command=STATUS, drivers=known))


def test_a_driver_may_fork_as_there_is_no_other_thread(tmp_path: Path) -> None:
    def note() -> None:
        with (tmp_path / "threads").open("a") as file:
            file.write(f"{threading.active_count()}\n")

    before = threading.active_count()
    drivers.run(MIXED, command=STATUS, drivers={"left": driver(ON, first=note), "right": driver(ON, first=note)})
    assert (tmp_path / "threads").read_text().split() == ["1", "1"]
    assert threading.active_count() == before


def test_a_driver_that_dies_fails_its_own_nodes_only() -> None:
    known = {"left": driver(ON, first=lambda: os._exit(9)), "right": driver(ON)}
    outcomes = drivers.run(MIXED, command=STATUS, drivers=known)
    assert [(one.name, one.confirmed, one.reason) for one in outcomes] == [
        ("node1", False, "driver"),
        ("node2", True, None),
        ("node3", False, "driver"),
    ]
    assert outcomes[0].text == "the driver left ended without an answer"
    assert [one.reason for one in drivers.health(MIXED, drivers=known)] == ["driver", None, "driver"]
    assert [one.reason for one in drivers.describe(MIXED, drivers=known)] == ["driver", None, "driver"]


def test_no_driver_begins_when_a_target_cannot_be_tried() -> None:
    begun: list[str] = []
    known = {"left": driver(ON, first=lambda: begun.append("left"))}
    with pytest.raises(errors.InvalidInput, match="unknown power driver 'right'; known: left, and the absolute path"):
        drivers.run(MIXED, command=STATUS, drivers=known)
    assert begun == []


@pytest.mark.parametrize("deadline", [0.0, -1.0])
def test_a_deadline_that_is_none_is_refused(deadline: float) -> None:
    with pytest.raises(errors.InvalidInput, match="the deadline must be more than 0 seconds"):
        drivers.run(targets(node1="left"), command=STATUS, deadline=deadline, drivers={"left": driver(ON)})


def test_nobody_asked_is_nobody_told() -> None:
    assert drivers.run([], command=STATUS) == []
