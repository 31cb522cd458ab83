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
        ({"failover": {**STALE, "in_sync": True, "reason": ""}}, "possible loss: all writes"),
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


@pytest.mark.parametrize(("given", "seconds"), [("6m", 360), ("90", 90), ("90s", 90), ("1h", 3600), ("0", 0)])
def test_a_person_accepts_a_loss_by_its_length_and_reads_the_possible_one_before(
    given: str, seconds: int, daemon: StandIn, roundsman: Run
) -> None:
    daemon.put("GET", "/1/explain/web1", {"failover": STALE, "parted": None, "being_made": None})
    daemon.put("PUT", "/2/instances/web1/failover", 20)
    code, _, err = roundsman("instance", "failover", "web1", "--max-loss", given, "--submit")
    assert (code, err) == (0, "roundsman: it is stale; possible loss: all writes\n")
    assert daemon.asked("PUT") == [("/2/instances/web1/failover", {"max_loss": seconds})]


@pytest.mark.parametrize("given", ["six", "-1", "25h", "1d", "6 m", ""])
def test_what_is_no_duration_of_at_most_a_day_is_no_loss(given: str, roundsman: Run) -> None:
    code, _, err = roundsman("instance", "failover", "web1", f"--max-loss={given}", "--submit")
    assert code == 2
    assert "is not a duration of at most a day" in " ".join(err.replace("│", " ").split())
