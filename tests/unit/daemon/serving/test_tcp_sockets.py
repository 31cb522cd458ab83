from __future__ import annotations

import socket

import pytest
from ansible_collections.roundsman.cluster.daemon.serving import tcp_sockets
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.values import errors


@pytest.mark.parametrize(("bind", "address"), [("127.0.0.1", "127.0.0.1"), ("::1", "::1"), ("", "127.0.0.1")])
def test_who_connects_to_the_address_is_let_in(bind: str, address: str) -> None:
    with tcp_sockets.listening(bind, 0) as listener:
        socket.create_connection((address, listener.getsockname()[1])).close()


@pytest.mark.parametrize(
    ("bind", "told"),
    [
        ("192.0.2.1", "cannot listen at 192.0.2.1, port 0: cannot assign requested address: no interface here has it"),
        ("2001:db8::1", "no interface here has it, give another address with --bind"),
        ("no address", "give another address with --bind"),
    ],
)
def test_an_address_that_is_not_here_is_named_with_what_to_do(bind: str, told: str) -> None:
    with pytest.raises(errors.Failed) as caught:
        tcp_sockets.listening(bind, 0)
    assert told in str(caught.value)
    assert bind in str(caught.value)


def test_a_port_that_is_taken_is_named() -> None:
    with tcp_sockets.listening("127.0.0.1", 0) as first:
        port = first.getsockname()[1]
        with pytest.raises(errors.Failed, match=f"port {port}: address already in use: another process"):
            tcp_sockets.listening("127.0.0.1", port)
