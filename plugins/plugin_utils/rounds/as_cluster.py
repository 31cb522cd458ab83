"""A cluster of a model, for planners that read configurations: what htools' text format says can be evacuated, too."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..cluster import cluster as clusters
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
    instances = {instance.name: _instance(instance) for instance in found.instances}
    held = holdings.Holdings(instances)
    free = node_memory.free(found)
    nodes = {
        node.name: _node(node, free=free[node.name], memory=held.memory(node.name), disk=held.disk(node.name))
        for node in found.nodes
    }
    master = next((node.name for node in found.nodes if node.master), "")
    return clusters.Cluster(
        cluster=clusters.Parameters(NAME, NAME, master, tags=found.tags, ipolicy=policies.written(found.policy)),
        nodegroups={group.uuid: _group(group) for group in found.groups},
        nodes=nodes,
        instances=instances,
    )


def _group(group: model.Group) -> clusters.Group:
    return clusters.Group(
        group.uuid,
        group.name,
        alloc_policy=group.alloc_policy.value,
        networks=group.networks,
        ipolicy=policies.written(group.policy),
        tags=group.tags,
    )


def _node(node: model.Node, *, free: int, memory: int, disk: int) -> clusters.Node:
    return clusters.Node(
        uuid=node.name,
        name=node.name,
        group=node.group,
        mtotal=int(node.t_mem),
        mnode=int(node.t_mem) - memory - free,
        dtotal=node.f_disk + disk,
        ctotal=int(node.pcpus),
        offline=not node_memory.takes_instances(node),
        ndparams={
            "exclusive_storage": node.exclusive_storage,
            "spindle_count": node.spindles,
            "cpu_speed": node.cpu_speed,
        },
        tags=node.tags,
    )


def _instance(instance: model.Instance) -> clusters.Instance:
    return clusters.Instance(
        uuid=instance.name,
        name=instance.name,
        primary_node=instance.primary,
        secondary_nodes=(instance.secondary,) if instance.secondary else (),
        disk_template=instance.template.value,
        disks=(clusters.Disk(instance.disk, instance.spindles),) if instance.disk else (),
        memory=instance.memory,
        vcpus=instance.vcpus,
        admin_state="up" if instance.takes_memory else "down",
        tags=instance.tags,
        auto_balance=instance.auto_balance,
        spindle_use=instance.spindle_use,
    )
