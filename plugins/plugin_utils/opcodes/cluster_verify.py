"""The opcode that looks for what is wrong with the cluster; it repairs nothing."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

from .. import out_of_sync, whereabouts
from ..cluster import cluster as clusters
from ..disks import unfinished_moves
from ..settings import host_variables
from ..silent_nodes import dead_node_settings
from . import contract, node_power, time_limits

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ..cluster.locks import Mode

AT_ONCE = 50
"""How many offline nodes are asked at the same time."""


@dataclass(frozen=True)
class ClusterVerify(contract.PlayOpcode):
    """See that helper programs are on the master candidates, and compare the nodes with what is on record of them.

    That is their power, and what runs on them: offline nodes are asked, too, which may have run on. Instances are not
    locked meanwhile, so that a node that hangs holds up no move: what differs is looked at a second time, and what jobs
    work on is not judged.

    Host variables that no run uses are named too, and so are the nodes in `differing`: by name the sentence that says
    which diagnose command a node ran instead of the cluster's, as it was known when the job was submitted. So are the
    `failed_disks` of replicas, and the replicas that are `unmeasured`, in sync and never seen so by an agent: each has
    its `node`, and the sentence as `text`. Nodes in `refused`, which no run can have as a host, are not asked: by name
    it has the reason. Offline nodes are asked all at once, as most of them do not answer.
    """

    kind: ClassVar[str] = "cluster_verify"
    differing: dict[str, str] = field(default_factory=dict)
    failed_disks: list[dict[str, str]] = field(default_factory=list)
    unmeasured: list[dict[str, str]] = field(default_factory=list)
    refused: dict[str, str] = field(default_factory=dict)

    def time_limit(self, cluster: clusters.Cluster) -> int:
        looks = len(whereabouts.hypervisors(cluster)) + len(whereabouts.replicated(cluster))
        offline = len(self._asked(_offline(cluster)))
        turns = time_limits.turns(len(self.hosts(cluster)) - offline) + time_limits.turns(offline, at_once=AT_ONCE)
        return time_limits.limit(
            turns * (1 + 2 * looks) * time_limits.look(),
            time_limits.bmcs(0),
            time_limits.bmcs(len(_with_oob(cluster))),
        )

    def wants(self, cluster: clusters.Cluster) -> dict[str, Mode]:
        nodes = {node.uuid for node in (*_with_oob(cluster), *_candidates(cluster))}
        nodes |= {node.uuid for node in (*_running(cluster), *_offline(cluster))}
        return {f"node/{uuid}": contract.SHARED for uuid in sorted(nodes)}

    def moot(self, cluster: clusters.Cluster) -> str:
        left = cluster.maintenance.left_behind
        has_work = (
            _with_oob(cluster)
            or any(_ignored(cluster).values())
            or self.differing
            or self.failed_disks
            or self.unmeasured
            or self.refused
            or _running(cluster)
            or _offline(cluster)
            or left
            or _degraded(cluster)
            or dead_node_settings.problems(cluster)
        )
        return "" if has_work else "no node has OOB, and there are no instances: there is nothing to verify"

    def hosts(self, cluster: clusters.Cluster) -> list[str]:
        reachable = (node for node in _candidates(cluster) if clusters.reachable(cluster, node))
        asked = self._asked((*reachable, *_running(cluster), *_offline(cluster)))
        return list(dict.fromkeys(node.uuid for node in asked))

    def forks(self, cluster: clusters.Cluster) -> int:
        return max(time_limits.FORKS, min(AT_ONCE, len(self._asked(_offline(cluster)))))

    def _asked(self, nodes: Iterable[clusters.Node]) -> list[clusters.Node]:
        return [node for node in nodes if node.name not in self.refused]

    def variables(self, cluster: clusters.Cluster) -> dict[str, Any]:
        targets = [node_power.bmc_variables(cluster, node) for node in _with_oob(cluster)]
        known = _candidates(cluster)
        seen = [node for node in self._asked(known) if clusters.reachable(cluster, node)]
        return {
            "targets": targets,
            "paths": _paths(cluster),
            "candidates": [node.name for node in seen],
            "unseen": {node.name: "is not contacted" for node in known if node not in seen},
            "ignored": _ignored(cluster),
            "differing": dict(self.differing),
            "left_behind": _left_behind(cluster),
            "degraded": [*_degraded(cluster), *self.failed_disks, *self.unmeasured],
            "refused": dict(self.refused),
            "running": [node.name for node in self._asked(_running(cluster))],
            "offline": [node.name for node in self._asked(_offline(cluster))],
            "not_asked": {**_not_asked(cluster), **self.refused},
            "hypervisors": whereabouts.hypervisors(cluster),
            "replicated_hypervisors": whereabouts.replicated(cluster),
            "records": whereabouts.records(cluster),
            "held": sorted(lock.partition("/")[2] for lock in self.wants(cluster)),
            "look_seconds": math.ceil(time_limits.look()),
        }


def _with_oob(cluster: clusters.Cluster) -> list[clusters.Node]:
    found = [node for node in cluster.nodes.values() if clusters.parameter(cluster, node, "oob_program") is not None]
    return sorted(found, key=lambda node: clusters.natural(node.name))


def _asked(cluster: clusters.Cluster) -> list[clusters.Node]:
    """The nodes, by name, that may run instances, whatever their role: all but those that are recorded as off."""
    able = (node for node in cluster.nodes.values() if node.vm_capable and clusters.may_have_power(cluster, node))
    return sorted(able, key=lambda node: clusters.natural(node.name)) if cluster.instances else []


def _running(cluster: clusters.Cluster) -> list[clusters.Node]:
    return [node for node in _asked(cluster) if not node.offline]


def _offline(cluster: clusters.Cluster) -> list[clusters.Node]:
    """Those that nothing else contacts: they have seconds to answer, and that they do not is nothing wrong."""
    return [node for node in _asked(cluster) if node.offline]


def _not_asked(cluster: clusters.Cluster) -> dict[str, str]:
    """By name the nodes that may run instances and are not asked what runs there, each with the reason."""
    if not cluster.instances:
        return {}
    off = (node for node in cluster.nodes.values() if node.vm_capable and not clusters.may_have_power(cluster, node))
    return {
        node.name: "a person stated that it is off" if node.off_confirmed else "it is recorded as powered off"
        for node in sorted(off, key=lambda node: clusters.natural(node.name))
    }


def _left_behind(cluster: clusters.Cluster) -> dict[str, list[str]]:
    """By node the instances (names) that left replicas there."""
    found: dict[str, list[str]] = {}
    for left in cluster.maintenance.left_behind:
        if left.is_new:
            continue
        found.setdefault(cluster.node_name(left.node), []).append(left.instance.name)
    return found


def _degraded(cluster: clusters.Cluster) -> list[dict[str, str]]:
    """The instances that are written without their secondary, or may be, each with its primary and the sentence."""
    return [
        {"node": cluster.node_name(instance.primary_node), "text": text}
        for instance in cluster.instances.values()
        for text in (
            _parted(cluster, instance),
            out_of_sync.made_text(cluster, instance),
            unfinished_moves.text(cluster, instance),
        )
        if text
    ]


def _parted(cluster: clusters.Cluster, instance: clusters.Instance) -> str:
    text = out_of_sync.parted_text(cluster, instance)
    return f"{text}: {out_of_sync.parted_step(cluster, instance)}" if text else ""


def _ignored(cluster: clusters.Cluster) -> dict[str, list[str]]:
    """By node the names of its host variables that no run uses."""
    found = {node.name: host_variables.ignored(node.hostvars) for node in cluster.nodes.values()}
    return {name: ignored for name, ignored in found.items() if ignored}


def _paths(cluster: clusters.Cluster) -> list[str]:
    programs = {clusters.parameter(cluster, node, "oob_program") or "" for node in cluster.nodes.values()}
    return sorted(program for program in programs if program.startswith("/"))


def _candidates(cluster: clusters.Cluster) -> list[clusters.Node]:
    """The master and its candidates, by name, when there is a program that they need."""
    if not _paths(cluster):
        return []
    master = cluster.cluster.master_node
    found = [node for node in cluster.nodes.values() if node.master_candidate or node.uuid == master]
    return sorted(found, key=lambda node: clusters.natural(node.name))
