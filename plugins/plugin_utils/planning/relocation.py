"""Decisions made of others: several new instances one by one, another node as an evacuation, a pair of a plain one."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from ...module_utils.domain import errors
from . import allocator
from .model import Template

if TYPE_CHECKING:
    from collections.abc import Callable

    from .model import Instance, Model, Node


@dataclass(frozen=True)
class OneByOne:
    """Places for several new instances, each where the one before is there already; who has none is left out."""

    allocate: Callable[[Model, allocator.Allocate], allocator.Result]

    def __call__(self, model: Model, request: allocator.MultiAllocate) -> allocator.Result:
        placements: list[allocator.Placement] = []
        refusals: list[allocator.Refusal] = []
        for wanted in request.wanted:
            result = self.allocate(model, allocator.Allocate(wanted))
            for one in result.placements:
                primary, secondary = (*one.nodes, "")[:2]
                model = with_instance(model, replace(wanted.instance, primary=primary, secondary=secondary))
            placements.extend(result.placements)
            refusals.extend(result.refusals)
        return allocator.Result(tuple(placements), tuple(refusals))


@dataclass(frozen=True)
class Relocation:
    """Another node for one instance: the evacuation of a pair's secondary or of a shared instance's primary."""

    evacuate: Callable[[Model, allocator.Evacuate], allocator.Result]

    def __call__(self, model: Model, request: allocator.Relocate) -> allocator.Result:
        """Find it.

        Raises:
            Refused: the instance cannot leave the node it is to leave.
        """
        one = instance(model, request.instance)
        if not (one.template.is_mirrored or one.template.is_shared):
            raise errors.Refused(f"{one.name}: its disks are {one.template.value}, no other node has them")
        scope = allocator.Scope.SECONDARY if one.template.is_mirrored else allocator.Scope.PRIMARY
        node = one.secondary if one.template.is_mirrored else one.primary
        if request.away_from != (node,):
            asked = ", ".join(request.away_from) or "no node"
            raise errors.Refused(f"{one.name} can only be relocated from {node}, not from {asked}")
        return self.evacuate(model, allocator.Evacuate((one.name,), scope))


@dataclass(frozen=True)
class SecondaryOf:
    """A secondary for an instance that has none: the allocation of a pair whose primary is given."""

    allocate: Callable[[Model, allocator.Allocate], allocator.Result]

    def __call__(self, model: Model, request: allocator.AllocateSecondary) -> allocator.Result:
        """Find it.

        Raises:
            Refused: the instance has a secondary already.
        """
        one = instance(model, request.instance)
        if one.secondary:
            raise errors.Refused(f"{one.name} has a secondary already: {one.secondary}")
        wanted = allocator.Wanted(replace(one, template=Template.DRBD), disks=(one.disk,))
        return self.allocate(without_instance(model, one), allocator.Allocate(wanted))


def instance(model: Model, name: str) -> Instance:
    """An instance by its name.

    Raises:
        NotFound: there is none.
    """
    for one in model.instances:
        if one.name == name:
            return one
    raise errors.NotFound(f"there is no instance {name!r}")


def with_instance(model: Model, one: Instance) -> Model:
    """A model that has one more instance, which takes its room."""
    nodes = tuple(_taken(node, one, sign=1) for node in model.nodes)
    return replace(model, nodes=nodes, instances=(*model.instances, one))


def without_instance(model: Model, one: Instance) -> Model:
    """A model without an instance, whose room is free."""
    nodes = tuple(_taken(node, one, sign=-1) for node in model.nodes)
    return replace(model, nodes=nodes, instances=tuple(each for each in model.instances if each != one))


def _taken(node: Node, one: Instance, *, sign: int) -> Node:
    if node.name not in {one.primary, one.secondary} or one.forthcoming:
        return node
    has_volumes = one.template.is_on_volumes
    memory = one.memory if node.name == one.primary and one.takes_memory else 0
    return replace(
        node,
        f_mem=node.f_mem - sign * memory,
        f_disk=node.f_disk - sign * one.disk * has_volumes,
        free_spindles=node.free_spindles - sign * (one.spindles or 0) * has_volumes,
    )
