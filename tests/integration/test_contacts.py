"""Nothing but its BMC is contacted of a node that is offline or without power."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

import pytest
from ansible_collections.roundsman.cluster.plugins.connection import lab_node

from . import labs, states

if TYPE_CHECKING:
    from collections.abc import Callable

    from ansible_collections.roundsman.cluster.plugins.plugin_utils.cluster import cluster as clusters

pytestmark = pytest.mark.slow
PAIRS = (("node1", "node2"), ("node2", "node3"), ("node3", "node4"), ("node4", "node1"))
OUT = ("node3", "node4")
ASKED: list[tuple[str, str, Any]] = [
    ("PUT", "/2/instances/instance3/startup", None),
    ("PUT", "/2/instances/instance4/shutdown", None),
    ("PUT", "/2/instances/instance2/migrate", None),
    ("PUT", "/2/instances/instance3/migrate", None),
    ("PUT", "/2/nodes/node2/migrate", None),
    ("POST", "/2/nodes/node2/evacuate", None),
    ("PUT", "/2/power", {"command": "status", "nodes": list(OUT)}),
    ("PUT", "/2/power", {"command": "cycle", "nodes": list(OUT), "force": True}),
    ("PUT", "/2/power", {"command": "off", "nodes": ["node3"], "force": True}),
    ("PUT", "/2/health", {"nodes": list(OUT)}),
    ("PUT", "/2/nodes/node4/role", "online"),
    ("PUT", "/2/verify", None),
]
"""What somebody may ask that is about these nodes."""


def _out_of_reach(cluster: clusters.Cluster) -> clusters.Cluster:
    """node3 is offline and node4 without power, on record alone: both would answer."""
    offline = dataclasses.replace(cluster.node("node3"), offline=True, master_candidate=False)
    dark = dataclasses.replace(cluster.node("node4"), powered=False)
    return dataclasses.replace(cluster, nodes={**cluster.nodes, offline.uuid: offline, dark.uuid: dark})


def _contacts(one: labs.Running, *nodes: str) -> int:
    files = [one.lab.node(name).root / lab_node.CONTACTS for name in nodes]
    return sum(len(path.read_text().splitlines()) for path in files if path.exists())


@pytest.mark.timeout(600)
def test_nodes_that_are_offline_or_without_power_are_contacted_by_nothing_but_oob(
    lab: Callable[..., labs.Running],
) -> None:
    one = lab(nodes=4, instances=4, pairs=PAIRS, edit=_out_of_reach)
    one.diagnose()
    assert _contacts(one, "node1", "node2") > 0, "the others are contacted, and it is counted"
    for method, path, body in ASKED:
        answer = one.ask(method, path, body)
        told = answer.json()
        if answer.is_success:
            states.job_ended(one, told["id"] if isinstance(told, dict) else told)
    one.until(states.at_rest, "whatever was submitted has ended")
    assert _contacts(one, *OUT) == 0

    # Only a fence looks for a sign of life: node4 is alive, whatever is on record, and instance4 may run there.
    fenced = states.job_ended(one, one.put("/2/instances/instance4/failover", {"ignore_consistency": True}).json())
    assert "it is alive: it runs programs" in fenced["text"]
    assert (_contacts(one, "node3"), _contacts(one, "node4")) == (0, 1)
