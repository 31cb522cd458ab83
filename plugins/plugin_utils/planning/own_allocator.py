"""Our own allocator: which decisions of the planner answer which requests."""

from __future__ import annotations

from . import allocation, allocator, composed, relocation


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
