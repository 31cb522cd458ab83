"""What the network says about a BMC, and when it counts."""

from __future__ import annotations

import asyncio
import errno
import socket
from typing import TYPE_CHECKING

import pytest
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.power import power
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.values import errors
from ansible_collections.roundsman.cluster.plugins.module_utils.oob import ipmi, ipmi_link, ipmi_login

from tests.unit.plugins.module_utils.oob import virtual

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

OFF = power.Command.OFF


@pytest.fixture
def peer() -> Iterator[socket.socket]:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one:
        one.bind((virtual.ADDRESS, 0))
        yield one


def taken(datagram: bytes) -> bytes | None:
    return datagram if datagram.startswith(b"yes") else None


def test_the_awaited_answer_is_taken_and_others_are_passed_over(peer: socket.socket) -> None:
    async def work() -> bytes | None:
        link = ipmi_link.linked(virtual.ADDRESS, peer.getsockname()[1])
        for said in (b"no", b"", b"yes, this", b"yes, too late"):
            peer.sendto(said, link._socket.getsockname())
        found: bytes | None = await link.exchange(b"?", taken, wait=1.0)
        link.close()
        return found

    assert virtual.run(work()) == b"yes, this"


def test_a_bmc_is_reached_by_ipv6_too() -> None:
    async def work(address: str, port: int) -> bytes | None:
        link = ipmi_link.linked(address, port)
        one.sendto(b"yes", link._socket.getsockname())
        found: bytes | None = await link.exchange(b"?", taken, wait=1.0)
        link.close()
        return found

    with socket.socket(socket.AF_INET6, socket.SOCK_DGRAM) as one:
        try:
            one.bind(("::1", 0))
        except OSError:
            pytest.skip("this machine has no IPv6")
        assert virtual.run(work(*one.getsockname()[:2])) == b"yes"
        assert one.recv(10) == b"?"


@pytest.mark.parametrize("waits", [(4.0, 0.5), (0.5, 4.0), (0.5, 0.5), (4.0, 0.5, 0.75, 4.0)])
def test_an_answer_is_waited_for_as_long_as_asked_whatever_the_wait_before_it(
    peer: socket.socket, waits: tuple[float, ...]
) -> None:
    async def work() -> list[float]:
        link = ipmi_link.linked(virtual.ADDRESS, peer.getsockname()[1])
        loop = asyncio.get_running_loop()
        peer.sendto(b"yes", link._socket.getsockname())
        assert await link.exchange(b"?", taken, wait=waits[0]) == b"yes"
        took = []
        for wait in waits[1:]:
            await asyncio.sleep(0.3)
            began = loop.time()
            assert await link.exchange(b"?", taken, wait=wait) is None
            took.append(loop.time() - began)
        link.close()
        return took

    assert virtual.run(work()) == pytest.approx(waits[1:])


def test_what_comes_while_nothing_is_awaited_is_passed_over(peer: socket.socket) -> None:
    async def work() -> tuple[bytes | None, bool]:
        link = ipmi_link.linked(virtual.ADDRESS, peer.getsockname()[1])
        peer.sendto(b"yes, too early", link._socket.getsockname())
        await asyncio.sleep(0.1)
        found = await link.exchange(b"?", taken, wait=1.0), link.was_heard
        link.close()
        return found

    assert virtual.run(work()) == (None, True)


def test_datagrams_from_another_address_or_port_never_arrive(peer: socket.socket) -> None:
    async def work() -> tuple[bytes | None, bool]:
        link = ipmi_link.linked(virtual.ADDRESS, peer.getsockname()[1])
        for address in (virtual.ADDRESS, "127.0.9.2"):
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as stranger:
                stranger.bind((address, 0))
                stranger.sendto(b"yes", link._socket.getsockname())
        found = await link.exchange(b"?", taken, wait=1.0), link.was_heard
        link.close()
        return found

    assert virtual.run(work()) == (None, False)


def test_a_port_where_nobody_listens_is_unreachable_after_a_few_strikes(peer: socket.socket) -> None:
    port = peer.getsockname()[1]
    peer.close()
    target = power.Target(name="node1", driver="ipmi", address=virtual.ADDRESS, port=port)
    [outcome] = virtual.run(ipmi.serve([target], command=OFF, deadline=30.0))
    assert (outcome.reason, outcome.sent) == ("unreachable", False)
    assert outcome.seconds == pytest.approx((ipmi_login.STRIKES - 1) * ipmi_login.BUSY_PAUSE, abs=0.01)


def test_a_bmc_that_was_heard_and_is_away_for_a_while_is_waited_for() -> None:
    async def work() -> tuple[power.Outcome, list[bool]]:
        spoke = asyncio.Event()

        def meddle(datagram: bytes, answer: bytes | None) -> Iterable[bytes]:
            first.loop.call_later(0.0015, spoke.set)
            return virtual.unchanged(datagram, answer)

        with virtual.rack() as first:
            node, first.meddle = first.add(virtual.ADDRESS), meddle
            running = asyncio.ensure_future(ipmi.serve([first.target(virtual.ADDRESS)], command=OFF, deadline=30.0))
            await spoke.wait()
        await asyncio.sleep(3.0)
        with virtual.rack(port=first.port) as second:
            second.bmcs.update(first.bmcs)
            [outcome] = await running
        return outcome, node.history

    outcome, history = virtual.run(work())
    assert (outcome.confirmed, history) == (True, [False])
    assert outcome.seconds > 3.0


@pytest.mark.parametrize(
    ("number", "reason"),
    [(errno.ECONNREFUSED, "unreachable"), (errno.EHOSTUNREACH, "unreachable"), (errno.EMFILE, "driver")],
)
def test_a_failure_of_this_machine_says_nothing_about_the_bmc(number: int, reason: str) -> None:
    assert ipmi_link.unreachable(OSError(number, "no")).reason == reason


def test_an_address_without_a_way_is_unreachable() -> None:
    async def work() -> None:
        ipmi_link.linked("255.255.255.255", 623)

    with pytest.raises(errors.PowerFailed) as caught:
        virtual.run(work())
    assert caught.value.reason == "unreachable"
