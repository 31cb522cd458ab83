from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

from ansible_collections.roundsman.cluster.daemon.jobs import opcode_process

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


def test_each_run_has_a_folder_of_its_own_that_goes_with_it(tmp_path: Path) -> None:
    runs = [tmp_path / "1", tmp_path / "2"]
    for run in runs:
        run.mkdir()
    first, second = (opcode_process.make_sockets(run, below=tmp_path / "run") for run in runs)
    assert first != second
    assert (first.stat().st_mode & 0o777) == (second.stat().st_mode & 0o777) == 0o700
    (first / "socket").touch()
    opcode_process.remove_sockets(runs[0])
    assert not first.exists()
    assert second.is_dir()
    opcode_process.remove_sockets(runs[1])


def test_its_path_is_short_enough_for_sockets_wherever_the_controller_keeps_its_files(tmp_path: Path) -> None:
    folder = opcode_process.make_sockets(tmp_path, below=tmp_path / ("x" * 80))
    assert len(str(folder)) <= opcode_process.LONGEST + 20
    opcode_process.remove_sockets(tmp_path)
    assert not folder.exists()


def test_what_was_never_made_is_removed_without_a_word(tmp_path: Path) -> None:
    opcode_process.remove_sockets(tmp_path)


def test_two_that_remove_them_at_once_both_succeed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The end of a run and the one who cancels it: the other is done between two looks of the first."""
    folder = opcode_process.make_sockets(tmp_path, below=tmp_path / "run")

    def first_the_other(*_: object, **__: object) -> None:
        monkeypatch.undo()
        opcode_process.remove_sockets(tmp_path)

    monkeypatch.setattr(shutil, "rmtree", first_the_other)
    opcode_process.remove_sockets(tmp_path)
    assert not folder.exists()
    assert not (tmp_path / "ssh").is_symlink()
