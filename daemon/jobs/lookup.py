"""After a lost run: look at what it was about, so that the configuration says what is true.

An instance is looked for on all its nodes, and the power of a node is read at its BMC. A look only reads, so one that
breaks off is repeated; nothing that the lost run was to do is.
"""

from __future__ import annotations

import asyncio
import logging
import shutil
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from ...plugins.module_utils.domain import cluster as clusters
from ...plugins.module_utils.domain import dead_nodes, errors
from ...plugins.plugin_utils import connection_tries
from ...plugins.plugin_utils.opcodes import contract, node_power, time_limits
from ...plugins.plugin_utils.opcodes.instance_facts import instance_variables
from . import process, settling, task_log
from .runs import run_spec

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from ...plugins.module_utils.domain.locks import Mode
    from ..locks import holders
    from .ports import Ports

LOG = logging.getLogger(__name__)
TRIES = connection_tries.TRIES
"""How often a look that breaks off is begun, as often as a node is tried that cannot be reached."""


class Look(contract.PlayKind, Protocol):
    """A play that only reads, and records what it read."""

    def told(self, cluster: clusters.Cluster) -> str:
        """What the configuration says, in a sentence."""


@dataclass(frozen=True)
class FindInstance:
    """See on which of its nodes an instance runs, record it as its primary, and let only it write the disks."""

    kind: ClassVar[str] = "find_instance"
    instance: str
    nodes: tuple[str, ...]

    def time_limit(self, cluster: clusters.Cluster) -> int:
        # A migration whose play was killed goes on in libvirt, and is waited for.
        known, count = cluster.instance(self.instance), len(self.nodes)
        return time_limits.limit(time_limits.find(known, nodes=count), time_limits.disks(known, steps=2 * count))

    def wants(self, _cluster: clusters.Cluster) -> dict[str, Mode]:
        return {f"instance/{self.instance}": contract.EXCLUSIVE}

    def moot(self, _cluster: clusters.Cluster) -> str:
        return ""

    def hosts(self, cluster: clusters.Cluster) -> list[str]:
        return [uuid for uuid in self.nodes if clusters.reachable(cluster, cluster.nodes[uuid])]

    def variables(self, cluster: clusters.Cluster) -> dict[str, Any]:
        instance = cluster.instance(self.instance)
        return {
            "instance": instance_variables(cluster, instance),
            "instance_nodes": [contract.node_variables(cluster, uuid) for uuid in self.hosts(cluster)],
            "instance_members": [
                contract.node_variables(cluster, uuid) for uuid in self.hosts(cluster) if uuid in instance.nodes
            ],
            "instance_known": list(instance.nodes),
            "instance_known_off": [uuid for uuid in self.nodes if dead_nodes.is_known_off(cluster.nodes[uuid])],
            "instance_unasked": [cluster.node_name(uuid) for uuid in self.nodes if uuid not in self.hosts(cluster)],
        }

    def files(self) -> dict[str, str]:
        return {}

    def about(self) -> tuple[str, ...]:
        return (self.instance,)

    def told(self, cluster: clusters.Cluster) -> str:
        instance = cluster.instance(self.instance)
        return f"{instance.name} runs on {cluster.node_name(instance.primary_node)}"


@dataclass(frozen=True)
class FindPower:
    """Read the power of nodes at their BMCs, which are sent no command, and record it."""

    kind: ClassVar[str] = "find_power"
    nodes: tuple[str, ...]

    def time_limit(self, _cluster: clusters.Cluster) -> int:
        return time_limits.limit(time_limits.bmcs(len(self.nodes)))

    def wants(self, _cluster: clusters.Cluster) -> dict[str, Mode]:
        return {f"node/{uuid}": contract.EXCLUSIVE for uuid in self.nodes}

    def moot(self, _cluster: clusters.Cluster) -> str:
        return ""

    def hosts(self, _cluster: clusters.Cluster) -> list[str]:
        return []

    def variables(self, cluster: clusters.Cluster) -> dict[str, Any]:
        return {"node_targets": [node_power.bmc_variables(cluster, cluster.node(uuid)) for uuid in self.nodes]}

    def files(self) -> dict[str, str]:
        return {}

    def about(self) -> tuple[str, ...]:
        return self.nodes

    def told(self, cluster: clusters.Cluster) -> str:
        found = [cluster.node(uuid) for uuid in self.nodes]
        return ", ".join(f"{one.name} is {'on' if one.powered else 'off'}" for one in found)


def after(lost: contract.PlayKind, cluster: clusters.Cluster) -> Look | None:
    """What to look at after an opcode was lost; None when there is nothing, or it is not in the cluster any more."""
    subjects = lost.about()
    if len(subjects) == 1 and subjects[0] in cluster.instances:
        return instance(cluster, subjects[0], beside=lost.hosts(cluster))
    return power(cluster, subjects)


def instance(cluster: clusters.Cluster, uuid: str, *, beside: list[str]) -> Look:
    """Look for an instance on its nodes, and on those beside them that are in the cluster."""
    nodes = dict.fromkeys([*cluster.instance(uuid).nodes, *beside])
    return FindInstance(uuid, tuple(node for node in nodes if node in cluster.nodes))


def power(cluster: clusters.Cluster, nodes: Sequence[str]) -> Look | None:
    """Read the power of those of these nodes (UUIDs) that are there, and have a BMC."""
    there = [cluster.nodes[uuid] for uuid in nodes if uuid in cluster.nodes]
    found = [one.uuid for one in there if clusters.parameter(cluster, one, "oob_program") is not None]
    return FindPower(tuple(found)) if found else None


async def carry_out(look: Look, *, folder: Path, ports: Ports, owner: holders.Owner) -> str:
    """Look, under the locks of an owner; returns a sentence with what was found.

    Raises:
        StoreFailed, OSError: some state could not be written; to call this again looks again.
    """
    # The daemon before this one may have begun to look.
    await ports.processes.ended(folder)
    reason = ""
    for count in range(1, TRIES + 1):
        try:
            reason, text = await _tried(look, folder=folder, ports=ports, owner=owner)
        except errors.StoreFailed:
            raise
        except errors.Refused as refusal:
            reason, text = str(refusal), ""
        if not reason:
            return text
        task_log.note(folder, f"the look at what is true broke off, try {count} of {TRIES}: {reason}")
    told = look.told(ports.configuration.current)
    text = f"nobody could look ({TRIES} tries: {reason}): that {told} is what was known before, and may be wrong"
    LOG.warning("%s: %s", owner.name, text)
    return text


async def _tried(look: Look, *, folder: Path, ports: Ports, owner: holders.Owner) -> tuple[str, str]:
    """Look once; returns why it broke off, or '' and what was found."""
    await process.end_run(folder)
    await asyncio.to_thread(_empty, folder)
    granted = ports.desk.table.locks_of(owner)
    spec = run_spec(ports.configuration.current, look, granted=granted, environment=ports.environment)
    ports.processes.start(folder, spec)
    await ports.processes.ended(folder)
    found = await settling.settle(folder)
    refused = await settling.commit(found, ports=ports, by=owner.name)
    if not found.succeeded:
        return found.text, ""
    return "; ".join(refused), found.text or look.told(ports.configuration.current)


def _empty(folder: Path) -> None:
    """Remove the files of a look that has ended, except the log that somebody may follow."""
    for entry in folder.iterdir() if folder.is_dir() else ():
        if entry.is_dir():
            shutil.rmtree(entry, ignore_errors=True)
        elif entry.name != task_log.NAME:
            entry.unlink()
