"""Programs that cannot be killed: each writes to a file system that is frozen, which is an uninterruptible sleep."""

from __future__ import annotations

import contextlib
import os
import subprocess
import time
from typing import TYPE_CHECKING

import pytest
from ansible_collections.roundsman.cluster.daemon.jobs import process
from ansible_collections.roundsman.cluster.plugins.module_utils import killing
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.values import errors
from ansible_collections.roundsman.cluster.plugins.module_utils.hypervisor import virsh
from ansible_collections.roundsman.cluster.plugins.module_utils.monitoring import observing
from ansible_collections.roundsman.cluster.plugins.module_utils.oob import children
from ansible_collections.roundsman.cluster.plugins.module_utils.storage import programs
from ansible_collections.roundsman.cluster.plugins.plugin_utils import run_group

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

STUCK = r"process \d+ cannot be killed: it is stuck in the kernel \(state D\)"


@pytest.fixture(scope="module")
def dead_disk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder on a disk that answers no write until the tests are over."""
    folder = tmp_path_factory.mktemp("disk")
    image, mounted = folder / "image", folder / "mounted"
    mounted.mkdir()
    with image.open("wb") as file:
        file.truncate(16 << 20)
    made = "mkfs.ext4 -q image && mount -o loop image mounted && fsfreeze -f mounted"
    if os.geteuid() != 0 or subprocess.run(made, shell=True, cwd=folder, capture_output=True, check=False).returncode:
        subprocess.run(["umount", mounted], capture_output=True, check=False)
        pytest.skip("only root on a machine with loop devices can make a disk that is dead")
    try:
        yield mounted
    finally:
        subprocess.run(["fsfreeze", "-u", mounted], check=True)
        end = time.monotonic() + 60
        while subprocess.run(["umount", mounted], capture_output=True, check=False).returncode:
            assert time.monotonic() < end, f"{mounted} is still in use"
            time.sleep(0.1)


@pytest.fixture(autouse=True)
def _hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(killing, "REAP_SECONDS", 0.3)
    monkeypatch.setattr(children, "REAP_SECONDS", 0.3)
    monkeypatch.setattr(observing, "TIME_LIMIT", 0.5)


def touching(folder: Path, name: str) -> str:
    return f"exec touch {folder}/{name}"


def test_a_tool_of_a_disk_that_is_dead_holds_its_module_no_longer_than_its_limit(dead_disk: Path) -> None:
    with pytest.raises(errors.Failed, match=f"is not done after 0.5 s; {STUCK}"):
        programs.Programs().run("/bin/sh", "-c", touching(dead_disk, "a"), time_limit=0.5)


def test_a_client_of_libvirt_that_is_stuck_holds_its_module_no_longer_than_its_limit(
    dead_disk: Path, tmp_path: Path
) -> None:
    program = tmp_path / "virsh"
    program.write_text(f"#!/bin/sh\n{touching(dead_disk, 'b')}\n")
    program.chmod(0o755)
    with pytest.raises(errors.Failed, match=f"virsh list: no answer of .* in 0.5 s; {STUCK}"):
        virsh.Virsh(program=str(program)).run("list", time_limit=0.5)


def test_a_collector_that_is_stuck_holds_the_agent_no_longer_than_its_limit(dead_disk: Path) -> None:
    with pytest.raises(errors.CommandFailed, match=STUCK):
        observing.output(["/bin/sh", "-c", touching(dead_disk, "c")])


def test_a_driver_that_is_stuck_keeps_no_other_from_answering(dead_disk: Path) -> None:
    def stuck(_report: children.Report) -> None:
        (dead_disk / "d").touch()

    ended = children.run([stuck, lambda report: report("on")], deadline=1.0)
    assert [(one.line, one.killed) for one in ended] == [(None, True), ("on", False)]


def test_a_run_with_a_process_that_cannot_be_killed_is_left_after_a_few_seconds(
    dead_disk: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = run_group.end
    monkeypatch.setattr(run_group, "end", lambda run: real(run, patience=0.5))
    mine = {**os.environ, process.RUN_VARIABLE: str(tmp_path)}
    with contextlib.ExitStack() as stack:
        child = subprocess.Popen(["touch", dead_disk / "e"], env=mine)
        stack.callback(child.poll)
        end = time.monotonic() + 60
        while killing._state(child.pid) != "D":
            assert time.monotonic() < end
            time.sleep(0.01)
        process.end_all_of(tmp_path)
        assert child.poll() is None
    assert f"processes {child.pid} cannot be killed" in caplog.text


def test_what_keeps_a_pipe_open_after_the_end_of_its_program_is_not_waited_for(tmp_path: Path) -> None:
    script = f"setsid sh -c 'echo $$ >{tmp_path}/left; exec sleep 60' & while true; do sleep 1; done"
    with pytest.raises(errors.Failed, match=r"is not done after 0\.5 s$"):
        programs.Programs().run("/bin/sh", "-c", script, time_limit=0.5)
    os.kill(int((tmp_path / "left").read_text()), 9)
