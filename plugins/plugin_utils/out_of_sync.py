"""The pairs of replicas that are out of sync, by what their nodes report, and what people read and do about them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..module_utils.domain.disks import replicas
from . import replica_evidence
from .cluster import changes, left_replicas
from .disks import replica_texts

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from .cluster import cluster as clusters


def parted(
    cluster: clusters.Cluster, tracks: Mapping[str, replicas.NodeTrack], nodes: Iterable[str]
) -> list[changes.InstanceParted]:
    """What the newest reports of these nodes (UUIDs) say of pairs that have parted."""
    alone = {uuid: names for uuid in nodes if uuid in tracks and (names := _alone(tracks[uuid]))}
    if not alone:
        return []
    return [
        changes.InstanceParted(instance.uuid, _parted(instance, tracks[instance.primary_node]))
        for instance in cluster.instances.values()
        if instance.primary_node in alone
        and (instance.parted is None or instance.parted.node != instance.primary_node)
        and not alone[instance.primary_node].isdisjoint(replica_evidence.resources(instance))
    ]


def joined(cluster: clusters.Cluster, tracks: Mapping[str, replicas.NodeTrack]) -> list[changes.InstanceParted]:
    """The instances that have parted, and of which both nodes report in sync again."""
    found = []
    for instance in cluster.instances.values():
        if instance.parted is not None:
            names, since = replica_evidence.resources(instance), instance.parted.since
            if all(replicas.are_in_sync(tracks.get(node), names, since=since) for node in instance.nodes):
                found.append(changes.InstanceParted(instance.uuid, None))
    return found


def _alone(track: replicas.NodeTrack) -> set[str]:
    """The resources that a node writes without its peer."""
    return {name for (name, _), volume in track.volumes.items() if volume.fact is not None and volume.fact.is_alone}


def _parted(instance: clusters.Instance, track: replicas.NodeTrack) -> replicas.Parted:
    found = [volume for name in replica_evidence.resources(instance) for volume in track.of_resource(name).values()]
    alone = [volume for volume in found if volume.fact is not None and volume.fact.is_alone]
    began = min(volume.apart.wall if volume.apart is not None else track.at.wall for volume in alone)
    last = min(volume.in_sync.wall if volume.in_sync is not None else 0.0 for volume in alone)
    generations = tuple("" if volume.generation is None else f"{volume.generation:016x}" for volume in found)
    known = instance.parted
    if known is not None:
        # It failed over meanwhile: its new primary writes alone, and the pair is apart for as long as before.
        return replicas.Parted(known.since, known.last_in_sync, instance.primary_node, generations)
    return replicas.Parted(began, last, instance.primary_node, generations)


def parted_text(cluster: clusters.Cluster, instance: clusters.Instance) -> str:
    """Since when an instance writes without its secondary, or ''."""
    stands = instance.parted
    if stands is None:
        return ""
    names = _secondaries(cluster, instance)
    last = (
        f"last seen in sync at {replica_texts.clock(stands.last_in_sync)}"
        if stands.last_in_sync
        else "never seen in sync"
    )
    return (
        f"{instance.name} is degraded since {replica_texts.clock(stands.since)}: {cluster.node_name(stands.node)} "
        f"reported that it lost {names} ({last})"
    )


def parted_step(cluster: clusters.Cluster, instance: clusters.Instance) -> str:
    """What a person does about an instance that writes without its secondary, or ''."""
    if instance.parted is None:
        return ""
    made = left_replicas.being_made(cluster, instance.uuid)
    names = _secondaries(cluster, instance)
    if made:
        step = replica_texts.finish_step(instance.name, cluster.node_name(made[-1].node), names)
        return f"unless a job is at work on it, run {step}"
    return (
        f"restore the replication link between {cluster.node_name(instance.primary_node)} and {names} (and {names}, if "
        f"it is down), then run `roundsman instance repair-disks {instance.name}`"
    )


def made_text(cluster: clusters.Cluster, instance: clusters.Instance) -> str:
    """Since when an instance may write to a new replica and not to its secondary, with what ends that; or ''."""
    made = left_replicas.being_made(cluster, instance.uuid)
    if not made:
        return ""
    nodes = [cluster.node_name(replica.node) for replica in made]
    since = replica_texts.clock(min(replica.since for replica in made))
    secondary = _secondaries(cluster, instance)
    return (
        f"since {since} {instance.name} may be written to a new replica on {' or '.join(nodes)} and not to {secondary} "
        "any more: replace-disks has not ended. Unless a job is at work on it, finish that with "
        f"{replica_texts.finish_step(instance.name, nodes[-1], secondary)}"
    )


def _secondaries(cluster: clusters.Cluster, instance: clusters.Instance) -> str:
    return " and ".join(cluster.node_name(uuid) for uuid in instance.secondary_nodes) or "its secondary"
