"""Once a controller that leads later acted on an instance, a step of one that led before is a violation."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.chaos.turns import NUMBERS, Turn, Turns

if TYPE_CHECKING:
    from ansible_collections.roundsman.cluster.daemon.lab.journals import Event

COPY = NUMBERS + 5
TURNS = [Turn(2, 0, 0), Turn(3, 1, 100), Turn(4, 0, 200)]


def event(ns: int, job: int | str, instance: str = "instance1") -> Event:
    opcode = f"{job}/0" if isinstance(job, int) else job
    return {"ns": ns, "node": "node2", "event": "started", "instance": instance, "opcode": opcode}


def test_a_step_of_the_controller_that_was_replaced_is_told() -> None:
    found = Turns(TURNS).overtaken([event(50, 7), event(150, COPY), event(160, 8)])

    assert len(found) == 1
    assert "by opcode 8/0 of the controller that led in epoch 2, after the one of epoch 3 had acted on it" in found[0]


def test_a_step_that_ends_before_the_later_controller_acts_is_right() -> None:
    assert Turns(TURNS).overtaken([event(150, 7), event(160, COPY), event(150, COPY, "instance2")]) == []


def test_a_controller_that_leads_again_may_act_again() -> None:
    assert Turns(TURNS).overtaken([event(150, COPY), event(250, 9)]) == []
    assert len(Turns(TURNS).overtaken([event(250, 9), event(260, COPY)])) == 1


def test_what_nobody_ordered_or_either_may_have_ordered_is_nobodys() -> None:
    shared = Turns(TURNS, shared={8})
    assert len(Turns(TURNS, shared={8}, owners={"8/0": 0}).overtaken([event(150, COPY), event(160, 8)])) == 1
    assert shared.overtaken([event(150, COPY), event(160, 8), event(170, "autostart"), event(180, "by hand")]) == []
