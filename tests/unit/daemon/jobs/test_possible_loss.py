"""What a failover states as possible loss: what its own run left, after it asked the survivor."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from ansible_collections.roundsman.cluster.daemon.jobs import plays, process
from ansible_collections.roundsman.cluster.daemon.lab import orders
from ansible_collections.roundsman.cluster.plugins.module_utils.domain import failovers, possible_loss
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


def test_what_is_announced_before_the_target_may_write_is_read_by_the_check_of_the_lab() -> None:
    answer = possible_loss.Answer(possible_loss.Verdict.GO, 12.5, "", "", 1_700_000_000.0, 1_700_000_012.5)
    target = failovers.Node("node3", replicas=())
    text = failovers.announced_text(
        failovers.Failover("inst1", is_replicated=True, source=None, target=target, loss=answer)
    )
    (said,) = orders.stated_by_daemon(f"2023-11-14 22:14:59,000 INFO job 7: {text}\n")
    assert (said.instance, said.target, said.seconds, said.is_ignored) == ("inst1", "node3", 13.0, False)


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
