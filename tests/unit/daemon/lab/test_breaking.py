"""Each option of `lab break` brings something about, and none that breaks nothing is reported as done."""

from __future__ import annotations

import dataclasses
import json
from typing import TYPE_CHECKING, Any

import pytest
from ansible_collections.roundsman.cluster.daemon.lab import breaking
from ansible_collections.roundsman.cluster.daemon.lab.simulator import fake
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.values import errors

from tests.unit.daemon import twins

if TYPE_CHECKING:
    from pathlib import Path

    from ansible_collections.roundsman.cluster.daemon.lab import world

GIVEN: dict[str, Any] = {
    "status": "evacuate",
    "details": "{}",
    "command": "true",
    "garbage": "cut",
    "migration": "before",
    "late": 1.0,
    "boot_seconds": 1.0,
    "loss": 30.0,
    "clock": -3600.0,
    "returns": 3600.0,
    "slow_resync": 1024,
    "rack": ("node3",),
    "link": ("node3",),
    "bmc": ("slow",),
    **dict.fromkeys(
        ("hang", "silent", "agent", "ssh", "replication", "lies", "full", "panic", "reboot", "power"), True
    ),
    **dict.fromkeys(("disk", "slow_stop", "ignore_stop", "crash", "user_shutdown", "autostart"), ("instance1",)),
}
NEEDED: dict[str, dict[str, Any]] = {"boot_seconds": {"reboot": True}}


@pytest.fixture
def lab(tmp_path: Path) -> world.Lab:
    made = twins.lab(tmp_path, pairs=[("node2", "node3")])
    settings = made.settings()
    made.settings_file.write_text(json.dumps({**settings, "ports": {**settings["ports"], "agent": 3}}))
    return made


def steps(lab: world.Lab, **given: Any) -> list[str]:
    return [step.text for step in breaking.plan(lab, lab.node("node2"), breaking.Wanted(**given))]


@pytest.mark.parametrize("field", [field.name for field in dataclasses.fields(breaking.Wanted)])
def test_each_option_brings_a_step_about(field: str, lab: world.Lab) -> None:
    assert fake.Driver(lab.node("node2").root, opcode="").running() == ["instance1"]
    needed = NEEDED.get(field, {})
    found = steps(lab, **{field: GIVEN[field]}, **needed)
    assert len(found) == 1
    assert not needed or found != steps(lab, **needed)


def test_options_that_break_nothing_are_refused(lab: world.Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(breaking._Plan, "steps", lambda _: iter(()))
    with pytest.raises(errors.InvalidInput, match="these options break nothing"):
        steps(lab, hang=True)


def test_a_fault_of_a_bmc_that_is_named_twice_counts_once(lab: world.Lab) -> None:
    assert steps(lab, bmc=("late=4", "late=4")) == ["faults of its BMC: late=4"]
