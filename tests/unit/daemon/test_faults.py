from __future__ import annotations

import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from tests import crash_points

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

# Its last argument makes it one of the programs that have points.
PASSING = "from ansible_collections.roundsman.cluster.daemon import faults; faults.point('before-began')"
COMMAND = (sys.executable, "-c", PASSING, "of.cluster.daemon")


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    """What stands for a daemon, and the files that ask for its end."""
    with subprocess.Popen(["sleep", "600"]) as process:
        (tmp_path / "daemon.pid").write_text(f"{process.pid}\n")
        (tmp_path / "before-began").touch()
        yield process
        process.kill()


def test_no_variable_has_the_product_end_a_daemon(tmp_path: Path, daemon: subprocess.Popen[bytes]) -> None:
    subprocess.run(COMMAND, check=True, env={**os.environ, "ROUNDSMAN_FAULTS": str(tmp_path)})
    assert (tmp_path / "before-began").exists()
    assert daemon.poll() is None


def test_a_process_of_the_tests_ends_the_daemon_once_and_only_where_it_was_asked(
    tmp_path: Path, daemon: subprocess.Popen[bytes]
) -> None:
    environment = {**os.environ, **crash_points.make(tmp_path / "points")}
    subprocess.run(COMMAND, check=True, env=environment)
    assert daemon.poll() is None
    for name in ("daemon.pid", "before-began"):
        (tmp_path / name).rename(tmp_path / "points" / name)
    subprocess.run(COMMAND[:-1], check=True, env=environment)
    assert daemon.poll() is None
    subprocess.run(COMMAND, check=True, env=environment)
    assert daemon.wait() == -signal.SIGKILL
    (tmp_path / "points/daemon.pid").unlink()
    subprocess.run(COMMAND, check=True, env=environment)
    assert (tmp_path / "points/before-began.hit").exists()
