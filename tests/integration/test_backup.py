"""Backup and restore, in the very steps of docs/operating.md."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING

from tests.integration import labs

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

EVACUATE = '{"status":"evacuate","details":"psu 2"}'
PROGRAM = [sys.executable, "-m", "ansible_collections.roundsman.cluster.daemon.cli.main"]
DAEMON = "ansible_collections.roundsman.cluster.daemon"
LIB = "var/lib/roundsman"


def roundsman(root: Path, *words: str) -> str:
    command = [*PROGRAM, "--dir", str(root), *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def lead_without_votes(root: Path) -> None:
    """State once that no other controller works: the nodes follow the lost one, and have no agents that vote."""
    ready, tell = os.pipe()
    words = ["--root", str(root), "--no-voting", "--yes-do-it", "--ready-fd", str(tell)]
    daemon = subprocess.Popen([sys.executable, "-m", DAEMON, *words], pass_fds=(tell,), stdin=subprocess.DEVNULL)
    os.close(tell)
    with os.fdopen(ready, "rb") as stream:
        assert stream.readline() == b"ready\n"
    daemon.terminate()
    assert daemon.wait(120) == 0


def test_a_controller_is_restored_from_etc_the_key_and_an_export(
    lab: Callable[..., labs.Running], tmp_path: Path
) -> None:
    one = lab(nodes=4, instances=3)
    labs.drop(one, "first", labs.report(one, "node3", EVACUATE))
    one.until(one.ended("node3"), "the first evacuation ends")
    before = one.cluster()
    assert before.maintenance.jobs
    controller, backup = one.lab.controller, tmp_path / "backup"
    shutil.copytree(controller / "etc", backup / "etc")
    shutil.copy2(controller / LIB / "hmac.key", backup / "hmac.key")
    roundsman(controller, "config", "export", str(backup / "config.json"))
    one.stop()

    controller.rename(tmp_path / "lost")
    (controller / LIB).mkdir(parents=True)
    (controller / "var/log/roundsman").mkdir(parents=True)
    shutil.copytree(backup / "etc", controller / "etc")
    shutil.copy2(backup / "hmac.key", controller / LIB / "hmac.key")
    roundsman(controller, "config", "import", str(backup / "config.json"), "--yes")
    lead_without_votes(controller)
    one.start()

    assert one.ask("GET", "/1/health").status_code == 200
    serial_no = json.loads((backup / "config.json").read_bytes())["serial_no"]
    assert f"imported from a backup (serial {serial_no})" in roundsman(controller, "status")
    assert roundsman(controller, "resume") == "Maintenance goes on.\n"
    incident = one.incident("node3")
    assert incident is not None
    assert incident["repair-status"] == "completed"
    labs.drop(one, "second", labs.report(one, "node2", EVACUATE))
    one.until(one.ended("node2"), "a round works on the restored controller")
    restored = one.incident("node2")
    assert restored is not None
    assert restored["repair-status"] == "completed", restored
    assert min(restored["jobs"]) > max(before.maintenance.jobs)
    assert {job["id"] for job in one.get("/1/jobs")} == set(restored["jobs"]), "no old job ran again"
