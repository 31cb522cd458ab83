from __future__ import annotations

import errno
import os
import signal
from pathlib import Path
from typing import NoReturn

import pytest
from ansible_collections.roundsman.cluster.plugins.module_utils.domain import errors
from ansible_collections.roundsman.cluster.plugins.plugin_utils import durable_files


def full(*_anything: object) -> NoReturn:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    found = tmp_path / "file"
    durable_files.replace(found, b"old")
    return found


def test_a_file_has_its_new_content_and_nothing_is_left_beside_it(path: Path) -> None:
    durable_files.replace(path, b"new")
    assert path.read_bytes() == b"new"
    assert list(path.parent.iterdir()) == [path]
    assert path.stat().st_mode & 0o007 == 0


def test_the_content_is_durable_before_it_has_its_name_and_the_name_after(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[tuple[str, bytes]] = []
    real = os.fsync

    def watch(descriptor: int) -> None:
        seen.append((Path(f"/proc/self/fd/{descriptor}").readlink().name, path.read_bytes()))
        real(descriptor)

    monkeypatch.setattr(os, "fsync", watch)
    durable_files.replace(path, b"new")
    assert seen == [(f".file.{os.getpid()}.new", b"old"), (path.parent.name, b"new")]


def test_a_full_disk_leaves_the_old_file(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(errors.StoreFailed, match="No space left on device; what was there before is kept"):
        durable_files.replace(path, b"new")
    assert path.read_bytes() == b"old"
    assert list(path.parent.iterdir()) == [path]


def test_a_missing_folder_is_an_error_that_is_foreseen(tmp_path: Path) -> None:
    with pytest.raises(errors.StoreFailed, match="No such file"):
        durable_files.replace(tmp_path / "no/file", b"new")
    with pytest.raises(errors.StoreFailed, match="No such file"):
        durable_files.append_line(tmp_path / "no/file", "new")


def test_a_process_killed_before_the_rename_leaves_the_old_file(path: Path) -> None:
    child = os.fork()
    if child == 0:
        # The temporary file is whole and durable; the kill comes where the rename would.
        type(path).replace = lambda *_: os.kill(os.getpid(), signal.SIGKILL)  # type: ignore[assignment,method-assign]
        durable_files.replace(path, b"new")
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL
    assert path.read_bytes() == b"old"
    assert (path.parent / f".file.{child}.new").read_bytes() == b"new"
    durable_files.replace(path, b"newer")
    assert path.read_bytes() == b"newer"


def test_lines_are_added_at_the_end(tmp_path: Path) -> None:
    durable_files.append_line(tmp_path / "lines", "one")
    durable_files.append_line(tmp_path / "lines", "zwei ü")
    assert (tmp_path / "lines").read_text() == "one\nzwei ü\n"


def test_the_first_line_makes_the_name_of_the_file_durable_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str] = []
    monkeypatch.setattr(os, "fsync", lambda fd: seen.append(Path(f"/proc/self/fd/{fd}").readlink().name))
    durable_files.append_line(tmp_path / "lines", "one")
    durable_files.append_line(tmp_path / "lines", "two")
    assert seen == ["lines", tmp_path.name, "lines"]


def test_half_a_line_on_a_full_disk_does_not_spoil_the_next(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, real = tmp_path / "lines", os.write
    durable_files.append_line(path, "one")
    with monkeypatch.context() as patched:
        patched.setattr(os, "write", lambda fd, data: real(fd, data[:2]))
        with pytest.raises(errors.StoreFailed, match="No space left"):
            durable_files.append_line(path, "two")
    durable_files.append_line(path, "three")
    assert path.read_text() == "one\nthree\n"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may give a file to any group")
def test_the_group_of_the_file_that_is_replaced_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "config.data"
    path.touch()
    os.chown(path, -1, 12345)
    durable_files.replace(path, b"new")
    assert (path.stat().st_gid, path.read_bytes()) == (12345, b"new")


@pytest.mark.parametrize("kind", ["link", "file of another process"])
def test_what_somebody_put_in_the_way_is_neither_written_to_nor_used(tmp_path: Path, kind: str) -> None:
    victim, way = tmp_path / "victim", tmp_path / f".state.{os.getpid()}.new"
    victim.write_text("as it was")
    if kind == "link":
        way.symlink_to(victim)
    else:
        way.hardlink_to(victim)
    durable_files.replace(tmp_path / "state", b"new")
    assert victim.read_text() == "as it was"
    assert (tmp_path / "state").read_bytes() == b"new"
    assert not (tmp_path / "state").is_symlink()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["state", "victim"]
