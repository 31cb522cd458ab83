from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any

import pytest
from ansible.errors import AnsibleConnectionFailure
from ansible.playbook.play_context import PlayContext
from ansible.plugins.connection.local import Connection as LocalConnection
from ansible_collections.roundsman.cluster.daemon.lab import standing_faults
from ansible_collections.roundsman.cluster.daemon.lab.simulator import simulated_node
from ansible_collections.roundsman.cluster.plugins.connection import lab_node
from ansible_collections.roundsman.cluster.plugins.plugin_utils import connection_tries

from tests.unit.daemon import twins

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from ansible_collections.roundsman.cluster.daemon.lab import world

ROOT = 'printf %s "$ROUNDSMAN_ROOT"'


@pytest.fixture
def node(tmp_path: Path) -> world.LabNode:
    return twins.lab(tmp_path / "it's a lab", nodes=1, instances=0).node("node1")


def connection(node: world.LabNode) -> Any:
    one = lab_node.Connection(PlayContext(), io.StringIO())
    # Options come from variables only when Ansible's loader has found the plugin, as it does in a play.
    one._options = {"lab_root": str(node.root)}
    return one


def test_a_command_runs_with_the_root_of_its_node(node: world.LabNode) -> None:
    assert connection(node).exec_command(ROOT) == (0, str(node.root).encode(), b"")


@pytest.mark.parametrize("how", ["power", "link"])
def test_a_node_without_power_or_link_is_unreachable(
    node: world.LabNode, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    monkeypatch.setattr(connection_tries, "PAUSES", (0, 0))
    one = connection(node)
    one.exec_command(ROOT)
    if how == "power":
        node.set_power(False)
    else:
        node.cut(is_cut=True)
    with pytest.raises(AnsibleConnectionFailure, match="node1 does not answer in 3 tries"):
        one.exec_command(ROOT)
    with pytest.raises(AnsibleConnectionFailure, match="node1 does not answer in 3 tries"):
        connection(node)._connect()


def test_a_link_that_comes_back_between_two_tries_is_used(node: world.LabNode, monkeypatch: pytest.MonkeyPatch) -> None:
    paused: list[float] = []

    def answers(is_there: Callable[[], bool]) -> bool:
        def pause(seconds: float) -> None:
            paused.append(seconds)
            node.cut(is_cut=len(paused) < 2)

        return real(is_there, pause=pause)

    real = connection_tries.answers
    monkeypatch.setattr(connection_tries, "answers", answers)
    node.cut(is_cut=True)
    assert connection(node).exec_command(ROOT)[0] == 0
    assert paused == list(connection_tries.PAUSES)


@pytest.mark.parametrize("fault", ["cut", "silence", "power", "reboot"])
def test_an_answer_is_lost_with_the_connection(
    node: world.LabNode, monkeypatch: pytest.MonkeyPatch, fault: str
) -> None:
    one = connection(node)
    faults = {
        "cut": lambda: node.cut(is_cut=True),
        "silence": lambda: node.silence(is_silent=True),
        "power": node.lose_power,
        "reboot": node.reboot,
    }
    real = LocalConnection.exec_command

    def exec_command(*given: Any, **more: Any) -> Any:
        answer = real(*given, **more)
        faults[fault]()
        return answer

    monkeypatch.setattr(LocalConnection, "exec_command", exec_command)
    with pytest.raises(AnsibleConnectionFailure, match="node1: the connection was lost while a command was at work"):
        one.exec_command(ROOT)


@pytest.mark.parametrize(
    ("how", "output"),
    [
        ("before", lab_node.GARBAGE + b"0123456789"),
        ("instead", lab_node.GARBAGE),
        ("cut", b"01234"),
        ("", b"0123456789"),
    ],
)
def test_a_node_answers_garbage(node: world.LabNode, how: str, output: bytes) -> None:
    node.garble(how)
    assert connection(node).exec_command("printf 0123456789") == (0, output, b"")


def test_an_answer_is_late_until_the_fault_is_gone(node: world.LabNode, monkeypatch: pytest.MonkeyPatch) -> None:
    node.delay(3600)
    paused: list[float] = []

    def pause(seconds: float) -> None:
        paused.append(seconds)
        if len(paused) == 3:
            standing_faults.fix(node, "late")

    monkeypatch.setattr("time.sleep", pause)
    assert connection(node).exec_command(ROOT)[0] == 0
    assert len(paused) == 3


def test_a_node_that_reboots_is_reached_again_when_its_time_is_over(
    node: world.LabNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection_tries, "PAUSES", (0, 0))
    node.reboot(seconds=3600)
    with pytest.raises(AnsibleConnectionFailure, match="does not answer"):
        connection(node).exec_command(ROOT)
    simulated_node.begin_reboot(node.root, seconds=0)
    assert connection(node).exec_command(ROOT)[0] == 0
