"""What a node reports of its replicas: read within a few seconds, or unknown; never in the way of the diagnosis."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, List, Optional, Tuple

from ..domain import errors, replicas
from ..domain.drbd_generations import bare
from . import programs
from .drbd_node import PROC, REPORT, DrbdNode

if TYPE_CHECKING:
    import pathlib

    from ..domain.drbd import Side, Volume

BOOT_ID = "proc/sys/kernel/random/boot_id"
SECONDS = 10.0
"""How long all programs of DRBD may take together, for one report."""


class _Hurried:
    """A runner whose programs end by one common deadline."""

    def __init__(self, runner: programs.Runner, *, seconds: float) -> None:
        self._runner = runner
        self._end = time.monotonic() + seconds

    def run(self, *command: str, time_limit: float = programs.TIME_LIMIT, accepted: Tuple[int, ...] = (0,)) -> str:
        """As `Runner.run`; when the time is over it fails without starting anything."""
        left = self._end - time.monotonic()
        if left <= 0:
            raise errors.Failed(f"no time is left for {' '.join(command[:3])}")
        return self._runner.run(*command, time_limit=min(time_limit, left), accepted=accepted)


def read(root: pathlib.Path, *, hypervisor: str, seconds: float = SECONDS) -> replicas.NodeFacts:
    """The facts of the node with this root; what does not answer within so many seconds is unknown."""
    return replicas.NodeFacts(_boot_id(root), _replicas(root, hypervisor=hypervisor, seconds=seconds))


def _boot_id(root: pathlib.Path) -> str:
    try:
        text = (root / BOOT_ID).read_text().strip()
    except (OSError, ValueError):
        return ""
    return text if replicas.is_boot_id(text) else ""


def _replicas(root: pathlib.Path, *, hypervisor: str, seconds: float) -> Optional[Tuple[replicas.ReplicaFact, ...]]:
    runner = _Hurried(programs.runner_for(root, hypervisor=hypervisor, opcode=REPORT), seconds=seconds)
    node = DrbdNode(runner, proc=root / PROC)
    try:
        sides = node.sides()
    except (errors.RoundsmanError, OSError, ValueError):
        return None
    if sum(len(side.volumes) for side in sides) > replicas.MOST:
        return None
    found: List[replicas.ReplicaFact] = []
    for side in sides:
        found += [_fact(node, side, volume) for volume in side.volumes]
    return tuple(found)


def _fact(node: DrbdNode, side: Side, volume: Volume) -> replicas.ReplicaFact:
    generation = None if volume.disk.is_gone else node.generation(side, volume)
    return replicas.ReplicaFact(
        resource=side.resource,
        volume=volume.number,
        role=side.role,
        connection=side.connection,
        disk=volume.disk,
        peer_disk=volume.peer_disk,
        current=None if generation is None else bare(generation.current),
        bitmap=None if generation is None else bare(generation.bitmap),
    )
