"""roundsman-playbook: `ansible-playbook` for plays by hand, with Ansible and collection of one installed version."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from ..plugins.module_utils.domain.values import control_characters
from ..plugins.plugin_utils import ansible_runs, installed_version


def main() -> None:
    """Become ansible-playbook; the version that the command's link leads to now is kept until the play has ended."""
    descriptor = installed_version.hold()
    if descriptor is not None:
        os.set_inheritable(descriptor, True)  # noqa: FBT003 - the signature of os
    program = Path(sys.executable).with_name("ansible-playbook")
    collections = os.environ.get("ANSIBLE_COLLECTIONS_PATH", ansible_runs.SYSTEM_COLLECTIONS)
    environment = {
        **os.environ,
        "PATH": f"{program.parent}:{os.environ.get('PATH', os.defpath)}",
        # Ansible itself obeys `./ansible.cfg`, also if somebody else wrote it.
        "ANSIBLE_CONFIG": os.environ.get("ANSIBLE_CONFIG")
        or ansible_runs.configuration_file(warn=_warn, in_working_folder=True),
        "ANSIBLE_COLLECTIONS_PATH": f"{ansible_runs.COLLECTIONS}:{collections}",
    }
    os.execve(program, [str(program), *sys.argv[1:]], environment)  # noqa: S606 - the terminal and the exit status are the play's


def _warn(text: str) -> None:
    sys.stderr.write(f"{control_characters.escaped(text)}\n")


if __name__ == "__main__":
    main()
