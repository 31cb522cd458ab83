"""Schemathesis asks every resource of the OpenAPI document for all it can think of."""

from __future__ import annotations

import asyncio
import socket
import threading
import types
from pathlib import Path
from typing import TYPE_CHECKING, Any

import hypothesis
import pytest
import schemathesis
import uvicorn
from ansible_collections.roundsman.cluster.daemon import app as apps
from ansible_collections.roundsman.cluster.daemon.api.asking import Door
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.values import tree

from tests.unit.daemon import twins

if TYPE_CHECKING:
    from collections.abc import Iterator

SECONDS = 30
EXAMPLES = 15
# Its resources are listed, and none is asked.
ABSENT: Any = types.SimpleNamespace(where=tree.Tree(Path("/nowhere")), read_only=None)
DOCUMENT: dict[str, Any] = apps.make_app(ABSENT, door=Door.SOCKET).openapi()
# News are awaited: what a client knows already is told at once, what it does not after as long as it asks.
OPERATIONS = [(method, path) for path, one in DOCUMENT["paths"].items() for method in one if path != "/1/news"]
CHECKS = (
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_schema_conformance",
)


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Where a daemon serves on loopback what its socket serves, its opcodes run by a twin."""
    with pytest.MonkeyPatch.context() as patch, socket.create_server(("127.0.0.1", 0)) as listener:
        ready, servers = threading.Event(), []

        async def serve() -> None:
            one = twins.lab(tmp_path_factory.mktemp("api"), pairs=[("node2", "node3")])
            running, _ = twins.assemble(one, patch)
            config = uvicorn.Config(apps.make_app(running, door=Door.SOCKET), log_level="error", lifespan="off")
            servers.append(uvicorn.Server(config))
            ready.set()
            await servers[0].serve(sockets=[listener])
            await running.queue.stop()

        thread = threading.Thread(target=lambda: asyncio.run(serve()))
        thread.start()
        assert ready.wait(SECONDS)
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            servers[0].should_exit = True
            thread.join(SECONDS)


@pytest.mark.parametrize(("method", "path"), OPERATIONS)
def test_nothing_breaks_and_nothing_is_answered_that_is_not_documented(address: str, method: str, path: str) -> None:
    operation = schemathesis.openapi.from_dict(DOCUMENT)[path][method]
    chosen: Any = [schemathesis.checks.CHECKS.get_one(name) for name in CHECKS]

    @hypothesis.settings(
        max_examples=EXAMPLES, deadline=None, derandomize=True, suppress_health_check=list(hypothesis.HealthCheck)
    )
    @hypothesis.given(case=operation.as_strategy())
    def ask(case: schemathesis.Case[Any]) -> None:
        answer = case.call(base_url=address, timeout=SECONDS)
        case.validate_response(answer, checks=chosen)

    ask()
