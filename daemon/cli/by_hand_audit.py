"""Writes of the command line that no daemon sees: their lines in the audit log."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from ...plugins.plugin_utils import log_output

if TYPE_CHECKING:
    from ...plugins.module_utils.domain import tree


def append(where: tree.Tree, text: str) -> None:
    """Log what the caller has just done, with the form of the daemon's lines."""
    line = f"command {log_output.account()} door=command-line text={json.dumps(text, ensure_ascii=False)}"
    log_output.append_audit(where, [line])
