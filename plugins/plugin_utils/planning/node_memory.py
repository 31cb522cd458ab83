"""How much memory a node has left, as Ganeti's htools count it: the less of what is recorded and what is reported."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .model import Template

if TYPE_CHECKING:
    from .model import Instance, Model, Node

ADMIN_OFFLINE = "ADMIN_offline"
WITHOUT_MEMORY = frozenset({"ADMIN_down", ADMIN_OFFLINE, "ERROR_down", "USER_down"})
ON_OWN_DISKS = frozenset({Template.PLAIN, Template.DRBD})
"""The disk templates whose disks are a node's free disk; those in files are not counted there."""


def uses(instance: Instance) -> bool:
    """Whether an instance takes memory where it is."""
    return not instance.forthcoming and instance.status not in WITHOUT_MEMORY


def is_reserved(instance: Instance) -> bool:
    """Whether its secondary must keep memory for an instance (N+1); one that is only stopped counts."""
    return instance.auto_balance and instance.status != ADMIN_OFFLINE


def takes_instances(node: Node) -> bool:
    """Whether anything may be placed on a node."""
    return node.is_known and not node.offline


def free(model: Model) -> dict[str, int]:
    """The MiB of memory that no instance has, by name of the node; less than nothing where too much is promised."""
    used = dict.fromkeys((one.name for one in model.nodes), 0)
    for one in model.instances:
        if uses(one):
            used[one.primary] += one.memory
    return {one.name: min(int(one.t_mem) - one.n_mem - used[one.name], one.f_mem) for one in model.nodes}
