"""How Ansible reaches the nodes: the variables of a host, and the groups it is in.

What the configuration says is never a template and sets only the plain host variables; what root wrote for a node in
`etc/roundsman/host_vars` is taken as it is, and wins.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...module_utils.domain.agent import collected
from ...module_utils.domain.values import errors
from .. import unsafe_json
from ..cluster import cluster as clusters
from ..settings import addresses, host_variables, parameter_rules
from . import host_vars

if TYPE_CHECKING:
    from collections.abc import Iterable

_SSH = frozenset({"ssh", "smart", "paramiko", "paramiko_ssh"})
_CORRECT = "correct it in an export, and import that"


def controller() -> dict[str, str]:
    """The variables of the controller's own host: modules run there with the Python that runs this."""
    return {"ansible_connection": "local", "ansible_python_interpreter": sys.executable}


def variables(cluster: clusters.Cluster, node: clusters.Node) -> dict[str, object]:
    """The Ansible variables of a node's host by the configuration; its own plain host variables win.

    Migrations and copies of disks go to `roundsman_migration_address` and `roundsman_drbd_address`: the secondary
    address of a node where it has one, else its primary one. `roundsman_agent` is what its agent is told.

    Raises:
        Refused: its name or an address means something else to ssh or Ansible.
    """
    _refuse(node)
    replicating, settings = addresses.replicating(node), cluster.maintenance.settings
    return {
        "ansible_host": node.primary_ip or node.name,
        "roundsman_node_uuid": node.uuid,
        "roundsman_group": cluster.nodegroups[node.group].name,
        "roundsman_role": clusters.role(cluster, node).value,
        "roundsman_tags": list(node.tags),
        "roundsman_primary_address": node.primary_ip or node.name,
        "roundsman_migration_address": replicating,
        "roundsman_drbd_address": replicating,
        "roundsman_oob_program": clusters.parameter(cluster, node, "oob_program") or "",
        "roundsman_agent": {
            "port": settings.agent_port or collected.PORT,
            "diagnose_command": settings.diagnose_command,
            "diagnose_interval": settings.diagnose_interval,
            "controllers": _controllers(cluster),
        },
        **host_variables.plain(node.hostvars),
    }


def problem(node: clusters.Node, *, root: Path) -> str:
    """Why no run can have a node as its host, or ''."""
    try:
        _refuse(node)
        host_vars.load(root, node.name)
    except errors.Refused as error:
        return str(error)
    return ""


def _refuse(node: clusters.Node) -> None:
    """Refuse a name or address that means something else to ssh or Ansible.

    No rule lets one in, but a document may have it. Ansible opens the files that a name leads to, and takes some names
    for hosts or groups of its own.
    """
    for field in ("name", "primary_ip", "secondary_ip"):
        text: str = getattr(node, field)
        if text.startswith("-"):
            raise errors.Refused(f"node {node.name!r}: ssh would take its {field} {text!r} for an option: {_CORRECT}")
    try:
        parameter_rules.node_name("name", node.name)
    except errors.InvalidInput as error:
        raise errors.Refused(f"node {node.uuid}: {error}: {_CORRECT}") from error


def _controllers(cluster: clusters.Cluster) -> list[str]:
    """The addresses from which agents are asked: agents reserve connections for them."""
    master = cluster.nodes.get(cluster.cluster.master_node)
    return [master.primary_ip] if master is not None and master.primary_ip else []


def group_names(cluster: clusters.Cluster, node: clusters.Node) -> list[str]:
    """The inventory groups of a node: its node group, its role, and its states.

    The states are `drained`, `offline`, `powered_off` (on record) and `reachable`, when it may be contacted.
    """
    states = {
        "drained": node.drained,
        "offline": node.offline,
        "powered_off": not node.powered,
        "reachable": clusters.reachable(cluster, node),
    }
    return [
        "roundsman_nodes",
        "group_" + _word(cluster.nodegroups[node.group].name),
        "role_" + clusters.role(cluster, node).value,
        *(name for name, is_so in states.items() if is_so),
    ]


def connection(node: clusters.Node, *, root: Path) -> dict[str, str]:
    """The plain host variables of a node, those that root wrote first; for people who want to reach it.

    Raises:
        Refused: as `host_vars.load`, or its name or an address means something else to ssh or Ansible.
    """
    _refuse(node)
    return host_variables.plain({**node.hostvars, **host_vars.load(root, node.name)})


def ssh_place(node: clusters.Node, *, root: Path) -> tuple[str, int] | None:
    """The address and the port of a node's SSH server; None where its connection is another one.

    Raises:
        Refused: as `connection`, or its port is no number.
    """
    _refuse(node)
    known = {**host_variables.plain(node.hostvars), **host_vars.load(root, node.name)}
    if str(known.get("ansible_connection", "ssh")).rpartition(".")[2] not in _SSH:
        return None
    port = str(known.get("ansible_port") or 22)
    if not port.isdecimal():
        raise errors.Refused(f"node {node.name}: ansible_port is {port!a}")
    return str(known.get("ansible_host") or node.primary_ip or node.name), int(port)


def run_inventory(cluster: clusters.Cluster, nodes: Iterable[str], *, root: str) -> bytes:
    """A small inventory of just these nodes (UUIDs) and the controller, for one run; as YAML it is JSON.

    Raises:
        Refused: the host variables of a node that stand below the root are not root's; see `host_vars.load`. Or its
            name or an address means something else to ssh or Ansible.
    """
    named = {
        node.name: {**unsafe_json.marked(variables(cluster, node)), **host_vars.load(Path(root), node.name)}
        for node in (cluster.nodes[uuid] for uuid in nodes)
    }
    groups: dict[str, Any] = {"roundsman_nodes": {"hosts": dict.fromkeys(named)}}
    whole = {
        # No node takes the place of the controller, whatever it is called.
        "hosts": {**named, "localhost": unsafe_json.marked(controller())},
        "vars": unsafe_json.marked({"roundsman_root": root}),
        "children": groups,
    }
    # Without indentation: only that is written by the encoder in C.
    return json.dumps({"all": whole}).encode()


def _word(name: str) -> str:
    return "".join(character if character.isalnum() or character == "_" else "_" for character in name)
