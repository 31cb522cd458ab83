"""A cluster in a test is a few lines of text.

    node1 16384 100000 drained oob group=b           name, memory, disk (MiB), then flags; cpus=8 tags=a,b
    instance1 drbd 4096 10240 node1 node2 down       name, template, memory, disk, nodes, then flags; vcpus=2 tags=a
                                                     (adopted: its disk was, as resource r-instance1)
    tags htools:iextags:dns                          the cluster's
    incident a1 node1 evacuate pending 100 command=fix
    settings moves_per_node=2 power_off_evacuated=yes

UUIDs are the names with a `u-` in front, so that a plan that mixes them up is found out.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

from ansible_collections.roundsman.cluster.plugins.module_utils.domain.agent import diagnosis
from ansible_collections.roundsman.cluster.plugins.plugin_utils.cluster import cluster as clusters
from ansible_collections.roundsman.cluster.plugins.plugin_utils.cluster import incidents

if TYPE_CHECKING:
    import random

ORIGINAL = '{"status": "live-repair", "command": "fix", "details": {"slot": 3}}'


def u(name: str) -> str:
    return f"u-{name}"


def read(text: str) -> clusters.Cluster:
    """The cluster of a table; its first node is the master unless another one says `master`."""
    rows = [line.split() for line in text.strip().splitlines() if line.strip()]
    nodes = [_node(row) for row in rows if row[0].startswith("node")]
    masters = [u(row[0]) for row in rows if row[0].startswith("node") and "master" in row]
    found = [_incident(row) for row in rows if row[0] == "incident"]
    settings = [_settings(row) for row in rows if row[0] == "settings"]
    return clusters.Cluster(
        cluster=clusters.Parameters(
            "test",
            "u-cluster",
            masters[0] if masters else u("master"),
            tags=tuple(tag for row in rows if row[0] == "tags" for tag in row[1:]),
        ),
        nodegroups={one.group: clusters.Group(one.group, one.group.removeprefix("u-")) for one in nodes},
        nodes={one.uuid: one for one in nodes},
        instances={one.uuid: one for one in (_instance(row) for row in rows if row[0].startswith("instance"))},
        maintenance=clusters.Maintenance(
            settings=settings[0] if settings else clusters.Settings(), incidents=tuple(found)
        ),
    )


def _words(row: list[str]) -> tuple[set[str], dict[str, str]]:
    pairs = dict(word.split("=", 1) for word in row if "=" in word)
    return {word for word in row if "=" not in word}, pairs


def _node(row: list[str]) -> clusters.Node:
    flags, pairs = _words(row[3:])
    return clusters.Node(
        uuid=u(row[0]),
        name=row[0],
        group=u(pairs.get("group", "default")),
        mtotal=int(row[1]),
        mnode=int(pairs.get("own", "0")),
        dtotal=int(row[2]),
        ctotal=int(pairs.get("cpus", "0")),
        tags=_tags(pairs),
        drained="drained" in flags,
        offline="offline" in flags,
        vm_capable="incapable" not in flags,
        powered="unpowered" not in flags,
        ndparams={"oob_program": "/oob"} if flags & {"oob", "unpowered"} else {},
    )


def _instance(row: list[str]) -> clusters.Instance:
    flags, pairs = _words(row[4:])
    at = [u(word) for word in row[4:] if word.startswith("node")]
    return clusters.Instance(
        uuid=u(row[0]),
        name=row[0],
        disk_template=row[1],
        memory=int(row[2]),
        disks=(clusters.Disk(int(row[3]), name=f"r-{row[0]}" if "adopted" in flags else ""),),
        primary_node=at[0],
        secondary_nodes=tuple(at[1:]),
        admin_state="down" if "down" in flags else "up",
        vcpus=int(pairs.pop("vcpus", "1")),
        tags=_tags(pairs),
        hvparams={name: value for name, value in pairs.items() if name != "tags"},
    )


def _tags(pairs: dict[str, str]) -> tuple[str, ...]:
    return tuple(filter(None, pairs.get("tags", "").split(",")))


def _incident(row: list[str]) -> incidents.Incident:
    _, pairs = _words(row)
    return incidents.Incident(
        uuid=row[1],
        node=u(row[2]),
        original=ORIGINAL,
        action=diagnosis.Status(row[3]),
        repair_status=incidents.RepairStatus(row[4]),
        tag=incidents.READY_TAG + row[1],
        ctime=float(row[5]),
        mtime=float(row[5]),
        command=pairs.get("command"),
    )


def _settings(row: list[str]) -> clusters.Settings:
    _, pairs = _words(row)
    defaults = clusters.Settings()
    values = {name: _like(getattr(defaults, name), value) for name, value in pairs.items()}
    return dataclasses.replace(defaults, **values)


def _like(default: Any, text: str) -> Any:
    """A text as a value of the type of this default; a flag is `yes` or `no`."""
    return {"yes": True, "no": False}[text] if isinstance(default, bool) else type(default)(text)


def shuffled(cluster: clusters.Cluster, *, luck: random.Random) -> clusters.Cluster:
    """The same cluster from a document in another order."""
    nodes, instances = list(cluster.nodes.items()), list(cluster.instances.items())
    luck.shuffle(nodes)
    luck.shuffle(instances)
    return dataclasses.replace(cluster, nodes=dict(nodes), instances=dict(instances))
