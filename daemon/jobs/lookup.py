"""After a lost run: look for its instance on all its nodes, so that the configuration says what is true."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from ...plugins.module_utils.domain import cluster as clusters
from ...plugins.plugin_utils.opcodes import contract
from ...plugins.plugin_utils.opcodes.instance_facts import instance_variables
from . import process, settling
from .runs import run_spec

if TYPE_CHECKING:
    from pathlib import Path

    from ...plugins.module_utils.domain.locks import Mode
    from ..locks import table
    from .ports import Ports


@dataclass(frozen=True)
class FindInstance:
    """See on which of its nodes an instance runs, and record it as its primary."""

    kind: ClassVar[str] = "find_instance"
    time_limit: ClassVar[int] = 300
    instance: str
    nodes: tuple[str, ...]

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
            "instance_known": list(instance.nodes),
            "instance_unasked": [cluster.node_name(uuid) for uuid in self.nodes if uuid not in self.hosts(cluster)],
        }

    def files(self) -> dict[str, str]:
        return {}

    def about(self) -> str:
        return self.instance


async def look_for(lost: contract.PlayKind, *, folder: Path, ports: Ports, owner: table.Owner) -> str:
    """Look for the instance of a lost opcode, under its locks; returns a sentence with what was found."""
    cluster = ports.configuration.current
    instance = lost.about()
    nodes = tuple(dict.fromkeys([*cluster.instance(instance).nodes, *lost.hosts(cluster)]))
    if process.standing(folder) is process.Standing.RUNNING:
        # The daemon before this one had begun to look.
        await ports.processes.ended(folder)
    shutil.rmtree(folder, ignore_errors=True)
    spec = run_spec(
        cluster,
        FindInstance(instance, nodes),
        granted=ports.desk.table.locks_of(owner),
        environment=ports.environment,
    )
    ports.processes.start(folder, spec)
    await ports.processes.ended(folder)
    found = settling.settle(folder)
    await ports.configuration.commit(lambda _: found.recorded)
    if not found.succeeded:
        return f"it was looked for: {found.text}"
    after = ports.configuration.current.instance(instance)
    return found.text or f"{after.name} runs on {ports.configuration.current.node_name(after.primary_node)}"
