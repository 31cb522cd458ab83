"""A lab for integration tests: real daemon, real playbooks, simulated nodes; what happens is awaited."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
from ansible_collections.roundsman.cluster.daemon.lab import building, checker, processes, world
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.agent import reports, signing
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.values import tree
from ansible_collections.roundsman.cluster.plugins.module_utils.storage import replica_facts, sights
from ansible_collections.roundsman.cluster.plugins.plugin_utils import ansible_runs, daemon_client, run_group
from ansible_collections.roundsman.cluster.plugins.plugin_utils.cluster import cluster as clusters
from ansible_collections.roundsman.cluster.plugins.plugin_utils.config import store

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

LIMIT = 240.0


class Running:
    """A lab that is up, and what a test asks of it."""

    def __init__(self, lab: world.Lab, environment: Mapping[str, str]) -> None:
        self.lab = lab
        self.where = tree.Tree(lab.controller)
        self._environment = environment

    def get(self, path: str) -> Any:
        """What the daemon answers on its socket."""
        with daemon_client.connected(self.where.socket, seconds=70) as client:
            answer = client.get(path)
            answer.raise_for_status()
            return answer.json()

    def ask(self, method: str, path: str, body: Any = None) -> httpx.Response:
        """Ask the daemon for something, by any method."""
        with daemon_client.connected(self.where.socket, seconds=70) as client:
            return client.request(method, path, json=body)

    def put(self, path: str, body: Any = None) -> httpx.Response:
        """Ask the daemon to change something."""
        return self.ask("PUT", path, body)

    def delete(self, path: str) -> httpx.Response:
        """Ask the daemon to end something."""
        return self.ask("DELETE", path)

    def until(self, is_so: Callable[[Running], Any], what: str, *, seconds: float = LIMIT) -> Any:
        """Wait for a state: looks again after each change that the daemon tells of, and each second."""
        end, number = time.monotonic() + seconds, -1
        while time.monotonic() < end:
            try:
                number = self.get(f"/1/news?after={number}&seconds=1")["number"]
                if found := is_so(self):
                    return found
            except httpx.HTTPError:
                self.start()
                number = -1
        raise AssertionError(f"not within {seconds:g} s: {what}\n{self.told()}")

    def incident(self, node: str) -> dict[str, Any] | None:
        """The first incident of a node."""
        return next((one for one in self.get("/1/status") if one["node_name"] == node), None)

    def ended(self, node: str) -> Callable[[Running], Any]:
        """Whether a node's incident has come to its end."""

        def look(_: Running) -> Any:
            found = self.incident(node)
            return found if found and found["repair-status"] in {"completed", "failed", "canceled"} else None

        return look

    def cluster(self) -> clusters.Cluster:
        """The configuration on disk."""
        return store.read(self.where.config)

    def start(self) -> None:
        """Start the daemon, unless it runs."""
        processes.start_daemon(self.lab, environment=self._environment)

    def stop(self) -> None:
        """Stop the daemon as an administrator would."""
        processes.stop(self.lab, "daemon")

    def kill(self) -> None:
        """Kill the daemon as nothing else would."""
        processes.stop(self.lab, "daemon", number=9)

    def reboot_controller(self) -> None:
        """Kill the daemon and all processes of its jobs, as a reboot of the controller does, and start it again."""
        self.kill_with_jobs()
        self.start()

    def kill_with_jobs(self) -> None:
        """Kill the daemon and all processes of its jobs."""
        self.kill()
        for began in self.where.queue.glob("*/*/began"):
            run_group.end(began.parent)

    def diagnose(self) -> None:
        """Run `diagnose.yml` by hand."""
        self.play("diagnose.yml", check=True)

    def run_modules_with(self, python: Path, *, node: str) -> None:
        """Have a node's modules run by another program, as a host variable of root's says."""
        known = json.loads((self.where.host_vars / f"{node}.json").read_text())
        building.write_host_variables(self.where, node, {**known, "ansible_python_interpreter": str(python)})

    def look(self, *nodes: str) -> None:
        """Have nodes, or all, look once at their connections of DRBD, as their agents do every few seconds."""
        for node in nodes or [node.name for node in self.lab.nodes() if node.is_powered()]:
            sights.look(self.lab.node(node).root, hypervisor="fake")

    def play(self, name: str, *arguments: str, check: bool = False) -> subprocess.CompletedProcess[str]:
        """Run one of the collection's playbooks by hand, against the lab's inventory."""
        command = [
            str(Path(sys.executable).with_name("ansible-playbook")),
            "-i",
            str(self.lab.folder / "inventory"),
            str(ansible_runs.PLAYBOOKS / name),
            *arguments,
        ]
        return subprocess.run(command, capture_output=True, text=True, check=check)

    def told(self) -> str:
        """The end of the daemon's log, for a test that failed."""
        return (self.where.log / "daemon.log").read_text()[-4000:]

    def wrong(self) -> list[str]:
        """What the checker finds."""
        return checker.check(self.lab)


def up(
    folder: Path,
    *,
    nodes: int = 4,
    instances: int = 6,
    pairs: Sequence[tuple[str, str]] | None = None,
    settings: Mapping[str, Any] | None = None,
    environment: Mapping[str, str] | None = None,
    migration_seconds: float = 0.0,
    agents: bool = False,
    edit: Callable[[clusters.Cluster], clusters.Cluster] | None = None,
) -> Running:
    """Make a lab and start it; it polls nothing by itself unless `settings` say so.

    With `agents` its nodes have them, as those of `roundsman lab up`.
    """
    chosen = {
        "diagnose_command": "lab-diagnose",
        "diagnose_interval": 0.0,
        "power_off_evacuated": True,
        **(settings or {}),
    }
    ports = {"http": processes.free_port(), "bmc": processes.free_port(socket.SOCK_DGRAM)}
    ports |= {"agent": processes.free_port()} if agents else {}
    lab = building.build(
        folder,
        nodes=nodes,
        instances=instances,
        pairs=pairs,
        ports=ports,
        settings=clusters.Settings(**chosen),
        migration_seconds=migration_seconds,
    )
    running = Running(lab, environment or {})
    if edit is not None:
        store.write(running.where.config, edit(running.cluster()))
    processes.start_bmcs(lab)
    processes.start_agents(lab)
    running.start()
    return running


def down(running: Running) -> None:
    """End everything that the lab started."""
    processes.down(running.lab)


def report(running: Running, node: str, diagnosis_text: str, *, now: float | None = None) -> str:
    """The envelope that a node would send, made with its own key."""
    known = running.cluster().node(node)
    key = (running.lab.node(node).root / "var/lib/roundsman/node.key").read_bytes()
    moment = time.time() if now is None else now
    facts = replica_facts.read(running.lab.node(node).root, hypervisor="fake")
    message = reports.message(
        node_uuid=known.uuid, timestamp_ns=int(moment * 1e9), data=diagnosis_text, problem=None, facts=facts
    )
    return signing.sign(message, key=key, now=int(moment))


def report_all(running: Running) -> None:
    """Have every node with power look at its replicas and report Ok, as agents do, and wait until that is known."""
    running.look()
    nodes = [node.name for node in running.lab.nodes() if node.is_powered()]
    began = time.time()
    for name in nodes:
        drop(running, f"{name}-all.json", report(running, name, world.OK))

    def are_heard(one: Running) -> bool:
        found = one.get("/1/reports")["nodes"]
        return all((found[name]["diagnosis"] or {"accepted": 0})["accepted"] >= began for name in nodes)

    running.until(are_heard, "all reports are accepted")


def drop(running: Running, name: str, content: str | bytes) -> None:
    """Put a file into the spool as a careful program does: under another name first."""
    data = content.encode() if isinstance(content, str) else content
    temporary = running.where.spool / f".{name}"
    temporary.write_bytes(data)
    temporary.rename(running.where.spool / name)
