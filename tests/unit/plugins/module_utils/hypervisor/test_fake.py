from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from ansible_collections.roundsman.cluster.plugins.module_utils.domain import errors
from ansible_collections.roundsman.cluster.plugins.module_utils.hypervisor import fake

if TYPE_CHECKING:
    from pathlib import Path


def driver(root: Path) -> fake.Driver:
    (root / fake.RUNNING).mkdir(parents=True, exist_ok=True)
    return fake.Driver(root, opcode="4/0")


def test_the_journal_has_every_event_in_order_with_its_opcode(tmp_path: Path) -> None:
    one = driver(tmp_path)
    assert (one.start("a", {"memory": 5}), one.start("a", {}), one.stop("a"), one.stop("a")) == (
        True,
        False,
        True,
        False,
    )
    entries = [json.loads(line) for line in (tmp_path / fake.JOURNAL).read_text().splitlines()]
    assert [(one["event"], one["opcode"]) for one in entries] == [("started", "4/0"), ("stopped", "4/0")]
    assert entries[0]["ns"] < entries[1]["ns"]


def test_a_migration_moves_the_instance_with_its_facts(tmp_path: Path) -> None:
    here, there = driver(tmp_path / "a"), driver(tmp_path / "b")
    here.start("x", {"memory": 5})
    assert here.migrate("x", str(tmp_path / "b"), hvparams={"migration_seconds": "0"})
    assert (here.running(), there.running()) == ([], ["x"])
    assert json.loads((tmp_path / "b" / fake.RUNNING / "x.json").read_text()) == {"memory": 5}
    assert not here.migrate("x", str(tmp_path / "b"), hvparams={})


def test_a_migration_that_breaks_off_leaves_the_instance_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    here = driver(tmp_path / "a")
    driver(tmp_path / "b")
    here.start("x", {})
    # The other node dies while memory is copied.
    monkeypatch.setattr("time.sleep", lambda _: (tmp_path / "b" / fake.RUNNING).rmdir())
    with pytest.raises(errors.Failed, match="still runs here"):
        here.migrate("x", str(tmp_path / "b"), hvparams={})
    assert here.running() == ["x"]


def test_a_node_without_the_hypervisor_runs_nothing_and_starts_nothing(tmp_path: Path) -> None:
    one = fake.Driver(tmp_path, opcode="")
    assert one.running() == []
    with pytest.raises(errors.Failed, match="no fake hypervisor"):
        one.start("a", {})
