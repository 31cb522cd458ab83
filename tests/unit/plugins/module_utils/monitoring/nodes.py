"""A node's folder with an agent of its own: real files, a real process, real HTTP on loopback."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import pwd
import selectors
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ansible_collections.roundsman.cluster.daemon.lab import processes
from ansible_collections.roundsman.cluster.plugins.module_utils import node_settings
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.agent import collected, signing
from ansible_collections.roundsman.cluster.plugins.module_utils.monitoring import agent_settings, observing

if TYPE_CHECKING:
    from collections.abc import Iterator

CHECKOUT = Path(__file__).resolve().parents[5]
UUID = "5c8f1c4e-6d54-4bd5-a25b-0f0c0f6f8a11"
KEY = signing.node_key(b"0123456789abcdef0123456789abcdef01234567\n", UUID)
OFF = dict.fromkeys(agent_settings.DEFAULT_SECONDS, 0)
MODULE = "ansible_collections.roundsman.cluster.plugins.module_utils.monitoring.agent"
LIMIT = 60.0


class Node:
    """The folder."""

    def __init__(self, root: Path) -> None:
        self.root = root
        for folder in ("etc/roundsman/node-diagnose-commands", "var/lib/roundsman", "run/roundsman", "proc"):
            (root / folder).mkdir(parents=True)
        owner = pwd.getpwuid(os.geteuid()).pw_name
        self.write("etc/roundsman/node.json", json.dumps({"node": UUID, "name": "node1", "command_owner": owner}))
        self.write("var/lib/roundsman/node.key", KEY.decode(), mode=0o400)
        self.write("proc/stat", "cpu  1 0 1 5 0 0 0 0 0 0\ncpu0 1 0 1 5 0 0 0 0 0 0\n")
        (root / "etc/roundsman/node-diagnose-commands").chmod(0o755)

    @classmethod
    def of_lab(cls, root: Path) -> Node:
        """The folder of a lab's node, which knows already who it is."""
        made = cls.__new__(cls)
        made.root = root
        return made

    @property
    def reports(self) -> Path:
        return self.root / "run/roundsman/agent"

    def write(self, name: str, text: str, *, mode: int = 0o644) -> Path:
        path = self.root / name
        made = path.with_name(f".{path.name}.new")
        made.write_text(text)
        made.chmod(mode)
        made.replace(path)
        return path

    def command(self, script: str, *, name: str = "check") -> None:
        self.write(f"etc/roundsman/node-diagnose-commands/{name}", f"#!/bin/sh\n{script}\n", mode=0o755)

    def settings(self, **fields: Any) -> agent_settings.Settings:
        fields = {"bind": ["127.0.0.1"], "collectors": {**OFF, "diagnose": 1}, **fields}
        return agent_settings.read(self.write("etc/roundsman/agent.json", json.dumps(fields)))

    def surroundings(self, **fields: Any) -> observing.Surroundings:
        return observing.Surroundings(node_settings.load({"ROUNDSMAN_ROOT": str(self.root)}), self.settings(**fields))


class Agent:
    """An agent's process, and requests to it."""

    def __init__(self, process: subprocess.Popen[bytes], *, port: int, host: str) -> None:
        self.process = process
        self.port = port
        self.host = host

    def ask(self, path: str, *, method: str = "GET", port: int | None = None) -> tuple[int, bytes]:
        connection = http.client.HTTPConnection(self.host, port or self.port, timeout=LIMIT)
        with contextlib.closing(connection):
            connection.request(method, path)
            answer = connection.getresponse()
            return answer.status, answer.read()

    def report(self, subject: collected.Subject = collected.DIAGNOSE) -> collected.Collected:
        status, body = self.ask(collected.path(subject))
        assert status == 200, body
        return collected.read(body, subject=subject, node=UUID, key=KEY, now=int(time.time()))

    def until(self, wanted: Any, subject: collected.Subject = collected.DIAGNOSE) -> collected.Collected:
        """Ask until a report is as wanted."""
        deadline = time.monotonic() + LIMIT
        while True:
            with contextlib.suppress(AssertionError, OSError):
                found = self.report(subject)
                if wanted(found):
                    return found
            assert time.monotonic() < deadline, self.ask(collected.path(subject))
            time.sleep(0.02)


@contextlib.contextmanager
def running(node: Node, *, host: str = "127.0.0.1", command: list[str] | None = None, **fields: Any) -> Iterator[Agent]:
    """The agent of a node, ready: it has told the service manager so."""
    port = processes.free_port()
    node.settings(bind=[host], port=port, **fields)
    address = str(node.root / "n")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notified, selectors.DefaultSelector() as selector:
        notified.bind(f"\0{address}")
        environment = {
            "PATH": os.environ["PATH"],
            "PYTHONPATH": str(CHECKOUT / "playbooks/collections"),
            "ROUNDSMAN_ROOT": str(node.root),
            "NOTIFY_SOCKET": f"@{address}",
        }
        words = command or [sys.executable, "-m", MODULE]
        with (node.root / "log").open("wb") as log, subprocess.Popen(words, env=environment, stderr=log) as process:
            try:
                selector.register(notified, selectors.EVENT_READ)
                while not selector.select(0.05):
                    assert process.poll() is None, (node.root / "log").read_text()
                assert notified.recv(100) == b"READY=1"
                yield Agent(process, port=port, host=host)
            finally:
                process.terminate()
                process.wait(LIMIT)
