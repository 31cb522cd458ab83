"""What a node reported of the replicas of an instance, as JSON values."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...plugins.plugin_utils import replica_evidence

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ...plugins.module_utils.domain.disks import replicas
    from ...plugins.plugin_utils.cluster import cluster as clusters
    from ..maintenance.reports import Intake


def facts(cluster: clusters.Cluster, instance: clusters.Instance, node: str, intake: Intake) -> list[dict[str, Any]]:
    """The newest facts of a node (UUID), and when the pair was last seen in sync by it.

    `unlisted` is when a report was made (unix seconds) that has no word of the resource; then all else is null.
    `unread` says since which report (`reported`, unix seconds) a resource is up and cannot be read, and the `reason`.
    """
    track = intake.tracks.get(node)
    if track is None:
        return []
    return [
        {"node": cluster.node_name(node), "resource": resource, **entry}
        for resource in replica_evidence.resources(instance)
        for entry in _of_resource(track, resource)
    ]


def _of_resource(track: replicas.NodeTrack, resource: str) -> list[dict[str, Any]]:
    reported = round(track.at.wall, 3)
    unread = {"reason": track.unread[resource], "reported": reported} if resource in track.unread else None
    volumes = track.of_resource(resource)
    if volumes:
        return [_of_volume(number, volume, reported, unread) for number, volume in volumes.items()]
    if not track.is_known:
        return []
    unlisted = None if unread is not None else reported
    return [{"volume": None, "fact": None, "last_in_sync": None, "unlisted": unlisted, "unread": unread}]


def _of_volume(
    number: int, volume: replicas.Track, reported: float, unread: Mapping[str, Any] | None
) -> dict[str, Any]:
    fact, last = volume.fact, volume.in_sync
    known = None
    if fact is not None:
        words = {"role": fact.role, "connection": fact.connection, "disk": fact.disk, "peer_disk": fact.peer_disk}
        known = {**{name: word.value for name, word in words.items()}, "reported": reported}
    return {
        "volume": number,
        "fact": known,
        "last_in_sync": round(last.wall, 3) if last is not None else None,
        "unlisted": None,
        "unread": unread,
    }
