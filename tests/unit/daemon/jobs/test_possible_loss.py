"""What a failover states as possible loss: what its own run left, after it asked the survivor."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from ansible_collections.roundsman.cluster.daemon.jobs import plays, process
from ansible_collections.roundsman.cluster.plugins.plugin_utils.opcodes import contract

if TYPE_CHECKING:
    from collections.abc import Mapping


@pytest.mark.parametrize(
    ("stated", "text"),
    [
        ({"seconds": 20.4, "last_in_sync": 70.0, "ignored": False}, "possible loss: writes of the last 21 s"),
        (
            {"seconds": None, "last_in_sync": None, "ignored": True},
            "possible loss: all writes since an unknown time (consistency was ignored)",
        ),
        ({}, None),
    ],
)
def test_the_loss_of_a_source_that_did_not_confirm_the_stop(stated: dict[str, Any], text: str | None) -> None:
    found = plays.stated_loss({"source_stopped": not stated, "possible_loss": stated})
    assert (found.text if found is not None else None) == text
    assert found is None or found.result == {"possible_loss": stated}
    assert plays.stated_loss(None) is None


@pytest.mark.parametrize("off", [None, (1000.0, 60.0)])
def test_a_run_is_told_since_when_its_source_is_off_by_a_clock_that_nobody_sets(
    off: tuple[float, float] | None,
) -> None:
    step: Mapping[str, Any] = {"instance": "web1", "source_off": {}}
    spec = process.Spec("failover", Path("step.yml"), {"step": step}, {}, b"", {}, 1)
    told = plays.with_source_off(spec, contract.Start(off)).variables["step"]["source_off"]
    if off is None:
        assert told == {}
    else:
        assert told["at"] == 1000.0
        assert told["uptime"] <= time.clock_gettime(time.CLOCK_BOOTTIME) - 60.0
