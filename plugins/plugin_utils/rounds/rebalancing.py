"""The balancing step of a round: the first moves to a better placement, on nodes that nothing else touches (seed 000).

A question is asked in no time and says all that the answer depends on; to answer it takes a search, for which NumPy is
loaded then. Each node group is balanced by itself. Of the plan that was found only the first moves are done, those that
need not wait for others, and more only until they gain what is asked for: the next round looks again, and whatever
happens meanwhile waits no longer than it has to.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ...module_utils.domain.values import errors
from ..cluster import cluster as clusters
from ..cluster import incidents
from ..placement.models import dynamic_load
from ..placement.plan import Refusal
from . import configured, measured, moving

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from ..placement.balancing import balancing, turns
    from ..placement.models import model
    from ..placement.plan import Move
    from ..placement.score import scoring
    from ..placement.score import state as states
    from . import work

SUBJECT = "balancing"
LEAST = 1e-6
"""A step that gains less than this is none, whatever the threshold is."""
HALVINGS = 2
MOST_PAIRS = 40
ENOUGH = 60
"""So many instances a search for one round moves: it takes about a second for 4,000 instances on 200 nodes."""
NAMED = 3
"""So many instances are named, the others are counted."""


@dataclass(frozen=True)
class Question:
    """What is to be balanced: the cluster without what does not matter, and who takes no part.

    left_out: nodes (UUIDs), each with the reason; instances: those (UUIDs) that stay where they are; measured: what
    instances use, None where only what is allotted counts.
    """

    cluster: clusters.Cluster
    left_out: Mapping[str, str]
    instances: frozenset[str] = frozenset()
    measured: measured.Measured | None = None


@dataclass(frozen=True)
class Answer:
    """The jobs of the step, and why there is none where there could be."""

    jobs: tuple[work.Job, ...] = ()
    refusals: tuple[Refusal, ...] = ()


def question(cluster: clusters.Cluster, *, busy: Collection[str]) -> Question:
    """The question of a round; `busy` are nodes and instances (UUIDs) that jobs, submitted or planned, are about.

    The nodes of these jobs and instances take no part, nor those to which nothing may go or that an incident touches,
    be it open or failed.
    """
    held = frozenset(uuid for uuid in busy if uuid in cluster.instances)
    nodes = {uuid for uuid in busy if uuid in cluster.nodes}
    nodes |= {uuid for instance in held for uuid in cluster.instances[instance].nodes}
    left_out = dict.fromkeys(sorted(nodes), "jobs of this round, or of others, are about it")
    left_out |= {node.uuid: why for node in cluster.nodes.values() if (why := _unfit(cluster, node))}
    for incident in cluster.maintenance.incidents:
        if incident.is_open or incident.repair_status is incidents.RepairStatus.FAILED:
            left_out[incident.node] = f"its incident {incident.uuid} is {incident.repair_status.value}"
    bare = clusters.Maintenance(settings=cluster.maintenance.settings)
    asked = dataclasses.replace(cluster, maintenance=bare, filters={}, serial_no=0, ctime=0.0, mtime=0.0)
    return Question(asked, {uuid: why for uuid, why in left_out.items() if uuid in cluster.nodes}, held)


def refusals(asked: Question) -> tuple[Refusal, ...]:
    """Each node that takes no part, and why."""
    return tuple(
        Refusal(
            asked.cluster.node_name(uuid),
            f"balancing leaves it out: {why}",
            f"{asked.cluster.node_name(uuid)} in use again, without an incident or a job",
        )
        for uuid, why in asked.left_out.items()
    )


def paired(cluster: clusters.Cluster) -> list[str]:
    """The instances (names) that only change roles, because their replicated disks were adopted."""
    found = [
        instance.name for instance in cluster.instances.values() if instance.secondary_nodes and instance.adopted_disks
    ]
    return sorted(found, key=clusters.natural)


def paired_text(names: Sequence[str]) -> str:
    """That the replicas of these instances are not balanced, and why."""
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    return (
        f"the replicas of {', '.join(names[:NAMED])}{more} stay on their nodes: their disks were adopted, and "
        "Roundsman does not replace adopted disks"
    )


def _unfit(cluster: clusters.Cluster, node: clusters.Node) -> str:
    """Why nothing may go to a node, or nothing."""
    if not clusters.reachable(cluster, node):
        return "it is not reachable"
    if clusters.is_silent(cluster, node):
        return "it did not answer when it was last asked"
    if node.drained:
        return "it is drained"
    return "" if node.vm_capable else "it is not vm_capable"


def answer(asked: Question) -> Answer:
    """The jobs of the balancing step; the same question has the same answer.

    The search looks at all moves a few times, O(instances * nodes) each, and at a bounded number of moves again.
    """
    from ..placement.score import state  # noqa: PLC0415 - NumPy, for those who need it

    try:
        searched_model, notes = _model(asked)
        searched = state.build(searched_model)
        groups = sorted(asked.cluster.nodegroups.values(), key=lambda group: clusters.natural(group.name))
        bound = paired(asked.cluster)
        jobs = tuple(job for group in groups for job in _jobs(asked, searched, group, bound))
        return Answer(jobs, (*notes, *_replicas_that_stay(asked.cluster, bound)))
    except errors.RoundsmanError as error:
        # What cannot be balanced keeps no node from being evacuated.
        refusal = Refusal(SUBJECT, str(error), "a change of that")
        return Answer(refusals=(refusal,))


def _model(asked: Question) -> tuple[model.Model, tuple[Refusal, ...]]:
    """The cluster with what is measured of it, and why that is not used where it should be."""
    found = configured.model_of(asked.cluster)
    if asked.measured is None:
        return found, ()
    if asked.measured.missing:
        why, cure = measured.told(asked.measured.missing), "reports of their agents: agent_port, the role node_agent"
        return found, (Refusal(SUBJECT, why, cure),)
    return dynamic_load.loaded(found, asked.measured.loads), ()


def _replicas_that_stay(cluster: clusters.Cluster, bound: Sequence[str]) -> tuple[Refusal, ...]:
    """That adopted replicas are not moved, where others may be; `bound` are the instances (names) that have some."""
    if not bound or not cluster.maintenance.settings.balance_disk_moves:
        return ()
    cure = "another secondary for each, made with drbdadm and put on record"
    return (Refusal(SUBJECT, paired_text(bound), cure),)


def _jobs(asked: Question, searched: states.State, group: clusters.Group, bound: Sequence[str]) -> tuple[work.Job, ...]:
    from ..placement.balancing import balancing, candidates  # noqa: PLC0415 - NumPy, for those who need it
    from ..placement.score import scoring  # noqa: PLC0415 - NumPy, for those who need it

    cluster, settings = asked.cluster, asked.cluster.maintenance.settings
    without = frozenset(cluster.node_name(uuid) for uuid in asked.left_out)
    kept = frozenset(
        instance.name
        for instance in cluster.instances.values()
        if instance.is_bound or instance.uuid in asked.instances
    )
    options = balancing.Options(
        most_pairs=MOST_PAIRS,
        halvings=HALVINGS,
        enough=ENOUGH,
        repairs=0,
        allowed=candidates.Allowed(disk_moves=settings.balance_disk_moves, kept=kept, paired=frozenset(bound)),
    )
    found = balancing.balance(searched, group=group.name, without=without, options=options)
    where = scoring.scope(searched, group=group.name, without=without)
    moves = _first(searched, where, found, threshold=max(LEAST, settings.balance_threshold))
    return moving.Jobs(cluster, reason=f"balancing {group.name}: moving {{}}").make_all(moves)


def _first(
    searched: states.State, where: scoring.Scope, found: balancing.Balance, *, threshold: float
) -> tuple[Move, ...]:
    """The moves of the first waves that gain the threshold together; none if all of them do not."""
    from ..placement.score import oracle, scoring  # noqa: PLC0415 - NumPy, for those who need it

    at = {**searched.nodes.index, "": -1}
    turns = found.schedule.turns
    for turn in turns:
        instance = searched.cluster.instances[searched.by_instance[turn.move.instance]]
        _put(searched, instance.name, (at[instance.primary], at[instance.secondary]))
    before = oracle.total(found.before)
    for wave in range(found.schedule.waves):
        for turn in turns:
            if turn.wave == wave:
                _put(searched, turn.move.instance, (at[turn.primary], at[turn.secondary]))
        if before - scoring.score(searched, where) >= threshold:
            return tuple(turn.move for turn in turns if turn.wave <= wave)
    return ()


def _put(searched: states.State, name: str, place: turns.Place) -> None:
    searched.move(searched.by_instance[name], primary=place[0], secondary=place[1])
