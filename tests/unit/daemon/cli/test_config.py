from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import pytest
from ansible_collections.roundsman.cluster.plugins.module_utils.domain import tree
from ansible_collections.roundsman.cluster.plugins.plugin_utils.config import document, history, store

from tests.unit import small_cluster

if TYPE_CHECKING:
    from pathlib import Path

    from tests.unit.daemon.cli.conftest import Run

OLDER = dataclasses.replace(small_cluster.make(), serial_no=41)
NEWER = dataclasses.replace(OLDER, serial_no=99)


@pytest.fixture
def where(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tree.Tree:
    monkeypatch.setenv("ROUNDSMAN_ROOT", str(tmp_path / "root"))
    found = tree.Tree(tmp_path / "root")
    found.lib.mkdir(parents=True)
    for cluster in (OLDER, NEWER):
        store.write(found.config, cluster)
    return found


@pytest.mark.parametrize("damaged", [False, True])
def test_an_earlier_version_that_is_taken_over_without_the_daemon_becomes_the_newest(
    where: tree.Tree, tmp_path: Path, roundsman: Run, *, damaged: bool
) -> None:
    given = tmp_path / "edited.json"
    given.write_bytes(document.dump(OLDER))
    if damaged:
        where.config.write_bytes(b"{")
    status, _out, _err = roundsman("config", "import", str(given), "--yes")
    assert status == 0
    taken = store.read(where.config)
    assert taken.serial_no == 100
    assert taken.nodes == OLDER.nodes
    assert [one.serial_no for one in history.versions(where.config)] == [41, 99, 100]
