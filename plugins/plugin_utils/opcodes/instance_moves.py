"""Opcodes that move an instance: migrate, failover, replace-disks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from ...module_utils.domain.values import errors
from ..cluster import changes, known_off, left_replicas, recording
from ..cluster import cluster as clusters
from ..rounds import single_moves
from . import contract, room_now, time_limits
from .instance_facts import instance_variables

if TYPE_CHECKING:
    from ..cluster.locks import Mode

UNFENCED = "unfenced"
"""What is true in the result of a failover whose source was not confirmed off: nothing was done by it."""


def removed_meanwhile(instance: str) -> str:
    """Why nothing is left to do for an instance (UUID) that was removed after its job was planned."""
    return f"nothing to do: instance {instance} has been removed from the cluster"


def left_meanwhile(cluster: clusters.Cluster, instance: clusters.Instance, *, target: str) -> str:
    """Why an instance is not moved to a node (UUID) that left the cluster after the move was planned, or ''.

    The move is moot, not failed: an evacuation plans it again, to another node.
    """
    if target in cluster.nodes:
        return ""
    return f"not done: its new node {target} has left the cluster; {instance.name} stays where it is"


@dataclass(frozen=True)
class _RunElsewhere(contract.PlayOpcode):
    instance: str
    source: str
    target: str

    def wants(self, _cluster: clusters.Cluster) -> dict[str, Mode]:
        """A failover reads the power of its source, and may command it off; a migration may become one."""
        nodes = contract.instance_at(self.instance, (self.source, self.target))
        return nodes | contract.power_of((self.source,), contract.SHARED)

    def moot(self, cluster: clusters.Cluster) -> str:
        if self.instance not in cluster.instances:
            return removed_meanwhile(self.instance)
        instance = cluster.instance(self.instance)
        if instance.primary_node == self.source or self._ends_migration(instance):
            return left_meanwhile(cluster, instance, target=self.target)
        is_on = cluster.node_name(instance.primary_node)
        return f"{instance.name} has left {cluster.node_name(self.source)} already: its primary is {is_on}"

    def hosts(self, _cluster: clusters.Cluster) -> list[str]:
        return [self.source, self.target]

    def variables(self, cluster: clusters.Cluster) -> dict[str, Any]:
        instance = cluster.instance(self.instance)
        if instance.moving and {self.source, self.target} != set(instance.places):
            contract.refuse_unfinished(cluster, instance)
        held = instance.nodes if self._ends_migration(instance) else instance.secondary_nodes
        if instance.disk_template == "drbd" and self.target not in held:
            target = cluster.node_name(self.target)
            raise errors.Refused(f"{instance.name} has no replica on {target}: replace its secondary first")
        contract.refuse_unreachable(cluster, *self._contacted())
        # Both nodes of a migration that has not ended had room for it, and it may run on either.
        if not instance.moving:
            single_moves.refuse_closed(cluster, target=self.target)
            room_now.refuse_without_memory(cluster, instance, target=self.target)
        return {
            "instance": instance_variables(cluster, instance),
            "source": contract.node_variables(cluster, self.source),
            "target": contract.node_variables(cluster, self.target),
            "members": [contract.node_variables(cluster, uuid) for uuid in (self.source, self.target)],
            "secondaries": self._other_nodes(instance),
            "unfinished": bool(instance.moving),
        }

    def effects(self, cluster: clusters.Cluster) -> list[changes.Change]:
        others = self._other_nodes(cluster.instance(self.instance))
        return [changes.InstanceNodes(self.instance, self.target, tuple(others))]

    def about(self) -> tuple[str, ...]:
        return (self.instance,)

    def _contacted(self) -> tuple[str, ...]:
        return self.source, self.target

    def _ends_migration(self, _instance: clusters.Instance) -> bool:
        """Whether its source is where a migration that has not ended was to go, and its target the primary."""
        return False

    def _other_nodes(self, instance: clusters.Instance) -> list[str]:
        if not instance.secondary_nodes:
            return []
        return [node for node in dict.fromkeys((self.source, *instance.secondary_nodes)) if node != self.target]


@dataclass(frozen=True)
class Migrate(_RunElsewhere):
    """Move a running instance to another node without stopping it.

    One that neither node runs, as after a crash of its guest, is failed over, unless `allow_failover` is false.
    """

    kind: ClassVar[str] = "migrate"
    op_id: ClassVar[str] = "OP_INSTANCE_MIGRATE"
    role: ClassVar[str] = "instance"
    allow_failover: bool = True

    def check_facts(self, cluster: clusters.Cluster, facts: contract.Facts) -> None:
        """Both nodes answered when they were last asked: what was planned may have waited."""
        contract.refuse_silent(cluster, facts, self.source, self.target)

    def time_limit(self, cluster: clusters.Cluster) -> int:
        known = cluster.instance(self.instance)
        live = time_limits.disks(known, steps=7) + time_limits.migrate(known) + time_limits.look()
        return time_limits.limit(2 * time_limits.look(), live, failover_seconds(known))

    def variables(self, cluster: clusters.Cluster) -> dict[str, Any]:
        failing_over = failover_variables(cluster, source=self.source)
        return super().variables(cluster) | failing_over | {"allow_failover": self.allow_failover}

    def outcome(self, value: Any) -> Any:
        return waits_for_person(value)


@dataclass(frozen=True)
class Failover(_RunElsewhere):
    """Stop an instance on its primary, or prove that it is stopped, and start it on another node.

    A replica that may lack some writes is started where those of `max_loss` seconds may be lost, None for what the
    source's group allows. With `ignore_consistency` it need not be known to be in sync: writes may be lost. Where the
    source is known to be off, even one that is outdated is started then.
    """

    kind: ClassVar[str] = "failover"
    op_id: ClassVar[str] = "OP_INSTANCE_FAILOVER"
    role: ClassVar[str] = "instance"
    ignore_consistency: bool = False
    max_loss: contract.Loss | None = None

    def time_limit(self, cluster: clusters.Cluster) -> int:
        return time_limits.limit(failover_seconds(cluster.instance(self.instance)))

    def is_urgent(self) -> bool:
        """It copies nothing, and its instance is down until it ends: it waits for no resync that has a common slot."""
        return True

    def _ends_migration(self, instance: clusters.Instance) -> bool:
        return bool(instance.moving) and (instance.moving, instance.primary_node) == (self.source, self.target)

    def _contacted(self) -> tuple[str, ...]:
        # Whether its source still runs anything, the BMC of a source that is not contacted says.
        return (self.target,)

    def check_facts(self, cluster: clusters.Cluster, facts: contract.Facts) -> contract.Start:
        """What the play is told beside the configuration: it asks the target itself what may be lost."""
        # What was planned may have waited.
        contract.refuse_silent(cluster, facts, self.target)
        return contract.Start(facts.off(self.source))

    def variables(self, cluster: clusters.Cluster) -> dict[str, Any]:
        given = failover_variables(cluster, source=self.source)
        given["ignore_consistency"] = self.ignore_consistency
        if self.max_loss is not None:
            given["max_loss"] = self.max_loss
        return super().variables(cluster) | given

    def outcome(self, value: Any) -> Any:
        return waits_for_person(value)

    def notices(self, value: Any) -> list[contract.Notice]:
        forced = value.get("forced") if isinstance(value, dict) else ""
        return [contract.Notice(str(forced), is_trouble=True)] if forced else []


def waits_for_person(value: Any) -> dict[str, Any] | None:
    """The result of a failover that waits, from the value of its run.

    It waits for a person, with why and which command ends that, or for its source to be confirmed off.
    """
    found = value if isinstance(value, dict) else {}
    if found.get(UNFENCED):
        return {UNFENCED: True}
    return {"waits": found["waits"]} if found.get("waits") else None


def failover_variables(cluster: clusters.Cluster, *, source: str) -> dict[str, Any]:
    """What the tasks of a failover take beside those of any move; a person may accept more."""
    node = cluster.node(source)
    return {
        "source_reachable": clusters.reachable(cluster, node),
        "source_oob": clusters.parameter(cluster, node, "oob_program") or "",
        "source_agent": contract.agent(cluster, node),
        "source_stated_off": known_off.is_stated_off(node),
        # What its group allows.
        "max_loss": -1,
        "ignore_consistency": False,
        # By the controller's uptime, where the daemon has followed that (`Failover.check_facts`).
        "source_off": {},
    }


def failover_seconds(instance: clusters.Instance) -> float:
    """What the steps of a failover may take."""
    return (
        time_limits.look()
        + time_limits.stop(instance)
        + time_limits.life()
        # Once to power it off, and once more to read that right before the target may write.
        + 2 * time_limits.bmcs(1)
        + time_limits.disks(instance, steps=9)
        # Once where it goes, and once more where it was if it cannot go there after all.
        + 2 * time_limits.start(instance)
        + (_adopting_seconds(instance) if instance.moving else 0.0)
    )


def _adopting_seconds(instance: clusters.Instance) -> float:
    """What it takes to record an instance where a migration that has not ended took it."""
    return (
        time_limits.find(instance, nodes=1)
        + time_limits.life()
        + time_limits.bmcs(1)
        + time_limits.disks(instance, steps=2)
    )


@dataclass(frozen=True)
class ReplaceDisks(contract.PlayOpcode):
    """Give an instance a new secondary, and remove the replica on the old one; the same node gets a new one.

    `planned` says that a planner chose the new node and checked its own rules for it: a change of group passes through
    two groups. When this starts it still answers, and is not drained. Without `planned` the node must be one that
    takes new secondaries now.
    """

    kind: ClassVar[str] = "replace_disks"
    op_id: ClassVar[str] = "OP_INSTANCE_REPLACE_DISKS"
    instance: str
    old: str
    new: str
    planned: bool = False

    def time_limit(self, cluster: clusters.Cluster) -> int:
        known = cluster.instance(self.instance)
        steps = 11 + len(self._made_elsewhere(cluster))
        return time_limits.limit(time_limits.disks(known, steps=steps), time_limits.sync(known))

    def check_facts(self, cluster: clusters.Cluster, facts: contract.Facts) -> None:
        """What was planned may have waited: its target answers now, and takes instances."""
        contract.refuse_silent(cluster, facts, self.new)

    def wants(self, cluster: clusters.Cluster) -> dict[str, Mode]:
        known = cluster.instances.get(self.instance)
        primary = () if known is None else (known.primary_node,)
        return contract.instance_at(self.instance, (*primary, self.old, self.new, *self._made_elsewhere(cluster)))

    def moot(self, cluster: clusters.Cluster) -> str:
        if self.instance not in cluster.instances:
            return removed_meanwhile(self.instance)
        instance = cluster.instance(self.instance)
        if self.old not in instance.nodes:
            return f"{instance.name} keeps no replica on {cluster.node_name(self.old)} any more"
        return left_meanwhile(cluster, instance, target=self.new)

    def hosts(self, cluster: clusters.Cluster) -> list[str]:
        return [cluster.instance(self.instance).primary_node, self.old, self.new, *self._made_elsewhere(cluster)]

    def variables(self, cluster: clusters.Cluster) -> dict[str, Any]:
        instance = cluster.instance(self.instance)
        if self.old not in instance.secondary_nodes:
            raise errors.Refused(
                f"{instance.name} has its primary, not its secondary, on {cluster.node_name(self.old)}"
            )
        if self.new != self.old and self.new in instance.nodes:
            raise errors.Refused(f"{instance.name} keeps a replica on {cluster.node_name(self.new)} already")
        single_moves.refuse_adopted(instance)
        contract.refuse_unfinished(cluster, instance)
        contract.refuse_unreachable(cluster, instance.primary_node, self.new)
        if self.new != self.old:
            left = left_replicas.left_behind(cluster, instance.uuid, self.new)
            _refuse_left_behind(cluster, left)
            if self.planned:
                single_moves.refuse_closed(cluster, target=self.new)
            else:
                single_moves.refuse_new_secondary(cluster, instance, target=self.new)
            if left is None:
                # What an earlier one made there, and did not finish, takes its room already.
                room_now.refuse_without_disk(cluster, instance, target=self.new)
        return {
            "instance": {**instance_variables(cluster, instance), "keeps_peer": False},
            "primary": contract.node_variables(cluster, instance.primary_node),
            "members": [contract.node_variables(cluster, uuid) for uuid in (instance.primary_node, self.new)],
            "old": contract.node_variables(cluster, self.old),
            "new": contract.node_variables(cluster, self.new),
            "old_reachable": clusters.reachable(cluster, cluster.node(self.old)),
            "let_go": [contract.node_variables(cluster, uuid) for uuid in self._let_go(cluster)],
            "old_generations": list(left_replicas.judged_generations(cluster, self.instance)),
            "given_up": [recording.encode(change) for change in self._given_up(cluster)],
        }

    def effects(self, cluster: clusters.Cluster) -> list[changes.Change]:
        primary = cluster.instance(self.instance).primary_node
        return [changes.InstanceNodes(self.instance, primary, (self.new,)), *self._given_up(cluster)]

    def _let_go(self, cluster: clusters.Cluster) -> list[str]:
        """The nodes (UUIDs) that may connect to the primary in place of the new secondary, as far as they answer."""
        before = dict.fromkeys((self.old, *self._made_elsewhere(cluster)))
        return [uuid for uuid in before if uuid != self.new and clusters.reachable(cluster, cluster.node(uuid))]

    def _made_elsewhere(self, cluster: clusters.Cluster) -> list[str]:
        """The nodes (UUIDs) on which replacements that did not end were to make a replica."""
        made = left_replicas.being_made(cluster, self.instance)
        return [replica.node for replica in made if replica.node != self.new and replica.node in cluster.nodes]

    def _given_up(self, cluster: clusters.Cluster) -> list[left_replicas.ReplicaLeft]:
        """That what an earlier replacement was to make on another node is left behind with this one.

        The record of another node ends the earlier one by itself. That of the same node does not, because who looks for
        an instance records the same, and knows nothing of the replica to which its primary writes.
        """
        made = left_replicas.being_made(cluster, self.instance) if self.new == self.old else ()
        return [left_replicas.ReplicaLeft(self.instance, replica.node, present=True) for replica in made]

    def about(self) -> tuple[str, ...]:
        return (self.instance,)


def _refuse_left_behind(cluster: clusters.Cluster, left: clusters.LeftBehind | None) -> None:
    """Its replica there may have writes of its own: DRBD would refuse the connection, or resync over them."""
    if left is not None and not left.is_new:
        name, node = left.instance.name, cluster.node_name(left.node)
        raise errors.Refused(
            f"{name} left a replica on {node}, which is removed once {node} answers. One that is kept may "
            "have writes of its own: if nobody needs them, run `roundsman instance repair-disks "
            f"{name} --discard {node}`. Or choose another node"
        )
