"""What a failover states as possible loss: the answer of its own run is newer than the evidence on which it started."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from ansible_collections.roundsman.cluster.daemon.jobs import plays
from ansible_collections.roundsman.cluster.daemon.lab import orders
from ansible_collections.roundsman.cluster.plugins.module_utils.domain import evidence
from ansible_collections.roundsman.cluster.plugins.plugin_utils.opcodes import contract, instance_moves

from tests.unit import small_cluster

if TYPE_CHECKING:
    from pathlib import Path

BEFORE = {"reason": "", "unblock": "", "last_in_sync": 10.0, "seen_off": 0.0}
HEARD = {"last_in_sync": 70.0, "seen_off": 90.5, "ignored": False}
NEVER = {"last_in_sync": 0, "seen_off": 90.5, "ignored": True}


@pytest.mark.parametrize("is_judged", [False, True])
@pytest.mark.parametrize(
    ("stated", "alone", "beside"),
    [
        (HEARD, "possible loss: writes of the last 21 s", "possible loss: writes of the last 21 s"),
        (
            NEVER,
            "possible loss: all writes since an unknown time (consistency was ignored)",
            "possible loss: writes of the last 90 s (consistency was ignored)",
        ),
        ({}, None, "possible loss: writes of the last 90 s"),
    ],
)
def test_the_loss_of_a_source_that_did_not_confirm_the_stop(
    tmp_path: Path, stated: dict[str, Any], alone: str | None, beside: str, is_judged: bool
) -> None:
    if is_judged:
        told = {"evidence": BEFORE, "is_overridden": False}
        (tmp_path / plays.FILE).write_text(json.dumps(told))
    value = {"source_stopped": False, "possible_loss": stated}
    found = plays.possible_loss(tmp_path, value, now=100.0)
    assert (found.text if found is not None else None) == (beside if is_judged else alone)
    assert plays.possible_loss(tmp_path, {**value, "source_stopped": True}, now=100.0) is None


def test_the_audit_log_names_the_seconds_of_a_failover_that_starts() -> None:
    start = contract.Start(evidence.Evidence(last_in_sync=1_700_000_000.0, seen_off=1_700_000_012.5))
    made = instance_moves.Failover("i1", "n2", "n3")
    (notice,) = plays.notices(small_cluster.make(), made, start, now=1_700_000_099.0)
    assert notice.text == (
        "inst1 fails over to node3, whose replica was last known to be in sync at 2023-11-14 22:13:20 UTC; "
        "possible loss: writes of the last 13 s"
    )
    asked = contract.Start(start.evidence, is_asked=True)
    assert plays.notices(small_cluster.make(), made, asked, now=1_700_000_099.0) == [], "its source answers"
    (said,) = orders.stated_by_daemon(f"2023-11-14 22:14:59,000 INFO job 7: {notice.text}\n")
    assert (said.instance, said.target, said.seconds, said.is_ignored) == ("inst1", "node3", 13.0, False)
