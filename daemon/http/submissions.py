"""Jobs that an administrator asks for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...plugins.module_utils.domain import cluster as clusters
from ...plugins.module_utils.domain import errors
from ..jobs import values

if TYPE_CHECKING:
    from ..service import Service

SOURCE = "gnt:user"


def role(service: Service, name: str, wanted: str, *, force: bool) -> values.Job:
    """The job that gives a node its role; `online` confirms the power and asks for a fresh diagnosis first.

    Raises:
        NotFound: there is no such node. Refused: the master keeps its role, and offline is not drained.
    """
    cluster = service.configuration.current
    node = cluster.node(name)
    if wanted in {"drained", "offline"} and clusters.role(cluster, node) is clusters.Role.MASTER:
        raise errors.Refused(f"{node.name} is the master: move the master role to another node first")
    if wanted in {"drained", "undrained"} and node.offline:
        raise errors.Refused(f"{node.name} is offline: bring it back with `roundsman node online {node.name}` first")
    roles: dict[str, dict[str, Any]] = {
        "drained": {"drained": True},
        "undrained": {"drained": False},
        "offline": {"offline": True, "force": force},
        "online": {"drained": False, "offline": False, "force": force},
    }
    opcodes = [values.Opcode("node_role", {"node": node.uuid, **roles[wanted]})]
    if wanted == "online" and not force:
        opcodes.insert(0, values.Opcode("diagnose", {"node": node.uuid}))
        if clusters.parameter(cluster, node, "oob_program") is not None:
            opcodes.insert(0, values.Opcode("power", {"node": node.uuid, "command": "status", "expect": "on"}))
    return _job(service, node, opcodes, reason=f"node {wanted}")


def power(service: Service, name: str, command: str, *, force: bool) -> values.Job:
    """The job that changes or reads a node's power.

    Raises:
        NotFound: there is no such node. Refused: it has no BMC, or it is the master.
    """
    cluster = service.configuration.current
    node = cluster.node(name)
    if clusters.parameter(cluster, node, "oob_program") is None:
        raise errors.Refused(f"Node {node.name} does not support OOB commands")
    if command in {"off", "cycle"} and node.uuid == cluster.cluster.master_node:
        raise errors.Refused(f"{node.name} is the master: its power cannot be taken from here")
    params: dict[str, Any] = {"node": node.uuid, "command": command, "force": force}
    return _job(service, node, [values.Opcode("power", params)], reason=f"node power {command}")


def _job(service: Service, node: clusters.Node, opcodes: list[values.Opcode], *, reason: str) -> values.Job:
    now = service.queue.now()
    return values.Job(
        id=service.queue.reserve(1)[0],
        opcodes=tuple(opcodes),
        reason=(values.Reason(SOURCE, reason, int(now * 1e9)),),
        received=now,
        names={node.uuid: node.name},
    )
