"""Talking to the daemon through its unix socket, from a play."""

from __future__ import annotations

import contextlib
import ssl
import time
from typing import TYPE_CHECKING, Any

import httpx

from ..module_utils.domain.values import errors
from . import unix_sockets

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

PAUSE = 0.5
_NO_TLS = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
"""Trusts nobody: there is no TLS on a unix socket, and reading the usual certificates takes 70 ms for each client."""


@contextlib.contextmanager
def connected(socket: Path, *, seconds: float) -> Iterator[httpx.Client]:
    """A client of the daemon behind a socket whose path may have any length."""
    with unix_sockets.short_name(socket) as name:
        transport = httpx.HTTPTransport(uds=name, verify=_NO_TLS)
        # A proxy of the environment is for the network, not for this socket.
        with httpx.Client(
            transport=transport, base_url="http://roundsmand", timeout=seconds, trust_env=False
        ) as client:
            yield client


def answers(socket: Path) -> bool:
    """Whether a daemon answers; a socket that nobody listens at is that of a dead one.

    Raises:
        StoreFailed: somebody listens, and does not answer in time.
    """
    if not socket.exists():
        return False
    try:
        with connected(socket, seconds=10) as client:
            return client.get("/").status_code == httpx.codes.OK
    except httpx.ConnectError:
        return False
    except httpx.HTTPError as error:
        raise errors.StoreFailed(f"the daemon does not answer: {error}") from error


def silent_nodes(socket: Path) -> list[str]:
    """The nodes (UUIDs) that did not answer when the daemon last asked them; none without a daemon.

    Raises:
        StoreFailed: it does not answer in time, or it failed.
    """
    if not answers(socket):
        return []
    try:
        with connected(socket, seconds=30) as client:
            answer = client.get("/1/nodes")
    except httpx.HTTPError as error:
        raise errors.StoreFailed(f"the daemon does not answer: {error}") from error
    if answer.is_error:
        raise errors.StoreFailed(f"the daemon failed: {_detail(answer)}")
    return [node["uuid"] for node in answer.json() if node["silent"]]


def post(socket: Path, path: str, body: Mapping[str, Any], *, seconds: float) -> Any:
    """Ask the daemon for something.

    Raises:
        LockRefused: it refused. StoreFailed: it does not answer, or it failed.
    """
    try:
        with connected(socket, seconds=seconds) as client:
            answer = client.post(path, json=dict(body))
    except (httpx.HTTPError, OSError) as error:
        raise errors.StoreFailed(f"the daemon does not answer: {error}") from error
    if answer.is_server_error:
        raise errors.StoreFailed(f"the daemon failed: {_detail(answer)}")
    if answer.is_error:
        raise errors.LockRefused(_detail(answer))
    return answer.json()


def post_until_answered(socket: Path, path: str, body: Mapping[str, Any], *, patience: float) -> Any:
    """Ask again while the daemon is being restarted, for so many seconds; only for what may be said twice.

    Raises:
        LockRefused: it refused. StoreFailed: it did not answer in that time.
    """
    end = time.monotonic() + patience
    while True:
        try:
            return post(socket, path, body, seconds=max(1.0, end - time.monotonic()))
        except errors.StoreFailed:
            if time.monotonic() + PAUSE > end:
                raise
            time.sleep(PAUSE)


def _detail(answer: httpx.Response) -> str:
    try:
        return str(answer.json()["detail"])
    except (ValueError, KeyError, TypeError):
        return answer.text[:500]
