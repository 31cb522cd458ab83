"""Decisions made of others: another node for an instance as an evacuation, a secondary as the allocation of a pair."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from ....module_utils.domain.values import errors
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
        instance = _instance(model, request.instance)
        if not instance.template.can_leave:
            raise errors.Refused(f"{instance.name}: its disks are {instance.template.value}, no other node has them")
        scope = allocator.Scope.SECONDARY if instance.template.is_mirrored else allocator.Scope.PRIMARY
        node = instance.secondary if instance.template.is_mirrored else instance.primary
        if request.away_from != (node,):
            asked = ", ".join(request.away_from) or "no node"
            raise errors.Refused(f"{instance.name} can only be relocated from {node}, not from {asked}")
        return self.evacuate(model, allocator.Evacuate((instance.name,), scope))


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
        instance = _instance(model, request.instance)
        if instance.secondary:
            raise errors.Refused(f"{instance.name} has a secondary already: {instance.secondary}")
        wanted = allocator.Wanted(replace(instance, template=Template.DRBD), disks=(instance.disk,))
        return self.allocate(without_instance(model, instance), allocator.Allocate(wanted))


def _instance(model: Model, name: str) -> Instance:
    for instance in model.instances:
        if instance.name == name:
            return instance
    raise errors.NotFound(f"there is no instance {name!r}")


def without_instance(model: Model, instance: Instance) -> Model:
    """A model without an instance, whose room is free."""
    nodes = tuple(
        _freed(node, instance) if node.name in {instance.primary, instance.secondary} else node for node in model.nodes
    )
    return replace(model, nodes=nodes, instances=tuple(each for each in model.instances if each != instance))


def _freed(node: Node, instance: Instance) -> Node:
    has_volumes = instance.template.is_on_volumes and not instance.forthcoming
    return replace(
        node,
        f_mem=node.f_mem + instance.memory * (node.name == instance.primary and instance.takes_memory),
        f_disk=node.f_disk + instance.disk * has_volumes,
        free_spindles=node.free_spindles + (instance.spindles or 0) * has_volumes,
    )
