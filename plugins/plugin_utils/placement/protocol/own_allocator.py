"""Our own allocator: which decisions of the planner answer which requests."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ....module_utils.domain.values import errors
from ..allocation import allocation, allocator, relocation

if TYPE_CHECKING:
    from ..models.model import Model


def make() -> allocator.Own:
    """The allocator."""
    return allocator.Own(
        {
            allocator.Allocate: allocation.allocate,
            allocator.MultiAllocate: allocation.multi_allocate,
            allocator.AllocateSecondary: allocation.allocate_secondary,
            allocator.Relocate: relocate,
            allocator.Evacuate: relocation.evacuate,
            allocator.ChangeGroup: relocation.change_group,
        }
    )


def relocate(found: Model, request: allocator.Relocate) -> allocator.Result:
    """Another node for an instance: the evacuation of a pair's secondary, or of a shared instance's primary.

    Raises:
        NotFound: there is no such instance.
        Refused: it cannot leave the node it is to leave.
    """
    instance = next((each for each in found.instances if each.name == request.instance), None)
    if instance is None:
        raise errors.NotFound(f"there is no instance {request.instance!r}")
    if not instance.template.can_leave:
        raise errors.Refused(f"{instance.name}: its disks are {instance.template.value}, no other node has them")
    scope = allocator.Scope.SECONDARY if instance.template.is_mirrored else allocator.Scope.PRIMARY
    node = instance.secondary if instance.template.is_mirrored else instance.primary
    if request.away_from != (node,):
        asked = ", ".join(request.away_from) or "no node"
        raise errors.Refused(f"{instance.name} can only be relocated from {node}, not from {asked}")
    return relocation.evacuate(found, allocator.Evacuate((instance.name,), scope))
