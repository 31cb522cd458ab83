from __future__ import annotations

import pytest
from ansible_collections.roundsman.cluster.daemon.remote import access, users


@pytest.mark.parametrize(
    "path", ["/", "/version", "/2", "/2/info", "/2/nodes/n/role", "/2/locks", "/2/pause", "/2/nodes/hold", "/2/holding"]
)
def test_the_remote_api_is_forwarded(path: str) -> None:
    assert access.is_forwarded(path)


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
    assert not access.is_forwarded(path)


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
    assert access.is_allowed(users.Access.READ, method=method, path=path) is is_reading
    assert access.is_allowed(users.Access.WRITE, method=method, path=path)
