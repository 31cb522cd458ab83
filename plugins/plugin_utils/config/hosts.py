"""How Ansible reaches the nodes: the variables of a host, and the groups it is in."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING

from ...module_utils.domain import cluster as clusters

if TYPE_CHECKING:
    from collections.abc import Iterable


def controller() -> dict[str, str]:
    """The variables of the controller's own host: modules run there with the Python that runs this."""
    return {"ansible_connection": "local", "ansible_python_interpreter": sys.executable}


def variables(cluster: clusters.Cluster, node: clusters.Node) -> dict[str, object]:
    """The Ansible variables of a node's host."""
    return {
        "ansible_host": node.primary_ip or node.name,
        "roundsman_node_uuid": node.uuid,
        "roundsman_oob_program": clusters.parameter(cluster, node, "oob_program") or "",
        **node.hostvars,
    }


def group_names(cluster: clusters.Cluster, node: clusters.Node) -> list[str]:
    """The inventory groups of a node: its node group, its role, and `reachable` when it may be contacted."""
    found = [
        "roundsman_nodes",
        "group_" + _word(cluster.nodegroups[node.group].name),
        "role_" + clusters.role(cluster, node).value,
    ]
    return [*found, "reachable"] if clusters.reachable(cluster, node) else found


def run_inventory(cluster: clusters.Cluster, nodes: Iterable[str], *, root: str) -> bytes:
    """A small inventory of just these nodes (UUIDs) and the controller, for one run; as YAML it is JSON."""
    named = {cluster.nodes[uuid].name: variables(cluster, cluster.nodes[uuid]) for uuid in nodes}
    groups = {"roundsman_nodes": {"hosts": dict.fromkeys(named)}}
    whole = {
        "hosts": {"localhost": controller(), **named},
        "vars": {"roundsman_root": root},
        "children": groups,
    }
    return json.dumps({"all": whole}, indent=1).encode()


def _word(name: str) -> str:
    return "".join(one if one.isalnum() or one == "_" else "_" for one in name)
