"""What a node reports of its replicas: read within a few seconds, or unknown; never in the way of the diagnosis."""

from __future__ import annotations

from typing import TYPE_CHECKING, Iterable, Mapping, Optional, Tuple

from ..domain.disks import replicas
from ..domain.disks.drbd_generations import bare
from ..domain.values import errors
from . import node_boot, programs, sights
from .drbd_node import PROC, REPORT, DrbdNode

if TYPE_CHECKING:
    import pathlib

    from ..domain.disks.drbd import Generation, Side, Volume

SECONDS = 10.0
"""How long all programs of DRBD may take together, for one report."""


def read(root: pathlib.Path, *, hypervisor: str, seconds: float = SECONDS) -> replicas.NodeFacts:
    """The facts of the node with this root; what does not answer within so many seconds is unknown."""
    boot_id = node_boot.boot_id(root)
    try:
        runner = programs.Hurried(programs.runner_for(root, hypervisor=hypervisor, opcode=REPORT), seconds=seconds)
        node = DrbdNode(runner, proc=root / PROC)
        found = node.resources()
    except (errors.RoundsmanError, OSError, ValueError):
        return replicas.NodeFacts(boot_id)
    if sum(len(side.volumes) for side in found.sides) + len(found.unread) > replicas.MOST:
        return replicas.NodeFacts(boot_id)
    return replicas.NodeFacts(boot_id, _replicas(root, node, found.sides), unread=found.unread)


def _replicas(root: pathlib.Path, node: DrbdNode, sides: Iterable[Side]) -> Tuple[replicas.ReplicaFact, ...]:
    read = [(side, volume, _generation(node, side, volume)) for side in sides for volume in side.volumes]
    # Last, so that the ages are those of the report's time.
    ages = sights.ages(root)
    return tuple(
        _fact(side, volume, generation, ages.get(side.resource, {}).get(volume.number, {}))
        for side, volume, generation in read
    )


def _generation(node: DrbdNode, side: Side, volume: Volume) -> Optional[Generation]:
    return None if volume.disk.is_gone else node.generation(side, volume)


def _fact(
    side: Side, volume: Volume, generation: Optional[Generation], seen: Mapping[str, float]
) -> replicas.ReplicaFact:
    return replicas.ReplicaFact(
        resource=side.resource,
        volume=volume.number,
        role=side.role,
        connection=side.connection,
        disk=volume.disk,
        peer_disk=volume.peer_disk,
        current=None if generation is None else bare(generation.current),
        bitmap=None if generation is None else bare(generation.bitmap),
        seen=replicas.newest(seen),
        out_of_sync=volume.out_of_sync or None,
    )
