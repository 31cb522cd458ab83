"""How much memory a node has left, as Ganeti's htools count it: the less of what is recorded and what is reported."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .model import Model, Node


def takes_instances(node: Node) -> bool:
    """Whether anything may be placed on a node."""
    return node.is_known and not node.offline


def free(model: Model) -> dict[str, int]:
    """The MiB of memory that no instance has, by name of the node; less than nothing where too much is promised."""
    used = dict.fromkeys((node.name for node in model.nodes), 0)
    for instance in model.instances:
        if instance.takes_memory:
            used[instance.primary] += instance.memory
    return {node.name: min(int(node.t_mem) - node.n_mem - used[node.name], node.f_mem) for node in model.nodes}
