"""The planner's model of a configured cluster: what is promised, not what is measured."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...module_utils.domain.values import errors
from ..cluster import cluster as clusters
from ..placement.models import model, policies
from ..settings import instance_policy
from . import holdings

if TYPE_CHECKING:
    from collections.abc import Mapping

RUNNING = "running"
DOWN = "ADMIN_down"
PLENTY = 1_000_000
"""CPUs or spindles of a node that nobody told: they never are the limit."""


def model_of(cluster: clusters.Cluster) -> model.Model:
    """The model of a configuration; O(nodes + instances).

    A node that is drained, not vm_capable, not reachable or silent is offline to the planner: nothing goes there.
    Free memory and disk are what no instance on record takes. A node of which the CPUs (`ctotal`) or the spindles
    (`spindle_count`) are not told is never full of them. Nodes and instances are in natural order of their names.

    Raises:
        InvalidInput: an instance has a disk template that no planner knows.
    """
    held = holdings.Holdings(cluster.instances)
    nodes = sorted(cluster.nodes.values(), key=lambda node: clusters.natural(node.name))
    instances = sorted(cluster.instances.values(), key=lambda instance: clusters.natural(instance.name))
    names = {node.uuid: node.name for node in nodes}
    return model.Model(
        groups=tuple(_group(cluster, group) for group in cluster.nodegroups.values()),
        nodes=tuple(_node(cluster, node, held) for node in nodes),
        instances=tuple(instance_of(instance, names) for instance in instances),
        tags=cluster.cluster.tags,
        policy=_policy(cluster.cluster.ipolicy),
    )


def _group(cluster: clusters.Cluster, group: clusters.Group) -> model.Group:
    return model.Group(
        group.name,
        group.uuid,
        model.AllocPolicy(group.alloc_policy),
        group.tags,
        networks=group.networks,
        policy=_policy(cluster.cluster.ipolicy, group.ipolicy),
    )


def _policy(*stated: instance_policy.Policy) -> model.Policy:
    return policies.parse(instance_policy.filled(*stated))


def _node(cluster: clusters.Cluster, node: clusters.Node, held: holdings.Holdings) -> model.Node:
    answers = clusters.answers(cluster, node)
    takes = answers and node.vm_capable and not node.drained
    exclusive = bool(clusters.inherited(cluster, node, "exclusive_storage"))
    spindles = int(clusters.inherited(cluster, node, "spindle_count") or 0)
    return model.Node(
        name=node.name,
        group=node.group,
        t_mem=node.mtotal,
        n_mem=node.mnode,
        f_mem=node.mtotal - node.mnode - held.memory(node.uuid),
        t_disk=node.dtotal,
        f_disk=node.dtotal - held.disk(node.uuid),
        pcpus=node.ctotal or PLENTY,
        offline=not takes,
        master=node.uuid == cluster.cluster.master_node,
        spindles=spindles or PLENTY,
        tags=node.tags,
        exclusive_storage=exclusive,
        free_spindles=(spindles or PLENTY) - held.spindles(node.uuid) if exclusive else 0,
        cpu_speed=float(clusters.inherited(cluster, node, "cpu_speed") or 1),
    )


def instance_of(instance: clusters.Instance, names: Mapping[str, str]) -> model.Instance:
    """An instance as it is planned with; `names` are those of nodes, by their UUIDs."""
    spindles = [disk.spindles for disk in instance.disks if disk.spindles is not None]
    return model.Instance(
        name=instance.name,
        memory=instance.memory,
        disk=instance.disk_size,
        vcpus=instance.vcpus,
        status=RUNNING if instance.takes_memory else DOWN,
        auto_balance=instance.auto_balance,
        primary=names[instance.primary_node],
        secondary=names[instance.secondary_nodes[0]] if instance.secondary_nodes else "",
        template=_template(instance),
        tags=instance.tags,
        spindle_use=instance.spindle_use,
        spindles=sum(spindles) if len(spindles) == len(instance.disks) else None,
        networks=tuple(dict.fromkeys(nic.network for nic in instance.nics if nic.network)),
    )


def _template(instance: clusters.Instance) -> model.Template:
    try:
        return model.Template(instance.disk_template)
    except ValueError as error:
        known = ", ".join(template.value for template in model.Template)
        raise errors.InvalidInput(
            f"{instance.name}: the disk template {instance.disk_template!r} is not one of {known}"
        ) from error
