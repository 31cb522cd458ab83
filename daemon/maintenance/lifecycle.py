"""Which incidents change, given what the nodes report and how jobs ended (seed 000, "Repair-event life cycle")."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Callable, Collection, Mapping, Optional

from ...plugins.module_utils.domain.agent import diagnosis
from ...plugins.module_utils.domain.values import errors
from ...plugins.plugin_utils.cluster import changes, incidents, tagging
from ...plugins.plugin_utils.cluster import cluster as clusters


@dataclass(frozen=True)
class JobOutcome:
    """How a job stands: `succeeded` is None while it has not ended."""

    succeeded: Optional[bool]
    text: str = ""


def reconcile(
    cluster: clusters.Cluster,
    *,
    observed: Mapping[str, diagnosis.Diagnosis],
    jobs: Mapping[int, JobOutcome],
    now: float,
    new_uuid: Callable[[], str],
    dead: Optional[Mapping[str, diagnosis.Diagnosis]] = None,
    returned: Collection[str] = frozenset(),
) -> list[changes.Change]:
    """What becomes of the incidents: failed by a job, forgotten, newly noted.

    `observed` holds the last diagnosis of nodes (by UUID); a node that is offline or removed is not observed. A node
    without one, because its report is missing or was signed with another key, has said nothing new.
    `dead` holds the reports that are made for dead nodes, `returned` the incidents (UUIDs) whose nodes have reported
    since they began. `jobs` holds the outcomes of the jobs that incidents name; one that is not there counts as failed.
    """
    seen = _Seen(_in_service(cluster, observed), _in_service(cluster, dead or {}), returned)
    stated: list[changes.Change] = []
    left: list[incidents.Incident] = []
    for incident in cluster.maintenance.incidents:
        fate = _fate(cluster, incident, seen=seen, jobs=jobs, now=now)
        stated += fate
        stands = [change.incident for change in fate if isinstance(change, changes.IncidentStands)]
        if not any(isinstance(change, changes.IncidentForgotten) for change in fate):
            left.append(stands[0] if stands else incident)
    for node, report in [*seen.own.items(), *seen.dead.items()]:
        known = any(kept.node == node and incidents.holds(kept, report) for kept in left)
        if report.status is not diagnosis.Status.OK and not known:
            noted = incidents.note(report, node=node, uuid=new_uuid(), now=now)
            left.append(noted)
            stated.append(changes.IncidentStands(noted))
    return stated


def finish(cluster: clusters.Cluster, incident: incidents.Incident) -> list[changes.Change]:
    """An incident that is completed or failed stands together with its tag on the node."""
    stands: list[changes.Change] = [changes.IncidentStands(incident)]
    if incident.node in cluster.nodes:
        stands.append(tagging.Tagged("node", incident.node, incident.tag, present=True))
    return stands


def cancel(cluster: clusters.Cluster, uuid: str, *, now: float) -> list[changes.Change]:
    """Cancel an incident; a completed or failed one loses its tag on the node.

    Raises:
        InvalidInput: there is no such incident. Refused: it is canceled already.
    """
    incident = cluster.incident(uuid)
    stated: list[changes.Change] = [changes.IncidentStands(incidents.cancel(incident, now=now))]
    node = cluster.nodes.get(incident.node)
    if node is not None and incident.tag in node.tags:
        stated.append(tagging.Tagged("node", node.uuid, incident.tag, present=False))
    return stated


def acknowledge(cluster: clusters.Cluster, uuid: str) -> list[changes.Change]:
    """Take an incident's tag from its node.

    Raises:
        InvalidInput: there is no such incident. Refused: it is not finished, or was acknowledged already.
    """
    incident = cluster.incident(uuid)
    node = cluster.node(incident.node)
    if incident.repair_status not in {incidents.RepairStatus.COMPLETED, incidents.RepairStatus.FAILED}:
        raise errors.Refused(
            f"incident {incident.uuid} is {incident.repair_status.value}: "
            "only a completed or failed one is acknowledged"
        )
    if incident.tag not in node.tags:
        raise errors.Refused(f"incident {incident.uuid} was acknowledged already; it is still observed on {node.name}")
    return [tagging.Tagged("node", node.uuid, incident.tag, present=False)]


def _fate(
    cluster: clusters.Cluster,
    incident: incidents.Incident,
    *,
    seen: _Seen,
    jobs: Mapping[int, JobOutcome],
    now: float,
) -> list[changes.Change]:
    node = cluster.nodes.get(incident.node)
    if node is None:
        return [changes.IncidentForgotten(incident.uuid)]
    if incident.is_open:
        bad = next((job for job in incident.jobs if jobs.get(job, _GONE).succeeded is False), None)
        if bad is not None:
            reason = f"job {bad}: {jobs.get(bad, _GONE).text or 'did not succeed'}"
            return finish(cluster, incidents.fail(incident, reason, now=now))
    is_observed = not node.offline and not seen.is_over(incident)
    if incidents.is_forgotten(incident, observed=is_observed, tagged=incident.tag in node.tags):
        return [changes.IncidentForgotten(incident.uuid)]
    if seen.has_come_back(incident):
        return [changes.IncidentStands(incidents.come_back(incident, now=now))]
    return []


@dataclass(frozen=True)
class _Seen:
    """The last diagnoses of nodes, those made for dead ones, and the incidents whose nodes have reported since."""

    own: Mapping[str, diagnosis.Diagnosis]
    dead: Mapping[str, diagnosis.Diagnosis]
    returned: Collection[str]

    def is_over(self, incident: incidents.Incident) -> bool:
        """Whether something positive says that an incident is no longer observed; silence never does."""
        node = incident.node
        reports = [said[node] for said in (self.own, self.dead) if node in said]
        if any(incidents.holds(incident, report) for report in reports):
            return False
        if incident.is_of_a_dead_node:
            return incident.returned_at > 0 or incident.uuid in self.returned
        return node in self.own

    def has_come_back(self, incident: incidents.Incident) -> bool:
        """Whether an incident is of a dead node that has reported again for the first time since."""
        return incident.is_of_a_dead_node and not incident.returned_at and self.is_over(incident)


def _in_service(
    cluster: clusters.Cluster, said: Mapping[str, diagnosis.Diagnosis]
) -> Mapping[str, diagnosis.Diagnosis]:
    nodes = cluster.nodes
    return {node: report for node, report in said.items() if node in nodes and not nodes[node].offline}


_GONE = JobOutcome(
    succeeded=False,
    text="it is not on this controller; check the node and its instances, then acknowledge the incident to retry",
)
