from __future__ import annotations

import socket
from typing import Any

import pytest
from ansible_collections.roundsman.cluster.daemon.lab import wire

from tests.unit.daemon.lab.desk import ADDRESS, Desk
from tests.unit.daemon.lab.test_bmc_simulator import AUTH_CAPABILITIES

MANY = 10_000


def test_a_calm_wire_delivers_each_datagram_once_after_its_delay() -> None:
    one = wire.Wire(wire.Conditions(delay=0.25))
    assert [one.copies() for _ in range(100)] == [1] * 100
    assert list(one.delays()) == [0.25]


@pytest.mark.parametrize(
    ("conditions", "fate"),
    [(wire.Conditions(loss=0.1), 0), (wire.Conditions(doubling=0.1), 2)],
    ids=["loss", "doubling"],
)
def test_a_share_of_the_datagrams_is_lost_or_comes_twice(conditions: wire.Conditions, fate: int) -> None:
    one = wire.Wire(conditions)
    assert [one.copies() for _ in range(MANY)].count(fate) == pytest.approx(0.1 * MANY, rel=0.1)


def test_the_same_seed_is_the_same_fate() -> None:
    first, second, other = (wire.Wire(wire.Conditions(loss=0.5, jitter=1.0, seed=seed)) for seed in (1, 1, 2))
    fates = [[list(one.delays()) for _ in range(100)] for one in (first, second, other)]
    assert fates[0] == fates[1]
    assert fates[0] != fates[2]


def test_jitter_lets_one_answer_overtake_another() -> None:
    one = wire.Wire(wire.Conditions(delay=1.0, jitter=0.5))
    delays = [delay for _ in range(100) for delay in one.delays()]
    assert delays != sorted(delays)
    assert all(1.0 <= delay <= 1.5 for delay in delays)


class Outbox:
    """What a simulator sends."""

    def __init__(self) -> None:
        self.sent: list[bytes] = []

    def sendmsg(self, parts: list[bytes], *_: Any) -> None:
        self.sent += parts


def test_an_answer_leaves_after_its_delay_and_not_before() -> None:
    desk, outbox = Desk(conditions=wire.Conditions(delay=3.0)), Outbox()
    desk.simulator._arrived(outbox, AUTH_CAPABILITIES, ("127.0.0.1", 9), socket.inet_aton(ADDRESS))  # type: ignore[arg-type]
    desk.pass_time(2.9)
    assert outbox.sent == []
    desk.pass_time(0.2)
    assert len(outbox.sent) == 1


def test_a_lost_answer_is_not_a_lost_command() -> None:
    desk, outbox = Desk(conditions=wire.Conditions(loss=1.0)), Outbox()
    off = desk.log_in().seal(0x00, 0x02, b"\x00")
    desk.simulator._arrived(outbox, off, ("127.0.0.1", 9), socket.inet_aton(ADDRESS))  # type: ignore[arg-type]
    desk.pass_time(10.0)
    assert (outbox.sent, desk.node.powered()) == ([], False)
