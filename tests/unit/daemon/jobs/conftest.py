from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.unit.daemon import twins
from tests.unit.daemon.jobs import daemons

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def daemon(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> daemons.Daemon:
    pairs = [("node1", "node2"), ("node1", "node3"), ("node1", "node4")]
    return daemons.Daemon(twins.lab(tmp_path, pairs=pairs), monkeypatch)
