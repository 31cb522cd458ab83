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
    used = dict.fromkeys((one.name for one in model.nodes), 0)
    for one in model.instances:
        if one.takes_memory:
            used[one.primary] += one.memory
    return {one.name: min(int(one.t_mem) - one.n_mem - used[one.name], one.f_mem) for one in model.nodes}
