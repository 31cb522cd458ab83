"""Listening sockets of TCP."""

from __future__ import annotations

import contextlib
import errno
import socket

from ...plugins.module_utils.domain.values import errors

QUEUE = 128
_CURES = {
    errno.EADDRNOTAVAIL: "no interface here has it, give another address with --bind",
    errno.EADDRINUSE: "another process listens there, give another port with --port",
    errno.EACCES: "a port below 1024 takes more rights, give another one with --port",
}


def listening(bind: str, port: int) -> socket.socket:
    """Listen at an address of either family; at every address, of both families, when `bind` is empty.

    Raises:
        Failed: nobody can listen there; the text names address and port, and says what to do.
    """
    is_six = ":" in bind or (not bind and socket.has_dualstack_ipv6())
    with contextlib.ExitStack() as undone:
        listener = undone.enter_context(
            socket.socket(socket.AF_INET6 if is_six else socket.AF_INET, socket.SOCK_STREAM)
        )
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if is_six:
            listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, int(bool(bind)))
        try:
            listener.bind((bind, port))
            listener.listen(QUEUE)
        except OSError as error:
            told = (error.strerror or str(error)).lower()
            cure = _CURES.get(error.errno or 0, "give another address with --bind")
            raise errors.Failed(f"cannot listen at {bind or 'every address'}, port {port}: {told}: {cure}") from error
        undone.pop_all()
        return listener
