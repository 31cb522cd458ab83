"""What a round costs: from a report to the first opcode, and from a report to the tag of an empty, powered-off node.

Run by `make bench`. The lab is simulated, everything else is real: daemon, locks, ansible-runner, playbooks, IPMI.
The peers: Ganeti's design moves one instance a round of 300 s; its live `gnt-node evacuate` took 1.8 s for each
primary on two cores.
"""

from __future__ import annotations

import json
import os
import socket
import sys
import tempfile
import time
from pathlib import Path

from ansible_collections.roundsman.cluster.daemon.lab import building, checker, processes
from ansible_collections.roundsman.cluster.plugins.plugin_utils.cluster import cluster as clusters

from tests.integration import labs

PRIMARIES = SECONDARIES = 20
NODES = 5
GANETI_ROUND = 300.0
GANETI_EVACUATE = 1.8


def main() -> int:
    """Measure one evacuation and print what it cost."""
    with tempfile.TemporaryDirectory(prefix="roundsman-bench-") as folder:
        running = _lab(Path(folder) / "lab")
        try:
            return _measure(running)
        finally:
            labs.down(running)


def _lab(folder: Path) -> labs.Running:
    others = [f"node{number}" for number in range(1, NODES + 1) if number != 2]
    pairs = [("node2", others[one % len(others)]) for one in range(PRIMARIES)]
    pairs += [(others[one % len(others)], "node2") for one in range(SECONDARIES)]
    settings = clusters.Settings(diagnose_command="lab-diagnose", diagnose_interval=0, power_off_evacuated=True)
    ports = {"http": processes.free_port(), "bmc": processes.free_port(socket.SOCK_DGRAM)}
    running = labs.Running(
        building.build(folder, nodes=NODES, instances=0, ports=ports, settings=settings, pairs=pairs), {}
    )
    processes.start_bmcs(running.lab)
    running.start()
    return running


def _measure(running: labs.Running) -> int:
    report = labs.report(running, "node2", '{"status": "evacuate", "details": {"disk": "sdb"}}')
    started, busy = time.time(), _busy_seconds()
    labs.drop(running, "report.json", report)
    incident = running.until(running.ended("node2"), "node2 is evacuated")
    total, busy = time.time() - started, _busy_seconds() - busy
    runs = sorted(running.where.queue.glob("*/*/began"))
    first = min(json.loads(run.read_text())["time"] for run in runs) - started
    spent = _cpu_seconds(running)
    wrong = checker.check(running.lab)
    rounds = 1 + PRIMARIES + (SECONDARIES + PRIMARIES) + 1
    print(f"node with {PRIMARIES} primaries and {SECONDARIES} secondaries: {incident['repair-status']}")
    print(f"report to the start of the first opcode's process: {first:.3f} s")
    print(f"report to tag: {total:.1f} s for {len(runs)} opcode processes, {total / len(runs):.2f} s each")
    print(f"CPU of this machine, nearly all plays and modules: {busy:.0f} s, {busy / len(runs):.2f} s for each opcode")
    count = os.cpu_count() or 1
    print(f"CPU of the daemon: {spent:.1f} s; CPUs here: {count}, busy {busy / total / count:.0%}")
    print(
        f"Ganeti's design, one instance a round: {rounds} rounds of {GANETI_ROUND:g} s, "
        f"{rounds * GANETI_ROUND / total:.0f} times as long"
    )
    print(f"gnt-node evacuate, {GANETI_EVACUATE:g} s a primary and primaries only: {GANETI_EVACUATE * PRIMARIES:g} s")
    print(*(wrong or ["no instance was lost or ran twice, and each opcode ran once"]), sep="\n")
    return 1 if wrong or incident["repair-status"] != "completed" else 0


def _busy_seconds() -> float:
    """What all processors of this machine have worked since it started: nobody waits for the runs of a warm Ansible."""
    words = [int(word) for word in Path("/proc/stat").read_text().splitlines()[0].split()[1:]]
    return (sum(words[:3]) + sum(words[5:7])) / os.sysconf("SC_CLK_TCK")


def _cpu_seconds(running: labs.Running) -> float:
    """What the daemon's own process has used so far."""
    pid = running.where.pid_file.read_text().strip()
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


if __name__ == "__main__":
    sys.exit(main())
