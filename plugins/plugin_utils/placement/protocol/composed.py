"""Decisions made of others: another node for an instance as an evacuation, a secondary as the allocation of a pair."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from ....module_utils.domain import errors
from ..allocation import allocator
from ..models.model import Template

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..models.model import Instance, Model, Node


@dataclass(frozen=True)
class Relocation:
    """The evacuation of a pair's secondary or of a shared instance's primary, by whoever evacuates."""

    evacuate: Callable[[Model, allocator.Evacuate], allocator.Result]

    def __call__(self, model: Model, request: allocator.Relocate) -> allocator.Result:
        """Find the node.

        Raises:
            NotFound: there is no such instance.
            Refused: it cannot leave the node it is to leave.
        """
        one = _instance(model, request.instance)
        if not one.template.can_leave:
            raise errors.Refused(f"{one.name}: its disks are {one.template.value}, no other node has them")
        scope = allocator.Scope.SECONDARY if one.template.is_mirrored else allocator.Scope.PRIMARY
        node = one.secondary if one.template.is_mirrored else one.primary
        if request.away_from != (node,):
            asked = ", ".join(request.away_from) or "no node"
            raise errors.Refused(f"{one.name} can only be relocated from {node}, not from {asked}")
        return self.evacuate(model, allocator.Evacuate((one.name,), scope))


@dataclass(frozen=True)
class SecondaryOf:
    """The allocation of a pair whose primary is given, in a cluster without the instance that becomes it."""

    allocate: Callable[[Model, allocator.Allocate], allocator.Result]

    def __call__(self, model: Model, request: allocator.AllocateSecondary) -> allocator.Result:
        """Find the node.

        Raises:
            NotFound: there is no such instance.
            Refused: it has a secondary already.
        """
        one = _instance(model, request.instance)
        if one.secondary:
            raise errors.Refused(f"{one.name} has a secondary already: {one.secondary}")
        wanted = allocator.Wanted(replace(one, template=Template.DRBD), disks=(one.disk,))
        return self.allocate(without_instance(model, one), allocator.Allocate(wanted))


def _instance(model: Model, name: str) -> Instance:
    for one in model.instances:
        if one.name == name:
            return one
    raise errors.NotFound(f"there is no instance {name!r}")


def without_instance(model: Model, one: Instance) -> Model:
    """A model without an instance, whose room is free."""
    nodes = tuple(_freed(node, one) if node.name in {one.primary, one.secondary} else node for node in model.nodes)
    return replace(model, nodes=nodes, instances=tuple(each for each in model.instances if each != one))


def _freed(node: Node, one: Instance) -> Node:
    has_volumes = one.template.is_on_volumes and not one.forthcoming
    return replace(
        node,
        f_mem=node.f_mem + one.memory * (node.name == one.primary and one.takes_memory),
        f_disk=node.f_disk + one.disk * has_volumes,
        free_spindles=node.free_spindles + (one.spindles or 0) * has_volumes,
    )
