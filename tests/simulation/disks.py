"""The replicas of the world's instances, by the lab's model of DRBD: instances write, links break, agents look.

A node may notice up to `NOTICED` seconds late that it has lost its peer: it answers then with what it knew. What its
agent sees every `LOOK` seconds is what the survivor of a failover has to say.
"""

from __future__ import annotations

import dataclasses
import math
from typing import TYPE_CHECKING, Any

from ansible_collections.roundsman.cluster.daemon.lab.simulator import simulated_replica as model
from ansible_collections.roundsman.cluster.daemon.lab.simulator.simulated_drbd import Pair
from ansible_collections.roundsman.cluster.plugins.plugin_utils import replica_evidence
from ansible_collections.roundsman.cluster.plugins.plugin_utils.disks.possible_loss import NOTICED

from tests.simulation import sides

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ansible_collections.roundsman.cluster.plugins.module_utils.domain.disks.replicas import ReplicaFact
    from ansible_collections.roundsman.cluster.plugins.plugin_utils.cluster import cluster as clusters

    from tests.simulation.world import World

    Change = Callable[[Pair, int], Pair]

LOOK = 5.0
RATE = 1.0
"""Writes of an instance in a second."""
NOTHING = model.Side()
SPEEDS = (20 * 1024, 100 * 1024)
"""KiB per second of a resync, one of them in each world."""


class Replicas:
    """Those of one instance: a pair on the nodes `ends`, and those on `left` nodes, which are no pair any more.

    `acknowledged` is what the instance was told to be written, and no failover has stated to be lost.
    """

    def __init__(self, world: World, instance: clusters.Instance, *, size: int, speed: int) -> None:
        self.world = world
        self.uuid = instance.uuid
        self.size = size
        self.minor = instance.disks[0].minor or 0
        self.ends = (instance.primary_node, instance.secondary_nodes[0])
        self.left: dict[str, model.Side] = {}
        self.seen: dict[str, dict[str, float]] = {}
        self.numb: dict[str, tuple[float, Pair]] = {}
        self.acknowledged = model.Content()
        self.runs_on = ""
        self.run = 0
        self.told: dict[str, tuple[model.Device, ReplicaFact]] = {}
        self.pair = self._in_sync(Pair((self._new(), self._new()), now=self._now, speed=speed))

    @property
    def _now(self) -> int:
        return round(self.world.now * model.SECOND)

    @property
    def name(self) -> str:
        return self.world.names.get(self.uuid, self.uuid)

    def _new(self) -> model.Side:
        return model.Side(self.size, model.Metadata())

    def _in_sync(self, pair: Pair) -> Pair:
        for i in (0, 1):
            pair = self._up(pair, i)
        return pair.skip_resync(0)

    def _up(self, pair: Pair, i: int) -> Pair:
        if pair.sides[i].device is None and pair.sides[i].size:
            pair = pair.up(i, minor=self.minor, peer="peer").attach(i)
        return pair.connect(i) if pair.sides[i].device and pair._device(i).connection == model.STANDALONE else pair

    def has(self, node: str) -> bool:
        """Whether a node has a replica."""
        return bool(self.side(node).size)

    def side(self, node: str) -> model.Side:
        """The replica on a node, as it is."""
        self.settle()
        return self.pair.sides[self.ends.index(node)] if node in self.ends else self.left.get(node, NOTHING)

    def device(self, node: str) -> model.Device | None:
        """The device of a node as that knows it, but for what was written since; None while it is down."""
        if self.numb or self.pair._is_syncing:
            self.settle()
        side = self.pair.sides[self.ends.index(node)] if node in self.ends else self.left.get(node, NOTHING)
        if node in self.numb and side.device is not None:
            return self.numb[node][1].sides[self.ends.index(node)].device
        return side.device

    def is_connected(self, node: str) -> bool:
        """Whether the replica of a node is connected with its peer, as that node knows it."""
        device = self.device(node)
        return device is not None and device.is_together

    def peer(self, node: str) -> str:
        """The node for which the resource of a node is written, '' where that is not known."""
        return next((end for end in self.ends if end != node), "") if node in self.ends else ""

    def settle(self) -> None:
        """Let time pass: instances write on, resyncs go on, and agents look."""
        before, now = self.pair, self._now
        if now <= before.now:
            return
        done = before.now + math.ceil(before.left(before.now) * model.SECOND / before.speed)
        after = before.at(now)
        ended = done if before._is_syncing and not after._is_syncing else now
        for node in self.ends:
            i = self.ends.index(node)
            for device, start, end in self._views(node, before.sides[i].device, after.sides[i].device, ended):
                self._look(node, device, start, end)
        self._keep(after)

    def _views(
        self, node: str, before: model.Device | None, after: model.Device | None, ended: int
    ) -> Iterator[tuple[model.Device | None, int, int]]:
        start, now = self.pair.now, self._now
        if node in self.numb:
            until, known = self.numb[node]
            noticed = min(now, round(until * model.SECOND))
            yield known.sides[self.ends.index(node)].device, start, noticed
            if now >= noticed and self.world.now >= until:
                del self.numb[node]
            start = noticed
        yield before, start, ended
        yield after, max(start, ended), now

    def _look(self, node: str, device: model.Device | None, start: int, end: int) -> None:
        tick = math.floor(end / model.SECOND / LOOK) * LOOK
        if device is None or tick * model.SECOND < start or not self.world.nodes[node].looks:
            return
        if sides.has_all_data(device):
            self.seen.setdefault(node, {})[self.peer(node)] = tick

    def sights(self, node: str) -> dict[str, float]:
        """When the agent of a node last saw its replica in sync, by the other node."""
        device = self.device(node)
        if node in self.ends:
            self._look(node, device, self.pair.now, self._now)
        return self.seen.get(node, {})

    def change(self, node: str, change: Change) -> None:
        """Have something happen to the replica of a node; raises `Rejected` where DRBD refuses it."""
        self.settle()
        if node in self.ends:
            self._keep(change(self.pair, self.ends.index(node)))
        elif node not in self.left:
            raise model.Rejected("it has no replica on this node", status=1)
        else:
            alone = Pair((self.left[node], model.Side()), now=self._now, is_linked=False, speed=self.pair.speed)
            self.left[node] = change(alone, 0).sides[0]
            self._check()

    def command(self, node: str, change: Change) -> None:
        """The same by a command, which a node obeys that knows of its loss; one that does not refuses to promote."""
        if node in self.numb:
            device = self.device(node)
            if device is not None and device.peer_role == model.PRIMARY:
                raise model.state_error(-1)
            del self.numb[node]
        self.change(node, change)

    def _keep(self, pair: Pair) -> None:
        self.pair = dataclasses.replace(pair, events=())
        if self.runs_on in self.ends:
            i = self.ends.index(self.runs_on)
            device = pair.sides[i].device
            if device is not None and device.writer is not None and device.may_write:
                self.acknowledged = pair.content(i)
        self._check()

    def _check(self) -> None:
        """Some replica has everything that was acknowledged."""
        if self.uuid in self.world.misplaced:
            return
        known = [side.content for side in (*self.pair.sides, *self.left.values()) if side.size]
        if not any(not content.is_torn and not self.acknowledged.missing_in(content) for content in known):
            self.world.violated(f"acknowledged writes of {self.name} are on no replica any more")

    # Power, links and peers

    def lose_power(self, node: str, *, late: float) -> None:
        self.settle()
        if self.runs_on == node:
            self.runs_on = ""
        self.numb.pop(node, None)
        self.seen.pop(node, None)
        if node in self.ends:
            self._may_notice_late(self.peer(node), late)
        if node in self.ends or node in self.left:
            self.change(node, lambda pair, i: pair.lose_power(i))

    def set_link(self, *, is_linked: bool, late: float) -> None:
        """The replication link between the two nodes of the pair breaks, or is back."""
        self.settle()
        if is_linked:
            self.numb.clear()
            self._keep(self.pair.link())
        elif self.pair.is_linked:
            for node in self.ends:
                if node != self.runs_on:
                    self._may_notice_late(node, late)
            self._keep(self.pair.cut())

    def _may_notice_late(self, node: str, late: float) -> None:
        device = self.pair.sides[self.ends.index(node)].device
        if late and device is not None and device.is_together and node not in self.numb:
            self.numb[node] = self.world.now + late, self.pair

    def pair_with(self, primary: str, new: str) -> None:
        """Have the primary copy to a new peer; its old one has the replica alone that it has."""
        if {primary, new} == {*self.ends}:
            return
        old = self.peer(primary)
        device = self.device(primary)
        if device is not None and device.connection != model.STANDALONE:
            self.command(primary, lambda pair, i: pair.disconnect(i))
        if device is not None and device.role != model.PRIMARY:
            # As `drbd_roles.new_generation`: what the old peer has counts as older from now on.
            self.command(primary, lambda pair, i: pair.promote(i).demote(i))
        self.settle()
        self.numb.clear()
        ours, theirs = self.side(primary), self.left.pop(new)
        if old:
            self.left[old] = self.side(old)
        self.ends = (primary, new)
        is_linked = frozenset(self.ends) not in self.world.cut_links
        self._keep(Pair((ours, theirs), now=self._now, is_linked=is_linked, speed=self.pair.speed))

    # The disks as roles ask for them

    def make(self, node: str) -> None:
        """An empty replica on a node that has none."""
        if self.has(node):
            return
        self.seen.pop(node, None)
        if node in self.ends:
            new = self._new()
            self.change(node, lambda pair, i: pair._side(i, metadata=new.metadata, content=new.content, size=new.size))
        else:
            self.left[node] = self._new()

    def remove(self, node: str) -> None:
        side = self.side(node)
        if side.device is not None and side.device.role == model.PRIMARY:
            raise model.Rejected("it is primary on this node, where its instance may run", status=1)
        if node in self.ends:
            self.change(node, lambda pair, i: (pair.down(i) if pair.sides[i].device else pair)._side(i, size=0))
        self.left.pop(node, None)
        self._check()

    def up(self, node: str) -> None:
        """Up, if it is whole and down."""
        if self.has(node):
            self.command(node, self._up)

    def standby(self, node: str) -> None:
        """The instance may not run there."""
        self.up(node)
        self.command(node, lambda pair, i: _one_primary(pair.demote(i) if pair.sides[i].device else pair, i))

    def active(self, node: str, *, alone: bool, force: bool = False) -> None:
        """The instance may run there, and on no other node."""
        self.up(node)
        device = self.device(node)
        if device is not None and device.role != model.PRIMARY and not device.is_together and not alone:
            raise model.Rejected("its peer may have newer data: it is not made primary", status=1)
        self.command(node, lambda pair, i: _one_primary(pair.promote(i, force=force), i))

    def shared(self, node: str) -> None:
        """The instance may run there and on the other node."""
        device = self.device(node)
        if device is None or not sides.is_in_sync(device):
            raise model.Rejected("it is not up to date on both of its nodes", status=1)
        self.command(node, lambda pair, i: pair.allow_two(i, allowed=True).promote(i))

    def disconnected(self, node: str) -> None:
        device = self.device(node)
        if device is not None and device.connection != model.STANDALONE:
            if device.role == model.PRIMARY:
                raise model.Rejected("it is primary on this node: it keeps its peer", status=1)
            self.command(node, lambda pair, i: pair.disconnect(i))

    # The instance

    def give_up(self, node: str, seconds: float) -> None:
        """A failover to this node has stated that writes of so many seconds may be lost, which is allowed."""
        self.settle()
        content = self._content(node)
        lost = self.acknowledged.missing_in(content)
        self.world.tell(self.name, "may lose writes of", round(seconds), "s and loses", lost)
        if lost > RATE * seconds + 1 and self.uuid not in self.world.misplaced:
            self.world.violated(f"{lost} writes of {self.name} are lost, and those of {seconds:.0f} s were stated")
        self.acknowledged = content

    def begin(self, node: str, *, moves: bool = False) -> None:
        """The instance runs on a node, where nothing is missing that it was told to be written."""
        self.command(node, lambda pair, i: pair.open(i, self.uuid))
        self.run += not moves
        content = self._content(node)
        lost = self.acknowledged.missing_in(content)
        self.world.tell(self.name, "has", content.counter, "writes on", self.world.names[node])
        if lost and self.uuid not in self.world.misplaced:
            self.world.violated(f"{lost} acknowledged writes of {self.name} are lost, and nothing said so")
        self.acknowledged, self.runs_on = content, node
        writer = model.Writer(self.uuid, f"run {self.run}", content.counter, self._now, RATE)
        self.change(node, lambda pair, i: pair.write_with(i, writer))

    def _content(self, node: str) -> model.Content:
        return self.pair.content(self.ends.index(node)) if node in self.ends else self.left[node].content

    def finish(self, node: str) -> None:
        """The instance runs there no longer."""
        if self.side(node).device is not None:
            self.change(node, lambda pair, i: pair.close(i, self.uuid))
        if self.runs_on == node:
            self.runs_on = ""


def _one_primary(pair: Pair, i: int) -> Pair:
    device = pair.sides[i].device
    return pair.allow_two(i, allowed=False) if device is not None and device.two_primaries else pair


class Disks:
    """The replicas of all instances."""

    def __init__(self, world: World, cluster: clusters.Cluster) -> None:
        self._world = world
        self.addresses = {uuid: replica_evidence.replication_address(cluster, uuid) for uuid in cluster.nodes}
        self.resources = {uuid: replica_evidence.resources(instance)[0] for uuid, instance in cluster.instances.items()}
        speed = world.rng("settings").choice(SPEEDS)
        self.of = {
            uuid: Replicas(world, instance, size=instance.disks[0].size * 1024, speed=speed)
            for uuid, instance in cluster.instances.items()
        }
        for uuid, instance in cluster.instances.items():
            self.of[uuid].active(instance.primary_node, alone=False)
            self.of[uuid].begin(instance.primary_node)

    def settle(self) -> None:
        for replicas in self.of.values():
            replicas.settle()

    def lose_power(self, node: str) -> None:
        """A node is without power."""
        for replicas in self.of.values():
            replicas.lose_power(node, late=self._late())

    def set_link(self, first: str, second: str, *, is_linked: bool) -> None:
        """The replication link of two nodes breaks, or is back."""
        for replicas in self.of.values():
            if {first, second} == {*replicas.ends}:
                replicas.set_link(is_linked=is_linked, late=self._late())

    def _late(self) -> float:
        return self._world.rng("late").random() * NOTICED if self._world.happens("loss-noticed-late") else 0.0

    def answer(self, instance: str, node: str) -> dict[str, Any]:
        """What the module `instance_disks` answers on a node."""
        return sides.answer(self._world, self.of[instance], node)
