"""Which incidents change, given what the nodes report and how jobs ended (seed 000, "Repair-event life cycle")."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Callable, Mapping, Optional

from . import changes, diagnosis, errors, incidents
from . import cluster as clusters


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
) -> list[changes.Change]:
    """What becomes of the incidents: failed by a job, forgotten, newly noted.

    `observed` holds the last diagnosis of nodes (by UUID); a node that is offline or removed is not observed.
    `jobs` holds the outcomes of the jobs that incidents name; a job that is not there counts as failed.
    """
    observed = {
        node: said for node, said in observed.items() if node in cluster.nodes and not cluster.nodes[node].offline
    }
    stated: list[changes.Change] = []
    left: list[incidents.Incident] = []
    for incident in cluster.maintenance.incidents:
        fate = _fate(cluster, incident, observed=observed, jobs=jobs, now=now)
        stated += fate
        if not any(isinstance(one, changes.IncidentForgotten) for one in fate):
            left.append(incident)
    for node, report in observed.items():
        known = any(one.node == node and incidents.holds(one, report) for one in left)
        if report.status is not diagnosis.Status.OK and not known:
            stated.append(changes.IncidentStands(incidents.note(report, node=node, uuid=new_uuid(), now=now)))
    return stated


def finish(cluster: clusters.Cluster, incident: incidents.Incident) -> list[changes.Change]:
    """An incident that is completed or failed stands together with its tag on the node."""
    stands: list[changes.Change] = [changes.IncidentStands(incident)]
    if incident.node in cluster.nodes:
        stands.append(changes.Tagged("node", incident.node, incident.tag, present=True))
    return stands


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
    return [changes.Tagged("node", node.uuid, incident.tag, present=False)]


def _fate(
    cluster: clusters.Cluster,
    incident: incidents.Incident,
    *,
    observed: Mapping[str, diagnosis.Diagnosis],
    jobs: Mapping[int, JobOutcome],
    now: float,
) -> list[changes.Change]:
    node = cluster.nodes.get(incident.node)
    if node is None:
        return [changes.IncidentForgotten(incident.uuid)]
    if incident.is_open:
        bad = next((one for one in incident.jobs if jobs.get(one, _GONE).succeeded is False), None)
        if bad is not None:
            reason = f"job {bad}: {jobs.get(bad, _GONE).text or 'did not succeed'}"
            return finish(cluster, incidents.fail(incident, reason, now=now))
    report = observed.get(incident.node)
    is_observed = report is not None and incidents.holds(incident, report)
    if incidents.is_forgotten(incident, observed=is_observed, tagged=incident.tag in node.tags):
        return [changes.IncidentForgotten(incident.uuid)]
    return []


_GONE = JobOutcome(succeeded=False, text="it is not in the queue any more")
