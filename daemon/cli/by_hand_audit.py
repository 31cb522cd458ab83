"""Writes of the command line that no daemon sees: their lines in the audit log."""

from __future__ import annotations

import os
import pwd
from typing import TYPE_CHECKING

from ...plugins.plugin_utils import log_output

if TYPE_CHECKING:
    from ...plugins.module_utils.domain import tree


def append(where: tree.Tree, text: str) -> None:
    """Log what the caller has just done, with the form of the daemon's lines; a log that is missing is not made."""
    uid = os.getuid()
    log_output.append_audit(where.audit_log, [f"user={_name(uid)} uid={uid} door=command-line: {text}"])


def _name(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name.replace(" ", "-")
    except KeyError:
        return "unknown"
