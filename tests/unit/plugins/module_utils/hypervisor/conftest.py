"""A node with libvirt, and another one that it reaches."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from ansible_collections.roundsman.cluster.plugins.module_utils.hypervisor import kvm, kvm_migration, loads

from .libvirt_twin import Libvirts

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def libvirts(monkeypatch: pytest.MonkeyPatch) -> Libvirts:
    made = Libvirts()
    for module in (kvm, kvm_migration, loads):
        monkeypatch.setattr(module, "time", made.clock)
    return made


@pytest.fixture
def driver(libvirts: Libvirts, tmp_path: Path) -> kvm.Driver:
    return kvm.Driver(tmp_path, opcode="4/0", connect=libvirts.connect)
