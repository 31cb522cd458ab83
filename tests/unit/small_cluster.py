"""A cluster of four nodes in two groups, with one instance and one incident."""

from __future__ import annotations

import json
import uuid
from typing import Any

from ansible_collections.roundsman.cluster.plugins.module_utils.domain.agent import diagnosis
from ansible_collections.roundsman.cluster.plugins.plugin_utils.cluster import cluster as clusters
from ansible_collections.roundsman.cluster.plugins.plugin_utils.cluster import incidents
from ansible_collections.roundsman.cluster.plugins.plugin_utils.config import document

SAID = '{"status":"evacuate","details":{"big":123456789012345678901234567890,"long":0.1000000000000000000000000010}}'
INCIDENT = incidents.note(diagnosis.parse(SAID), node="n3", uuid="aaaa-1", now=50.0)


def node(uuid: str, name: str, **fields: object) -> clusters.Node:
    fields = {"mtotal": 4096, "dtotal": 1000, **fields}
    return clusters.Node(uuid=uuid, name=name, group="g1", **fields)  # type: ignore[arg-type]


def make(*, pool: int = 2) -> clusters.Cluster:
    """Master n1 and n2 are the candidates; i1 runs on n2 with its replica on n3."""
    found = [
        node("n1", "node1", master_candidate=True, primary_ip="192.0.2.1"),
        node("n2", "node2", master_candidate=True, hostvars={"ansible_user": "ops"}, tags=("rack:1",)),
        node("n10", "node10"),
        node("n3", "node3", ndparams={"oob_program": "/bin/oob"}),
    ]
    disks = (clusters.Disk(10), clusters.Disk(20))
    instance = clusters.Instance("i1", "inst1", "n2", ("n3",), disks=disks, memory=512, tags=("t",))
    return clusters.Cluster(
        cluster=clusters.Parameters("c", "c1", "n1", candidate_pool_size=pool, tags=("prod",)),
        nodegroups={"g1": clusters.Group("g1", "rack one"), "g2": clusters.Group("g2", "other")},
        nodes={one.uuid: one for one in found},
        instances={"i1": instance},
        maintenance=clusters.Maintenance(incidents=(INCIDENT,), round=3, jobs=(7, 8)),
        serial_no=5,
    )


def uid(name: str) -> str:
    """A UUID that stands for a name."""
    return str(uuid.uuid5(uuid.NAMESPACE_DNS, name))


def with_uuids(cluster: clusters.Cluster) -> clusters.Cluster:
    """The same cluster with UUIDs as real ones have them: `uid("n1")` in the place of n1."""
    objects = (*cluster.nodegroups, *cluster.nodes, *cluster.instances)
    short = {cluster.cluster.uuid, *objects, *(incident.uuid for incident in cluster.maintenance.incidents)}

    def replaced(value: Any) -> Any:
        if isinstance(value, dict):
            return {replaced(key): replaced(part) for key, part in value.items()}
        if isinstance(value, list):
            return [replaced(part) for part in value]
        return uid(value) if isinstance(value, str) and value in short else value

    return document.load(json.dumps(replaced(json.loads(document.dump(cluster)))).encode())
