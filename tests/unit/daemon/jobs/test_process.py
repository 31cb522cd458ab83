from __future__ import annotations

import fcntl
import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from ansible_collections.roundsman.cluster.daemon.jobs import process
from ansible_collections.roundsman.cluster.plugins.plugin_utils import run_records

if TYPE_CHECKING:
    from pathlib import Path

LEFT = "import os, sys, time; os.write(1, b'%s %d\\n' % (sys.argv[1].encode(), os.getpid())); time.sleep(60)"
TREE = """
import subprocess, sys, time
def left(name, **more):
    subprocess.Popen([sys.executable, "-S", "-c", sys.argv[1], name], **more)
left("plain")
left("gone", start_new_session=True)
left("bare", env={}, start_new_session=True)
time.sleep(60)
"""


@pytest.mark.parametrize(
    ("files", "standing"),
    [
        (set(), process.Standing.NEVER_RAN),
        ({"livelock"}, process.Standing.NEVER_RAN),
        ({"livelock", "began"}, process.Standing.LOST),
        ({"livelock", "began", "result.json"}, process.Standing.ENDED),
    ],
)
def test_a_run_stands_by_its_livelock_and_its_files(
    tmp_path: Path, files: set[str], standing: process.Standing
) -> None:
    for name in files - {"result.json"}:
        (tmp_path / name).touch()
    if "result.json" in files:
        run_records.conclude(tmp_path, {"status": "success"})
    assert process.standing(tmp_path) is standing
    descriptor = os.open(tmp_path / "livelock", os.O_RDWR | os.O_CREAT)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    assert process.standing(tmp_path) is process.Standing.RUNNING
    os.close(descriptor)
    assert process.standing(tmp_path) is standing


def test_every_process_of_a_run_is_ended_and_no_other(tmp_path: Path) -> None:
    other = {**os.environ, process.RUN_VARIABLE: str(tmp_path / "1")}
    mine = {**os.environ, process.RUN_VARIABLE: str(tmp_path)}
    command = [sys.executable, "-S", "-c", TREE, LEFT]
    with (
        subprocess.Popen(["sleep", "60"], env=other) as stranger,
        subprocess.Popen(command, env=mine, stdout=subprocess.PIPE, text=True) as root,
    ):
        assert root.stdout is not None
        said = {root.stdout.readline().split()[0] for _child in range(3)}
        ended = process.end_all_of(tmp_path)
        root.kill()
        # Their end is the end of the output: the pipe closes when the last of them is gone.
        left = root.stdout.read()
        is_left_alone = stranger.poll() is None
        stranger.kill()
    assert (said, ended >= 4, left, is_left_alone) == ({"plain", "gone", "bare"}, True, "", True)


def test_a_run_without_processes_has_none_to_end(tmp_path: Path) -> None:
    assert process.end_all_of(tmp_path) == 0
