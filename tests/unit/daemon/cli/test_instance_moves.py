from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from tests.unit.daemon.cli.conftest import Run
    from tests.unit.daemon.cli.stand_in import StandIn

PARTED = "web1 is degraded since 2026-11-23 00:00:00 UTC: node1 reported that it lost node2"
MADE = "web1 may be written to a new replica on node3"
STALE = {"in_sync": False, "reason": "it is stale", "unblock": "a person", "loss": "possible loss: all writes"}


@pytest.mark.parametrize(
    ("known", "said"),
    [
        ({"parted": {"text": PARTED}}, PARTED),
        ({"being_made": MADE}, MADE),
        ({"parted": {"text": PARTED}, "being_made": MADE}, f"{PARTED}; {MADE}"),
        ({"failover": STALE}, "it is stale; possible loss: all writes"),
        ({"failover": STALE, "parted": {"text": PARTED}}, f"it is stale; possible loss: all writes; {PARTED}"),
        ({"failover": {**STALE, "in_sync": True}}, ""),
        ({}, ""),
    ],
)
def test_what_is_known_against_the_replica_is_printed_before_consistency_is_ignored(
    known: dict[str, Any], said: str, daemon: StandIn, roundsman: Run
) -> None:
    daemon.put("GET", "/1/explain/web1", {"failover": None, "parted": None, "being_made": None, **known})
    daemon.put("PUT", "/2/instances/web1/failover", 20)
    code, out, err = roundsman("instance", "failover", "web1", "--ignore-consistency", "--yes", "--submit")
    assert (code, out) == (0, "20\n")
    assert err == (f"roundsman: {said}\n" if said else "")
