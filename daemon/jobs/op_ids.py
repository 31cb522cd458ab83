"""The names of opcodes in Ganeti's API, by which its clients and the filters of the queue know them."""

from __future__ import annotations

OP_IDS = {
    "migrate": "OP_INSTANCE_MIGRATE",
    "failover": "OP_INSTANCE_FAILOVER",
    "replace_disks": "OP_INSTANCE_REPLACE_DISKS",
    "startup": "OP_INSTANCE_STARTUP",
    "shutdown": "OP_INSTANCE_SHUTDOWN",
    "power": "OP_OOB_COMMAND",
    "health": "OP_OOB_COMMAND",
    "node_role": "OP_NODE_SET_PARAMS",
    "node_modify": "OP_NODE_SET_PARAMS",
    "group_modify": "OP_GROUP_SET_PARAMS",
    "cluster_modify": "OP_CLUSTER_SET_PARAMS",
}
"""The kinds of opcodes that Ganeti has by another name than OP_ and the kind's own."""


def op_id(kind: str) -> str:
    """The name of a kind of opcode in Ganeti's API."""
    return OP_IDS.get(kind, f"OP_{kind.upper()}")
