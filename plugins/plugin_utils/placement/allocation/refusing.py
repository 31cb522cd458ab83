"""Why a new instance has no place in a group, in words: what there is too little of, and where there is most.

Rules are gone through one after the other, each among the nodes that the ones before have left.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from .newcomers import Kind, misfits

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from ..models import model
    from ..score import columns
    from .newcomers import Newcomer
    from .obstacles import Obstacles

BOUNDS = {
    Kind.MEMORY: ("memory", "MiB of memory"),
    Kind.DISK: ("disk", "MiB a disk"),
    Kind.VCPUS: ("vcpus", "vcpus"),
    Kind.DISKS: ("disks", "disks"),
    Kind.SPINDLES: ("spindle_use", "spindles"),
}


@dataclass(frozen=True, eq=False)
class Rule:
    """What an instance needs more room for than there is: by node which have it, and how much room each has.

    Shapes: N, or P x N for pairs. Without `room` it is a yes or no.
    """

    passed: columns.Flags
    words: str
    room: columns.Numbers | None = None


def reason(found: Obstacles, policy: model.Policy) -> str:
    """Why no place of a group is left for an instance; `found` are the obstacles for this group alone."""
    left = found.weights > 0
    if not left.any():
        return f"{'no two' if found.mirrored else 'none'} of its nodes can be considered"
    exclusive = bool(found.openings.nodes.exclusive[left].all())
    kinds = misfits(found.newcomer, policy, exclusive=exclusive)
    if kinds:
        return _against_policy(found.newcomer, policy, kinds)
    for rule in _as_primary(found):
        if not (left & rule.passed).any():
            return _words(found, rule, left)
        left &= rule.passed
    pairs = found.pairs[left]
    for rule in _as_secondary(found, left) if found.mirrored else ():
        if not (pairs & rule.passed).any():
            return _words(found, rule, pairs)
        pairs &= rule.passed
    return "its policy does not allow the instance on the nodes with room"


def _against_policy(newcomer: Newcomer, policy: model.Policy, kinds: Iterable[Kind]) -> str:
    if newcomer.template not in policy.templates:
        return f"its policy does not allow the disk template {newcomer.template.value}"
    return f"its policy allows {' and '.join(_bounds(policy, *BOUNDS[kind]) for kind in kinds)}"


def _bounds(policy: model.Policy, field: str, unit: str) -> str:
    bounds = " or ".join(f"{getattr(least, field)} to {getattr(most, field)}" for least, most in policy.bounds)
    return f"{bounds} {unit}"


def _as_primary(found: Obstacles) -> Iterator[Rule]:
    nodes, newcomer, size = found.openings.nodes, found.newcomer, found.newcomer.size
    memory = np.minimum(found.memory, found.memory_expected)
    yield Rule(size.memory <= memory, f"no node has {size.memory} MiB free", memory + 1)
    if newcomer.on_volumes:
        yield from _of_disks(found, "no node has")
    used = np.maximum(nodes.vcpus, nodes.vcpus_expected)
    vcpus = np.floor(nodes.vcpu_ratio * nodes.pcpus - used)
    enough = (used + size.vcpus) / nodes.pcpus <= nodes.vcpu_ratio
    yield Rule(enough, f"no node has {size.vcpus} vcpus left", np.maximum(0, vcpus))
    tags = ", ".join(newcomer.tags)
    yield Rule(~found.conflicting(), f"an instance with the exclusion tag {tags} is on each node with room")
    text = f"no node has {size.memory} MiB free beside what it keeps for the failure of another"
    yield Rule(size.memory <= found.memory_kept, text, np.maximum(0, found.memory_kept + 1))


def _as_secondary(found: Obstacles, primaries: columns.Flags) -> Iterator[Rule]:
    yield from _of_disks(found, "no second node has")
    memory = found.newcomer.size.memory * found.newcomer.reserves
    room = np.minimum(np.minimum(found.memory, found.memory_expected), found.copies[primaries])
    text = f"no second node has {memory} MiB free for the failure of the first"
    yield Rule(memory <= room, text, np.maximum(0, room + 1))


def _of_disks(found: Obstacles, words: str) -> Iterator[Rule]:
    nodes, newcomer, size = found.openings.nodes, found.newcomer, found.newcomer.size
    disk = np.minimum(found.disk, found.disk_expected)
    yield Rule(size.disk <= disk, f"{words} {size.disk} MiB of disk free", np.maximum(0, disk + 1))
    own = np.inf if size.spindles is None else float(size.spindles)
    wanted = np.where(nodes.exclusive, own, float(newcomer.spindle_use))
    free = np.minimum(nodes.free_spindles, nodes.free_spindles_expected)
    shared = nodes.spindle_limit - np.maximum(nodes.spindles, nodes.spindles_expected)
    room = np.where(nodes.exclusive, free, shared)
    count = newcomer.spindle_use if size.spindles is None else max(size.spindles, newcomer.spindle_use)
    yield Rule(wanted <= room, f"{words} spindles for {count} more", np.maximum(0, room))


def _words(found: Obstacles, rule: Rule, left: columns.Flags) -> str:
    if rule.room is None:
        return rule.words
    room = np.where(left, rule.room, -np.inf)
    best = int(np.argmax(room))
    node = best % room.shape[-1]
    name = found.openings.nodes.names[int(found.openings.numbers[node])]
    return f"{rule.words}: best is {name} with {room.ravel()[best]:.0f}"
