"""How the collection's playbooks are run, by the daemon and by a command: where they are, and their environment."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from ..module_utils import trusted_paths
from ..module_utils.domain.values import errors
from .connection_tries import SSH_ARGUMENTS

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..module_utils.domain.values import tree

PLAYBOOKS = Path(__file__).resolve().parents[2] / "playbooks"
COLLECTIONS = Path(__file__).absolute().parents[5]
"""The folder whose `ansible_collections` this program was imported from, links and all."""
NO_CONFIGURATION = PLAYBOOKS / "empty.cfg"
"""A configuration of Ansible that sets nothing; Ansible reads only files whose names end as its do."""
SYSTEM_COLLECTIONS = "/usr/share/ansible/collections"


def environment(where: tree.Tree, *, first: tuple[Path, ...] = ()) -> dict[str, str]:
    """The environment of every run: our Ansible first, no discovery, nothing that depends on a terminal.

    Programs in the folders `first` come before any other.
    """
    folders = [*map(str, first), str(Path(sys.executable).parent)]
    collections = os.environ.get("ANSIBLE_COLLECTIONS_PATH", SYSTEM_COLLECTIONS).split(":")
    return {
        "PATH": ":".join([*folders, os.environ.get("PATH", os.defpath)]),
        "ROUNDSMAN_ROOT": str(where.root),
        "ANSIBLE_COLLECTIONS_PATH": ":".join([str(COLLECTIONS), *map(os.path.abspath, filter(None, collections))]),
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


def working_folder(folder: Path, *, warn: Callable[[str], None]) -> Path:
    """Where a run stands that a command starts: where the person does, else, with a warning, in `folder`.

    Ansible loads `./shell_plugins` before its own plugins. So the person's folder counts only if nobody but root or the
    caller could have written it and the folders above.
    """
    own = Path.cwd()
    try:
        _refuse_plugins_of_others(own)
    except errors.Refused as error:
        warn(f"relative paths in the inventory are not found, since Ansible does not run in this folder: {error}")
        return folder
    return own


def _refuse_plugins_of_others(own: Path) -> None:
    """Go on only if nobody else has put plugins into a folder, or still can, as in a sticky one."""
    for path in (own, *([own / "shell_plugins"] if os.path.lexists(own / "shell_plugins") else [])):
        trusted_paths.check_folder(str(path))
    if own.stat().st_mode & trusted_paths.WRITABLE_BY_OTHERS:
        raise errors.Refused(f"others can create files in {own}")


def configuration_file(*, warn: Callable[[str], None], in_working_folder: bool = False) -> str:
    """The `ansible.cfg` of a run that a command starts: the person's or the machine's, else an empty one.

    Ansible itself would take `./ansible.cfg` first, whoever wrote it. Here it counts only where `in_working_folder`
    asks for it, and like the others only if nobody but root or the caller could have written it.
    """
    if os.environ.get("ANSIBLE_CONFIG"):
        return str(Path(os.environ["ANSIBLE_CONFIG"]).absolute())
    candidates = [Path.home() / ".ansible.cfg", Path("/etc/ansible/ansible.cfg")]
    for path in [*([Path("ansible.cfg").absolute()] if in_working_folder else []), *candidates]:
        if not os.path.lexists(path):
            continue
        try:
            with trusted_paths.opened(str(path)):
                return str(path)
        except errors.Refused as error:
            warn(f"this configuration of Ansible is not used: {error}")
    return str(NO_CONFIGURATION)
