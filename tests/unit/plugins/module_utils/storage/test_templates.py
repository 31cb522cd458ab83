from __future__ import annotations

from pathlib import Path

import pytest
from ansible_collections.roundsman.cluster.plugins.module_utils.domain import errors
from ansible_collections.roundsman.cluster.plugins.module_utils.storage import simulated, templates


def test_instances_of_the_fake_hypervisor_have_simulated_disks() -> None:
    assert isinstance(templates.get("drbd", Path("/nowhere"), hypervisor="fake", opcode=""), simulated.Copies)


def test_what_has_no_template_is_refused() -> None:
    with pytest.raises(errors.InvalidInput, match="no disk template 'rbd' for kvm"):
        templates.get("rbd", Path("/nowhere"), hypervisor="kvm", opcode="")
