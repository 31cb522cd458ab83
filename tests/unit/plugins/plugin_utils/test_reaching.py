from __future__ import annotations

import subprocess
import time
from typing import TYPE_CHECKING

import pytest
from ansible.errors import AnsibleConnectionFailure
from ansible_collections.roundsman.cluster.plugins.plugin_utils import reaching

if TYPE_CHECKING:
    from pathlib import Path


class Node:
    """An action whose node runs this script instead of any command."""

    def __init__(self, script: str) -> None:
        self.script = script
        self.asked: list[str] = []

    def _low_level_execute_command(self, command: str) -> None:
        self.asked.append(command)
        subprocess.run(["/bin/sh", "-c", self.script.format(command=command)], check=False)


def test_a_node_that_answers_is_asked_once_whatever_it_says() -> None:
    for script in ("{command}", "exit 127", "{command}; exit 3"):
        node = Node(script)
        reaching.require_answer(node, seconds=60)
        assert node.asked == [reaching.probe()]


@pytest.mark.parametrize("interpreter", ["", "auto", "auto_silent", "python3.12"])
def test_without_the_path_of_an_interpreter_the_usual_one_is_asked(interpreter: str) -> None:
    assert reaching.probe(interpreter).startswith("python3 -IS")


def test_a_node_whose_interpreter_hangs_is_unreachable(tmp_path: Path) -> None:
    interpreter = tmp_path / "python; touch it"
    interpreter.write_text("#!/bin/sh\nwhile :; do sleep 1; done\n")
    interpreter.chmod(0o755)
    with pytest.raises(AnsibleConnectionFailure, match="hangs"):
        reaching.require_answer(Node("{command}"), interpreter=str(interpreter), seconds=1)


def test_a_node_that_hangs_is_unreachable_within_seconds_and_nothing_is_left_of_the_try(tmp_path: Path) -> None:
    node = Node(f"echo $$ >{tmp_path}/pid; while :; do sleep 1; done; {{command}}")
    with pytest.raises(AnsibleConnectionFailure, match="the node hangs: no program ended there within 1 s"):
        reaching.require_answer(node, seconds=1)
    pid = (tmp_path / "pid").read_text().strip()
    end = time.monotonic() + 60
    while subprocess.run(["kill", "-0", pid], capture_output=True, check=False).returncode == 0:
        assert time.monotonic() < end
        time.sleep(0.01)


def test_the_limits_for_reaching_a_node_are_seconds() -> None:
    assert reaching.SECONDS <= 20
