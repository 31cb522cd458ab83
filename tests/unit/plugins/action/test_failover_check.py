"""What a failover asks of the target's answer: with what is on record and was reported by now, by the larger clock."""

from __future__ import annotations

import asyncio
import dataclasses
import math
import os
import time
from typing import TYPE_CHECKING, Any

import pytest
from ansible_collections.roundsman.cluster.daemon.lab import orders
from ansible_collections.roundsman.cluster.plugins.action import failover_check
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.values import ip_addresses, tree
from ansible_collections.roundsman.cluster.plugins.plugin_utils import holding, log_output, replica_evidence
from ansible_collections.roundsman.cluster.plugins.plugin_utils.cluster import changes, membership
from ansible_collections.roundsman.cluster.plugins.plugin_utils.disks import failovers, possible_loss
from ansible_collections.roundsman.cluster.plugins.plugin_utils.disks.possible_loss import Verdict
from ansible_collections.roundsman.cluster.plugins.plugin_utils.settings import addresses

if TYPE_CHECKING:
    from pathlib import Path

    from ansible_collections.roundsman.cluster.plugins.plugin_utils.disks.possible_loss import Answer

    from tests.unit.daemon.maintenance.test_replicas import Pair

UP = 1_000_000.0
"""The controller's uptime when the target was asked."""


@pytest.fixture(autouse=True)
def uptime(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The action runs at once after the target has answered; returns the file by which plays know the time."""
    monkeypatch.setattr(time, "clock_gettime", lambda _clock: UP)
    file = tmp_path / "uptime"
    file.write_text(f"{UP:.2f} 1.00\n")
    monkeypatch.setattr(failover_check, "UPTIME", file)
    return file


def off(pair: Pair, *, since: float, **changed: Any) -> None:
    """node2 is known to be off since so many seconds."""

    def stated(cluster: Any) -> list[changes.Change]:
        node = dataclasses.replace(cluster.node("node2"), powered=False, off_since=time.time() - since)
        return [membership.NodeStands(dataclasses.replace(node, **{"off_read": False, **changed}))]

    for _ in range(2):
        # The first one says that it is off, the second since when.
        asyncio.run(pair.service.configuration.commit(stated))


def judged(pair: Pair, *, seen: float | None, others: dict[str, float] | None = None, **options: Any) -> Answer:
    """What becomes of the failover of instance1 from node2, which its target saw so many seconds before it answered.

    `others` are the sights of other addresses.
    """
    cluster = pair.service.configuration.current
    address = ip_addresses.normal(addresses.replicating(cluster.node("node2")))
    disk = failovers.Replica(
        "Secondary, Connecting, UpToDate/DUnknown",
        is_synced=False,
        disk="UpToDate",
        is_connected=False,
        seen={**(others or {}), **({} if seen is None else {address: seen})},
        generations=(16, 0),
    )
    asked = failovers.Failover(
        "instance1",
        is_replicated=True,
        source=None,
        target=failovers.Node("node3", replicas=(disk,), uptime=1e6),
        is_off=True,
    )
    given = {
        "instance": {"uuid": pair.instance.uuid},
        "source": {"name": "node2"},
        "target": {"name": "node3"},
        "was_in_sync": False,
        "fenced": "bmc",
        "known_off": {},
        "max_loss": -1,
        **options,
        "times": {"asked": UP, **options.get("times", {})},
    }
    play = holding.find_play(str(pair.service.where.root), pid=1)
    return failover_check._possible_loss(play, cluster, given, asked)


def test_the_time_on_record_counts_or_that_of_the_play_where_none_is(pair: Pair) -> None:
    off(pair, since=0.0, powered=True, off_since=0.0)
    found = judged(pair, seen=70.0, times={"seen_off": UP - 50.0})
    assert (found.verdict, found.seconds) == (Verdict.GO, 40.0)
    off(pair, since=60.0)
    for times in ({}, {"seen_off": UP - 5.0}):
        found = judged(pair, seen=70.0, times=times)
        assert found.verdict is Verdict.GO
        assert found.seconds == pytest.approx(30.0, abs=2.0)
    off(pair, since=60.0, alive_at=time.time() - 30.0)
    found = judged(pair, seen=70.0, times={"seen_off": UP - 5.0})
    assert found.seconds == 85.0, "it has lived since: the off of the play counts"


def test_another_address_than_that_of_the_source_is_no_sight_of_it(pair: Pair) -> None:
    off(pair, since=60.0, secondary_ip="192.0.2.2")
    cluster = pair.service.configuration.current
    others = {ip_addresses.normal(addresses.replicating(cluster.node("node3"))): 61.0, "192.0.2.77": 61.0}
    assert judged(pair, seen=None, others=others).verdict is Verdict.UNKNOWN
    assert judged(pair, seen=170.0, others=others).verdict is Verdict.ASK
    others[cluster.node("node2").primary_ip] = 61.0
    assert judged(pair, seen=None, others=others).verdict is Verdict.UNKNOWN, "the address for replication counts"


def test_of_two_clocks_the_one_counts_by_which_more_was_lost(pair: Pair) -> None:
    off(pair, since=60.0)
    at = pair.service.configuration.current.node("node2").off_since
    assert judged(pair, seen=70.0, known_off={"at": at, "uptime": UP - 40.0}).seconds == 50.0, (
        "the wall clock was set forward"
    )
    assert judged(pair, seen=70.0, known_off={"at": at, "uptime": UP - 80.0}).seconds == pytest.approx(30.0, abs=2.0)
    other = judged(pair, seen=70.0, known_off={"at": at - 1.0, "uptime": UP - 40.0})
    assert other.seconds == pytest.approx(30.0, abs=2.0), "what was followed is not that off"


def test_a_controller_in_a_container_whose_plays_have_another_uptime_judges_the_same(pair: Pair, uptime: Path) -> None:
    """Each failover of a dead node was refused there, for a possible loss of as long as the host was up before."""
    own = 500.0
    uptime.write_text(f"{own:.2f} 1.00\n")
    off(pair, since=60.0)
    at = pair.service.configuration.current.node("node2").off_since
    found = judged(pair, seen=70.0, times={"asked": own}, known_off={"at": at, "uptime": UP - 60.0})
    assert found.verdict is Verdict.GO
    assert found.seconds == pytest.approx(30.0, abs=2.0)
    off(pair, since=0.0, powered=True, off_since=0.0)
    found = judged(pair, seen=70.0, times={"asked": own, "seen_off": own - 50.0})
    assert (found.verdict, found.seconds) == (Verdict.GO, 40.0)


def test_what_the_target_said_is_dated_when_it_was_asked_and_not_when_it_is_judged(pair: Pair) -> None:
    off(pair, since=60.0)
    found = judged(pair, seen=70.0, times={"asked": UP - 10.0})
    assert found.seconds == pytest.approx(40.0, abs=2.0)
    assert time.time() - found.last_in_sync == pytest.approx(100.0, abs=2.0)


def test_what_the_source_answered_in_this_failover_is_a_number_of_its_own(pair: Pair) -> None:
    off(pair, since=0.0, powered=True, off_since=0.0)
    times = {"look": UP - 30.0, "seen_off": UP - 10.0}
    found = judged(pair, seen=None, was_in_sync=True, times=times)
    assert (found.verdict, found.seconds) == (Verdict.GO, 20.0)
    assert judged(pair, seen=None, was_in_sync=False, times=times).verdict is Verdict.UNKNOWN


def test_a_limit_is_that_of_the_group_unless_a_person_gives_one_up(pair: Pair) -> None:
    off(pair, since=60.0)
    assert judged(pair, seen=170.0).verdict is Verdict.ASK
    assert judged(pair, seen=170.0, max_loss=140).verdict is Verdict.GO
    assert judged(pair, seen=170.0, max_loss=0).verdict is Verdict.ASK


def test_a_refusal_after_a_fence_that_is_on_no_record_names_a_loss_that_suffices_for_the_next_fence(pair: Pair) -> None:
    off(pair, since=0.0, powered=True, off_since=0.0)
    refused = judged(pair, seen=170.0, times={"seen_off": UP - 10.0})
    assert (refused.verdict, refused.seconds) == (Verdict.ASK, 180.0)
    accepted = int(refused.unblock.partition("--max-loss ")[2].partition("s`")[0])
    again = judged(pair, seen=260.0, times={"seen_off": UP - 10.0}, max_loss=accepted)
    assert (again.verdict, again.seconds) == (Verdict.GO, 270.0)
    off(pair, since=10.0)
    recorded = judged(pair, seen=170.0)
    assert recorded.seconds == pytest.approx(180.0, abs=2.0)
    assert recorded.seconds is not None
    assert f"--max-loss {math.ceil(recorded.seconds) + possible_loss.ANSWERING}s`" in recorded.unblock


def test_the_word_of_a_person_counts_by_a_persons_limit_unless_its_bmc_says_the_same_now(pair: Pair) -> None:
    now = time.time()
    off(pair, since=60.0, off_confirmed=now - 60.0, off_since=now - 60.0)
    times = {"seen_off": UP - 5.0}
    stated = judged(pair, seen=70.0, fenced="stated", times=times)
    assert (stated.verdict, "by the word of a person" in stated.reason) == (Verdict.ASK, True)
    off(pair, since=60.0, off_confirmed=now - 60.0, off_since=now - 60.0, off_stated_by="alice")
    assert "by the word of alice" in judged(pair, seen=70.0, fenced="stated", times=times).reason
    assert judged(pair, seen=70.0, fenced="stated", max_loss=60, times=times).verdict is Verdict.GO
    confirmed = judged(pair, seen=70.0, fenced="bmc", times=times)
    assert (confirmed.verdict, confirmed.seconds) == (Verdict.GO, 85.0), "off since its BMC said so"


def test_what_the_source_has_said_last_counts_by_its_reports_and_by_the_record(pair: Pair) -> None:
    off(pair, since=60.0)
    asyncio.run(pair.hear("node2", lost=True, current=16))
    assert pair.instance.parted is not None
    found = judged(pair, seen=70.0, times={"seen_off": UP - 60.0})
    assert (found.verdict, "node2 reported at" in found.reason) == (Verdict.REFUSE, True)
    report = pair.service.where.reports / f"{pair.uuid('node2')}.json"
    report.unlink()
    assert judged(pair, seen=70.0).verdict is Verdict.REFUSE, "it is on record"


def test_the_basis_of_a_refusal_is_that_of_the_plan(pair: Pair) -> None:
    cluster = pair.service.configuration.current
    before = replica_evidence.basis(cluster, pair.instance)
    off(pair, since=60.0)
    assert replica_evidence.basis(pair.service.configuration.current, pair.instance) != before


@pytest.mark.parametrize(("run", "max_loss"), [(None, -1), ("queue/12/0", 60)])
def test_what_may_be_lost_is_in_the_audit_log_as_data_with_who_does_it_and_what_was_accepted(
    tmp_path: Path, run: str | None, max_loss: int
) -> None:
    play = holding.Play(tree.Tree(tmp_path), os.getpid(), tmp_path / run if run else None)
    play.where.lib.mkdir(parents=True)
    names = {key: {"name": name} for key, name in (("instance", "web1"), ("source", "node2"), ("target", "node3"))}
    loss = {"seconds": 12.5, "ignored": False}
    failover_check._announce(play, {**names, "max_loss": max_loss}, "web1 fails over", loss)
    (stated,) = orders.stated(play.where.audit_log.read_text())
    assert (stated.instance, stated.source, stated.target) == ("web1", "node2", "node3")
    assert (stated.seconds, stated.accepted) == (12.5, None if run is None else 60)
    assert (stated.by, stated.is_ignored) == (log_output.user() if run is None else "12/0", False)
