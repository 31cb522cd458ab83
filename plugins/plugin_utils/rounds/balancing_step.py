"""The last step of a round: what is left to balance once all else in it is planned."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Collection

from ..cluster import incidents
from ..placement.plan import Refusal
from . import guards, rebalancing, rounds

if TYPE_CHECKING:
    from ..cluster import cluster as clusters


def to_balance(
    cluster: clusters.Cluster, planned: rounds.RoundPlan, *, busy: Collection[str] = ()
) -> rebalancing.Question | None:
    """What is left to balance once all else in a round is planned; `busy` are objects (UUIDs) of jobs under way.

    Nothing is while `balance` is off, maintenance is paused, an emergency power off stands or there is a storm.
    """
    maintenance = cluster.maintenance
    if not maintenance.settings.balance or maintenance.settings.paused or maintenance.epo is not None:
        return None
    if any(incident.evacuates and guards.storm(cluster, incident) is not None for incident in rounds.in_order(cluster)):
        return None
    opcodes = (opcode for job in planned.jobs for opcode in job.opcodes)
    named = {value for opcode in opcodes for value in opcode.params.values() if isinstance(value, str)}
    return rebalancing.question(cluster, busy={*busy, *named})


def evacuation_before_balancing(cluster: clusters.Cluster, planned: rounds.RoundPlan) -> Refusal | None:
    """While an evacuation waits to begin nothing is balanced: what room there is, is for it."""
    begun = {job.incident for job in planned.jobs}
    for incident in rounds.in_order(cluster):
        if incident.evacuates and incident.repair_status is incidents.RepairStatus.NOTED and incident.uuid not in begun:
            name = cluster.node_name(incident.node)
            return Refusal(
                rebalancing.SUBJECT,
                f"waits: the evacuation of {name} (incident {incident.uuid}) has not begun",
                f"the beginning of the evacuation of {name}, or the end of its incident",
            )
    return None


def balanced(planned: rounds.RoundPlan, asked: rebalancing.Question, answer: rebalancing.Answer) -> rounds.RoundPlan:
    """A round's plan with its last step, the answer to `to_balance`."""
    return dataclasses.replace(
        planned,
        jobs=(*planned.jobs, *answer.jobs),
        refusals=(*planned.refusals, *answer.refusals),
        left_out=rebalancing.refusals(asked),
    )
