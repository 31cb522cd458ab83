"""A cluster of a model, for planners that read configurations: what htools' text format says can be evacuated, too."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...module_utils.domain import cluster as clusters
from ..placement.models import node_memory, policies
from . import holdings

if TYPE_CHECKING:
    from ..placement.models import model

NAME = "text"


def cluster_of(found: model.Model) -> clusters.Cluster:
    """The cluster that has the nodes and instances of a model; O(nodes + instances).

    UUIDs are the names, but for groups, which have theirs. What a node keeps for itself is chosen so that what is left
    of its memory is what htools count, the less of what is recorded and what is reported; its disk so that what is left
    is what is free. What neither runs nor should is down.
    """
    instances = {one.name: _instance(one) for one in found.instances}
    held = holdings.Holdings(instances)
    free = node_memory.free(found)
    nodes = {
        one.name: _node(one, free=free[one.name], memory=held.memory(one.name), disk=held.disk(one.name))
        for one in found.nodes
    }
    master = next((one.name for one in found.nodes if one.master), "")
    return clusters.Cluster(
        cluster=clusters.Parameters(NAME, NAME, master, tags=found.tags, ipolicy=policies.written(found.policy)),
        nodegroups={one.uuid: _group(one) for one in found.groups},
        nodes=nodes,
        instances=instances,
    )


def _group(one: model.Group) -> clusters.Group:
    return clusters.Group(
        one.uuid,
        one.name,
        alloc_policy=one.alloc_policy.value,
        networks=one.networks,
        ipolicy=policies.written(one.policy),
        tags=one.tags,
    )


def _node(one: model.Node, *, free: int, memory: int, disk: int) -> clusters.Node:
    return clusters.Node(
        uuid=one.name,
        name=one.name,
        group=one.group,
        mtotal=int(one.t_mem),
        mnode=int(one.t_mem) - memory - free,
        dtotal=one.f_disk + disk,
        ctotal=int(one.pcpus),
        offline=not node_memory.takes_instances(one),
        ndparams={
            "exclusive_storage": one.exclusive_storage,
            "spindle_count": one.spindles,
            "cpu_speed": one.cpu_speed,
        },
        tags=one.tags,
    )


def _instance(one: model.Instance) -> clusters.Instance:
    return clusters.Instance(
        uuid=one.name,
        name=one.name,
        primary_node=one.primary,
        secondary_nodes=(one.secondary,) if one.secondary else (),
        disk_template=one.template.value,
        disks=(clusters.Disk(one.disk, one.spindles),) if one.disk else (),
        memory=one.memory,
        vcpus=one.vcpus,
        admin_state="up" if one.takes_memory else "down",
        tags=one.tags,
        auto_balance=one.auto_balance,
        spindle_use=one.spindle_use,
    )
