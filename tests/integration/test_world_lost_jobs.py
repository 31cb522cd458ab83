"""A controller that reboots in the middle of failovers: the instances come up without a person."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from . import interceptions, labs
from .test_dead_nodes import everyone_answers, runs, up

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

pytestmark = pytest.mark.slow
PAIRS = [("node2", "node3"), ("node2", "node4"), ("node3", "node4"), ("node4", "node3")]
STEPS = {
    "asked": (("instance_disks", '"standby"'), True),
    "asked again": (("instance_disks", '"info"'), True),
    "not promoted": (("instance_disks", '"active"'), False),
    "promoted": (("instance_disks", '"active"'), True),
    "recorded": (("instance_state", '"started"'), False),
    "started": (("instance_state", '"started"'), True),
}
"""The steps of a failover from a dead node: by which words each is known at the target, and whether it was done."""


@pytest.mark.parametrize(
    "steps",
    [("asked", "promoted"), ("recorded", "asked again"), ("not promoted", "started")],
    ids=" and ".join,
)
def test_a_controller_that_reboots_in_two_failovers_brings_the_instances_up_unattended(
    lab: Callable[..., labs.Running], tmp_path: Path, steps: tuple[str, str]
) -> None:
    one = up(lab, pairs=PAIRS)
    one.until(everyone_answers, "all agents answer")
    killed = []
    for step, name, node in zip(steps, ("instance1", "instance2"), ("node3", "node4"), strict=True):
        words, is_done = STEPS[step]
        where, named = tmp_path / node, (*words, f'"{name}"')
        killed.append(interceptions.Interception(one, where, node=node, words=named, stays=True, is_done=is_done))
    one.lab.node("node2").lose_power()
    for seen in killed:
        seen.wait(seconds=4 * labs.LIMIT)

    one.reboot_controller()

    incident = one.until(one.ended("node2"), "the incident has ended", seconds=4 * labs.LIMIT)
    assert (incident["repair-status"], incident["reason"]) == ("completed", "")
    assert ("instance1" in runs(one, "node3"), "instance2" in runs(one, "node4")) == (True, True)
    texts = [opcode["text"] for job in one.get("/1/jobs") for opcode in job["opcodes"] if opcode["kind"] == "failover"]
    assert sum("it is lost, and not repeated" in text for text in texts) == len(killed)
    assert one.wrong() == []
