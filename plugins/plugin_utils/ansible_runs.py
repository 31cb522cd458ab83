"""How the collection's playbooks are run, by the daemon and by a command: where they are, and their environment."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from .connection_tries import SSH_ARGUMENTS

if TYPE_CHECKING:
    from ..module_utils.domain import tree

PLAYBOOKS = Path(__file__).resolve().parents[2] / "playbooks"
COLLECTIONS = Path(__file__).absolute().parents[5]
"""The folder whose `ansible_collections` this program was imported from, links and all."""
SYSTEM_COLLECTIONS = "/usr/share/ansible/collections"


def environment(where: tree.Tree, *, first: tuple[Path, ...] = ()) -> dict[str, str]:
    """The environment of every run: our Ansible first, no discovery, nothing that depends on a terminal.

    Programs in the folders `first` come before any other.
    """
    folders = [*map(str, first), str(Path(sys.executable).parent)]
    return {
        "PATH": ":".join([*folders, os.environ.get("PATH", os.defpath)]),
        "ROUNDSMAN_ROOT": str(where.root),
        "ANSIBLE_COLLECTIONS_PATH": f"{COLLECTIONS}:{os.environ.get('ANSIBLE_COLLECTIONS_PATH', SYSTEM_COLLECTIONS)}",
        "ANSIBLE_PIPELINING": "1",
        "ANSIBLE_GATHERING": "explicit",
        # A fact would be stronger than a variable of the inventory, and any module of a node can return one.
        "ANSIBLE_INJECT_FACT_VARS": "False",
        "ANSIBLE_INVENTORY_ENABLED": "ansible.builtin.yaml",
        "ANSIBLE_LOCALHOST_WARNING": "0",
        "ANSIBLE_NOCOLOR": "1",
        "ANSIBLE_HOME": str(where.run / "ansible"),
        "ANSIBLE_SSH_EXTRA_ARGS": f"{os.environ.get('ANSIBLE_SSH_EXTRA_ARGS', '')} {SSH_ARGUMENTS}".strip(),
    }
