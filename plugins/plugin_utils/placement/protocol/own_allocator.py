"""Our own allocator: which decisions of the planner answer which requests."""

from __future__ import annotations

from ..allocation import allocation, allocator, relocation
from . import composed


def make() -> allocator.Own:
    """The allocator."""
    return allocator.Own(
        {
            allocator.Allocate: allocation.allocate,
            allocator.MultiAllocate: allocation.multi_allocate,
            allocator.AllocateSecondary: allocation.allocate_secondary,
            allocator.Relocate: composed.Relocation(relocation.evacuate),
            allocator.Evacuate: relocation.evacuate,
            allocator.ChangeGroup: relocation.change_group,
        }
    )
