"""What systemd does on real machines: agents, BMCs and the remote API run, and start again after they have ended."""

from __future__ import annotations

import subprocess
import sys
import time
from typing import TYPE_CHECKING

from ansible_collections.roundsman.cluster.daemon.lab import processes
from ansible_collections.roundsman.cluster.daemon.lab.simulator import simulated_node
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.values import errors

from tests.integration import fronts

if TYPE_CHECKING:
    import httpx

    from tests.integration import labs

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

    def __init__(self, lab: labs.Running) -> None:
        self._lab = lab
        self._started: dict[str, subprocess.Popen[bytes]] = {}
        self._ended: dict[str, float] = {}
        self._rapi_port = processes.free_port()
        fronts.prepared(lab.where.root)

    def tend(self) -> None:
        """Start what is not there: the nodes' agents, the BMCs, the remote API."""
        if not processes.is_running(self._lab.lab, "bmcs"):
            processes.start_bmcs(self._lab.lab)
        processes.start_agents(self._lab.lab)
        if self._is_due("rapi"):
            self._start_rapi()

    def rapi(self, user: str) -> httpx.Client:
        """A client of the remote API."""
        front = fronts.Front(self._lab.where, self._rapi_port, self._started["rapi"], self._lab.where.root / "rapi.log")
        return front.client(user)

    def pids(self, kind: str) -> list[int]:
        """The processes of a kind (`agent`, `rapi`) that run."""
        if kind == "agent":
            return [pid for node in self._lab.lab.nodes() for pid in simulated_node.agent(node.root)]
        return [one.pid for name, one in self._started.items() if name.startswith(kind) and one.poll() is None]

    def stop(self) -> None:
        """End all of them."""
        for process in self._started.values():
            process.kill()
        for process in self._started.values():
            process.wait(20)

    def _is_due(self, name: str) -> bool:
        process, now = self._started.get(name), time.monotonic()
        if process is not None and process.poll() is None:
            return False
        ended = self._ended.setdefault(name, now) if process is not None else 0.0
        if now - ended < RESTART_SECONDS:
            return False
        self._ended.pop(name, None)
        return True

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
