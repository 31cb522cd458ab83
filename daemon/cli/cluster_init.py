"""`roundsman cluster init`: a cluster where there is none."""

from __future__ import annotations

import dataclasses
import secrets
import socket
import time
import uuid
from pathlib import Path
from typing import Annotated

import typer

from ...plugins.module_utils.domain.values import errors, tree
from ...plugins.plugin_utils.cluster import changes
from ...plugins.plugin_utils.cluster import cluster as clusters
from ...plugins.plugin_utils.config import store
from ...plugins.plugin_utils.settings import addresses, joining, parameters
from . import by_hand_audit, name_resolution, output
from . import parameters as given_parameters

Nodes = Annotated[
    list[str],
    typer.Option(
        "--node",
        metavar="NAME[:ADDRESS][,SECONDARY]",
        help="A node; the first is the master. May be given often. Without any it is this machine.",
    ),
]
Version = Annotated[
    int,
    typer.Option(
        "--primary-ip-version",
        min=4,
        max=6,
        metavar="4|6",
        help="Of the nodes' primary addresses, for good; with 6 each node has an IPv4 address as secondary.",
    ),
]
Secondary = Annotated[
    str, typer.Option("--secondary-ip", metavar="IP", help="The master's address for migrations and copies of disks.")
]
Given = Annotated[
    list[str], typer.Argument(metavar="[NAME=VALUE]…", help="Parameters, as `roundsman cluster modify` has them.")
]
GROUP = "default"
KEY_BYTES = 20


def init(
    ctx: typer.Context,
    name: str,
    given: Given = [],  # noqa: B006 - Typer's way to say that there may be none
    *,
    node: Nodes = [],  # noqa: B006 - as above
    primary_ip_version: Version = 4,
    secondary_ip: Secondary = "",
) -> None:
    """Make a cluster where there is none: its configuration and its key, below the root of this machine or --dir.

    A name without an address is resolved; one that has none keeps being reached by its name, where that is allowed.
    """
    chosen: Path | None = ctx.find_root().params.get("root")
    where = tree.Tree(chosen.resolve() if chosen else Path("/"))
    nodes = node or [socket.gethostname()]
    if secondary_ip:
        nodes = [f"{nodes[0]},{secondary_ip}", *nodes[1:]]
    cluster = made(name, nodes, version=primary_ip_version, now=time.time())
    if given:
        stated = parameters.cluster_modify(cluster, given_parameters.read(given))
        cluster = changes.apply_all(cluster, stated, now=cluster.mtime)
    write(where, cluster)
    by_hand_audit.append_import(where, f"cluster init {name}", None, cluster)
    count = f"{len(nodes)} {'node' if len(nodes) == 1 else 'nodes'}"
    output.line(f"Cluster {name} has {count}; start its daemon with `roundsmand --root {where.root}`.")


def write(where: tree.Tree, cluster: clusters.Cluster) -> None:
    """Make the folders, the key and the configuration of a cluster.

    Raises:
        Refused: there is a cluster already. StoreFailed: it could not be written.
    """
    with store.locked(where, "roundsman cluster init"):
        if where.config.exists():
            raise errors.Refused(f"there is a cluster here already: {where.config}")
        for folder in (where.queue, where.rounds, where.reports, where.spool):
            folder.mkdir(mode=0o750, parents=True, exist_ok=True)
        make_key(where.hmac_key)
        store.write(where.config, cluster)


def made(name: str, nodes: list[str], *, version: int = 4, now: float) -> clusters.Cluster:
    """A cluster of these nodes, each as `NAME[:ADDRESS][,SECONDARY]`, the first of them the master.

    Raises:
        InvalidInput: a name or an address is not accepted, or a name is there twice.
    """
    cluster = empty(name, version=version, now=now)
    for index, node in enumerate(nodes):
        fields = node_fields(node, version=version)
        stated = joining.add(cluster, str(uuid.uuid4()), fields)
        cluster = changes.apply_all(cluster, stated, now=now)
        if index == 0:
            master = dataclasses.replace(cluster.cluster, master_node=cluster.node(fields["name"]).uuid)
            cluster = dataclasses.replace(cluster, cluster=master)
    return cluster


def empty(name: str, *, version: int, now: float) -> clusters.Cluster:
    """A cluster without nodes, which cannot be written yet."""
    group = clusters.Group(str(uuid.uuid4()), GROUP, ctime=now, mtime=now)
    own = clusters.Parameters(
        name,
        str(uuid.uuid4()),
        "",
        primary_ip_version=addresses.version("primary_ip_version", version),
        ctime=now,
        mtime=now,
    )
    cluster = clusters.Cluster(own, nodegroups={group.uuid: group}, ctime=now, mtime=now)
    return changes.apply_all(cluster, parameters.cluster_modify(cluster, {"cluster_name": name}), now=now)


def node_fields(text: str, *, version: int) -> dict[str, str]:
    """The fields of a node that is written as `NAME[:ADDRESS][,SECONDARY]`; a name without an address is resolved."""
    named, _, secondary = text.partition(",")
    name, _, address = named.partition(":")
    fields = {"name": name, "primary_ip": address or name_resolution.address_of(name, version=version)}
    return {**fields, **({"secondary_ip": secondary} if secondary else {})}


def make_key(path: Path) -> None:
    """Make the cluster's key, once: forty hexadecimal digits and the end of the line, all of which are the key."""
    if path.exists():
        return
    path.touch(mode=0o400)
    path.chmod(0o600)
    path.write_text(secrets.token_hex(KEY_BYTES) + "\n")
    path.chmod(0o400)
