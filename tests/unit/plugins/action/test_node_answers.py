from __future__ import annotations

import contextlib
import socket
from typing import TYPE_CHECKING, Any

import pytest
from ansible.errors import AnsibleActionFail, AnsibleConnectionFailure
from ansible.plugins.connection.local import Connection
from ansible_collections.roundsman.cluster.plugins.plugin_utils import reaching

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .running import Controller


@contextlib.contextmanager
def agent() -> Iterator[dict[str, Any]]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield {"address": "127.0.0.1", "port": server.getsockname()[1]}


def cut(monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    """No program runs on the node."""

    def fail(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(Connection, "exec_command", fail)


def test_a_node_is_alive_by_the_programs_that_it_runs_and_by_no_open_port(
    controller: Controller, monkeypatch: pytest.MonkeyPatch
) -> None:
    for is_check in (False, True):
        assert controller.run("node_answers", is_check=is_check)["alive"] == "it runs programs"
    cut(monkeypatch, AnsibleConnectionFailure("no route"))
    with agent() as there:
        result = controller.run("node_answers", **there)
        assert (result["changed"], result["alive"]) == (False, "")
        assert result["accepts"][:40] == "its agent's port accepts connections (12"
    for nothing in ({}, there, {"port": 1, "address": "127.0.0.1"}, {"port": 9100, "address": "\x00.invalid\n"}):
        result = controller.run("node_answers", **nothing)
        assert (result.get("failed"), result["alive"], result["accepts"]) == (None, "", "")
    assert (controller.held, controller.recorded) == ({}, [])


def test_a_node_that_hangs_only_accepts_connections(controller: Controller, monkeypatch: pytest.MonkeyPatch) -> None:
    cut(monkeypatch, reaching.NodeHangs("no program ended there"))
    result = controller.run("node_answers")
    assert (result["alive"], result["accepts"]) == ("", "it accepts connections, although no program ends there")


@pytest.mark.parametrize("seconds", [0, "soon", 1e9])
def test_a_limit_that_is_none_is_refused(controller: Controller, seconds: object) -> None:
    with pytest.raises(AnsibleActionFail, match="roundsman_reach_seconds must be a number from 5 to 120"):
        controller.run("node_answers", variables={"roundsman_reach_seconds": seconds})
