"""What systemd does on real machines: agents, BMCs and the remote API run, and start again after they have ended."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from typing import TYPE_CHECKING

from ansible_collections.roundsman.cluster.daemon.lab import processes
from ansible_collections.roundsman.cluster.plugins.module_utils.domain import errors

from tests.integration import fronts

if TYPE_CHECKING:
    import httpx
    from ansible_collections.roundsman.cluster.daemon.lab import world
    from ansible_collections.roundsman.cluster.plugins.module_utils.domain import cluster as clusters

    from tests.integration import labs

AGENT = "ansible_collections.roundsman.cluster.plugins.module_utils.monitoring.agent"
DIAGNOSE_SECONDS = 3
"""Between two looks of an agent at its node."""
RESTART_SECONDS = 2.0
"""Between the end of a service and its next start."""


LONGEST_BY_HAND = 300.0
"""How long a play by hand may keep the daemon from starting: it began while there was none, and writes meanwhile."""


def start_daemon(lab: labs.Running) -> None:
    """Start the daemon, unless it runs, and again while a play by hand has the right to write the configuration.

    Raises:
        Failed: it did not start for another reason, or not within `LONGEST_BY_HAND`.
    """
    end = time.monotonic() + LONGEST_BY_HAND
    while True:
        try:
            lab.start()
        except errors.Failed as error:
            if "config.lock is held by ansible-playbook" not in str(error) or time.monotonic() > end:
                raise
            time.sleep(RESTART_SECONDS)
        else:
            return


class Services:
    """The services of a lab; `tend` starts what has ended."""

    def __init__(self, lab: labs.Running, *, agent_port: int) -> None:
        self._lab = lab
        self._agent_port = agent_port
        self._started: dict[str, subprocess.Popen[bytes]] = {}
        self._ended: dict[str, float] = {}
        self._rapi_port = processes.free_port()
        fronts.prepared(lab.where.root)

    def tend(self) -> None:
        """Start what is not there: agents of nodes that are reached, the BMCs, the remote API."""
        if not processes.is_running(self._lab.lab, "bmcs"):
            processes.start_bmcs(self._lab.lab)
        for node in self._lab.cluster().nodes.values() if self._agent_port else ():
            machine = self._lab.lab.node(node.name)
            # An agent that nobody reaches is as good as none.
            if self._is_due(f"agent {node.name}", is_wanted=machine.answers()):
                self._start_agent(node, machine)
        if self._is_due("rapi", is_wanted=True):
            self._start_rapi()

    def rapi(self, user: str) -> httpx.Client:
        """A client of the remote API."""
        front = fronts.Front(self._lab.where, self._rapi_port, self._started["rapi"], self._lab.where.root / "rapi.log")
        return front.client(user)

    def pids(self, kind: str) -> list[int]:
        """The processes of a kind (`agent`, `rapi`) that run."""
        return [one.pid for name, one in self._started.items() if name.startswith(kind) and one.poll() is None]

    def stop(self) -> None:
        """End all of them."""
        for process in self._started.values():
            process.kill()
        for process in self._started.values():
            process.wait(20)

    def _is_due(self, name: str, *, is_wanted: bool) -> bool:
        process, now = self._started.get(name), time.monotonic()
        if not is_wanted or (process is not None and process.poll() is None):
            return False
        ended = self._ended.setdefault(name, now) if process is not None else 0.0
        if now - ended < RESTART_SECONDS:
            return False
        self._ended.pop(name, None)
        return True

    def _start_agent(self, node: clusters.Node, machine: world.LabNode) -> None:
        settings = {"bind": [node.primary_ip], "port": self._agent_port, "hypervisor": "fake"}
        settings |= {"diagnose_command": "lab-diagnose", "collectors": {"diagnose": DIAGNOSE_SECONDS}}
        path = machine.root / "etc/roundsman/agent.json"
        if not path.exists():
            path.write_text(json.dumps(settings))
        environment = {**os.environ, "ROUNDSMAN_ROOT": str(machine.root)}
        with (machine.root / "var/log/roundsman/agent.log").open("ab") as log:
            self._started[f"agent {node.name}"] = subprocess.Popen(
                [sys.executable, "-m", AGENT], env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )

    def _start_rapi(self) -> None:
        root = self._lab.where.root
        command = [sys.executable, "-m", fronts.MODULE, "--root", str(root), "--bind", "127.0.0.1"]
        with (root / "rapi.err").open("ab") as log:
            self._started["rapi"] = subprocess.Popen(
                [*command, "--port", str(self._rapi_port), "--log-file", str(root / "rapi.log")],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
