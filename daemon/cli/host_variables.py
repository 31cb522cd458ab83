"""The host variables of adopted hosts that the configuration does not hold: written as root's files, or shown."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

from ...plugins.module_utils import trusted_paths
from . import output

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ...plugins.module_utils.domain.values import tree

TEMPLATE_MARKS = ("{{", "{%", "{#", "#jinja2:")


def show(where: tree.Tree, variables: Mapping[str, Mapping[str, str]]) -> None:
    """Print what becomes of the variables, by host."""
    if not variables:
        return
    if may_write(where):
        output.title(f"Host variables, to be written to {where.host_vars}")
    else:
        output.title(f"Host variables, to be written by root to {where.host_vars}/HOST.yml")
    for host, own in variables.items():
        output.line(f"  {host}: {json.dumps(dict(own), ensure_ascii=False)}")


def may_write(where: tree.Tree) -> bool:
    """Whether this process is one whose files count: root, or the owner of a lab."""
    root = next((place for place in (where.root, *where.root.parents) if place.exists()), where.root)
    return os.geteuid() in trusted_paths.owners(root)


def write(where: tree.Tree, variables: Mapping[str, Mapping[str, str]]) -> list[str]:
    """Write the file of each host that has none yet; returns the lines that say what was left to root."""
    if not may_write(where):
        return []
    left = []
    for host, own in variables.items():
        path = where.host_vars / f"{host}.yml"
        if path.exists():
            left.append(f"{path} was not written: the file exists; compare it with the variables above")
            continue
        templates = [name for name, text in own.items() if any(mark in text for mark in TEMPLATE_MARKS)]
        if templates:
            left.append(f"{path} was not written: {', '.join(templates)} looks like a template; write it by hand")
            continue
        where.host_vars.mkdir(mode=0o755, parents=True, exist_ok=True)
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o644), "w") as file:
            file.write(json.dumps(dict(own), indent=1, ensure_ascii=False) + "\n")
    return left
