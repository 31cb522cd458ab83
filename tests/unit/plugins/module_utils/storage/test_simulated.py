from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from ansible_collections.roundsman.cluster.plugins.module_utils.domain import errors
from ansible_collections.roundsman.cluster.plugins.module_utils.hypervisor import fake
from ansible_collections.roundsman.cluster.plugins.module_utils.storage import simulated

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def copies(tmp_path: Path) -> simulated.Copies:
    for folder in (simulated.DISKS, fake.RUNNING):
        (tmp_path / folder).mkdir(parents=True)
    return simulated.Copies(tmp_path, opcode="4/0")


def test_a_copy_keeps_its_sizes_when_it_is_made_again(copies: simulated.Copies, tmp_path: Path) -> None:
    assert copies.create("a", [5, 6])
    assert not copies.create("a", [7])
    assert json.loads((tmp_path / simulated.DISKS / "a.json").read_text()) == {"disks": [5, 6]}


def test_a_copy_in_use_is_not_removed(copies: simulated.Copies, tmp_path: Path) -> None:
    copies.create("a", [5])
    fake.Driver(tmp_path, opcode="").start("a", {})
    with pytest.raises(errors.Refused, match="in use"):
        copies.remove("a")
    fake.Driver(tmp_path, opcode="").stop("a", time_limit=1.0)
    assert (copies.remove("a"), copies.remove("a")) == (True, False)
    assert copies.names() == []


def test_a_node_without_disks_has_no_copies_and_takes_none(tmp_path: Path) -> None:
    one = simulated.Copies(tmp_path, opcode="")
    assert one.names() == []
    with pytest.raises(errors.Failed, match="no fake disks"):
        one.create("a", [1])
