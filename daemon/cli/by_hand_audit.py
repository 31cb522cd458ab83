"""Writes of the command line that no daemon sees: their lines in the audit log."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...plugins.plugin_utils import log_output
from .. import audit

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ...plugins.module_utils.domain.values import tree
    from ...plugins.plugin_utils.cluster import cluster as clusters


def append(where: tree.Tree, text: str, *, imported: Iterable[str] = ()) -> None:
    """Log what the caller has just done, and what an import brings."""
    audit.append_command(where, text, account=log_output.account(), imported=imported)


def append_import(where: tree.Tree, text: str, before: clusters.Cluster | None, after: clusters.Cluster) -> None:
    """Log an import that no daemon saw."""
    append(where, text, imported=audit.lines_of_import(before, after))
