"""Ways: how one instance leaves a node, or why it cannot."""

from __future__ import annotations

import dataclasses
import functools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Collection

from ..cluster import cluster as clusters
from ..cluster import left_replicas
from ..disks import possible_loss
from ..placement.balancing.actions import Action
from ..placement.plan import Refusal
from . import targets
from .holdings import disk_per_copy, memory_in_use

if TYPE_CHECKING:
    from .basis import Basis
    from .room import Room

ANYWHERE = frozenset({"sharedfile", "rbd", "ext", "gluster", "diskless", "blockdev"})
NOWHERE = frozenset({"plain", "file"})


@dataclass(frozen=True)
class Way:
    """The steps of one instance, where it is afterwards, and whether N+1 holds there.

    `why` says why its new node was chosen; `left` is set where a replica has to stay on the node for now, and says why.
    `later` are the steps that come after those of all other instances, and why they lead there.
    """

    steps: tuple[str, ...]
    primary: str
    secondaries: tuple[str, ...]
    keeps: bool
    why: str = ""
    left: Refusal | None = None
    later: tuple[str, ...] = ()
    later_why: str = ""


class Ways:
    """The ways out of one node."""

    def __init__(
        self,
        basis: Basis,
        node: clusters.Node,
        *,
        failover: bool,
        lookout: targets.Targets,
        room: Room,
    ) -> None:
        self._basis = basis
        self._cluster = basis.cluster
        self._node = node
        self._failover = failover
        self._targets = lookout
        self._room = room
        self._reachable = node.uuid in basis.reachable

    def out(self, instance: clusters.Instance) -> Way | Refusal:
        """The best way of an instance out of the node, with the room that is left now."""
        template, name = instance.disk_template, self._node.name
        if template in NOWHERE:
            return Refusal(
                instance.name,
                f"disk template {template} keeps its only replica on {name}: it can never be moved; "
                "move it by hand or remove it",
                permanent=True,
            )
        if template != "drbd" and (template not in ANYWHERE or instance.primary_node != self._node.uuid):
            return Refusal(instance.name, f"disk template {template} has no known way off {name}", permanent=True)
        if instance.primary_node != self._node.uuid:
            return self._replica_out(instance)
        if instance.moving:
            return self._unproven(instance) or self._unfinished_out(instance)
        if self._move_kind(instance) == "migrate" and instance.is_bound:
            return Refusal(
                instance.name,
                "it runs and can never be migrated (migratable=no); fail it over by hand or stop it",
                permanent=True,
            )
        return self._replicated_out(instance) if template == "drbd" else self._shared_out(instance)

    def _unfinished_out(self, instance: clusters.Instance) -> Way | Refusal:
        """To where a migration that has not ended may have taken an instance, and nowhere else: it may run there."""
        target, name = self._cluster.node(instance.moving), self._node.name
        text = f"a migration of {instance.name} from {name} to {target.name} has not ended"
        if not clusters.answers(self._cluster, target):
            return Refusal(
                instance.name,
                f"{text}, and {target.name} does not answer: it may run there",
                f"{target.name} reachable",
            )
        replicated = instance.disk_template == "drbd"
        kept = Refusal(instance.name, f"{text}: until then its replica stays on {name}", "the end of that migration")
        others = tuple(uuid for uuid in instance.secondary_nodes if uuid != target.uuid)
        secondaries = (self._node.uuid, *others) if replicated else others
        step = self._run_on(instance, target.uuid)
        return Way((step,), target.uuid, secondaries, keeps=True, why=text, left=kept if replicated else None)

    def _shared_out(self, instance: clusters.Instance) -> Way | Refusal:
        choice = self._choose(instance, self._running(instance), Action.FAILOVER_TO_ANY)
        if isinstance(choice, Refusal):
            return choice
        step = self._run_on(instance, choice.node)
        return Way((step,), choice.node, instance.secondary_nodes, keeps=choice.keeps, why=self._why(choice))

    def _replica_out(self, instance: clusters.Instance) -> Way | Refusal:
        if bound := not_replaced(instance):
            return Refusal(instance.name, bound, permanent=True)
        primary = self._cluster.nodes.get(instance.primary_node)
        if primary is None or primary.uuid not in self._basis.reachable:
            name = self._cluster.node_name(instance.primary_node)
            return Refusal(instance.name, f"its primary {name} is not reachable", f"{name} reachable again")
        demand = self._secondary_demand(instance, primary=primary.uuid)
        choice = self._choose(instance, demand, Action.REPLACE_SECONDARY, group=primary.group)
        if isinstance(choice, Refusal):
            return choice
        others = _without(instance.secondary_nodes, self._node.uuid)
        return Way(
            (self._replica_to(choice.node),),
            primary.uuid,
            (*others, choice.node),
            keeps=choice.keeps,
            why=self._why(choice),
        )

    def _replicated_out(self, instance: clusters.Instance) -> Way | Refusal:
        """To its secondary if that keeps N+1, else over a new one if that does, else in the same order.

        Where its replica finds no room, it goes to its secondary all the same.
        """
        if not instance.secondary_nodes:
            return Refusal(instance.name, "it has no secondary replica to move to", "a new secondary")
        flaw = self._flaw(instance, instance.secondary_nodes[0]) or self._degraded(instance) or self._unproven(instance)
        direct = flaw or self._by_secondary(instance)
        if isinstance(direct, Refusal) and not self._reachable:
            return self._last_resort(instance, direct)
        if not self._reachable or (isinstance(direct, Way) and direct.keeps):
            return direct
        detour = self._by_new_secondary(instance)
        if isinstance(direct, Way):
            return detour if isinstance(detour, Way) and detour.keeps else direct
        if isinstance(detour, Way):
            return detour
        both = Refusal(instance.name, f"{direct.reason}, and {detour.reason}", _either(direct.unblock, detour.unblock))
        return self._last_resort(instance, both)

    def _last_resort(self, instance: clusters.Instance, refusal: Refusal) -> Way | Refusal:
        """To an in-sync secondary that says Ok since an incident of it failed, before the instance stays behind."""
        secondary = instance.secondary_nodes[0]
        why = self._targets.last_resort(secondary)
        if not why:
            return refusal
        if self._flaw(instance, secondary, last_resort=True) or self._degraded(instance) or self._unproven(instance):
            return refusal
        way = self._by_secondary(instance)
        return dataclasses.replace(way, why="; ".join(filter(None, [why, way.why])))

    def _by_secondary(self, instance: clusters.Instance) -> Way:
        secondary = instance.secondary_nodes[0]
        step = self._run_on(instance, secondary)
        others = _without(instance.secondary_nodes, secondary)
        keeps = self._keeps_at_secondary(instance, secondary)
        choice = self._for_replica(instance, secondary=secondary)
        if isinstance(choice, Refusal):
            left, loss = self._left(instance, choice, secondary=secondary), self._loss(instance)
            return Way((step,), secondary, (self._node.uuid, *others), keeps=keeps, why=loss, left=left)
        way = Way((step,), secondary, (*others, choice.node), keeps=keeps and choice.keeps)
        replica, why = self._replica_to(choice.node), self._why(choice)
        if self._reachable:
            return dataclasses.replace(way, steps=(step, replica), why=why)
        # No instance of a node that is down waits until the new secondary of another one is in sync.
        return dataclasses.replace(way, why=self._loss(instance), later=(replica,), later_why=why)

    def _for_replica(self, instance: clusters.Instance, *, secondary: str) -> targets.Choice | Refusal:
        """The node for the replica of an instance that goes to its secondary, or why there is none."""
        if bound := not_replaced(instance):
            return Refusal(instance.name, bound, permanent=True)
        demand = self._secondary_demand(instance, primary=secondary)
        return self._choose(instance, demand, Action.FAILOVER_AND_REPLACE)

    def _left(self, instance: clusters.Instance, lack: Refusal, *, secondary: str) -> Refusal:
        """Why the replica of an instance stays on the node when the instance goes to its secondary."""
        verb, primary = "runs" if instance.is_up else "is", self._cluster.node_name(secondary)
        text = f"{instance.name} {verb} on {primary} then; its replica stays on {self._node.name}: {lack.reason}"
        return dataclasses.replace(lack, reason=text)

    def _by_new_secondary(self, instance: clusters.Instance) -> Way | Refusal:
        if bound := not_replaced(instance):
            return Refusal(instance.name, bound)
        old = instance.secondary_nodes[0]
        demand = dataclasses.replace(self._running(instance), disk=disk_per_copy(instance))
        first = self._choose(instance, demand, Action.REPLACE_AND_FAILOVER)
        if isinstance(first, Refusal):
            return first
        second = self._choose_next(instance, primary=first.node)
        if isinstance(second, Refusal):
            reason = f"if it moves to {self._cluster.node_name(first.node)}, {second.reason}"
            return dataclasses.replace(second, reason=reason)
        steps = (
            self._replica_to(first.node),
            self._run_on(instance, first.node),
            self._replica_to(second.node),
        )
        secondaries, keeps = (*_without(instance.secondary_nodes, old), second.node), first.keeps and second.keeps
        return Way(steps, first.node, secondaries, keeps=keeps, why=self._why(first))

    def _choose(
        self, instance: clusters.Instance, demand: targets.Demand, action: Action, *, group: str = ""
    ) -> targets.Choice | Refusal:
        """The best node of a group, by default of this node's, for an instance that is moved there by an action."""
        holding = self._holding(instance)
        scores = functools.partial(self._targets.scores, instance, action)
        return self._targets.choose(demand, group=group or self._node.group, without=holding, scores=scores)

    def _choose_next(self, instance: clusters.Instance, *, primary: str) -> targets.Choice | Refusal:
        """The best node for the replica of an instance that by then has moved to a new primary; its old one counts."""
        old = instance.secondary_nodes[0]
        without = {*_without(self._holding(instance), old), primary}
        scores = functools.partial(
            self._targets.scores_of_secondaries, instance, primary=primary, secondary=self._node.uuid
        )
        demand = self._secondary_demand(instance, primary=primary)
        return self._targets.choose(demand, group=self._node.group, without=without, scores=scores, returning=old)

    def _holding(self, instance: clusters.Instance) -> tuple[str, ...]:
        return left_replicas.holding(self._cluster, instance)

    def _flaw(self, instance: clusters.Instance, uuid: str, *, last_resort: bool = False) -> Refusal | None:
        """Why the secondary of an instance is no target for it, if it is none."""
        node = self._cluster.nodes.get(uuid)
        if node is None:
            return self._flawed(instance, f"its secondary {uuid} has left the cluster", "")
        demand, group = self._running(instance), self._node.group
        flaw = self._targets.objection(node, demand, group=group, last_resort=last_resort)
        return self._flawed(instance, f"its secondary {node.name} {flaw.reason}", flaw.unblock) if flaw else None

    def _degraded(self, instance: clusters.Instance) -> Refusal | None:
        """Why a running instance does not go to its secondary: its primary has reported that it writes alone."""
        if not self._reachable or instance.parted is None:
            return None
        secondary = self._cluster.node_name(instance.secondary_nodes[0])
        cure = f"{instance.name} in sync again: `roundsman instance repair-disks {instance.name}`"
        return Refusal(instance.name, f"its replica on {secondary} is not in sync", cure)

    def _unproven(self, instance: clusters.Instance) -> Refusal | None:
        """Why the secondary of an instance is no target for it while its primary's node cannot be asked, if so."""
        found = self._basis.evidence.get(instance.uuid)
        if self._reachable or found is None or not found.keeps_back:
            return None
        return Refusal(instance.name, found.reason, found.unblock)

    def _loss(self, instance: clusters.Instance) -> str:
        """What a failover of an instance may lose, where its primary's node is known to be off."""
        found = self._basis.evidence.get(instance.uuid)
        if self._reachable or found is None or not found.seen_off or found.seconds is None:
            return ""
        return possible_loss.text(found.seconds)

    def _flawed(self, instance: clusters.Instance, reason: str, unblock: str) -> Refusal:
        if self._reachable:
            return Refusal(instance.name, reason, unblock)
        name = self._node.name
        return Refusal(
            instance.name, f"{reason}, and {name} is not reachable", _either(unblock, f"{name} reachable again")
        )

    def _keeps_at_secondary(self, instance: clusters.Instance, secondary: str) -> bool:
        """Only other peers count: what the evacuated node reserves there falls with the free memory."""
        room = self._room.nodes[secondary]
        left = room.spare - memory_in_use(instance)
        peers = (size for peer, size in room.reserved.items() if peer != self._node.uuid)
        return memory_in_use(instance) == 0 or left >= max(peers, default=0)

    def _running(self, instance: clusters.Instance) -> targets.Demand:
        """What it asks of the node where it goes; from a node that is gone virtual CPUs and tags keep nothing back."""
        memory = memory_in_use(instance)
        if not self._reachable:
            return targets.Demand(instance.name, memory=memory)
        tags = self._room.exclusion_tags(instance)
        source = self._node.uuid if self._move_kind(instance) == "migrate" else ""
        return targets.Demand(instance.name, memory=memory, vcpus=instance.vcpus, tags=tags, source=source)

    def _secondary_demand(self, instance: clusters.Instance, *, primary: str) -> targets.Demand:
        return targets.Demand(
            instance.name, disk=disk_per_copy(instance), reserve=memory_in_use(instance), peer=primary
        )

    def _move_kind(self, instance: clusters.Instance) -> str:
        return "failover" if self._failover or not instance.is_up or not self._reachable else "migrate"

    def _run_on(self, instance: clusters.Instance, target: str) -> str:
        """The step that has an instance run on a node (UUID); a pair only ever goes to its secondary."""
        return "f" if instance.disk_template == "drbd" else f"f:{self._cluster.node_name(target)}"

    def _replica_to(self, target: str) -> str:
        """The step that moves the secondary replica to a node (UUID)."""
        return f"r:{self._cluster.node_name(target)}"

    def _why(self, choice: targets.Choice) -> str:
        name = self._cluster.node_name(choice.node)
        rank = f"the best of {choice.among} nodes" if choice.among > 1 else "the only node"
        return f"{name} is {rank} with room"


def not_replaced(instance: clusters.Instance) -> str:
    """Why nothing replaces the disks of an instance, and what a person can do; "" where nothing forbids it."""
    if not instance.adopted_disks:
        return ""
    return (
        f"Roundsman does not replace its disk {instance.adopted_disks[0]}, which was adopted; to give {instance.name} "
        "another secondary, use drbdadm, then correct its secondary_nodes on record (`roundsman config export`, "
        "`roundsman config import`)"
    )


def _without(nodes: Collection[str], node: str) -> tuple[str, ...]:
    return tuple(uuid for uuid in nodes if uuid != node)


def _either(*unblocks: str) -> str:
    return ", or ".join(filter(None, dict.fromkeys(unblocks)))
