"""The cluster of a new lab as a value: its groups, nodes and instances."""

from __future__ import annotations

import dataclasses
import re
import sys
import time
import uuid
from typing import TYPE_CHECKING

from ...plugins.plugin_utils.cluster import cluster as clusters

if TYPE_CHECKING:
    from collections.abc import Sequence

    from . import world

NODE_MEMORY = 131_072
NODE_DISK = 4_194_304
CANDIDATES = 10
BLOCK = 3
MOST_GROUPS = 4
BMCS, MANAGEMENT, REPLICATION, BEHIND = "127.77", "127.78", "127.79", "127.80"
"""The networks of a lab, on loopback: the last one has the agents, which are reached through the management network."""
_NOT_OF_NAMES = re.compile("[^A-Za-z0-9._ -]")


def group_count(nodes: int) -> int:
    """Groups are blocks of at least three nodes; below six nodes there is one, and never more than four."""
    return max(1, min(MOST_GROUPS, nodes // BLOCK))


def make_cluster(lab: world.Lab, names: Sequence[str], *, settings: clusters.Settings) -> clusters.Cluster:
    """A cluster of nodes without instances; the first node is the master."""
    now, count = time.time(), group_count(len(names))
    groups = [clusters.Group(uuid=_uuid(), name=f"group{number + 1}", ctime=now, mtime=now) for number in range(count)]
    nodes = [
        _node(name, groups[index * count // len(names)].uuid, is_candidate=index < CANDIDATES, now=now)
        for index, name in enumerate(names)
    ]
    parameters = clusters.Parameters(
        cluster_name=_NOT_OF_NAMES.sub("-", lab.folder.name).lstrip("-._ ") or "lab",
        uuid=_uuid(),
        master_node=nodes[0].uuid,
        ndparams={"oob_program": "ipmi"},
        ctime=now,
        mtime=now,
    )
    return clusters.Cluster(
        cluster=parameters,
        nodegroups={group.uuid: group for group in groups},
        nodes={node.uuid: node for node in nodes},
        maintenance=clusters.Maintenance(settings=settings, ctime=now, mtime=now),
        ctime=now,
        mtime=now,
    )


def address(network: str, index: int) -> str:
    """The address of a lab's node in one of its networks."""
    return f"{network}.{index // 250}.{index % 250 + 1}"


def with_addresses(cluster: clusters.Cluster) -> clusters.Cluster:
    """The cluster with an address for management and one for replication for each of its nodes."""
    nodes = {
        uuid_: dataclasses.replace(
            node, primary_ip=address(MANAGEMENT, index), secondary_ip=address(REPLICATION, index)
        )
        for index, (uuid_, node) in enumerate(cluster.nodes.items())
    }
    return dataclasses.replace(cluster, nodes=nodes)


def with_instances(
    cluster: clusters.Cluster, pairs: Sequence[tuple[str, str]], *, migration_seconds: float = 0.0
) -> clusters.Cluster:
    """The cluster with one instance for each pair of primary and secondary (names)."""
    now = time.time()
    made = [
        clusters.Instance(
            uuid=_uuid(),
            name=f"instance{number + 1}",
            primary_node=cluster.node(primary).uuid,
            secondary_nodes=(cluster.node(secondary).uuid,),
            disks=(clusters.Disk(size=10_240, minor=number),),
            memory=(1024, 2048, 4096)[number % 3],
            hypervisor="fake",
            hvparams={"migration_seconds": f"{migration_seconds:g}"} if migration_seconds else {},
            ctime=now,
            mtime=now,
        )
        for number, (primary, secondary) in enumerate(pairs)
    ]
    return dataclasses.replace(cluster, instances={instance.uuid: instance for instance in made})


def spread(cluster: clusters.Cluster, count: int) -> list[tuple[str, str]]:
    """Pairs for so many instances: group by group, node by node, each turn with another secondary."""
    blocks = [[node.name for node in cluster.nodes.values() if node.group == group] for group in cluster.nodegroups]
    return [_pair(blocks[number % len(blocks)], number // len(blocks)) for number in range(count)]


def _pair(block: list[str], number: int) -> tuple[str, str]:
    turn, place = divmod(number, len(block))
    distance = 1 + turn % (len(block) - 1)
    return block[place], block[(place + distance) % len(block)]


def _node(name: str, group: str, *, is_candidate: bool, now: float) -> clusters.Node:
    return clusters.Node(
        uuid=_uuid(),
        name=name,
        group=group,
        primary_ip="127.0.0.1",
        mtotal=NODE_MEMORY,
        mnode=2048,
        dtotal=NODE_DISK,
        ctotal=32,
        master_candidate=is_candidate,
        ctime=now,
        mtime=now,
    )


def host_variables(node: world.LabNode) -> dict[str, str]:
    """The host variables with which a node of a lab is reached."""
    return {
        "ansible_connection": "roundsman.cluster.lab_node",
        "ansible_python_interpreter": sys.executable,
        "roundsman_lab_root": str(node.root),
        "roundsman_migration_address": str(node.wire),
        "roundsman_hypervisor": "fake",
    }


def _uuid() -> str:
    return str(uuid.uuid4())
