"""The benches run one after the other: those that fail are listed, and what the others print is kept."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.bench import __main__ as bench

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def benches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Three of them: one fails, one hangs, one prints a figure."""
    folder = tmp_path / "tests/bench"
    folder.mkdir(parents=True)
    (folder / "fails.py").write_text("raise SystemExit(3)")
    (folder / "hangs.py").write_text("import signal; signal.pause()")
    (folder / "works.py").write_text("print('1.2 times as fast')")
    monkeypatch.setattr(bench, "ROOT", tmp_path)
    monkeypatch.setattr(bench, "LIMIT", 3.0)
    return folder


@pytest.mark.usefixtures("benches")
def test_a_bench_that_fails_or_hangs_is_named_and_the_others_run(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bench, "ALL", ("fails", "hangs", "works"))
    monkeypatch.setattr("sys.argv", ["bench"])
    assert bench.main() == 1
    printed = capsys.readouterr().out
    assert "1.2 times as fast" in printed
    assert "fails: it ended with 3" in printed
    assert "hangs: it ended with 124" in printed


def test_the_page_has_the_figures_of_each_bench_with_commit_and_machine() -> None:
    page = bench.page([("round", "57 s\n"), ("power", "0.9 times\n")])
    assert "## round\n\n```\n57 s\n```\n" in page
    assert "## power" in page
    assert ", commit " in page


def test_all_benches_of_the_folder_are_run() -> None:
    parts = {"power_engine", "power_rack"}
    runnable = {path.stem for path in (bench.ROOT / "tests/bench").glob("[a-z]*.py") if "__main__" in path.read_text()}
    assert runnable - parts == set(bench.ALL)
