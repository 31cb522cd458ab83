"""Building a lab: a cluster of simulated nodes and instances, their keys, whitelists and BMCs."""

from __future__ import annotations

import dataclasses
import getpass
import json
import os
import pwd
import secrets
import shlex
from typing import TYPE_CHECKING

from ...plugins.module_utils.domain.agent import signing
from ...plugins.module_utils.domain.values import errors, tree
from ...plugins.module_utils.storage import disks
from ...plugins.plugin_utils.config import store
from ...plugins.plugin_utils.opcodes import contract
from ...plugins.plugin_utils.settings import instance_making
from . import population, world
from .simulator import fake, simulated, simulated_node, simulated_world

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from ...plugins.plugin_utils.cluster import cluster as clusters

BMC_USER = "roundsman"
LEAST_LOOK, MOST_LOOK = 1.0, 60.0
"""Seconds between two looks of an agent at its node: those between two polls, within these bounds."""


@dataclasses.dataclass(frozen=True)
class AgentPlace:
    """Where a node's agent is asked (`seen`), and where it listens behind the lab's network (`own`)."""

    seen: str
    own: str
    port: int


def build(
    folder: Path,
    *,
    nodes: int,
    instances: int,
    ports: dict[str, int],
    settings: clusters.Settings,
    migration_seconds: float = 0.0,
    pairs: Sequence[tuple[str, str]] | None = None,
) -> world.Lab:
    """Make the folder of a new lab; `ports` are those of `http` and `bmc`, and of `agent` where its nodes have agents.

    With agents, each node has addresses of its own for management and replication.
    Instances are spread over the nodes in turn, unless `pairs` gives for each its primary and its secondary.

    Raises:
        Refused: there is something in the folder already, or there are too few nodes for pairs.
    """
    if folder.exists() and any(folder.iterdir()):
        raise errors.Refused(f"{folder} is not empty: bring that lab down, or choose another folder")
    if nodes < 2 and instances:  # noqa: PLR2004 - a pair
        raise errors.Refused("instances need pairs of nodes: give at least 2 nodes")
    lab = world.Lab(folder.resolve())
    names = [f"node{number}" for number in range(1, nodes + 1)]
    password = secrets.token_hex(8)
    port = ports.get("agent", 0)
    if port:
        settings = dataclasses.replace(settings, agent_port=port)
    cluster = population.make_cluster(lab, names, settings=settings)
    if port:
        cluster = population.with_addresses(cluster)
    wanted = population.spread(cluster, instances) if pairs is None else pairs
    cluster = population.with_instances(cluster, wanted, migration_seconds=migration_seconds)
    where = tree.Tree(lab.controller)
    for path in (where.etc, where.lib, where.run, where.log, where.spool, lab.folder / "inventory"):
        path.mkdir(parents=True)
    where.hmac_key.touch(mode=0o600)
    where.hmac_key.write_text(secrets.token_hex(20) + "\n")
    store.write(where.config, cluster)
    _write_credentials(where, names, port=ports["bmc"], password=password)
    where.daemon_settings.write_text(json.dumps({"port": ports["http"], "bind": "127.0.0.1"}))
    inventory = "plugin: roundsman.cluster.cluster\nroot: ../controller\n"
    (lab.folder / "inventory/roundsman.yml").write_text(inventory)
    for node in cluster.nodes.values():
        _write_node(lab.node(node.name), node, cluster_key=where.hmac_key.read_bytes())
        write_host_variables(where, node.name, population.host_variables(lab.node(node.name)))
    for index, name in enumerate(names if port else ()):
        _write_agent(lab.node(name), agent_place(index, port), settings)
    _place(lab, cluster)
    content = {
        "nodes": names,
        "ports": ports,
        "bmc": {bmc_address(index): name for index, name in enumerate(names)},
    }
    lab.settings_file.touch(mode=0o600)
    lab.settings_file.write_text(json.dumps({**content, "bmc_password": password}, indent=1))
    return lab


def options(lab: world.Lab) -> dict[str, float]:
    """What a lab was built with, by the names of the options of `roundsman lab up`; what it cannot tell is left out."""
    cluster = store.read(tree.Tree(lab.controller).config)
    settings = lab.settings()
    moves = {float(instance.hvparams.get("migration_seconds", 0)) for instance in cluster.instances.values()}
    return {
        "nodes": len(settings["nodes"]),
        "instances": len(cluster.instances),
        "port": settings["ports"]["http"],
        "bmc_port": settings["ports"]["bmc"],
        "diagnose_interval": cluster.maintenance.settings.diagnose_interval,
        "agents": bool(lab.agent_port),
        **({"migration_seconds": moves.pop()} if len(moves) == 1 else {}),
    }


def write_commands(node: world.LabNode) -> None:
    """Write the node's diagnose and repair commands with their modes, whatever has become of them."""
    _write_command(node, "node-diagnose-commands/lab-diagnose", f"exec /bin/cat {shlex.quote(str(node.diagnosis))}\n")
    _write_command(node, f"node-repair-commands/{world.REPAIR_COMMAND}", _repair_script(node))


def write_host_variables(where: tree.Tree, name: str, variables: Mapping[str, str]) -> None:
    """Write the host variables of a node as root does on a real controller."""
    where.host_vars.mkdir(mode=0o755, exist_ok=True)
    where.host_vars.chmod(0o755)
    path = where.host_vars / f"{name}.json"
    path.write_text(json.dumps(dict(variables), indent=1))
    path.chmod(0o644)


def write_missing_host_variables(lab: world.Lab) -> None:
    """Write the host variables of nodes that have no file of them: a lab of an earlier version has them elsewhere."""
    where = tree.Tree(lab.controller)
    for name in lab.settings()["nodes"]:
        if not (where.host_vars / f"{name}.json").exists():
            write_host_variables(where, name, population.host_variables(lab.node(name)))


def bmc_address(index: int) -> str:
    """The loopback address of the BMC of a lab's node."""
    return population.address(population.BMCS, index)


def agent_place(index: int, port: int) -> AgentPlace:
    """The loopback addresses of the agent of a lab's node."""
    return AgentPlace(
        population.address(population.MANAGEMENT, index), population.address(population.BEHIND, index), port
    )


def _write_agent(node: world.LabNode, place: AgentPlace, settings: clusters.Settings) -> None:
    """Write what the agent is told; load, disks and volumes of this machine are none of the node's."""
    told = {
        "bind": [place.own],
        "port": place.port,
        "hypervisor": "fake",
        "diagnose_command": settings.diagnose_command,
        "collectors": {
            "diagnose": max(LEAST_LOOK, min(settings.diagnose_interval, MOST_LOOK)),
            **dict.fromkeys(("cpu-avg-load", "diskstats", "lv"), 0),
        },
    }
    path = node.root / "etc/roundsman/agent.json"
    path.write_text(json.dumps(told))
    path.chmod(0o644)


def _write_credentials(where: tree.Tree, names: list[str], *, port: int, password: str) -> None:
    entries = {
        name: {"address": bmc_address(index), "port": port, "username": BMC_USER, "password": password}
        for index, name in enumerate(names)
    }
    where.bmc_credentials.touch(mode=0o600)
    where.bmc_credentials.write_text(json.dumps(entries))


def _write_node(node: world.LabNode, known: clusters.Node, *, cluster_key: bytes) -> None:
    folders = ("lab", "run/roundsman", "var/log/roundsman", fake.RUNNING, simulated.DISKS)
    for folder in folders:
        (node.root / folder).mkdir(parents=True)
    settings = {
        "node": known.uuid,
        "name": known.name,
        "command_owner": getpass.getuser(),
        "diagnose_time_limit": 10,
        "hypervisor": "fake",
    }
    (node.root / "etc/roundsman").mkdir(parents=True)
    file = node.root / "etc/roundsman/node.json"
    file.write_text(json.dumps(settings))
    file.chmod(0o644)
    key = node.root / "var/lib/roundsman/node.key"
    key.touch(mode=0o600)
    key.write_bytes(signing.node_key(cluster_key, known.uuid))
    node.say(world.OK)
    node.wire.symlink_to(".")
    simulated_node.new_boot(node.root)
    write_commands(node)


def _repair_script(node: world.LabNode) -> str:
    lab = shlex.quote(str(node.root / "lab"))
    return (
        f"cd {lab} || exit 1\n"
        "/bin/cat >repair-input.json\n"
        "[ ! -e repair-seconds ] || /bin/sleep $(/bin/cat repair-seconds)\n"
        "[ ! -e repair-fails ] || { echo 'the lab is set to fail here' >&2; exit 1; }\n"
        "echo repaired >>repairs\n"
        f"echo '{world.OK}' >diagnosis.repaired\n"
        "/bin/mv diagnosis.repaired diagnosis.json\n"
    )


def _write_command(node: world.LabNode, name: str, script: str) -> None:
    path = node.root / "etc/roundsman" / name
    path.parent.mkdir(exist_ok=True)
    # Made elsewhere and renamed: a poll finds a whole command, whatever the old one had become.
    made = node.root / "lab" / f"{path.name}.new"
    made.write_text(f"#!/bin/sh\n# A command of the lab: nothing of it is real.\n{script}")
    for place in (path.parent, made):
        os.chown(place, os.getuid(), _own_group())
        place.chmod(0o755)
    made.replace(path)


def _own_group() -> int:
    return pwd.getpwuid(os.getuid()).pw_gid


def write_missing_disks(lab: world.Lab) -> None:
    """Give the replicated instances of a lab of an earlier version disks, and their devices minors; no daemon runs."""
    where = tree.Tree(lab.controller)
    cluster = store.read(where.config)
    known = {name for node in lab.nodes() for name in simulated_world.instances(node.root)}
    lacking = [
        instance for instance in cluster.instances.values() if is_replicated(instance) and instance.name not in known
    ]
    if not lacking:
        return
    free = iter(instance_making.free_minors(cluster, sum(len(instance.disks) for instance in lacking)))
    made = []
    for instance in lacking:
        numbered = tuple(
            disk if disk.minor is not None else dataclasses.replace(disk, minor=next(free)) for disk in instance.disks
        )
        made.append(dataclasses.replace(instance, disks=numbered))
    known_instances = {**cluster.instances, **{instance.uuid: instance for instance in made}}
    cluster = dataclasses.replace(cluster, instances=known_instances)
    store.write(where.config, cluster)
    _place_disks(lab, cluster, made)
    for instance in made:
        _open_where_it_runs(lab, cluster, instance)


def is_replicated(instance: clusters.Instance) -> bool:
    """Whether an instance has simulated DRBD disks."""
    is_pair = len(instance.secondary_nodes) == 1
    return instance.hypervisor == "fake" and instance.disk_template == "drbd" and is_pair and not instance.is_unfinished


def _open_where_it_runs(lab: world.Lab, cluster: clusters.Cluster, instance: clusters.Instance) -> None:
    for uuid_ in instance.nodes:
        root = lab.node(cluster.node_name(uuid_)).root
        (root / simulated.DISKS / f"{instance.name}.json").unlink(missing_ok=True)
        if instance.name in fake.Driver(root, opcode="lab up").running():
            simulated_world.start_writing(root, instance.name, devices=_devices(instance), opcode="lab up")


def _place(lab: world.Lab, cluster: clusters.Cluster) -> None:
    found = list(cluster.instances.values())
    _place_disks(lab, cluster, found)
    for instance in found:
        root = lab.node(cluster.node_name(instance.primary_node)).root
        facts = {"memory": instance.memory, "devices": _devices(instance), "hvparams": dict(instance.hvparams)}
        fake.Driver(root, opcode="lab up").start(instance.name, facts)


def _place_disks(lab: world.Lab, cluster: clusters.Cluster, found: Sequence[clusters.Instance]) -> None:
    key = tree.Tree(lab.controller).hmac_key.read_bytes()
    wanted = [_new_disks(cluster, instance, key) for instance in found]
    simulated_world.place(lab.folder / "nodes", wanted, opcode="lab up")


def _new_disks(cluster: clusters.Cluster, instance: clusters.Instance, key: bytes) -> simulated_world.NewDisks:
    primary, secondary = (_end(cluster, node) for node in instance.nodes[:2])
    return simulated_world.NewDisks(
        instance=instance.name,
        uuid=instance.uuid,
        sizes=tuple(disk.size for disk in instance.disks),
        minors=tuple(disk.minor or 0 for disk in instance.disks),
        ends=(primary, secondary),
        vg=cluster.cluster.vg_name,
        secret=signing.pair_secret(key, instance.uuid, (primary.name, secondary.name)),
        is_primary=True,
    )


def _devices(instance: clusters.Instance) -> list[str]:
    return [f"/dev/drbd{disk.minor}" for disk in instance.disks]


def _end(cluster: clusters.Cluster, uuid_: str) -> disks.End:
    told = contract.node_variables(cluster, uuid_)
    return disks.End(told["name"], told["address"])
