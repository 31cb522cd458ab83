"""What the configuration costs at 100 nodes and 2,000 instances, and at ten times that: start, commit, list, memory.

Run by `make bench`. The file is written and fsynced as the daemon does it; the list comes from a real daemon, through
its socket, and the memory is that daemon's.
"""

from __future__ import annotations

import dataclasses
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from ansible_collections.roundsman.cluster.plugins.module_utils.domain.values import tree
from ansible_collections.roundsman.cluster.plugins.plugin_utils import daemon_client
from ansible_collections.roundsman.cluster.plugins.plugin_utils.cluster import changes
from ansible_collections.roundsman.cluster.plugins.plugin_utils.cluster import cluster as clusters
from ansible_collections.roundsman.cluster.plugins.plugin_utils.config import store

from tests.integration import labs
from tests.unit import small_cluster

if TYPE_CHECKING:
    from collections.abc import Callable

SIZES = ((100, 2_000), (1_000, 20_000))
COMMITS = 100
LIST, LISTS = "/2/instances?bulk=1", 5


def main() -> int:
    """Measure both sizes, each in a process of its own, and print how the costs grow."""
    if len(sys.argv) > 1:
        print(json.dumps(_measure(populated(int(sys.argv[1]), int(sys.argv[2])))))
        return 0
    found = []
    for size in SIZES:
        told = subprocess.run([sys.executable, __file__, *map(str, size)], check=True, stdout=subprocess.PIPE)
        found.append(json.loads(told.stdout))
    print("configuration:", " and ".join(f"{nodes} nodes with {instances} instances" for nodes, instances in SIZES))
    for name, small in found[0].items():
        large = found[1][name]
        print(f"  {name}: {small:.3f} and {large:.3f}, {large / small:.1f} times")
    return 0


def populated(nodes: int, instances: int) -> clusters.Cluster:
    """A cluster of this many nodes and instances, after the models of the small one; it has no timers."""
    small = small_cluster.make()
    node, instance = next(iter(small.nodes.values())), next(iter(small.instances.values()))
    more = {f"n{one}": dataclasses.replace(node, uuid=f"n{one}", name=f"node{one}") for one in range(nodes)}
    guests = {}
    for one in range(instances):
        pair = (f"n{one % nodes}", f"n{(one + 1) % nodes}")
        guests[f"i{one}"] = _placed(dataclasses.replace(instance, uuid=f"i{one}", name=f"instance{one}"), pair)
    master = dataclasses.replace(small.cluster, master_node="n0")
    quiet = clusters.Maintenance(settings=clusters.Settings(diagnose_interval=0, round_interval=0))
    return dataclasses.replace(small, cluster=master, nodes=more, instances=guests, maintenance=quiet)


def _placed(instance: clusters.Instance, pair: tuple[str, str]) -> clusters.Instance:
    placed = dataclasses.replace(instance, primary_node=pair[0])
    if len(instance.nodes) > 1:
        placed = dataclasses.replace(placed, secondary_nodes=(pair[1],))
    return placed


def _measure(cluster: clusters.Cluster) -> dict[str, float]:
    with tempfile.TemporaryDirectory(prefix="roundsman-bench-") as folder:
        where = tree.Tree(Path(folder) / "store")
        where.lib.mkdir(parents=True)
        store.write(where.config, cluster)
        load = min(_seconds(lambda: store.read(where.config)) for _ in range(3))
        size = where.config.stat().st_size / (1 << 20)
        return {
            "document, MiB": size,
            "start-up: load, s": load,
            **_commits(where.config, store.read(where.config)),
            **_daemon(Path(folder) / "lab", cluster),
        }


def _commits(path: Path, head: clusters.Cluster) -> dict[str, float]:
    """What it takes to change one instance, durably."""
    spent, busy = [], time.process_time()
    for one in range(COMMITS):
        began = time.perf_counter()
        state = ("down", "up")[one // len(head.instances) % 2]
        head = changes.apply_all(head, [changes.InstanceState(f"i{one % len(head.instances)}", state)], now=float(one))
        store.write(path, head)
        spent.append(time.perf_counter() - began)
    return {
        "commit, median, s": statistics.median(spent),
        "commit, p99, s": statistics.quantiles(spent, n=100)[98],
        "commit, CPU, s": (time.process_time() - busy) / COMMITS,
    }


def _daemon(folder: Path, cluster: clusters.Cluster) -> dict[str, float]:
    running = labs.up(folder, nodes=3, instances=0)
    try:
        running.stop()
        store.write(running.where.config, cluster)
        start = _seconds(running.start)
        idle = _resident(running)
        with daemon_client.connected(running.where.socket, seconds=70) as client:
            first, *again = [_seconds(lambda: client.get(LIST).raise_for_status()) for _ in range(1 + LISTS)]
            assert len(client.get(LIST).json()) == len(cluster.instances)
        return {
            "start-up: daemon until it answers, s": start,
            f"{LIST}, the first, s": first,
            f"{LIST}, median of the next, s": statistics.median(again),
            "memory of the daemon, started, MiB": idle,
            "memory of the daemon, after the lists, MiB": _resident(running),
        }
    finally:
        labs.down(running)


def _resident(running: labs.Running) -> float:
    """What the daemon has resident, in MiB."""
    pid = int(running.where.pid_file.read_text())
    return int(Path(f"/proc/{pid}/status").read_text().partition("VmRSS:")[2].split()[0]) / 1024


def _seconds(act: Callable[[], object]) -> float:
    began = time.perf_counter()
    act()
    return time.perf_counter() - began


if __name__ == "__main__":
    sys.exit(main())
