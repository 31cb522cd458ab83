from __future__ import annotations

import fcntl
import os
import select
import signal
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest
from ansible_collections.roundsman.cluster.plugins.plugin_utils import keeper

if TYPE_CHECKING:
    from pathlib import Path


def start(pid: int, *files: Path) -> subprocess.Popen[str]:
    command = [sys.executable, "-S", keeper.__file__, str(pid), *map(str, files)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)


def said(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def test_it_holds_its_files_until_the_watched_process_ends_and_takes_the_livelock_away(tmp_path: Path) -> None:
    files = (tmp_path / "play-1", tmp_path / "config.lock")
    (tmp_path / "play-1.hold").touch()
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE) as watched, start(watched.pid, *files) as one:
        assert said(one) == "ready"
        one.send_signal(signal.SIGINT)
        with start(watched.pid, files[1]) as second:
            assert said(second) == f"{files[1]} is held by ansible-playbook, pid {watched.pid}"
            assert second.wait() == 1
        assert one.poll() is None
        watched.kill()
        assert one.wait() == 0
    descriptor = os.open(files[1], os.O_RDWR)
    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    os.close(descriptor)
    assert list(tmp_path.iterdir()) == [files[1]]


WORKER = """
import os, sys, time
receive, send = os.pipe()
if os.fork() == 0:
    os.setsid()
    os.write(1, b"%d\\n" % os.getpid())
    time.sleep(600)
os.write(1, b"0\\n")
sys.stdin.read()
"""
LONELY = """
import pathlib, sys
sys.path.insert(0, str(pathlib.Path(sys.argv[1]).parent))
import run_group
run_group._own_group = lambda: None
source = sys.argv.pop(1)
exec(compile(open(source).read(), source, "exec"), {"__name__": "__main__", "__file__": source})
"""


@pytest.mark.parametrize("how", ["group", "no group"])
def test_what_is_left_of_a_killed_play_is_ended_before_its_locks_are_free(tmp_path: Path, how: str) -> None:
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen([sys.executable, "-S", "-c", WORKER], **pipes) as play:
        worker = max(int(said(play)) for _ in range(2))
        started = ["-c", LONELY, keeper.__file__] if how == "no group" else [keeper.__file__]
        command = [sys.executable, "-S", *started, str(play.pid), str(tmp_path / "play-1")]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as one:
            assert said(one) == "ready"
            assert (tmp_path / "play-1.run").is_dir()
            handle = os.pidfd_open(worker)
            assert not select.select([handle], [], [], 0)[0]
            play.kill()
            assert one.wait() == 0
            assert select.select([handle], [], [], 0)[0], "it has ended before the keeper"
            os.close(handle)
    assert list(tmp_path.iterdir()) == []


def test_a_process_that_is_not_there_is_not_waited_for(tmp_path: Path) -> None:
    with subprocess.Popen(["true"]) as gone:
        gone.wait()
    with start(gone.pid, tmp_path / "one") as one:
        assert said(one) == ""
        assert one.wait() != 0
