from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

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


def test_a_process_that_is_not_there_is_not_waited_for(tmp_path: Path) -> None:
    with subprocess.Popen(["true"]) as gone:
        gone.wait()
    with start(gone.pid, tmp_path / "one") as one:
        assert said(one) == ""
        assert one.wait() != 0
