from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from ansible_collections.roundsman.cluster.daemon.lab import orders, power_offs

from tests.unit.daemon.lab import written

if TYPE_CHECKING:
    from ansible_collections.roundsman.cluster.daemon.jobs import values

TOLD = "node4 was powered off while it ran web1"
UNORDERED = f"{TOLD}: no policy and nobody's force says so"


def powered_off(journal: written.Journal, *opcodes: values.Opcode, at: float = 300, **known: Any) -> list[str]:
    journal.note(at, "node4", "powered off", by="bmc", ran=["web1"])
    return power_offs.wrong(journal.events, written.ordered(*opcodes, **known), journal.seen)


def test_a_fence_needs_a_node_that_did_not_answer() -> None:
    fence = written.opcode("power", started=298, ended=310, node="node4", command="fence")
    healthy = written.Journal()
    healthy.report("node4", 0, 300)
    assert powered_off(healthy, fence) == [f"{TOLD}: it was fenced (opcode 1/0), and had answered all the time"]
    by_force = written.opcode("power", started=298, ended=310, node="node4", command="off", force=True)
    assert powered_off(healthy, fence, by_force) == []
    silent = written.Journal()
    silent.report("node4", 0, 300)
    silent.answers(280, "node4", "not")
    assert powered_off(silent, fence) == []
    mute = written.Journal()
    mute.report("node4", 0, 280)
    assert powered_off(mute, fence) == [], "its agent had ended"


@pytest.mark.parametrize(
    ("at", "wrong"), [(95, [UNORDERED]), (100.5, []), (150, []), (200 + 60, []), (400, [UNORDERED]), (520, [])]
)
def test_an_emergency_excuses_power_offs_from_its_order_to_its_end(at: float, wrong: list[str]) -> None:
    stood = ((100.0, 200.0), (500.0, float("inf")))
    assert powered_off(written.Journal(), at=at, emergencies=stood) == wrong


def test_the_audit_log_says_from_when_to_when_an_emergency_stood() -> None:
    prefix = "2026-11-22 10:0{}:00,000 INFO record user=root uid=0 play=p: "
    told = [
        'an emergency power off by root of 2 nodes and 3 instances stands {"emergency": "stands"}',
        'the emergency power off by root goes on, now of 3 nodes and 4 instances {"emergency": "stands"}',
        'the return of 3 nodes and 4 instances from the emergency power off by root begins {"emergency": "returns"}',
        "node3 is recorded as powered on, was off",
        'the emergency power off by root is lifted; no nodes and 1 instance were on its list {"emergency": "lifted"}',
        'an emergency power off by root of 1 node and no instances stands {"emergency": "stands"}',
    ]
    log = "\n".join(f"{prefix.format(minute)}{text}" for minute, text in enumerate(told))
    (first, second), (third, end) = orders.emergencies(log)
    assert second - first == 120
    assert (third - first, end) == (300, float("inf"))


@pytest.mark.parametrize(
    ("changed", "is_judged"),
    [
        ({}, True),
        ({"by": "BMC of node4"}, True),
        ({"by": "power cut"}, False),
        ({"by": None}, False),
        ({"ran": []}, False),
        ({"event": "powered on"}, False),
    ],
)
def test_only_a_bmc_that_powers_off_a_node_with_instances_needs_an_order(
    changed: dict[str, Any], is_judged: bool
) -> None:
    journal = written.Journal()
    journal.note(300, "node4", **{"event": "powered off", "by": "bmc", "ran": ["web1"], **changed})
    assert power_offs.wrong(journal.events, written.ordered(), journal.seen) == ([UNORDERED] if is_judged else [])


@pytest.mark.parametrize(("source", "at", "wrong"), [("node4", 300, []), ("node3", 300, [UNORDERED])])
def test_a_failover_by_hand_may_power_off_its_source_alone(source: str, at: float, wrong: list[str]) -> None:
    said = (orders.Stated(295.0, "web1", source, "node2", 0.0),)
    assert powered_off(written.Journal(), at=at, stated=said) == wrong
    assert powered_off(written.Journal(), at=at + orders.LONGEST_PLAY, stated=said) == [UNORDERED]
