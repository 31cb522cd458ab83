"""What happens to replicas, and what people do: links break, nodes reboot, disks are replaced and repaired."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from ansible_collections.roundsman.cluster.daemon.jobs import values
from ansible_collections.roundsman.cluster.plugins.plugin_utils.cluster import left_replicas

if TYPE_CHECKING:
    import random
    from collections.abc import Callable

    from ansible_collections.roundsman.cluster.daemon.service import Service
    from ansible_collections.roundsman.cluster.plugins.plugin_utils.cluster import cluster as clusters

    from tests.simulation.world import World

    Deed = Callable[[World, clusters.Cluster, random.Random], list[values.Opcode]]
    """Returns the opcodes of the job that it wants."""

BOOT = 120.0
"""Seconds after a panic within which a node is up again."""
REPORTED = 30.0
"""Seconds in which agents have reported what they see."""
REPLACED = "replace the secondary"
"""What a repair advises for a secondary that it cannot repair."""
RESYNC, TRIES = 3600.0, 4
"""Seconds in which any resync ends, and how often a person repairs what is not in sync."""


def cut_links(world: World, node: str) -> None:
    """A node (UUID) reaches no other one any more."""
    for other in sorted(world.nodes.keys() - {node}):
        _set_link(world, node, other, is_linked=False)


def heal_links(world: World) -> None:
    """All links for replication are restored."""
    for link in sorted(sorted(link) for link in world.cut_links):
        _set_link(world, *link, is_linked=True)


def _set_link(world: World, first: str, second: str, *, is_linked: bool) -> None:
    assert world.disks is not None
    link = frozenset((first, second))
    if is_linked is (link not in world.cut_links):
        return
    world.cut_links ^= {link}
    names = " and ".join(sorted(world.names[node] for node in link))
    world.tell("the link of", names, "is back" if is_linked else "breaks")
    world.disks.set_link(first, second, is_linked=is_linked)


def _break_link(world: World, _cluster: clusters.Cluster, chances: random.Random) -> list[values.Opcode]:
    first, second = chances.sample(sorted(world.nodes), 2)
    _set_link(world, first, second, is_linked=False)
    return []


def _heal(world: World, _cluster: clusters.Cluster, _chances: random.Random) -> list[values.Opcode]:
    heal_links(world)
    return []


def _reboot(world: World, _cluster: clusters.Cluster, chances: random.Random) -> list[values.Opcode]:
    """A node panics, and boots by itself; the first one is the master."""
    node = chances.choice(sorted(world.nodes.values(), key=lambda node: node.name)[1:])
    if node.is_on:
        node.power_off()
        world.at(chances.random() * BOOT, node.power_on)
    return []


def _use_disks(_world: World, cluster: clusters.Cluster, chances: random.Random) -> list[values.Opcode]:
    instance = {"instance": chances.choice(sorted(cluster.instances))}
    stopped = chances.random() < 0.5
    around = (["shutdown"], ["startup"]) if stopped else ([], [])
    kinds = [*around[0], "activate_disks", *(["deactivate_disks"] if stopped else []), *around[1]]
    return [values.Opcode(kind, instance) for kind in kinds]


def _replace(_world: World, cluster: clusters.Cluster, chances: random.Random) -> list[values.Opcode]:
    instance = cluster.instances[chances.choice(sorted(cluster.instances))]
    if len(instance.secondary_nodes) != 1:
        return []
    (old,) = instance.secondary_nodes
    new = chances.choice([*sorted(cluster.nodes.keys() - {*instance.nodes}), old])
    return [values.Opcode("replace_disks", {"instance": instance.uuid, "old": old, "new": new})]


def _repair(_world: World, cluster: clusters.Cluster, chances: random.Random) -> list[values.Opcode]:
    return [values.Opcode("repair_disks", {"instance": chances.choice(sorted(cluster.instances))})]


DEEDS: dict[str, Deed] = {
    "link-breaks": _break_link,
    "links-heal": _heal,
    "node-reboots": _reboot,
    "disks": _use_disks,
    "replace-disks": _replace,
    "repair-disks": _repair,
}
SUBMISSIONS = frozenset({"disks", "replace-disks", "repair-disks"})


async def put_in_order(world: World, service: Service) -> None:
    """Start what is down, repair what is not in sync; whatever is not then must have a refusal that says why."""
    for uuid, instance in sorted(service.configuration.current.instances.items()):
        if instance.is_up and not world.guests[uuid]:
            await _ended(service, values.Opcode("startup", {"instance": uuid}))
    texts: dict[str, str] = {}
    for _ in range(TRIES):
        wanted = _out_of_sync(world, service)
        for uuid in wanted:
            texts[uuid] = await _repaired(world, service, uuid)
        if wanted:
            await asyncio.sleep(_resyncs(world))
    for uuid in _out_of_sync(world, service):
        world.tell(world.names[uuid], "is not in sync:", texts[uuid])
        if not texts[uuid] and uuid not in world.misplaced:
            world.violated(f"{world.names[uuid]} is not in sync, and nothing says why")


def _resyncs(world: World) -> float:
    """Seconds until all resyncs have ended, and agents have reported that."""
    assert world.disks is not None
    world.disks.settle()
    left = [found.pair.left(found.pair.now) / found.pair.speed for found in world.disks.of.values()]
    return min(RESYNC, max(left)) + REPORTED


async def _repaired(world: World, service: Service, uuid: str) -> str:
    """Have the replicas of an instance repaired; returns what a person was told is left to do."""
    assert world.disks is not None
    instance = service.configuration.current.instances[uuid]
    if all(world.disks.of[uuid].device(node) is None for node in instance.nodes):
        # As the refusal says: the disks are down on both nodes.
        await _ended(service, values.Opcode("activate_disks", {"instance": uuid}))
        await _ended(service, values.Opcode("deactivate_disks", {"instance": uuid}))
    if not (text := await _ended(service, values.Opcode("repair_disks", {"instance": uuid}))):
        return ""
    # As refusals say: a replacement that has not ended is finished, and what does not come up is replaced.
    made = [replica.node for replica in left_replicas.being_made(service.configuration.current, uuid)]
    for old in instance.secondary_nodes if made or REPLACED in text else ():
        replaced = {"instance": uuid, "old": old, "new": made[-1] if made else old}
        return await _ended(service, values.Opcode("replace_disks", replaced))
    return text


def _out_of_sync(world: World, service: Service) -> list[str]:
    assert world.disks is not None
    instances = sorted(service.configuration.current.instances.items())
    return [
        uuid
        for uuid, instance in instances
        if not all(world.disks.answer(uuid, node)["synced"] for node in instance.nodes)
    ]


async def _ended(service: Service, opcode: values.Opcode) -> str:
    """Have a job do this, and wait for its end; returns why it failed, '' where it did not."""
    (job,) = await service.queue.submit([values.Job(id=0, opcodes=(opcode,), received=1.0)])
    await service.queue.wait(job.id, seconds=RESYNC)
    ended = service.queue.find(job.id)
    return "" if ended.status is values.Status.SUCCESS else ended.text or ended.status.value
