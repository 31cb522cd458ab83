"""What a failover states as possible loss: the answer of its own run is newer than the evidence on which it started."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from ansible_collections.roundsman.cluster.daemon.jobs import possible_loss

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
        (tmp_path / possible_loss.FILE).write_text(json.dumps(told))
    value = {"source_stopped": False, "possible_loss": stated}
    found = possible_loss.read(tmp_path, value, now=100.0)
    assert (found.text if found is not None else None) == (beside if is_judged else alone)
    assert possible_loss.read(tmp_path, {**value, "source_stopped": True}, now=100.0) is None
