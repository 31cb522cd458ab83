"""What the configuration costs at 100 nodes and 2,000 instances, and at ten times that: start-up, one commit, memory.

Run by `make bench`. The file is written and fsynced as the daemon does it.
"""

from __future__ import annotations

import dataclasses
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from ansible_collections.roundsman.cluster.plugins.module_utils.domain import changes, tree
from ansible_collections.roundsman.cluster.plugins.module_utils.domain import cluster as clusters
from ansible_collections.roundsman.cluster.plugins.plugin_utils.config import store

from tests.unit import small_cluster

SIZES = ((100, 2_000), (1_000, 20_000))
COMMITS = 100


def main() -> int:
    """Measure both sizes, each in a process of its own, and print how the costs grow."""
    if len(sys.argv) > 1:
        print(*_measure(int(sys.argv[1]), int(sys.argv[2])))
        return 0
    rows = []
    for size in SIZES:
        told = subprocess.run(
            [sys.executable, __file__, *map(str, size)], check=True, stdout=subprocess.PIPE, text=True
        )
        rows.append([float(word) for word in told.stdout.split()])
    names = ("start-up, s", "commit, median, s", "commit, p99, s", "memory of the process, MiB", "document, MiB")
    print("configuration:", " and ".join(f"{nodes} nodes with {instances} instances" for nodes, instances in SIZES))
    for name, small, large in zip(names, *rows, strict=True):
        print(f"  {name}: {small:.3f} and {large:.3f}, {large / small:.1f} times")
    return 0


def populated(nodes: int, instances: int) -> clusters.Cluster:
    """A cluster of this many nodes and instances, after the models of the small one."""
    small = small_cluster.make()
    node, instance = next(iter(small.nodes.values())), next(iter(small.instances.values()))
    more = {f"n{one}": dataclasses.replace(node, uuid=f"n{one}", name=f"node{one}") for one in range(nodes)}
    guests = {}
    for one in range(instances):
        pair = (f"n{one % nodes}", f"n{(one + 1) % nodes}")
        guests[f"i{one}"] = _placed(dataclasses.replace(instance, uuid=f"i{one}", name=f"instance{one}"), pair)
    master = dataclasses.replace(small.cluster, master_node="n0")
    return dataclasses.replace(small, cluster=master, nodes=more, instances=guests)


def _placed(instance: clusters.Instance, pair: tuple[str, str]) -> clusters.Instance:
    placed = dataclasses.replace(instance, primary_node=pair[0])
    if len(instance.nodes) > 1:
        placed = dataclasses.replace(placed, secondary_nodes=(pair[1],))
    return placed


def _measure(nodes: int, instances: int) -> list[float]:
    with tempfile.TemporaryDirectory(prefix="roundsman-bench-") as folder:
        where = tree.Tree(Path(folder))
        where.lib.mkdir(parents=True)
        store.write(where.config, populated(nodes, instances))
        started = time.perf_counter()
        head = store.read(where.config)
        load = time.perf_counter() - started
        spent = []
        for one in range(COMMITS):
            started = time.perf_counter()
            stated = changes.NodePowered(f"n{one % nodes}", powered=bool(one // nodes % 2))
            head = changes.apply_all(head, [stated], now=float(one))
            store.write(where.config, head)
            spent.append(time.perf_counter() - started)
        size = where.config.stat().st_size / (1 << 20)
    return [load, statistics.median(spent), statistics.quantiles(spent, n=100)[98], _memory(), size]


def _memory() -> float:
    """The most that this process had resident, in MiB."""
    status = Path("/proc/self/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) / 1024


if __name__ == "__main__":
    sys.exit(main())
