"""Listening sockets of the agent, of either family."""

from __future__ import annotations

import contextlib
import socket
from typing import Dict, Mapping, Sequence, Tuple

from ..domain.values import errors

Sockets = Dict[Tuple[str, int], socket.socket]


def sockets(addresses: Sequence[str], port: int, *, known: Mapping[Tuple[str, int], socket.socket]) -> Sockets:
    """Listen at each address, by those that are known already where they fit; if one fails, no new one is left open.

    Raises: errors.Failed naming address and port.
    """
    with contextlib.ExitStack() as undone:
        found: Sockets = {}
        for address in addresses:
            place = (address, port)
            found[place] = known[place] if place in known else undone.enter_context(_listening(address, port))
        undone.pop_all()
        return found


def _listening(address: str, port: int) -> socket.socket:
    try:
        family, kind, protocol, _, place = socket.getaddrinfo(
            address, port, type=socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST | socket.AI_PASSIVE
        )[0]
        listener = socket.socket(family, kind, protocol)
    except OSError as e:
        raise errors.Failed("cannot listen at {}: {}".format(address, e.strerror)) from e
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        listener.bind(place)
        listener.listen()
    except OSError as e:
        listener.close()
        raise errors.Failed("cannot listen at {}, port {}: {}".format(address, port, e.strerror)) from e
    return listener
