"""What Ansible carries to a node for each module: its archive has what the module needs there, and nothing of a lab."""

from __future__ import annotations

import functools
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[4]
SIMULATED = re.compile(r"/lab/|simulat|/fake|node_journal")
LIMIT = 231_000
"""Bytes for `drbd_info` at most; it had 230 kB when this was set, and 262 kB with the simulated disks of the lab."""


@functools.cache
def archives() -> dict[str, dict[str, Any]]:
    """Of each module the bytes that a node gets, and the names of the files in them."""
    command = [sys.executable, str(Path(__file__).with_name("archives.py")), str(ROOT / "playbooks/collections")]
    found: dict[str, dict[str, Any]] = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
    return found


def test_no_module_carries_the_simulator_of_a_lab_to_a_node() -> None:
    carried = {name: [file for file in one["files"] if SIMULATED.search(file)] for name, one in archives().items()}
    assert any(file.endswith("/storage/drbd_node.py") for file in archives()["drbd_info"]["files"])
    assert {name: files for name, files in carried.items() if files} == {}


def test_what_a_node_gets_to_look_at_its_replicas_is_bounded() -> None:
    assert archives()["drbd_info"]["bytes"] <= LIMIT
