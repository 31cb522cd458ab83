"""What the remote API forwards and for whom, and its access log: one line for each request, and no secret in it."""

from __future__ import annotations

import asyncio
import base64
import logging
from typing import TYPE_CHECKING, Any

import pytest
from ansible_collections.roundsman.cluster.daemon.remote import authentication, forwarding, front, users

if TYPE_CHECKING:
    from pathlib import Path


PASSWORD = "S3CRET password"
HEADER = b"Basic " + base64.b64encode(f"ann:{PASSWORD}".encode())


class Authenticator:
    """Knows ann by her password, and nobody else."""

    def __init__(self, access: users.Access) -> None:
        self._access = access

    async def asker(self, header: bytes | None, *, address: str) -> authentication.Asker:
        assert address == "192.0.2.1"
        if header != HEADER:
            raise authentication.Denied(401, "the name or the password is wrong")
        return authentication.Asker("ann", self._access)


def ask(tmp_path: Path, method: str, path: bytes, *, access: users.Access, header: bytes = HEADER) -> None:
    """Send one request to a front whose daemon does not answer."""
    one = front.Front(Authenticator(access), forwarding.Daemon(tmp_path / "roundsmand.sock"))  # type: ignore[arg-type]
    target, _, query = path.partition(b"?")
    scope: dict[str, Any] = {
        "method": method,
        "path": target.decode(),
        "raw_path": target,
        "query_string": query,
        "headers": [(b"authorization", header)],
        "client": ("192.0.2.1", 5),
    }

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": b'{"password": "S3CRET body"}'}

    async def send(_: dict[str, Any]) -> None:
        pass

    asyncio.run(one(scope, receive, send))


@pytest.mark.parametrize(
    ("request_line", "access", "header", "told"),
    [
        (b"GET /2/nodes?secret=S3CRET", "read", HEADER, "user=ann address=192.0.2.1 GET /2/nodes status=503 bytes="),
        (b"PUT /2/pause", "read", HEADER, "user=ann address=192.0.2.1 PUT /2/pause status=403 bytes="),
        (b"GET /2/config", "write", HEADER, "user=ann address=192.0.2.1 GET /2/config status=404 bytes="),
        (b"GET /2/nodes", "read", b"Basic x", "user=- address=192.0.2.1 GET /2/nodes status=401 bytes="),
    ],
)
def test_each_request_is_one_line_without_secrets(
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    *,
    request_line: bytes,
    access: str,
    header: bytes,
    told: str,
) -> None:
    method, _, path = request_line.partition(b" ")
    caplog.set_level(logging.INFO)
    ask(tmp_path, method.decode(), path, access=users.Access(access), header=header)
    (line,) = [one.getMessage() for one in caplog.records if one.name == "roundsman.access"]
    assert line.startswith(told)
    assert " seconds=0." in line
    assert "S3CRET" not in caplog.text
    assert base64.b64encode(PASSWORD.encode()).decode()[:-2] not in caplog.text


@pytest.mark.parametrize(
    "path", ["/", "/version", "/2", "/2/info", "/2/nodes/n/role", "/2/locks", "/2/pause", "/2/nodes/hold", "/2/holding"]
)
def test_the_remote_api_is_forwarded(path: str) -> None:
    assert front.is_forwarded(path)


@pytest.mark.parametrize(
    "path",
    [
        "",
        "*",
        "//",
        "/2/",
        "/2//hold",
        "/2/adopt",
        "/2/hold",
        "/2/hold/x",
        "/2/record",
        "/2/config",
        "/2/config/history",
        "/2/x/../hold",
        "/2/./hold",
        "/3/info",
        "/20/info",
        "/1/status",
        "/ui",
        "/metrics",
        "/openapi.json",
        "x/2/info",
        "http://roundsmand/2/info",
    ],
)
def test_everything_else_is_not(path: str) -> None:
    assert not front.is_forwarded(path)


@pytest.mark.parametrize(
    ("method", "path", "is_reading"),
    [
        ("GET", "/2/jobs/1/wait", True),
        ("HEAD", "/2/info", True),
        ("PUT", "/2/query/node", True),
        ("PUT", "/2/query/node/fields", False),
        ("PUT", "/2/query", False),
        ("POST", "/2/query/node", False),
        ("PUT", "/2/nodes/query", False),
        ("DELETE", "/2/jobs/1", False),
        ("get", "/2/info", False),
    ],
)
def test_a_reader_may_read_and_query_and_a_writer_everything(method: str, path: str, *, is_reading: bool) -> None:
    assert front.is_allowed(users.Access.READ, method=method, path=path) is is_reading
    assert front.is_allowed(users.Access.WRITE, method=method, path=path)
