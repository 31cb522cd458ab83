"""What a run of an opcode's play is given."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...plugins.plugin_utils import ansible_runs
from ...plugins.plugin_utils.config import hosts
from . import process

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ...plugins.module_utils.domain import cluster as clusters
    from ...plugins.module_utils.domain.locks import Mode
    from ...plugins.plugin_utils.opcodes import contract


def run_spec(
    cluster: clusters.Cluster,
    made: contract.PlayKind,
    *,
    granted: Mapping[str, Mode],
    environment: Mapping[str, str],
) -> process.Spec:
    """The run of `playbooks/opcodes/<kind>.yml` with the locks that were granted.

    Raises:
        Refused: the opcode does not fit the cluster as it is now.
    """
    return process.Spec(
        playbook=ansible_runs.PLAYBOOKS / "opcodes" / f"{made.kind}.yml",
        variables=made.variables(cluster),
        environment=environment,
        inventory=hosts.run_inventory(cluster, dict.fromkeys(made.hosts(cluster)), root=environment["ROUNDSMAN_ROOT"]),
        granted={lock: mode.value for lock, mode in granted.items()},
        time_limit=made.time_limit,
        files=made.files(),
    )
