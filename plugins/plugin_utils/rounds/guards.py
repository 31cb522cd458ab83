"""Guards: what holds work back before it is planned, and what would lift it (DESIGN, "Maintenance")."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Collection

from ..cluster import cluster as clusters
from ..cluster import incidents as incident_rules
from ..cluster import known_off
from ..placement.plan import Refusal
from ..settings import instance_policy
from ..silent_nodes import dead_nodes
from . import configured, evacuation, unfinished, wording
from .basis import Basis
from .room import NOTHING_CLAIMED, Room

if TYPE_CHECKING:
    from ..cluster import incidents

MOVES_ALREADY = Refusal("", "another evacuation moves it")


def paused(cluster: clusters.Cluster, incident: incidents.Incident) -> Refusal | None:
    """While maintenance is paused, or an emergency power off stands, nothing is done for anybody."""
    if cluster.maintenance.epo is not None:
        reason, unblock = "an emergency power off stands", "the end of `roundsman cluster epo --on`"
        return _refusal(cluster, incident, reason=reason, unblock=unblock)
    settings = cluster.maintenance.settings
    if not settings.paused:
        return None
    reason = f"maintenance is paused: {wording.pause(settings)}"
    return _refusal(cluster, incident, reason=reason, unblock="the end of the pause: `roundsman resume`")


def held(
    cluster: clusters.Cluster,
    incident: incidents.Incident,
    *,
    begun: Collection[str],
    avoid: Collection[str],
    claims: unfinished.Claims,
) -> Refusal | None:
    """Why an evacuation does not go on now, save for a pause; `begun`, `avoid` and `claims` as for `capacity`."""
    return (
        unconfirmed(cluster, incident)
        or storm(cluster, incident)
        or awaited(cluster, incident, claims)
        or capacity(cluster, incident, begun=begun, avoid=avoid, claims=claims)
    )


def preceded(cluster: clusters.Cluster, incident: incidents.Incident) -> Refusal | None:
    """The death of a node comes before what it asked for; of one that is back what is left is done beside all else."""
    of_node = [each for each in cluster.maintenance.incidents if each.node == incident.node and not each.returned_at]
    deaths = [each for each in of_node if each.is_open and each.is_of_a_dead_node]
    first = incident_rules.most_invasive(deaths or of_node)
    if first is None or incident.returned_at or first.uuid == incident.uuid:
        return None
    reason, unblock = f"waits for incident {first.uuid} of the same node", f"the end of incident {first.uuid}"
    return _refusal(cluster, incident, reason=reason, unblock=unblock)


def storm(cluster: clusters.Cluster, incident: incidents.Incident) -> Refusal | None:
    """When too many nodes ask for evacuation at once, the fault is elsewhere: no evacuation work is begun.

    Too many are at least `storm_minimum` and more than `storm_fraction` of all nodes that are vm_capable and
    not offline, the nodes of open evacuations counting among these in any case.
    """
    settings = cluster.maintenance.settings
    asking = {each.node for each in cluster.maintenance.incidents if each.is_asking}
    asking &= set(cluster.nodes)
    alive = {uuid for uuid, node in cluster.nodes.items() if node.vm_capable and not node.offline}
    total = len(alive | asking)

    def is_storm(count: int) -> bool:
        return count >= settings.storm_minimum and count / total > settings.storm_fraction

    if not asking or not is_storm(len(asking)):
        return None
    allowed = next((count for count in range(len(asking) - 1, 0, -1) if not is_storm(count)), 0)
    return _refusal(
        cluster,
        incident,
        reason=f"storm: {len(asking)} of {total} nodes ask for evacuation; the fault may be elsewhere",
        unblock=f"at most {allowed} nodes asking: cancel incidents, or raise storm_fraction or storm_minimum",
    )


def unconfirmed(cluster: clusters.Cluster, incident: incidents.Incident) -> Refusal | None:
    """Nothing of a node that only fell silent is moved before its power is known to be off: fencing before failover."""
    if not incident.is_of_a_dead_node or known_off.is_known_off(cluster.nodes[incident.node]):
        return None
    node = cluster.nodes[incident.node]
    if known_off.has_lived(node):
        reason = f"{dead_nodes.lived_text(node)}: it may run its instances"
        return _refusal(cluster, incident, reason=reason, unblock=dead_nodes.to_confirm_again(cluster, node))
    reason = "its agent does not answer, and nobody has confirmed that it is off: it may run its instances"
    return _refusal(cluster, incident, reason=reason, unblock=dead_nodes.to_confirm(node))


def awaited(cluster: clusters.Cluster, incident: incidents.Incident, claims: unfinished.Claims) -> Refusal | None:
    """No node is drained before what is failed over to it off a node that is not reachable has started there."""
    if not clusters.reachable(cluster, cluster.nodes[incident.node]):
        return None
    for job in claims.jobs:
        if job.number in claims.urgent and incident.node in map(unfinished.target, job.opcodes):
            return _refusal(
                cluster,
                incident,
                reason=f"waits: job {job.number} fails an instance over to it",
                unblock=f"the end of job {job.number}",
            )
    return None


def capacity(
    cluster: clusters.Cluster,
    incident: incidents.Incident,
    *,
    begun: Collection[str],
    avoid: Collection[str],
    claims: unfinished.Claims = NOTHING_CLAIMED,
) -> Refusal | None:
    """An evacuation begins only if `capacity_reserve` instances of the standard size still fit after it; 0 is off.

    `begun` are the nodes (UUIDs) that are being left, `avoid` those that take nothing, `claims` those of unfinished
    jobs. What has begun is never held, and neither is what is down on a node that is off.
    """
    settings, node = cluster.maintenance.settings, cluster.nodes.get(incident.node)
    if not settings.capacity_reserve or incident.repair_status is not incident_rules.RepairStatus.NOTED:
        return None
    if node is not None and known_off.is_off(node):
        return None
    most = settings.capacity_reserve
    left = _left(cluster, leaving={incident.node, *begun}, avoid=avoid, claims=claims, most=most)
    if left >= settings.capacity_reserve:
        return None
    size = instance_policy.filled(cluster.cluster.ipolicy)["std"]
    said = f"{size['memory-size']} MiB of memory and {size['disk-size']} MiB of disk"
    return _refusal(
        cluster,
        incident,
        reason=f"capacity: {left} instances of {said} would fit after it, and {settings.capacity_reserve} shall",
        unblock=f"room for {settings.capacity_reserve - left} more, or a capacity_reserve of at most {left}",
    )


def _left(
    cluster: clusters.Cluster,
    *,
    leaving: Collection[str],
    avoid: Collection[str],
    claims: unfinished.Claims,
    most: int,
) -> int:
    """How many instances of the standard size fit once nodes are empty, under the limits set; counted up to `most`.

    `leaving` and `avoid` are nodes (UUIDs) that take nothing. A group in which N+1 fails takes none; what has no place
    stays where it is.
    """
    from ..placement.htools import capacity_report  # noqa: PLC0415 - NumPy, for those who ask for a reserve
    from . import configured_limits  # noqa: PLC0415 - as above

    closed = _drained(cluster, {*leaving, *avoid})
    places = _places(closed, leaving, claims)
    instances = {
        uuid: replace(instance, primary_node=places[uuid][0], secondary_nodes=places[uuid][1])
        if uuid in places
        else instance
        for uuid, instance in closed.instances.items()
    }
    emptied = configured.model_of(replace(closed, instances=instances))
    return capacity_report.standard(emptied, configured_limits.question(cluster), most=most)


def _places(
    cluster: clusters.Cluster, leaving: Collection[str], claims: unfinished.Claims
) -> dict[str, tuple[str, tuple[str, ...]]]:
    """Where the instances that leave, or that jobs move, end, by UUID."""
    basis, room = Basis(cluster), Room(cluster, claims)
    for uuid in sorted(leaving):
        kept = dict.fromkeys(room.places, MOVES_ALREADY)
        evacuation.plan(basis, uuid, failover=False, room=room, kept=kept)
    return room.places


def _drained(cluster: clusters.Cluster, closed: Collection[str]) -> clusters.Cluster:
    nodes = {uuid: replace(node, drained=node.drained or uuid in closed) for uuid, node in cluster.nodes.items()}
    return replace(cluster, nodes=nodes)


def _refusal(cluster: clusters.Cluster, incident: incidents.Incident, *, reason: str, unblock: str) -> Refusal:
    name = cluster.node_name(incident.node)
    return Refusal(name, reason, unblock, incident=incident.uuid)
