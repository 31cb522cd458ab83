"""The evacuation of a node: one plan over all its instances (DESIGN, "Maintenance: from report to tag")."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Callable, Collection, Mapping

from ...module_utils.domain import cluster as clusters
from . import survival, targets, ways, work
from .holdings import disk_per_copy, memory_in_use

if TYPE_CHECKING:
    from ...module_utils.domain.evidence import Evidence
    from .room import Room
    from .waves import Waves


@dataclass(frozen=True)
class EvacuationPlan:
    """The moves of one evacuation, its refusals, and the failures the cluster no longer survives then."""

    jobs: tuple[work.Job, ...] = ()
    refusals: tuple[work.Refusal, ...] = ()
    failures_no_longer_survived: tuple[str, ...] = ()


def plan(
    cluster: clusters.Cluster,
    node_uuid: str,
    *,
    failover: bool,
    avoid: Collection[str],
    taken: Mapping[str, str],
    room: Room,
    waves: Waves,
    after: tuple[str, ...] = (),
    incident: str | None = None,
    which: Callable[[clusters.Instance], bool] | None = None,
    leaving: Collection[str] = (),
    evidence: Mapping[str, Evidence] | None = None,
) -> EvacuationPlan:
    """Every instance leaves by one job or is refused; no job counts on room that another one frees.

    An instance whose replica finds no room leaves by a job, and its replica is refused.

    `failover` forbids live migration; `avoid` are nodes that are no targets; `taken` are the instances (UUID) that
    another evacuation of the round moves, each with that evacuation in words; every job comes after `after`; `which`
    says which instances are meant, by default all; `leaving` are the nodes that the same plan empties; `evidence` as
    for `rounds.plan`. `room` and
    `waves` are those of the round and are used up. Targets are chosen instance by instance, by the score of the cluster
    after each (`prospects.py`); one choice costs O(nodes² + instances).
    """
    node = cluster.node(node_uuid)
    lookout = targets.Targets(cluster, room=room, avoid={*avoid, node.uuid}, leaving=leaving)
    out = ways.Ways(cluster, node, failover=failover, lookout=lookout, room=room, evidence=evidence or {})
    n_plus_1 = survival.Survival(room)
    jobs: list[work.Job] = []
    refusals: list[work.Refusal] = []
    meant = [one for one in room.held(node.uuid) if which is None or which(one)]
    for instance in in_order(meant, node=node.uuid):
        way = _waits(instance, taken) or out.of(instance)
        kept = way if isinstance(way, ways.Obstruction) else way.left
        if kept is not None:
            refusals.append(
                work.Refusal(instance.name, kept.reason, kept.unblock, incident=incident, permanent=kept.permanent)
            )
        if isinstance(way, ways.Obstruction):
            continue
        at = _nodes(instance, way)
        n_plus_1.watch(at)
        room.move(instance, primary=way.primary, secondaries=way.secondaries)
        key = f"move:{instance.name}"
        own, others = waves.admit(key, nodes=at, incident=incident)
        reason = "; ".join(filter(None, [f"evacuating {node.name}: moving {instance.name} away", way.why]))
        jobs.append(work.Job(key, way.opcodes, after=(*after, *own), incident=incident, reason=reason, behind=others))
    return EvacuationPlan(tuple(jobs), tuple(refusals), n_plus_1.lost())


def in_order(instances: Collection[clusters.Instance], *, node: str) -> list[clusters.Instance]:
    """Replicated primaries, whose target is given, then other primaries, then replicas; large before small."""

    def place(one: clusters.Instance) -> tuple[object, ...]:
        kind = 2 if one.primary_node != node else 0 if one.disk_template == "drbd" else 1
        return kind, -memory_in_use(one), -disk_per_copy(one), clusters.natural(one.name), one.uuid

    return sorted(instances, key=place)


def _waits(instance: clusters.Instance, taken: Mapping[str, str]) -> ways.Obstruction | None:
    if instance.uuid not in taken:
        return None
    by = taken[instance.uuid]
    return ways.Obstruction(f"waits: {instance.name} is moved by {by}", f"the end of {by}")


def _nodes(instance: clusters.Instance, way: ways.Way) -> tuple[str, ...]:
    return tuple(dict.fromkeys((*instance.nodes, way.primary, *way.secondaries)))
