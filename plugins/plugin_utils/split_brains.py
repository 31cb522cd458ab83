"""A split brain as people decide it: what each node wrote since the two disconnected, by the newest reports of both."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from . import replica_evidence
from .disks import replica_texts

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ..module_utils.domain.disks import replicas
    from .cluster import cluster as clusters

BLOCK = 4
"""KiB that DRBD notes as one."""


@dataclass(frozen=True)
class Written:
    """What a node (its name) wrote since it was first reported to be apart (unix seconds, 0: not dated).

    `kib` is what the node has noted, of all disks; None where it did not say.
    """

    node: str
    since: float
    kib: int | None

    @property
    def text(self) -> str:
        """That in words."""
        amount = "" if self.kib is None else f"{math.ceil(self.kib / BLOCK)} blocks of {BLOCK} KiB "
        return f"{self.node} wrote {amount}since {replica_texts.clock(self.since) if self.since else 'an unknown time'}"


def sides(
    cluster: clusters.Cluster, instance: clusters.Instance, tracks: Mapping[str, replicas.NodeTrack]
) -> tuple[Written, ...]:
    """What each node of an instance wrote alone; empty unless both did."""
    apart = {uuid: _apart(tracks.get(uuid), instance) for uuid in instance.nodes}
    if len(apart) == 1 or not all(any(fact.bitmap for _, fact in volumes) for volumes in apart.values()):
        return ()
    return tuple(_written(cluster.node_name(uuid), volumes) for uuid, volumes in apart.items())


def text(instance: clusters.Instance, written: Sequence[Written]) -> str:
    """What each choice of `--discard` loses, with the command; '' where there is nothing to choose."""
    if not written:
        return ""
    choices = [
        f"{side.text} (`roundsman instance start {instance.name} --discard {side.node}` discards that)"
        for side in written
    ]
    return f"both replicas of {instance.name} were written since they disconnected: {', and '.join(choices)}"


_Volumes = list[tuple["replicas.Track", "replicas.ReplicaFact"]]


def _apart(track: replicas.NodeTrack | None, instance: clusters.Instance) -> _Volumes:
    """The volumes that a node reports without their peer."""
    names = replica_evidence.resources(instance) if track is not None else ()
    volumes = [volume for name in names for volume in track.of_resource(name).values()] if track is not None else []
    return [(volume, volume.fact) for volume in volumes if volume.fact is not None and not volume.fact.is_connected]


def _written(node: str, volumes: _Volumes) -> Written:
    since = min((volume.apart.wall for volume, _ in volumes if volume.apart is not None), default=0.0)
    noted = [fact.out_of_sync for _, fact in volumes if fact.out_of_sync is not None]
    return Written(node, since, sum(noted) if noted else None)
