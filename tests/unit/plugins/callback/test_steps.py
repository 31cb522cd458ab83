from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from ansible_collections.roundsman.cluster.plugins.callback import steps

if TYPE_CHECKING:
    from collections.abc import Callable


@pytest.fixture
def callback(monkeypatch: pytest.MonkeyPatch) -> Any:
    moments = iter(range(100))
    monkeypatch.setattr("time.monotonic", lambda: next(moments))
    return steps.CallbackModule()


def task(name: str, action: str = "roundsman.cluster.epo") -> Any:
    return SimpleNamespace(get_name=lambda: name, action=action)


def result(host: str, of: Any, **told: Any) -> Any:
    return SimpleNamespace(host=SimpleNamespace(get_name=lambda: host), task=of, result=told)


def ended(callback: Any) -> None:
    callback.v2_playbook_on_stats(None)


def test_a_step_is_one_line_with_its_nodes_and_its_seconds(callback: Any, capsys: pytest.CaptureFixture[str]) -> None:
    stop = task("Stop the instances")
    callback.v2_playbook_on_task_start(stop, is_conditional=False)
    for host in ("node1", "node2"):
        callback.v2_runner_on_ok(result(host, stop))
    ended(callback)
    assert capsys.readouterr().out == "Stop the instances: 2 nodes, 1.0 s\n"


def test_a_step_of_the_controller_names_no_nodes(callback: Any, capsys: pytest.CaptureFixture[str]) -> None:
    look = task("Look at the cluster")
    callback.v2_playbook_on_task_start(look, is_conditional=False)
    callback.v2_runner_on_ok(result("localhost", look))
    callback.v2_playbook_on_play_start(None)
    assert capsys.readouterr().out == "Look at the cluster: 1.0 s\n"


@pytest.mark.parametrize(
    "tell", [steps.CallbackModule.v2_runner_on_failed, steps.CallbackModule.v2_runner_on_unreachable]
)
def test_what_fails_is_told_at_once_with_its_node(
    callback: Any, capsys: pytest.CaptureFixture[str], tell: Callable[[Any, Any], None]
) -> None:
    stop = task("Stop")
    callback.v2_playbook_on_task_start(stop, is_conditional=False)
    tell(callback, result("node7", stop, msg="no \x1b[31mroom\nnode8: powered off"))
    assert capsys.readouterr().out == "node7: no  [31mroom\nnode7: node8: powered off\n"
    ended(callback)
    assert capsys.readouterr().out == "Stop: 1 node, 1 failed, 1.0 s\n"


def test_messages_are_lines_and_a_step_that_did_nothing_is_none(
    callback: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    say = task("Say it", "ansible.builtin.debug")
    callback.v2_playbook_on_task_start(task("Skipped"), is_conditional=False)
    callback.v2_playbook_on_task_start(say, is_conditional=False)
    callback.v2_runner_on_ok(result("localhost", say, msg=["first", "second"]))
    ended(callback)
    assert capsys.readouterr().out == "first\nsecond\n"


def test_a_terminal_sees_how_many_nodes_are_done(
    callback: Any, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(callback, "_is_terminal", True)
    stop = task("Stop")
    callback.v2_playbook_on_task_start(stop, is_conditional=False)
    callback.v2_runner_on_ok(result("node1", stop))
    ended(callback)
    assert capsys.readouterr().out == f"{steps.ERASE}Stop: 1 done{steps.ERASE}Stop: 1 node, 1.0 s\n"
