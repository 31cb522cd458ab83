"""What runs leave on disk, and what is left of them when they are killed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from ansible_collections.roundsman.cluster.plugins.plugin_utils import ansible_runs

from . import states

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from . import labs

FOREIGN = "4f1b-of-somebody-else"


def _secrets(one: labs.Running) -> dict[str, bytes]:
    known = json.loads((one.where.etc / "bmc.json").read_bytes())
    passwords = {f"password of {name}": entry["password"].encode() for name, entry in known.items()}
    keys = {
        str(path): path.read_bytes().strip()
        for path in [one.where.lib / "hmac.key", *one.lab.folder.glob("nodes/*/var/lib/roundsman/node.key")]
    }
    return {**passwords, **keys, "environment": FOREIGN.encode()}


def _holding_one(one: labs.Running, secrets: dict[str, bytes]) -> Iterator[str]:
    own = {one.where.etc / "bmc.json", one.where.lib / "hmac.key"}
    for path in one.where.root.rglob("*"):
        if path.is_file() and path not in own:
            data = path.read_bytes()
            yield from (f"{path}: {name}" for name, secret in secrets.items() if secret in data)


@pytest.mark.slow
def test_no_secret_is_left_by_power_diagnose_and_evacuation(lab: Callable[..., labs.Running]) -> None:
    one = lab(
        nodes=3,
        instances=3,
        environment={"BMC_PASSWORD": FOREIGN, "HTTPS_PROXY": f"http://x:{FOREIGN}@127.0.0.1:1"},
    )
    secrets = _secrets(one)
    assert len(set(secrets.values())) >= 5
    states.command(one, "node", "power", "status", "node1")
    one.lab.node("node2").say('{"status": "evacuate"}')
    one.diagnose()
    one.until(states.reads("node2", "completed"), "node2 is empty")
    states.command(one, "node", "power", "on", "node2")
    assert len(list(one.where.queue.glob("*/*/runner/artifacts/run/command"))) >= 3
    assert list(_holding_one(one, secrets)) == []


@pytest.mark.slow
def test_a_play_by_hand_that_is_killed_leaves_no_process_behind_when_its_locks_are_free(
    lab: Callable[..., labs.Running],
) -> None:
    one = lab(nodes=3, instances=3, migration_seconds=600)
    program = str(Path(sys.executable).with_name("ansible-playbook"))
    play = subprocess.Popen(
        [
            *(program, "-i", str(one.lab.folder / "inventory"), "-e", "node=node2"),
            str(ansible_runs.PLAYBOOKS / "evacuate.yml"),
        ],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        one.until(lambda _: _modules(one), "a migration is at work")
        modules = _modules(one)
    finally:
        os.kill(play.pid, signal.SIGKILL)
        play.wait()
    one.until(lambda _: one.get("/2/locks") == [], "its locks are free")
    assert set(modules) & set(_modules(one)) == set()


def _modules(one: labs.Running) -> list[int]:
    """The processes on lab nodes; of one that has ended nothing but its number is left to read."""
    marker = f"ROUNDSMAN_ROOT={one.lab.folder}/nodes/".encode()
    found = []
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and marker in (entry / "environ").read_bytes():
                found.append(int(entry.name))
        except OSError:
            continue
    return found
