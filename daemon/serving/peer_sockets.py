"""Listening unix sockets that report who connects: the peer's uid and pid stand for its address."""

from __future__ import annotations

import socket
import struct
from typing import TYPE_CHECKING, Any

from ...plugins.plugin_utils import unix_sockets

if TYPE_CHECKING:
    from pathlib import Path

QUEUE = 128
_CREDENTIALS = struct.Struct("3i")


class _Connection(socket.socket):
    """A connection whose address is the uid, as text, and the pid of the process that connected.

    The kernel recorded them when that process connected (SO_PEERCRED): nothing that it sends can change them.
    """

    def getpeername(self) -> tuple[str, int]:
        pid, uid, _gid = _CREDENTIALS.unpack(self.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size))
        return str(uid), pid


class Listener(socket.socket):
    """A listening socket; uvicorn takes the `client` of a request from what its connections give as their address."""

    def accept(self) -> tuple[socket.socket, Any]:
        """Accept a connection."""
        accepted, _name = super().accept()
        connection = _Connection(fileno=accepted.detach())
        return connection, connection.getpeername()


def listening(path: Path) -> Listener:
    """Listen at a path of any length, with mode 0660; the socket of a dead process is replaced.

    Raises:
        OSError: the folder cannot be made, or the socket not be bound.
    """
    path.parent.mkdir(mode=0o750, parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    listener = Listener(socket.AF_UNIX, socket.SOCK_STREAM)
    with unix_sockets.short_name(path) as name:
        listener.bind(name)
    path.chmod(0o660)
    listener.listen(QUEUE)
    return listener
