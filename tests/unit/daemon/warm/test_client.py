from __future__ import annotations

import os
import socket
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from ansible_collections.roundsman.cluster.daemon.warm import client

if TYPE_CHECKING:
    from pathlib import Path


def test_a_server_that_does_not_answer_is_given_up_and_hears_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "PATIENCE", 0.05)
    monkeypatch.setattr(client, "give_up_terminal", lambda: -1)
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    assert client.play(ours, ["ansible-playbook"]) == "the warm server did not accept it: timed out"
    while theirs.recv(65536):
        pass
    theirs.close()


def test_a_refusal_is_told_and_nothing_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "give_up_terminal", lambda: -1)
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with theirs:
        theirs.send(b"Rit is too late")
        assert client.play(ours, ["ansible-playbook"]) == "it is too late"


@pytest.mark.parametrize(("said", "status"), [("X0", 0), ("X4", 4), ("X-9", -9), ("X-15", -15), ("", 250)])
def test_the_command_ends_as_its_run_did_even_if_a_signal_was_left_unread(said: str, status: int) -> None:
    program = (
        "import socket, sys; from ansible_collections.roundsman.cluster.daemon.warm import client\n"
        "ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)\n"
        "ours.send(b'S28'); theirs.send(sys.argv[1].encode()); theirs.close(); client.wait(ours)"
    )
    assert subprocess.run([sys.executable, "-c", program, said], check=False).returncode == status


def listening(folder: Path) -> socket.socket:
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    descriptor = os.open(folder, os.O_PATH | os.O_DIRECTORY)
    listener.bind(f"/proc/self/fd/{descriptor}/{client.SOCKET}")
    os.close(descriptor)
    return listener


@pytest.mark.parametrize("backlog", [5, 0])
def test_a_server_that_does_not_greet_is_not_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, backlog: int
) -> None:
    monkeypatch.setattr(client, "HELLO_SECONDS", 0.05)
    with listening(tmp_path) as listener:
        listener.listen(backlog)
        for _ in range(3):
            with pytest.raises(TimeoutError, match="did not greet"):
                client.connect(str(tmp_path))
