"""The playbook that turns off the autostart of adopted domains, on a host whose `virsh` is a file of their names."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

PLAYBOOK = Path(__file__).resolve().parents[3] / "playbooks/adopt_autostart.yml"
OURS, OTHERS = "5f0c5d2e-6a0e-4d86-8f0e-0f9d1e3f7a11", "2a6b7f0e-6f0e-4a53-9a3c-0f5f6c1a2b33"
VIRSH = """#!/bin/sh
cd "${0%/*}" || exit 1
shift 2
case "$1" in
list) cat autostarting && echo ;;
autostart) grep -q "$3" autostarting && sed -i "/$3/d" autostarting && echo "$3" >>turned_off ;;
*) exit 1 ;;
esac
"""


def run(host: Path, *, source: str = "command line") -> str:
    """What the play changed, and failed to change, in Ansible's own words."""
    given = {"adopt_autostart": {"one": [OURS]}}
    command = [str(Path(sys.executable).with_name("ansible-playbook")), "-i", str(host / "hosts"), "-c", "local"]
    (host / "hosts").write_text("one\ntwo\n")
    (host / "group_vars").mkdir(exist_ok=True)
    inventory = {"ansible_python_interpreter": sys.executable, **(given if source == "inventory" else {})}
    (host / "group_vars/all.yml").write_text(json.dumps(inventory))
    imported = {"name": "Import it", "ansible.builtin.import_playbook": str(PLAYBOOK)}
    (host / "main.yml").write_text(json.dumps([imported | ({"vars": given} if source == "vars" else {})]))
    command += ["-e", json.dumps(given)] if source == "command line" else []
    environment = {**os.environ, "PATH": f"{host}:{os.environ['PATH']}", "ANSIBLE_HOME": str(host / "ansible")}
    ended = subprocess.run(
        [*command, str(host / "main.yml")],
        env={**environment, "ANSIBLE_STDOUT_CALLBACK": "default", "ANSIBLE_NOCOLOR": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    recap = re.search(r"one : .*changed=\d+ .*failed=\d+", re.sub(r" +", " ", ended.stdout))
    assert recap is not None, ended.stdout + ended.stderr
    return " ".join(part for part in recap.group().split() if part.startswith(("changed", "failed")))


@pytest.mark.parametrize("source", ["vars", "inventory", "command line"])
def test_autostart_is_turned_off_once_and_a_second_run_changes_nothing(tmp_path: Path, source: str) -> None:
    (tmp_path / "virsh").write_text(VIRSH)
    (tmp_path / "virsh").chmod(0o755)
    (tmp_path / "autostarting").write_text(f"{OTHERS}\n{OURS}\n")

    assert run(tmp_path, source=source) == "changed=1 failed=0"
    assert run(tmp_path, source=source) == "changed=0 failed=0"

    assert (tmp_path / "turned_off").read_text().split() == [OURS]
    assert (tmp_path / "autostarting").read_text().split() == [OTHERS]
