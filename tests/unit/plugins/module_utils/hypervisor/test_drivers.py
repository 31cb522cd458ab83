from __future__ import annotations

from pathlib import Path

import pytest
from ansible_collections.roundsman.cluster.plugins.module_utils.domain import errors
from ansible_collections.roundsman.cluster.plugins.module_utils.hypervisor import drivers, fake


def test_the_fake_one_is_there() -> None:
    assert isinstance(drivers.get("fake", Path("/nowhere"), opcode=""), fake.Driver)


def test_an_unknown_one_is_refused_with_what_there_is() -> None:
    with pytest.raises(errors.InvalidInput, match="no hypervisor 'xen': use fake"):
        drivers.get("xen", Path("/nowhere"), opcode="")
