from __future__ import annotations

import contextlib
import socket
import struct
import subprocess
import threading
import time
import types
import unittest.mock
from typing import TYPE_CHECKING

import pytest
from ansible.errors import AnsibleActionFail, AnsibleConnectionFailure
from ansible.playbook.play_context import PlayContext
from ansible.plugins.loader import connection_loader
from ansible_collections.roundsman.cluster.plugins.plugin_utils import reaching

if TYPE_CHECKING:
    from collections.abc import Iterator
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


@pytest.mark.parametrize(
    ("value", "seconds"), [(None, reaching.SECONDS), (5, 5.0), (60, 60.0), ("60", 60.0), (120.0, 120.0)]
)
def test_root_may_give_a_slow_node_another_limit(value: object, seconds: float) -> None:
    assert reaching.limit(value) == seconds


@pytest.mark.parametrize("value", [4.9, 120.1, 0, -1, True, "", "soon", "nan", "inf", [60], {"a": 1}])
def test_a_limit_that_is_none_is_refused_and_not_ignored(value: object) -> None:
    with pytest.raises(AnsibleActionFail, match="roundsman_reach_seconds must be a number from 5 to 120"):
        reaching.limit(value)


def test_the_limits_for_reaching_a_node_are_seconds() -> None:
    assert reaching.SECONDS <= 20


@contextlib.contextmanager
def listening(*, accepts: bool = True) -> Iterator[int]:
    """The port of somebody who accepts connections and never says a word, as a node that hangs does; or of nobody."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
        if not accepts:
            server.close()
        yield port


def over(
    transport: str, script: str = "exit 1", *, port: int = 0, fails: Exception | None = None, **given: str
) -> Node:
    """An action whose connection is of this kind, with these options; `fails` is what comes of each login."""
    node = Node(script)
    if fails is not None:
        node._low_level_execute_command = unittest.mock.Mock(side_effect=fails)  # type: ignore[method-assign]
    options = {"host": "127.0.0.1", "port": port or None, **given}
    node._connection = types.SimpleNamespace(transport=transport, host="127.0.0.1", get_option=options.get)  # type: ignore[attr-defined]
    return node


STRANGER = AnsibleConnectionFailure("host key verification failed")
HUNG = reaching.NodeHangs("no program ended there")


def test_an_open_ssh_port_is_life_only_where_a_login_ends() -> None:
    with listening() as port:
        told = reaching.signs_of_life(over("ssh", "{command}", port=port))
        assert told.alive == "it runs programs"
        for failure in (STRANGER, HUNG):
            told = reaching.signs_of_life(over("ssh", port=port, fails=failure))
            assert (told.alive, told.accepts[:33]) == ("", "its SSH port accepts connections ")
    with listening(accepts=False) as port:
        silent = over("ssh", "{command}", port=port)
        assert reaching.signs_of_life(silent) == reaching.Signs()
        assert silent.asked == []


@pytest.mark.parametrize("arguments", ["-o ProxyJump=gate", "-J gate", "-o 'ProxyCommand=ssh -W %h:%p gate'"])
def test_behind_a_jump_host_a_login_is_tried_though_no_port_is_open_from_here(arguments: str) -> None:
    for failure in (None, AnsibleConnectionFailure("connection timed out")):
        with listening(accepts=False) as port:
            node = over("ssh", "{command}", port=port, fails=failure, ssh_common_args=arguments)
            assert reaching.signs_of_life(node).alive == ("" if failure else "it runs programs")


def test_a_jump_host_of_the_configuration_of_ssh_counts_too(tmp_path: Path) -> None:
    (tmp_path / "config").write_text("Host 127.0.0.1\n  ProxyJump gate\n")
    for host, alive in (("127.0.0.1", "it runs programs"), ("127.0.0.2", "")):
        with listening(accepts=False) as port:
            node = over("ssh", "{command}", port=port, host=host, ssh_args=f"-F '{tmp_path}/config'")
            assert reaching.signs_of_life(node).alive == alive


def test_an_agent_that_only_accepts_is_no_life() -> None:
    with listening(accepts=False) as ssh, listening() as agent:
        told = reaching.signs_of_life(over("ssh", port=ssh), address="127.0.0.1", port=agent)
    assert (told.alive, told.accepts[:39]) == ("", "its agent's port accepts connections (1")


def test_a_node_of_another_connection_is_alive_when_a_program_ends() -> None:
    other = "roundsman.cluster.lab_node"
    assert reaching.signs_of_life(over(other, "{command}")).alive == "it runs programs"
    assert reaching.signs_of_life(over(other, fails=AnsibleConnectionFailure("its link is cut"))) == reaching.Signs()
    told = reaching.signs_of_life(over(other, fails=HUNG))
    assert (told.alive, told.accepts) == ("", "it accepts connections, although no program ends there")


@contextlib.contextmanager
def impostor(text: str) -> Iterator[int]:
    """The port of an SSH server without a key, which hangs up with a text before it needs one (SSH_MSG_DISCONNECT)."""
    said = b"\x01" + struct.pack("!II", 2, len(text)) + text.encode() + struct.pack("!I", 0)
    padding = 16 - (len(said) + 5) % 8
    packet = struct.pack("!IB", len(said) + padding + 1, padding) + said + b"\0" * padding

    def serve(server: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = server.accept()
                with client, contextlib.suppress(OSError):
                    client.settimeout(2)
                    client.sendall(b"SSH-2.0-x\r\n")
                    if client.recv(200):
                        client.sendall(packet)
                        client.recv(4000)

    with socket.create_server(("127.0.0.1", 0)) as server:
        threading.Thread(target=serve, args=(server,), daemon=True).start()
        yield server.getsockname()[1]


class Login:
    """An action that logs in with the real SSH client."""

    def __init__(self, port: int) -> None:
        context = PlayContext()
        context.remote_addr, context.port, context.timeout = "127.0.0.1", port, 5
        self._connection = connection_loader.get("ssh", context)
        self._connection.set_options(var_options={"ansible_host": "127.0.0.1", "ansible_port": port})

    def _low_level_execute_command(self, command: str) -> dict[str, object]:
        rc, out, err = self._connection.exec_command(command, sudoable=False)
        return {"rc": rc, "stdout": out, "stderr": err}


@pytest.mark.parametrize("text", ["Traceback (most recent call last):", "Bad configuration option: ControlPersist"])
def test_what_a_server_without_the_hosts_key_says_is_no_login(text: str) -> None:
    with impostor(text) as port:
        told = reaching.signs_of_life(Login(port), seconds=20)
    assert (told.alive, told.accepts[:33]) == ("", "its SSH port accepts connections ")
