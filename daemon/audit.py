"""The audit log: what people will ask about later, in the daemon's log and in a file of its own."""

from __future__ import annotations

import json
import logging
from typing import TYPE_CHECKING

from ..plugins.plugin_utils import log_output
from ..plugins.plugin_utils.config import used_values
from ..plugins.plugin_utils.rounds import audit_lines

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ..plugins.module_utils.domain.values import tree
    from ..plugins.plugin_utils.cluster import cluster as clusters
    from ..plugins.plugin_utils.opcodes import contract

LOG = logging.getLogger(log_output.AUDIT)
LONGEST_TEXT = 500
"""Characters of the text of a command's line."""


def power_changes(before: clusters.Cluster, after: clusters.Cluster, *, by: str) -> None:
    """Log each change of the power of record, and how an emergency power off goes on (seed 001, "Logging")."""
    for line in audit_lines.lines(before, after):
        LOG.info("%s: %s", by, line)


def imported(before: clusters.Cluster, after: clusters.Cluster, *, by: str) -> None:
    """Log what an import changes and brings into use."""
    for line in lines_of_import(before, after):
        LOG.info("%s: %s", by, line)


def lines_of_import(before: clusters.Cluster | None, after: clusters.Cluster) -> list[str]:
    """What an import changes of the power of record, and the programs, paths and addresses that are new in it."""
    return [*(audit_lines.lines(before, after) if before is not None else []), *used_values.audited(before, after)]


def notices(told: Iterable[contract.Notice], *, by: str) -> None:
    """Log what an opcode did or found."""
    for notice in told:
        LOG.log(logging.WARNING if notice.is_trouble else logging.INFO, "%s: %s", by, notice.text)


def append_command(where: tree.Tree, text: str, *, account: str, imported: Iterable[str] = ()) -> None:
    """Log what a command of this account has done without the daemon, and what it has imported."""
    line = f"command {account} door=command-line text={json.dumps(text[:LONGEST_TEXT], ensure_ascii=False)}"
    log_output.append_audit(where, [line, *(f"import {account}: {each}" for each in imported)])
