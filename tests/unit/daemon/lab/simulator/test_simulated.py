from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from ansible_collections.roundsman.cluster.daemon.lab.simulator import fake, simulated
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.values import errors

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def replicas(tmp_path: Path) -> simulated.Replicas:
    for folder in (simulated.DISKS, fake.RUNNING):
        (tmp_path / folder).mkdir(parents=True)
    return simulated.Replicas(tmp_path, opcode="4/0")


def test_a_replica_keeps_its_sizes_when_it_is_made_again(replicas: simulated.Replicas, tmp_path: Path) -> None:
    assert replicas.create("a", [5, 6])
    assert not replicas.create("a", [7])
    assert json.loads((tmp_path / simulated.DISKS / "a.json").read_text()) == {"disks": [5, 6]}


def test_a_replica_in_use_is_not_removed(replicas: simulated.Replicas, tmp_path: Path) -> None:
    replicas.create("a", [5])
    fake.Driver(tmp_path, opcode="").start("a", {})
    with pytest.raises(errors.Refused, match="in use"):
        replicas.remove("a")
    fake.Driver(tmp_path, opcode="").stop("a", time_limit=1.0)
    assert (replicas.remove("a"), replicas.remove("a")) == (True, False)
    assert replicas.names() == []


def test_a_node_without_disks_has_no_copies_and_takes_none(tmp_path: Path) -> None:
    one = simulated.Replicas(tmp_path, opcode="")
    assert one.names() == []
    with pytest.raises(errors.Failed, match="no fake disks"):
        one.create("a", [1])
