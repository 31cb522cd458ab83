"""A round of maintenance: what is done now for every open incident, and what is not."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import TYPE_CHECKING, Callable, Collection, Iterable, Mapping

from ...module_utils.domain.agent import diagnosis
from ..cluster import cluster as clusters
from ..cluster import incidents, known_off, roles
from ..placement.plan import Plan, Refusal
from . import evacuation, guards, leaving, moving, unfinished, work
from .basis import Basis
from .room import Room
from .waves import Waves

if TYPE_CHECKING:
    from ..disks.possible_loss import Answer


@dataclass(frozen=True)
class RoundPlan:
    """The jobs of a round, what is refused, and the incidents (UUID) that have come to their end.

    `failed` has each failed incident with its reason; `notes` are the failures of nodes no longer survived; `left_out`
    are the nodes that balancing leaves out, and why.
    """

    jobs: tuple[work.Job, ...] = ()
    refusals: tuple[Refusal, ...] = ()
    completed: tuple[str, ...] = ()
    failed: tuple[tuple[str, str], ...] = ()
    notes: tuple[str, ...] = ()
    left_out: tuple[Refusal, ...] = ()


def plan(
    cluster: clusters.Cluster,
    *,
    at_work: Mapping[str, bool],
    jobs: Collection[unfinished.Job] = (),
    evidence: Mapping[str, Answer] | None = None,
    recovered: Collection[str] = (),
    unstarted: Mapping[str, Collection[str]] | None = None,
    exhausted: Mapping[str, Mapping[str, Refusal]] | None = None,
    as_if_resumed: bool = False,
) -> RoundPlan:
    """Per node the most invasive open incident is worked on; what has unfinished jobs is left alone, save what is down.

    Evacuations begin beside the unfinished `jobs` of others: the instances that these hold wait for them, the room that
    they use is taken where their instances are and where they go, and so are their places in the waves. In what begins
    together the failovers off all nodes that are not reachable come before everything that copies.

    `evidence` says of the instances (UUID) of nodes that cannot be asked whether their replicas count as in sync; one
    that does not waits. `recovered` are the nodes (UUIDs) that say Ok since an incident of them failed: in the last
    resort an instance goes to its replica there.

    `exhausted` has by incident (UUID) the instances (UUID) of which a move failed, with their refusals: nothing more of
    them is planned, and their incident fails once all else is done.

    `at_work` says of incidents (UUID) whether they have unfinished jobs; one that is missing has none. An
    incident of which any other job failed is expected to be failed already. The same cluster gives the equal plan
    again. While maintenance is paused, each incident is refused and that is all; `as_if_resumed` adds, after
    these refusals, what would be done without the pause: to be shown, never to be carried out.
    """
    known = in_order(cluster)
    draft = _Draft(
        cluster,
        known,
        at_work=at_work,
        claims=unfinished.claims(cluster, unfinished.holding(cluster, jobs)),
        evidence=evidence or {},
        recovered=recovered,
        unstarted=unstarted or {},
        exhausted=exhausted or {},
    )
    idle = [incident for incident in known if not at_work.get(incident.uuid, False)]
    pauses = [refusal for incident in idle if (refusal := guards.paused(cluster, incident)) is not None]
    draft.refuse(*pauses)
    if pauses and not as_if_resumed:
        return draft.plan
    for incident in known:
        if at_work.get(incident.uuid, False) and incident.is_of_a_dead_node:
            draft.hurry(incident)
    for incident in idle:
        held = guards.preceded(cluster, incident)
        if held is not None:
            draft.refuse(held)
        elif incident.evacuates:
            draft.evacuate(incident)
        else:
            draft.repair(incident)
    draft.complete_jobs()
    return draft.plan


def in_order(cluster: clusters.Cluster) -> list[incidents.Incident]:
    """The open incidents of known nodes: most invasive first, then older, then by the node's name."""
    known = [
        incident for incident in cluster.maintenance.incidents if incident.is_open and incident.node in cluster.nodes
    ]
    return sorted(
        known,
        key=lambda incident: (
            -incident.action.rank,
            incident.ctime,
            clusters.natural(cluster.nodes[incident.node].name),
            incident.uuid,
        ),
    )


def no_targets(cluster: clusters.Cluster) -> frozenset[str]:
    """The nodes (UUIDs) with an open or failed incident: they take no instances."""
    touched = (
        incident
        for incident in cluster.maintenance.incidents
        if incident.is_open or incident.repair_status is incidents.RepairStatus.FAILED
    )
    return frozenset(incident.node for incident in touched)


def recovered(cluster: clusters.Cluster, is_ok_since: Callable[[str, float], bool]) -> frozenset[str]:
    """The nodes (UUIDs) that are no targets only because of failed incidents, and that say Ok since these failed."""
    failed: dict[str, float] = {}
    for incident in cluster.maintenance.incidents:
        if incident.repair_status is incidents.RepairStatus.FAILED:
            failed[incident.node] = max(incident.mtime, failed.get(incident.node, 0.0))
    busy = {incident.node for incident in cluster.maintenance.incidents if incident.is_open}
    return frozenset(node for node, since in failed.items() if node not in busy and is_ok_since(node, since))


class _Draft:
    """A round plan in the making; the room and the waves are shared by all its evacuations."""

    def __init__(
        self,
        cluster: clusters.Cluster,
        known: Collection[incidents.Incident],
        *,
        at_work: Mapping[str, bool],
        claims: unfinished.Claims,
        evidence: Mapping[str, Answer],
        recovered: Collection[str],
        unstarted: Mapping[str, Collection[str]],
        exhausted: Mapping[str, Mapping[str, Refusal]],
    ) -> None:
        self.plan = RoundPlan()
        self._exhausted = exhausted
        self._cluster = cluster
        self._claims = claims
        self._room = Room(cluster, claims)
        self._waves = Waves(limit=cluster.maintenance.settings.moves_per_node)
        self._waves.count(claims)
        self._left = {
            incident.node
            for incident in cluster.maintenance.incidents
            if incident.evacuates and at_work.get(incident.uuid, False) and incident.node in cluster.nodes
        }
        avoid = no_targets(cluster) | self._left
        self._basis = Basis(cluster, avoid=avoid, recovered=recovered, evidence=evidence)
        self._evacuations: list[leaving.Evacuation] = []
        self._uuids = {instance.name: uuid for uuid, instance in cluster.instances.items()}
        self._unstarted = {
            incident.uuid: tuple(
                uuid
                for uuid in _found(cluster, incident, unstarted.get(incident.uuid, ()))
                if uuid not in exhausted.get(incident.uuid, {})
            )
            for incident in known
        }
        self._taken: dict[str, Refusal] = {}
        for incident in known:
            self._take(filter(self._is_asked, self._unstarted[incident.uuid]), by=self._evacuation(incident))
        for uuid, held_by in claims.held_by.items():
            self._take([uuid], by=self._job(held_by[0]))

    def _take(self, instances: Iterable[str], *, by: str) -> None:
        """From now on these instances (UUIDs) are kept, as something moves them."""
        self._taken |= {uuid: _waits(self._cluster.instances[uuid], by) for uuid in instances}

    def _job(self, job: unfinished.Job) -> str:
        known = (each for each in self._cluster.maintenance.incidents if each.uuid == job.incident and each.evacuates)
        incident = next(known, None)
        return f"job {job.number}" if incident is None else f"job {job.number} of {self._evacuation(incident)}"

    def _is_asked(self, instance: str) -> bool:
        """Whether the primary of an instance (UUID) can be asked; else another incident is free to move it."""
        primary = self._cluster.node(self._cluster.instance(instance).primary_node)
        return clusters.answers(self._cluster, primary)

    def refuse(self, *refusals: Refusal) -> None:
        self.plan = dataclasses.replace(self.plan, refusals=(*self.plan.refusals, *refusals))

    def _submit(self, *jobs: work.Job) -> None:
        self.plan = dataclasses.replace(self.plan, jobs=(*self.plan.jobs, *jobs))

    def _complete(self, incident: incidents.Incident) -> None:
        self.plan = dataclasses.replace(self.plan, completed=(*self.plan.completed, incident.uuid))

    def _end(self, incident: incidents.Incident, refusals: Collection[Refusal]) -> None:
        """Nothing is left to be done: it is completed, or fails for what was not."""
        if not refusals:
            self._complete(incident)
            return
        reason = "; ".join(f"{refusal.subject}: {refusal.reason}" for refusal in refusals)
        self.plan = dataclasses.replace(self.plan, failed=(*self.plan.failed, (incident.uuid, reason)))

    def repair(self, incident: incidents.Incident) -> None:
        """A live repair is its command, once; without one there is nothing to run."""
        node = self._cluster.nodes[incident.node]
        if not incident.command or incident.repair_status is incidents.RepairStatus.PENDING:
            self._complete(incident)
        elif node.uuid not in self._basis.reachable:
            self.refuse(_refusal(node, incident, "it is not reachable: the live repair waits", "reachable again"))
        else:
            params = {"node": node.uuid, "command": incident.command, "input": incident.original}
            if incident.digest:
                params["input_digest"] = incident.digest
            reason = f"live repair of {node.name}: {incident.command}"
            opcode = work.Opcode("repair_command", params)
            self._submit(work.Job(f"repair:{node.name}", (opcode,), after=(), incident=incident.uuid, reason=reason))

    def evacuate(self, incident: incidents.Incident) -> None:
        """Drain, move every instance, set offline; or the reasons why not yet, or why never.

        Of a dead node that is back nothing more is moved: only what lost moves may have left down is started.
        """
        node = self._cluster.nodes[incident.node]
        is_master = node.uuid == self._cluster.cluster.master_node
        is_started = not self._unstarted[incident.uuid]
        is_empty = node.offline and not self._room.held(node.uuid) and not self._farewell(node)
        if is_started and (is_empty or incident.returned_at):
            self._end(incident, self._exhausted.get(incident.uuid, {}).values())
            return
        if incident.returned_at:
            self._submit(*self._starts(node, incident))
            return
        held = guards.held(self._cluster, incident, begun=self._left, avoid=self._basis.avoid, claims=self._claims)
        if held is not None:
            self.refuse(held)
            return
        drain = () if is_master or node.drained or node.offline else (_drain(node, incident),)
        plan = self._moves(node, incident)
        starts = self._starts(node, incident)
        is_idle, is_last = not (drain or starts or plan.moves), not plan.refusals and not self._unstarted[incident.uuid]
        self.refuse(*(dataclasses.replace(refusal, incident=incident.uuid) for refusal in plan.refusals))
        if plan.refusals:
            if is_idle and all(self._is_final(refusal, node, incident) for refusal in plan.refusals):
                others = self._exhausted.get(incident.uuid, {}).values()
                self._end(incident, dict.fromkeys((*plan.refusals, *others)))
        elif is_master and is_idle:
            text = f"{node.name} is the master: it waits for the master role to move"
            self.refuse(_refusal(node, incident, text, f"no longer the master: {roles.TO_MOVE_MASTER}"))
        maker = self._maker(node, incident, after=tuple(job.key for job in drain))
        last = self._last(node) if is_last and not is_master else ()
        begun = leaving.Evacuation(node.name, incident.uuid, (*drain, *starts), plan.moves, last, maker)
        self._evacuations.append(begun)
        self._left |= {node.uuid} if begun.has_begun else set()
        self._take((self._uuids[move.instance] for move in plan.moves), by=self._evacuation(incident))

    def _is_final(self, refusal: Refusal, node: clusters.Node, incident: incidents.Incident) -> bool:
        """Whether nothing is to be expected of what is refused.

        It is for good; or beside a move that failed it is a replica that no job holds, or it waits for a person, who
        hears of an instance whose failover failed as soon as no other one that is down may be started.
        """
        uuid = self._uuids.get(refusal.subject, "")
        if refusal.permanent or not self._exhausted.get(incident.uuid):
            return refusal.permanent
        instance, answer = self._cluster.instances.get(uuid), self._basis.evidence.get(uuid)
        is_replica = instance is not None and instance.primary_node != node.uuid and uuid not in self._taken
        return is_replica or (answer is not None and answer.keeps_back)

    def hurry(self, incident: incidents.Incident) -> None:
        """Beside its jobs at work, which may copy for hours, start what is still down on a dead node and can be now."""
        node = self._cluster.nodes[incident.node]
        is_gone = not incident.returned_at and node.uuid not in self._basis.reachable
        if not is_gone or guards.unconfirmed(self._cluster, incident) or guards.storm(self._cluster, incident):
            return
        plan = self._moves(node, incident, which=lambda one: self._is_down(one, node))
        maker = self._maker(node, incident)
        urgent = tuple(move for move in plan.moves if maker.is_urgent(move))
        self.refuse(*(dataclasses.replace(refusal, incident=incident.uuid) for refusal in plan.refusals))
        self._evacuations.append(leaving.Evacuation(node.name, incident.uuid, (), urgent, (), maker))
        self._take((self._uuids[move.instance] for move in urgent), by=self._evacuation(incident))

    def _is_down(self, instance: clusters.Instance, node: clusters.Node) -> bool:
        return instance.primary_node == node.uuid and instance.uuid not in self._taken

    def _maker(self, node: clusters.Node, incident: incidents.Incident, *, after: tuple[str, ...] = ()) -> moving.Jobs:
        return moving.Jobs(
            self._cluster,
            failover=_fails_over(incident),
            after=after,
            incident=incident.uuid,
            reason=f"evacuating {node.name}: moving {{}} away",
            waves=self._waves,
        )

    def complete_jobs(self) -> None:
        """Add the jobs of the evacuations, which are more invasive than all others, and so come before them."""
        jobs = leaving.jobs_of(self._evacuations)
        self.plan = dataclasses.replace(self.plan, jobs=(*jobs, *self.plan.jobs))

    def _moves(
        self,
        node: clusters.Node,
        incident: incidents.Incident,
        *,
        which: Callable[[clusters.Instance], bool] | None = None,
    ) -> Plan:
        plan = evacuation.plan(
            self._basis,
            node.uuid,
            failover=_fails_over(incident),
            room=self._room,
            which=which,
            kept={**self._exhausted.get(incident.uuid, {}), **self._taken},
        )
        notes = dict.fromkeys((*self.plan.notes, *plan.notes))
        self.plan = dataclasses.replace(self.plan, notes=tuple(notes))
        return plan

    def _evacuation(self, incident: incidents.Incident) -> str:
        return f"the evacuation of {self._cluster.node_name(incident.node)} (incident {incident.uuid})"

    def _starts(self, node: clusters.Node, incident: incidents.Incident) -> tuple[work.Job, ...]:
        """The starts of the instances that a lost move may have left down, on primaries that can be asked.

        An instance that a migration which has not ended may have taken to the node is failed over to its primary.
        """
        jobs = []
        for uuid in self._unstarted[incident.uuid]:
            instance = self._cluster.instance(uuid)
            primary = self._cluster.node(instance.primary_node)
            held = self._taken[uuid] if uuid in self._claims.held_by else None
            if held is not None:
                self.refuse(dataclasses.replace(held, incident=incident.uuid))
                continue
            if not self._is_asked(uuid):
                text = f"it may be down on {primary.name}, which does not answer"
                self.refuse(Refusal(instance.name, text, f"{primary.name} reachable again", incident=incident.uuid))
                continue
            opcode = work.Opcode("startup", {"instance": uuid})
            waits = self._basis.evidence.get(uuid)
            if instance.moving and waits is not None and waits.keeps_back:
                self.refuse(Refusal(instance.name, waits.reason, waits.unblock, incident=incident.uuid))
                continue
            if instance.moving == node.uuid:
                opcode = work.Opcode("failover", {"instance": uuid, "source": node.uuid, "target": primary.uuid})
            reason = f"evacuating {node.name}: starting {instance.name} on {primary.name}, as its move was lost"
            jobs.append(work.Job(f"start:{instance.name}", (opcode,), after=(), incident=incident.uuid, reason=reason))
        return tuple(jobs)

    def _last(self, node: clusters.Node) -> tuple[work.Opcode, ...]:
        role = work.Opcode("node_role", {"node": node.uuid, "offline": True, "empty": True})
        return (*(() if node.offline else (role,)), *self._farewell(node))

    def _farewell(self, node: clusters.Node) -> tuple[work.Opcode, ...]:
        """Power off, where the policy says so, the node has OOB and is not known to be off already."""
        has_oob = clusters.parameter(self._cluster, node, "oob_program") is not None
        if not self._cluster.maintenance.settings.power_off_evacuated or not has_oob or known_off.is_off(node):
            return ()
        return (work.Opcode("power", {"node": node.uuid, "command": "off", "empty": True}),)


def _waits(instance: clusters.Instance, by: str) -> Refusal:
    return Refusal(instance.name, f"waits: {instance.name} is moved by {by}", f"the end of {by}")


def _found(cluster: clusters.Cluster, incident: incidents.Incident, unstarted: Collection[str]) -> tuple[str, ...]:
    """The instances (UUIDs) that may be down on their primary, or on the node of an incident by a lost migration."""
    moving = (
        instance.uuid
        for instance in cluster.instances.values()
        if incident.evacuates and not incident.returned_at and instance.moving == incident.node
    )
    return tuple(dict.fromkeys((*(uuid for uuid in unstarted if uuid in cluster.instances), *moving)))


def _fails_over(incident: incidents.Incident) -> bool:
    """Whether no live migration is trusted any more."""
    return incident.action is diagnosis.Status.EVACUATE_FAILOVER


def _drain(node: clusters.Node, incident: incidents.Incident) -> work.Job:
    opcode = work.Opcode("node_role", {"node": node.uuid, "drained": True})
    reason = f"evacuating {node.name}: no new instances go there"
    return work.Job(f"drain:{node.name}", (opcode,), after=(), incident=incident.uuid, reason=reason)


def _refusal(node: clusters.Node, incident: incidents.Incident, reason: str, cure: str) -> Refusal:
    return Refusal(node.name, reason, f"{node.name} {cure}", incident=incident.uuid)
