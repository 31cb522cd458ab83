from __future__ import annotations

from pathlib import Path

import pytest
from ansible_collections.roundsman.cluster.plugins.module_utils.domain import errors
from ansible_collections.roundsman.cluster.plugins.module_utils.hypervisor import drivers, fake, kvm


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
