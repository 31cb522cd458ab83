"""What no step of a plan may break: memory, disk, N+1, CPUs and exclusion tags of the nodes it touches."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable

    from .state import State


class Lacks(NamedTuple):
    """How far a node is beyond each of its limits; 0 where it is within.

    memory, disk: missing MiB; survival: MiB that are missing for the worst failure of another node (N+1); vcpus: how
    many beyond the policy's ratio; tags: primaries beyond one for each exclusion tag; offline: what is on a node that
    takes nothing.
    """

    memory: float
    disk: float
    survival: float
    vcpus: float
    tags: float
    offline: float


TEXTS = {
    "memory": "{} would lack {:.0f} MiB of memory",
    "disk": "{} would lack {:.0f} MiB of disk",
    "survival": "{} would lack {:.0f} MiB for what starts there when another node fails",
    "vcpus": "{} would have {:.0f} virtual CPUs too many",
    "tags": "{} would have {:.0f} primaries too many of one exclusion tag",
    "offline": "{} takes no instances",
}


def lacks(state: State, node: int) -> Lacks:
    """How far a node is beyond its limits now; O(exclusion tags)."""
    nodes = state.nodes
    free, tags = float(nodes.memory[node]), nodes.tags[node]
    vcpus = float(nodes.vcpus[node] - nodes.vcpu_ratio[node] * nodes.pcpus[node])
    held = float(nodes.primaries[node] + nodes.secondaries[node]) if nodes.offline[node] else 0.0
    return Lacks(
        memory=max(0.0, -free),
        disk=max(0.0, -float(nodes.disk[node])),
        survival=max(0.0, float(nodes.reserved[node]) - max(0.0, free)),
        vcpus=max(0.0, vcpus),
        tags=float(np.maximum(tags - 1.0, 0.0).sum()),
        offline=held,
    )


def worsened(state: State, before: Iterable[tuple[int, Lacks]]) -> str:
    """The first limit that a node (index) is further beyond than before, in words; "" when there is none.

    What was beyond a limit before may stay so: a move away from an overfull node is never refused for what remains.
    """
    for node, known in before:
        for name, was, now in zip(Lacks._fields, known, lacks(state, node), strict=True):
            if now > was:
                return TEXTS[name].format(state.nodes.names[node], now)
    return ""
