"""How a balancer moves one instance: the actions of hbal, in the order in which it tries them."""

from __future__ import annotations

from enum import Enum
from typing import TypeVar

Node = TypeVar("Node")
"""The index of a node, or an array of them."""


class Action(Enum):
    """As hbal prints it; `{}` is the new node."""

    FAILOVER = "f"
    REPLACE_SECONDARY = "r:{}"
    REPLACE_AND_FAILOVER = "r:{} f"
    REPLACE_PRIMARY = "f r:{} f"
    FAILOVER_AND_REPLACE = "f r:{}"
    FAILOVER_TO_ANY = "fa:{}"

    def placed(self, primary: Node, secondary: Node, target: Node) -> tuple[Node, Node]:
        """The nodes after the action of an instance that is on these; `target` is the new one."""
        if self is Action.FAILOVER:
            return secondary, primary
        if self is Action.REPLACE_SECONDARY:
            return primary, target
        if self is Action.REPLACE_AND_FAILOVER:
            return target, primary
        if self is Action.FAILOVER_AND_REPLACE:
            return secondary, target
        return target, secondary


TO_TARGET = (
    Action.REPLACE_SECONDARY,
    Action.REPLACE_AND_FAILOVER,
    Action.REPLACE_PRIMARY,
    Action.FAILOVER_AND_REPLACE,
)
"""What is tried for each target, one after the other; on shared storage FAILOVER_TO_ANY has the third's place."""
