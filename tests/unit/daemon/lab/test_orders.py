"""What was ordered or announced, and for what and how long it counts."""

from __future__ import annotations

import dataclasses
import math

import pytest
from ansible_collections.roundsman.cluster.daemon.lab import orders
from ansible_collections.roundsman.cluster.plugins.plugin_utils.rounds import audit_lines

from tests.unit.daemon.lab import written

AT = 1_000.0
WEB1 = {"instance": "web1", "node": "node3"}


@pytest.mark.parametrize(
    ("by", "seconds", "accepted", "is_ignored"),
    [("ann", 0.0, None, False), ("1/0", 12.5, None, False), ("ann", None, 360, False), ("ann", 12.0, None, True)],
)
def test_the_audit_log_states_losses_as_data_whatever_the_sentence_before_says(
    by: str, seconds: float | None, accepted: float | None, is_ignored: bool
) -> None:
    line = audit_lines.failover(
        "2026-11-23 09:00:00,000 INFO record play=play-7-1: words {that} are free",
        instance="web1",
        source="node2",
        target="node3",
        by=by,
        seconds=seconds,
        accepted=accepted,
        is_ignored=is_ignored,
    )
    log = f"another line\n{line}\n{line[:-9]}\nfailover web2: node2 -> node3 (possible loss: writes of the last 9 s)\n"
    (found,) = orders.stated(log)
    assert dataclasses.replace(found, at=AT) == orders.Stated(
        AT, "web1", "node2", "node3", seconds, by=by, accepted=accepted, is_ignored=is_ignored
    )
    ordered = written.ordered(written.opcode("failover", started=1.0), stated=(found,))
    assert list(ordered.by_hand) == ([] if by == "1/0" else [found])


@pytest.mark.parametrize(
    ("event", "at", "is_of"),
    [
        (WEB1, AT, True),
        ({**WEB1, "instance": "web2"}, AT, False),
        ({**WEB1, "node": "node2"}, AT, False),
        (WEB1, AT + orders.LONGEST_PLAY + 1, False),
        (WEB1, AT - 60, False),
    ],
)
def test_what_was_announced_is_about_one_instance_one_target_and_some_minutes(
    event: dict[str, str], at: float, is_of: bool
) -> None:
    assert orders.Stated(AT, "web1", "node2", "node3", 0.0).is_of(event, at=at) is is_of


def test_an_announced_loss_grows_until_the_start_and_one_that_nobody_could_tell_has_no_bound() -> None:
    assert orders.Stated(AT, "web1", "node2", "node3", 10.0).loss(at=AT + 5) == 15
    assert orders.Stated(AT, "web1", "node2", "node3", None).loss(at=AT) == math.inf
    assert orders.Stated(AT, "web1", "node2", "node3", 10.0, is_ignored=True).loss(at=AT) == math.inf


@pytest.mark.parametrize(
    ("kind", "params", "may"),
    [
        ("power", {"command": "fence", "nodes": ["node2"]}, True),
        ("power", {"command": "confirm_off", "nodes": ["node2"]}, True),
        ("power", {"command": "fence", "nodes": ["node3"]}, False),
        ("power", {"command": "off", "node": "node2", "force": True}, True),
        ("power", {"command": "cycle", "node": "node2", "force": True}, True),
        ("power", {"command": "off", "node": "node2", "force": False}, False),
        ("power", {"command": "on", "node": "node2", "force": True}, False),
        ("health", {"command": "fence", "nodes": ["node2"]}, False),
        ("health", {"command": "off", "node": "node2", "force": True}, False),
        ("failover", {"source": "node2", "target": "node3"}, True),
        ("failover", {"source": "node3", "target": "node2"}, False),
        ("migrate", {"source": "node2", "target": "node3"}, False),
    ],
)
def test_power_is_taken_though_instances_run_by_fences_force_and_failovers_alone(
    kind: str, params: dict[str, object], may: bool
) -> None:
    ordered = written.ordered(written.opcode(kind, started=100, ended=110, **params))
    event = {"node": "node2", "event": "off", "ns": 105 * written.SECOND}
    assert bool(ordered.powering_off(event)) is may
    opcode = ordered.opcodes["1/0"]
    assert orders.is_fence(opcode) is (kind == "power" and params["command"] in orders.FENCING)
    is_taken = kind == "power" and params["command"] in orders.TAKING
    assert orders.is_forced(opcode) is (is_taken and params["force"] is True)


@pytest.mark.parametrize(
    ("started", "ended", "at", "is_at_work"),
    [
        (100, 110, 105, True),
        (100, 110, 110 + orders.LATE_POWER_OFF, True),
        (100, 110, 111 + orders.LATE_POWER_OFF, False),
        (100, 0, 100_000, True),
        (100, 110, 50, False),
        (0, 110, 105, False),
    ],
)
def test_an_order_for_power_counts_while_it_is_at_work_and_while_a_bmc_may_be_slow(
    started: float, ended: float, at: float, is_at_work: bool
) -> None:
    fence = written.opcode("power", started=started, ended=ended, command="fence", nodes=["node2"])
    event = {"node": "node2", "event": "off", "ns": int(at * written.SECOND)}
    assert bool(written.ordered(fence).powering_off(event)) is is_at_work


def test_who_runs_a_play_by_hand_accepts_the_loss_that_its_option_names_and_no_other() -> None:
    event = {**WEB1, "event": "started", "opcode": orders.BY_HAND, "ns": int((AT + 5) * written.SECOND)}
    said = orders.Stated(AT, "web1", "node2", "node3", 12.0, by="ann")
    ordered = written.ordered(stated=(said,))
    assert (ordered.stated_loss(event), ordered.accepted_loss(event)) == (17.0, None)
    ordered = written.ordered(stated=(said, dataclasses.replace(said, at=AT + 1, accepted=360)))
    assert (ordered.stated_loss(event), ordered.accepted_loss(event)) == (17.0, 360.0)


def test_what_no_known_opcode_did_was_decided_when_it_happened_and_gives_nothing_up() -> None:
    event = {**WEB1, "event": "started", "opcode": "9/0", "ns": 50 * written.SECOND}
    assert written.ordered().decided(event) == 50
    assert not written.ordered().ignores_consistency(event, ended=0.0)
    assert written.ordered().stated_loss(event) is None
    assert written.ordered().accepted_loss(event) is None
    not_begun = written.opcode("failover", started=0.0)
    assert written.ordered(not_begun).decided({**event, "opcode": "1/0"}) == 50
    begun = written.opcode("failover", started=40.0)
    assert written.ordered(begun).decided({**event, "opcode": "1/0"}) == 40


def test_a_failover_may_lose_as_many_writes_as_it_said() -> None:
    result = {"possible_loss": {"seconds": 10.0}}
    ordered = written.ordered(written.opcode("failover", started=40, ended=60, result=result))
    event = {**WEB1, "event": "started", "opcode": "1/0", "ns": 50 * written.SECOND}
    assert ordered.stated_loss(event) == 10
