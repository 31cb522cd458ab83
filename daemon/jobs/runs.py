"""What a run of an opcode's play is given."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from ...plugins.module_utils.domain import tree
from ...plugins.plugin_utils import ansible_runs, report_originals
from ...plugins.plugin_utils.config import hosts
from ...plugins.plugin_utils.opcodes import contract
from . import process

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ...plugins.module_utils.domain import cluster as clusters
    from ...plugins.module_utils.domain.locks import Mode


def run_spec(
    cluster: clusters.Cluster,
    made: contract.PlayKind,
    *,
    granted: Mapping[str, Mode],
    environment: Mapping[str, str],
) -> process.Spec:
    """The run of `playbooks/opcodes/<kind>.yml` with the locks that were granted.

    Raises:
        Refused: the opcode does not fit the cluster as it is now, or a large report that it needs is lost.
    """
    root = environment["ROUNDSMAN_ROOT"]
    return process.Spec(
        playbook=ansible_runs.PLAYBOOKS / "opcodes" / f"{made.kind}.yml",
        variables=made.variables(cluster),
        environment=environment,
        inventory=hosts.run_inventory(cluster, dict.fromkeys(made.hosts(cluster)), root=root),
        granted={lock: mode.value for lock, mode in granted.items()},
        time_limit=made.time_limit(cluster),
        files={**made.files(), **_whole_reports(made, root=root)},
    )


def _whole_reports(made: contract.PlayKind, *, root: str) -> dict[str, str]:
    if not isinstance(made, contract.ReportKind):
        return {}
    folder = tree.Tree(Path(root)).report_originals
    return {name: report_originals.read(folder, digest) for name, digest in made.whole_reports().items()}
