"""The playbook that installs an operating system: one of the controller's by its name, or a local administrator's."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING

from ...plugins.module_utils import trusted_paths
from ...plugins.module_utils.domain.values import errors
from ...plugins.plugin_utils.settings import instance_making

if TYPE_CHECKING:
    from ..service import Service


def chosen(service: Service, *, name: str, path: str) -> str:
    """The absolute path of the playbook `name` of `etc/roundsman/os`, or `path`; '' where neither is given.

    Only root may give a path: `permissions.py`.

    Raises:
        InvalidInput: there is no such playbook. Refused: others than root could have written it.
    """
    if not (name or path):
        return ""
    folder = service.where.os_playbooks
    if not path and not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9+._-]{0,99}", name):
        raise errors.InvalidInput(f"os: {name!r} is no name of a playbook in {folder}")
    found = Path(path) if path else folder / f"{name}.yml"
    if any(mark in str(found) for mark in instance_making.TEMPLATE_MARKS) or not found.is_absolute():
        raise errors.InvalidInput(f"os_playbook: {str(found)!r} is no absolute path")
    if not (found.is_file() and os.access(found, os.R_OK)):
        raise errors.InvalidInput(f"os: there is no playbook {found} that the daemon may read")
    trusted_paths.check(found, root=service.where.root)
    return str(found)
