"""Whether a node's SSH server greets: a sign of life of more than its kernel, as a program has to send it.

An open port alone is none: the kernel of a node whose programs hang accepts connections.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from ...plugins.module_utils.domain.values import errors
from ...plugins.plugin_utils.config import hosts

if TYPE_CHECKING:
    from pathlib import Path

    from ...plugins.plugin_utils.cluster import cluster as clusters

SECONDS = 10.0
"""How long a node may take to be connected to and to greet."""
_LINES, _LIMIT = 20, 1024
"""A server may send other lines before its greeting (RFC 4253, section 4.2)."""


async def greets(node: clusters.Node, *, root: Path, seconds: float = SECONDS) -> bool:
    """Whether the SSH server of a node greets in time; one that is reached in another way than by SSH does not."""
    try:
        place = await asyncio.to_thread(hosts.ssh_place, node, root=root)
    except (errors.Refused, OSError):
        return False
    if place is None:
        return False
    try:
        async with asyncio.timeout(seconds):
            reader, writer = await asyncio.open_connection(*place, limit=_LIMIT)
            try:
                return await _has_greeting(reader)
            finally:
                writer.transport.abort()
    except (OSError, ValueError, OverflowError):
        # The last two are of a line that is too long, and of an address or a port that no host can have.
        return False


async def _has_greeting(reader: asyncio.StreamReader) -> bool:
    for _ in range(_LINES):
        line = await reader.readline()
        if line.startswith(b"SSH-") or not line:
            return line.startswith(b"SSH-")
    return False
