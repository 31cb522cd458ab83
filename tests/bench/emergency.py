"""Emergency power off of a lab of 200 nodes and 1,000 instances, and its return: `python tests/bench/emergency.py`.

First in one go, each step with its time; then both directions once more, killed with -9 in the middle and gone on with.
The daemon runs all the while. What is asserted is the end state, never a time.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from ansible_collections.roundsman.cluster.daemon.lab.simulator import fake
from ansible_collections.roundsman.cluster.plugins.plugin_utils.cluster import changes

from tests.integration import labs

if TYPE_CHECKING:
    from collections.abc import Callable

    from ansible_collections.roundsman.cluster.plugins.plugin_utils.cluster import cluster as clusters

DOWN = 20
"""Instances that are down before, and stay so."""
LOOK = 0.2


def main() -> None:
    """Print what each step takes, and what is wrong at the end."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--nodes", type=int, default=200)
    options.add_argument("--instances", type=int, default=1000)
    chosen = options.parse_args()
    with tempfile.TemporaryDirectory(prefix="roundsman-bench-") as folder:
        one = labs.up(Path(folder) / "lab", nodes=chosen.nodes, instances=chosen.instances, edit=_some_down)
        try:
            _stop_what_is_down(one)
            _walk(one, instances=chosen.instances)
        finally:
            labs.down(one)


def _walk(one: labs.Running, *, instances: int) -> None:
    up, nodes = instances - DOWN, len(one.lab.nodes())
    print(f"emergency power off of {nodes} nodes and {instances} instances, {DOWN} of them down")
    _timed(one, "--all", "--force")
    _check(one, "off", running=0, powered=1)
    _timed(one, "--on", "--force")
    _check(one, "on", running=up, powered=nodes)
    _killed(one, "--all", "--force", once=lambda: _running(one) < up / 2)
    _timed(one, "--force")
    _check(one, "off, killed once", running=0, powered=1)
    _killed(one, "--on", "--force", once=lambda: _running(one) > up / 2)
    _timed(one, "--on", "--force")
    _check(one, "on, killed once", running=up, powered=nodes)
    if wrong := [*one.wrong(), *(["the daemon started jobs"] if one.get("/2/jobs") else [])]:
        sys.exit("\n".join(wrong))
    print("what was asked for is so: what ran runs again, what was down is down, the daemon began nothing")


def _command(one: labs.Running, *arguments: str) -> list[str]:
    return [
        str(Path(sys.executable).with_name("roundsman")),
        "--dir",
        str(one.lab.folder),
        "cluster",
        "epo",
        *arguments,
    ]


def _timed(one: labs.Running, *arguments: str) -> None:
    began = time.monotonic()
    done = subprocess.run(_command(one, *arguments), capture_output=True, text=True, check=False)
    print(f"epo {' '.join(arguments)}: {time.monotonic() - began:.1f} s, exit status {done.returncode}")
    for line in done.stdout.splitlines():
        if line.endswith(" s"):
            print(f"  {line}")
    if done.returncode:
        sys.exit(done.stdout[-2000:] + done.stderr[-2000:])


def _killed(one: labs.Running, *arguments: str, once: Callable[[], bool]) -> None:
    """Begin, and kill the command with all that it started as soon as something is so."""
    began = time.monotonic()
    play = subprocess.Popen(_command(one, *arguments), stdout=subprocess.DEVNULL, start_new_session=True)
    while not once() and play.poll() is None:
        time.sleep(LOOK)
    os.killpg(play.pid, signal.SIGKILL)
    play.wait()
    print(f"epo {' '.join(arguments)}: killed after {time.monotonic() - began:.1f} s, {_running(one)} instances run")


def _check(one: labs.Running, what: str, *, running: int, powered: int) -> None:
    found = (_running(one), sum(node.is_powered() for node in one.lab.nodes()))
    if found != (running, powered):
        sys.exit(f"{what}: {found[0]} instances run on {found[1]} nodes, not {running} on {powered}")


def _running(one: labs.Running) -> int:
    return sum(len(fake.Driver(node.root, opcode="bench").running()) for node in one.lab.nodes())


def _some_down(cluster: clusters.Cluster) -> clusters.Cluster:
    first = list(cluster.instances)[:DOWN]
    return changes.apply_all(cluster, [changes.InstanceState(uuid, "down") for uuid in first], now=1.0)


def _stop_what_is_down(one: labs.Running) -> None:
    cluster = one.cluster()
    for instance in cluster.instances.values():
        if not instance.is_up:
            root = one.lab.node(cluster.node_name(instance.primary_node)).root
            fake.Driver(root, opcode="bench").stop(instance.name, time_limit=0)


if __name__ == "__main__":
    main()
