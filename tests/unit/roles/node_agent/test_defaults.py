from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[4]
PLAY = """
- hosts: localhost
  gather_facts: false
  vars_files: [{root}/roles/node_agent/defaults/main.yml]
  tasks:
    - ansible.builtin.copy: {{content: "{{{{ node_agent_cluster_key }}}}", dest: "{answer}"}}
"""


@pytest.mark.parametrize(("options", "key"), [((), "/"), (("-e", "roundsman_root=/srv/lab"), "/srv/lab/")])
def test_the_key_is_read_below_the_root_of_the_inventory(tmp_path: Path, options: tuple[str, ...], key: str) -> None:
    play, answer = tmp_path / "play.yml", tmp_path / "answer"
    play.write_text(PLAY.format(root=ROOT, answer=answer))
    program = Path(sys.executable).with_name("ansible-playbook")
    environment = {**os.environ, "ANSIBLE_COLLECTIONS_PATH": str(ROOT / "playbooks/collections")}
    command = [
        str(program),
        "-i",
        "localhost,",
        "-c",
        "local",
        "-e",
        f"ansible_python_interpreter={sys.executable}",
        *options,
        str(play),
    ]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert answer.read_text() == f"{key}var/lib/roundsman/hmac.key"
