from __future__ import annotations

import asyncio
import errno
import os
import socket

import pytest
from ansible_collections.roundsman.cluster.daemon.serving import bounded_connections
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.values import origins


@pytest.mark.parametrize(
    ("address", "whose"),
    [
        ("192.0.2.1", "192.0.2.1"),
        ("::ffff:192.0.2.1", "192.0.2.1"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        ("", ""),
    ],
)
def test_an_address_belongs_to_a_host_or_in_ipv6_to_a_network(address: str, whose: str) -> None:
    assert origins.origin(address) == whose


def test_a_gate_has_places_for_all_and_for_each_address() -> None:
    gate = bounded_connections.Gate(most=3, most_of_one=2)
    first, second = gate.admit("192.0.2.1"), gate.admit("192.0.2.1")
    assert first is not None
    assert second is not None
    assert gate.admit("192.0.2.1") is None
    assert gate.admit("192.0.2.2") is not None
    assert gate.admit("192.0.2.3") is None
    assert gate.open == 3


def test_each_own_address_has_places_that_no_other_address_takes() -> None:
    gate = bounded_connections.Gate(most=20, most_of_one=5, kept=2)
    gate.keep_for(["127.0.0.1", "::1", "192.0.2.1", "127.0.0.1"])
    others = [f"127.0.0.{number}" for number in range(2, 9)] + ["2001:db8::1", "192.0.2.2"]
    admitted = [gate.admit(address) for address in others for _ in range(5)]
    assert sum(free is not None for free in admitted) == 20 - 3 * 2
    for address in ("127.0.0.1", "::1", "192.0.2.1", "::ffff:127.0.0.1"):
        found = [gate.admit(address) is not None for _ in range(3)]
        assert found == ([False] * 3 if address.startswith("::f") else [True, True, False]), address
    assert gate.open == 20
    assert admitted[0] is not None
    admitted[0]()
    assert gate.admit("127.0.0.1") is not None
    assert gate.admit("192.0.2.2") is None


def test_an_own_address_also_has_its_part_of_the_common_places() -> None:
    gate = bounded_connections.Gate(most=20, most_of_one=5, kept=2)
    gate.keep_for(["127.0.0.1"])
    assert [gate.admit("127.0.0.1") is not None for _ in range(6)] == [True] * 5 + [False]
    assert sum(gate.admit(f"192.0.2.{number}") is not None for number in range(30)) == 15


def test_a_place_is_freed_once_however_often_it_is_said() -> None:
    gate = bounded_connections.Gate(most=2, most_of_one=2)
    first, second = gate.admit("192.0.2.1"), gate.admit("192.0.2.1")
    assert first is not None
    assert second is not None
    first()
    first()
    assert gate.open == 1
    second()
    assert (gate.open, dict(gate._open)) == (0, {})


class Scarce(socket.socket):
    """A listener at whom the system has no descriptor left, once."""

    is_scarce = True

    def accept(self) -> tuple[socket.socket, object]:
        if self.is_scarce:
            self.is_scarce = False
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
        return super().accept()


def test_without_descriptors_accepting_goes_on_later(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounded_connections, "PAUSE", 0.01)

    async def run() -> None:
        made = asyncio.Event()

        class Noting(asyncio.Protocol):
            def connection_made(self, transport: asyncio.BaseTransport) -> None:
                made.set()
                transport.close()

        with Scarce() as listener:
            listener.bind(("127.0.0.1", 0))
            listener.listen()
            gate = bounded_connections.Gate(most=1, most_of_one=1)
            acceptor = bounded_connections.Acceptor(
                listener, gate=gate, make=lambda _free: Noting(), tls=None, handshake_seconds=1
            )
            with socket.create_connection(listener.getsockname()):
                await made.wait()
            acceptor.close()
            await acceptor.wait_closed()

    asyncio.run(run())
