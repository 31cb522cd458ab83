from __future__ import annotations

import sys
from pathlib import Path

import pytest
from ansible_collections.roundsman.cluster.daemon.lab.simulator import fake, simulated_node
from ansible_collections.roundsman.cluster.plugins.module_utils import lab_drivers
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.values import errors
from ansible_collections.roundsman.cluster.plugins.module_utils.hypervisor import drivers, kvm


def test_the_fake_one_is_there() -> None:
    assert isinstance(drivers.get("fake", Path("/nowhere"), opcode=""), fake.Driver)


def test_an_unknown_one_is_refused_with_what_there_is() -> None:
    with pytest.raises(errors.InvalidInput, match="no hypervisor 'xen': use one of fake, kvm"):
        drivers.get("xen", Path("/nowhere"), opcode="")


def test_kvm_is_there() -> None:
    assert isinstance(drivers.get("kvm", Path("/nowhere"), opcode=""), kvm.Driver)


def test_every_name_has_a_driver() -> None:
    for name in drivers.NAMES:
        drivers.get(name, Path("/nowhere"), opcode="")


def test_the_fake_one_is_refused_where_no_lab_has_brought_it_along(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, lab_drivers.MODULE, raising=False)
    monkeypatch.setattr(sys, "path", [path for path in sys.path if Path(path).name != simulated_node.ON_NODES.name])
    with pytest.raises(errors.InvalidInput, match="hypervisor 'fake' is for the nodes of a lab"):
        drivers.get("fake", Path("/nowhere"), opcode="")
