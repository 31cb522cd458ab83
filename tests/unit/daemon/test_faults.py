from __future__ import annotations

import signal
import subprocess
from typing import TYPE_CHECKING

from ansible_collections.roundsman.cluster.daemon import faults

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


def test_a_point_kills_the_daemon_once_and_only_where_it_was_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with subprocess.Popen(["sleep", "600"]) as daemon:
        (tmp_path / "daemon.pid").write_text(f"{daemon.pid}\n")
        (tmp_path / "before-began").touch()
        monkeypatch.delenv("ROUNDSMAN_FAULTS", raising=False)
        faults.point("before-began")
        monkeypatch.setenv("ROUNDSMAN_FAULTS", str(tmp_path))
        faults.point("before-result")
        assert daemon.poll() is None
        faults.point("before-began")
        assert daemon.wait() == -signal.SIGKILL
    (tmp_path / "daemon.pid").unlink()
    faults.point("before-began")
    assert (tmp_path / "before-began.hit").exists()
