"""What nodes say of the replicas of the world, in the words of their modules and of their agents' reports."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

from ansible_collections.roundsman.cluster.daemon.lab.simulator import simulated_replica as model
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.disks import drbd, replicas
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.disks.drbd_generations import bare
from ansible_collections.roundsman.cluster.plugins.module_utils.storage import drbd_progress, drbd_sides, sights

if TYPE_CHECKING:
    from tests.simulation.disks import Replicas
    from tests.simulation.world import World

CONNECTIONS = {
    model.STANDALONE: drbd.Connection.STANDALONE,
    model.CONNECTING: drbd.Connection.CONNECTING,
}
"""DRBD 8.4's other words are those of a connection."""


def volume(device: model.Device) -> drbd.Volume:
    """A device as the product reads it."""
    is_together = device.is_together
    established = drbd.Replication.ESTABLISHED if is_together else drbd.Replication.OFF
    syncs = drbd.Replication(device.connection) if device.connection in model.SYNCING else established
    return drbd.Volume(0, drbd.Disk(device.disk), drbd.Disk(device.peer_disk), minor=device.minor, replication=syncs)


def connection(device: model.Device) -> drbd.Connection:
    """How a device stands to its peer."""
    return CONNECTIONS.get(device.connection, drbd.Connection.CONNECTED)


def has_all_data(device: model.Device) -> bool:
    """Whether an agent that looks sees it in sync."""
    return sights._has_all_data(connection(device), volume(device))


def is_in_sync(device: model.Device) -> bool:
    """Whether both replicas have the same data, by the word of one node."""
    found = volume(device)
    return replicas.is_in_sync(connection(device), found.disk, found.peer_disk)


def generation(side: model.Side) -> drbd.Generation | None:
    """What its metadata say."""
    found = side.metadata
    if found is None:
        return None
    return drbd.Generation(found.current, found.bitmap, found.history, crashed_primary=found.has_crashed)


def info(found: Replicas, node: str, resource: str) -> dict[str, Any]:
    """What the module `drbd_info` answers of a resource."""
    device, side = found.device(node), found.side(node)
    if device is None:
        return {"sides": [], "unread": {}}
    told = dataclasses.replace(volume(device), generation=None if device.is_together else generation(side))
    role, peer_role = drbd.Role(device.role), drbd.Role(device.peer_role)
    return {
        "sides": [drbd_sides.encode(drbd.Side(resource, role, connection(device), (told,), peer_role))],
        "unread": {},
    }


def _address(world: World, node: str) -> str:
    assert world.disks is not None
    return world.disks.addresses.get(node, "")


def _ages(world: World, found: Replicas, node: str) -> dict[str, float]:
    return {_address(world, peer): round(world.now - at, 3) for peer, at in found.sights(node).items()}


def answer(world: World, found: Replicas, node: str) -> dict[str, Any]:
    """What the module `instance_disks` answers: one disk, and whether it is in sync."""
    device, side = found.device(node), found.side(node)
    told: dict[str, Any] = {
        "text": "is down on this node",
        "size": side.size or None,
        "synced": False,
        "role": "",
        "disk": "",
        "peer_disk": "",
        "connected": False,
        "peer": world.names.get(found.peer(node), ""),
        "peer_address": _address(world, found.peer(node)),
        "seen": _ages(world, found, node),
        "generation": drbd_sides.encode_generation(generation(side)) if side.size else None,
        "out_of_sync": None,
        "trouble": "is down on this node",
    }
    if device is not None:
        shown = volume(device)
        as_side = drbd.Side("", drbd.Role(device.role), connection(device), (shown,))
        told |= {
            "text": f"{device.role}, {connection(device).value}, {device.disk}/{device.peer_disk}",
            "synced": drbd_progress.is_settled(as_side, shown),
            "role": device.role,
            "disk": device.disk,
            "peer_disk": device.peer_disk,
            "connected": device.is_together,
            "out_of_sync": side.metadata.dirty if side.metadata else None,
            "trouble": drbd_progress.trouble(as_side, shown),
        }
    machine = world.nodes[node]
    return {"disks": [told], "synced": told["synced"], "uptime": world.now - machine.booted}


def facts(world: World, node: str) -> tuple[replicas.ReplicaFact, ...]:
    """What the agent of a node reports of its replicas."""
    assert world.disks is not None
    return tuple(
        dataclasses.replace(_fact(found, node, device, world.disks.resources[uuid]), seen=_seen(world, found, node))
        for uuid, found in world.disks.of.items()
        if (device := found.device(node)) is not None
    )


def _seen(world: World, found: Replicas, node: str) -> tuple[tuple[str, float], ...]:
    return replicas.newest(_ages(world, found, node))


def _fact(found: Replicas, node: str, device: model.Device, resource: str) -> replicas.ReplicaFact:
    known = found.told.get(node)
    if known is not None and known[0] is device:
        return known[1]
    shown, metadata = volume(device), found.side(node).metadata
    is_read = metadata is not None and not shown.disk.is_gone
    fact = replicas.ReplicaFact(
        resource,
        0,
        drbd.Role(device.role),
        connection(device),
        shown.disk,
        shown.peer_disk,
        current=bare(metadata.current) if is_read and metadata else None,
        bitmap=bare(metadata.bitmap) if is_read and metadata else None,
    )
    found.told[node] = device, fact
    return fact
