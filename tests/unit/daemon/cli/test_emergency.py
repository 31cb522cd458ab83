from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING

import pytest
from ansible_collections.roundsman.cluster.plugins.module_utils.domain import tree
from ansible_collections.roundsman.cluster.plugins.plugin_utils.config import store

from tests.unit import small_cluster
from tests.unit.daemon.cli import terminal

if TYPE_CHECKING:
    from pathlib import Path

    from tests.unit.daemon.cli.conftest import Run


@pytest.fixture(autouse=True)
def where(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tree.Tree:
    monkeypatch.setenv("ROUNDSMAN_ROOT", str(tmp_path / "root"))
    found = tree.Tree(tmp_path / "root")
    found.lib.mkdir(parents=True)
    store.write(found.config, small_cluster.make())
    return found


def test_a_dry_run_shows_what_would_be_done_in_order(roundsman: Run) -> None:
    status, out, _err = roundsman("cluster", "epo", "--all", "--dry-run")
    assert status == 0
    assert [line.split()[0] for line in out.splitlines()[2:]] == ["node2", "node3", "node10", "node1"]
    assert "inst1" in out.splitlines()[2]


def test_programs_read_the_preview_as_json(roundsman: Run) -> None:
    _status, out, _err = roundsman("cluster", "epo", "node2", "--dry-run", "-o", "json")
    told = json.loads(out)
    assert (told["on"], [step["name"] for step in told["steps"]], len(told["code"])) == (False, ["node2"], 6)


def test_the_preview_tells_who_loses_its_copy(roundsman: Run) -> None:
    assert "Go on without their second copy: inst1" in roundsman("cluster", "epo", "node3", "--dry-run")[1]


@pytest.mark.parametrize("answer", ["yes\n", "\n", ""])
def test_only_the_code_of_the_preview_goes_on(
    roundsman: Run, monkeypatch: pytest.MonkeyPatch, where: tree.Tree, answer: str
) -> None:
    monkeypatch.setattr(sys, "stdin", terminal.Terminal(answer))
    status, _out, err = roundsman("cluster", "epo", "--all")
    assert (status, "nothing was done" in err) == (1, True)
    assert store.read(where.config).maintenance.epo is None


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ([], "name the nodes, or say --all"),
        (["--groups"], "name the node groups"),
        (["--all", "node1"], "name neither nodes nor groups"),
        (["nobody"], "nobody"),
        (["--on"], "no emergency power off stands"),
    ],
)
def test_what_is_not_clear_is_refused_in_one_line(roundsman: Run, words: list[str], told: str) -> None:
    status, _out, err = roundsman("cluster", "epo", *words, "--dry-run")
    assert status != 0
    assert told in err
    assert len(err.splitlines()) == 1
