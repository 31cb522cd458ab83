"""The simulated node that tests of DRBD work on; nobody waits there."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from ansible_collections.roundsman.cluster.plugins.module_utils.storage import drbd_roles

from tests.unit.plugins.module_utils.storage.machine import Machine

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    for name in ("PATIENCE", "IN_USE"):
        monkeypatch.setattr(drbd_roles, name, 0.0)
    return Machine(tmp_path / "n1")
