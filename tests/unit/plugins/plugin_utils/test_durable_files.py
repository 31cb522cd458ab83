from __future__ import annotations

import errno
import os
import signal
from pathlib import Path
from typing import NoReturn

import pytest
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.values import errors
from ansible_collections.roundsman.cluster.plugins.plugin_utils import durable_files

from tests.unit import other_users


def full(*_anything: object) -> NoReturn:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


class FailingSync:
    """`os.fsync` that fails once, at its n-th call, with an error; `seen` are the names of what was synchronised."""

    def __init__(self, number: int, code: int) -> None:
        self._left = number
        self._code = code
        self._real = os.fsync
        self.seen: list[str] = []

    def __call__(self, descriptor: int) -> None:
        self.seen.append(Path(f"/proc/self/fd/{descriptor}").readlink().name)
        self._left -= 1
        if self._left == 0:
            raise OSError(self._code, os.strerror(self._code))
        self._real(descriptor)


@pytest.fixture(autouse=True)
def known(monkeypatch: pytest.MonkeyPatch) -> list[errors.StateUnknown]:
    """This process has not failed yet; returns what its listeners are told."""
    told: list[errors.StateUnknown] = []
    monkeypatch.setattr(durable_files, "_DISK", durable_files.Disk())
    durable_files.on_unknown(told.append)
    return told


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


@pytest.mark.parametrize("code", [errno.EIO, errno.ENOSPC])
def test_a_rename_that_the_disk_failed_is_unknown_and_one_without_room_is_refused(
    path: Path, known: list[errors.StateUnknown], monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    def fail(*_paths: object) -> NoReturn:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(type(path), "replace", fail)
    with pytest.raises(errors.StateUnknown if code == errno.EIO else errors.StoreFailed):
        durable_files.replace(path, b"new")
    assert len(known) == (1 if code == errno.EIO else 0)
    assert [found.name for found in path.parent.iterdir()] == ["file"]


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


def test_the_name_of_a_file_is_durable_before_its_first_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str] = []
    monkeypatch.setattr(os, "fsync", lambda fd: seen.append(Path(f"/proc/self/fd/{fd}").readlink().name))
    durable_files.append_line(tmp_path / "lines", "one")
    durable_files.append_line(tmp_path / "lines", "two")
    assert seen == [tmp_path.name, "lines", "lines"]


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


@other_users.only_root
@pytest.mark.parametrize("mode", [0o640, 0o644])
def test_what_root_writes_for_a_daemon_is_the_daemons_with_the_mode_that_was_asked_for(path: Path, mode: int) -> None:
    os.chown(path.parent, other_users.DAEMON, other_users.ADMINISTRATORS)
    new, before = path.with_name("new"), os.umask(0o077)
    try:
        durable_files.replace(new, b"new", mode=mode, is_of_folder=True)
    finally:
        os.umask(before)
    found = new.stat()
    assert (found.st_uid, found.st_gid) == (other_users.DAEMON, other_users.ADMINISTRATORS)
    assert found.st_mode & 0o777 == mode


def test_a_folder_is_opened_once_and_what_takes_its_place_afterwards_gets_nothing(tmp_path: Path) -> None:
    folder, moved = tmp_path / "folder", tmp_path / "moved"
    folder.mkdir()
    with durable_files.opened_folder(folder) as opened:
        folder.rename(moved)
        folder.symlink_to(tmp_path)
        durable_files.replace(opened / "file", b"new")
    assert (moved / "file").read_bytes() == b"new"
    with pytest.raises(OSError, match="directory"), durable_files.opened_folder(folder):
        pass


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT])
def test_a_file_that_has_no_room_is_refused_and_nothing_changes(
    path: Path, known: list[errors.StateUnknown], code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "fsync", FailingSync(1, code))
    with pytest.raises(errors.StoreFailed, match="what was there before is kept"):
        durable_files.replace(path, b"new")
    assert (path.read_bytes(), list(path.parent.iterdir()), known) == (b"old", [path], [])
    durable_files.replace(path, b"newer")
    assert path.read_bytes() == b"newer"


@pytest.mark.parametrize(
    "case",
    [
        (1, errno.EIO, b"old"),
        (1, errno.EROFS, b"old"),
        (2, errno.EIO, b"new"),
        (2, errno.ENOSPC, b"new"),
        (2, errno.EDQUOT, b"new"),
    ],
)
def test_after_a_failed_fsync_it_is_unknown_which_content_is_kept_and_nothing_more_is_written(
    path: Path, known: list[errors.StateUnknown], case: tuple[int, int, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    number, code, content = case
    monkeypatch.setattr(os, "fsync", FailingSync(number, code))
    with pytest.raises(errors.StateUnknown, match=f"file: .*disk.*{os.strerror(code)}.*unknown") as first:
        durable_files.replace(path, b"new")
    assert (path.read_bytes(), list(path.parent.iterdir()), known) == (content, [path], [first.value])
    with pytest.raises(errors.StateUnknown) as again:
        durable_files.replace(path.with_name("other"), b"new")
    assert str(again.value) == str(first.value)
    with pytest.raises(errors.StateUnknown):
        durable_files.append_line(path, "line")
    with pytest.raises(errors.StateUnknown):
        durable_files.sync_folder(path.parent)
    assert list(path.parent.iterdir()) == [path]


def test_a_folder_that_cannot_be_opened_refuses_before_anything_has_changed(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = os.open

    def opened(name: Path, flags: int, mode: int = 0o777) -> int:
        if flags & os.O_DIRECTORY:
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
        return real(name, flags, mode)

    monkeypatch.setattr(os, "open", opened)
    with pytest.raises(errors.StoreFailed, match="Too many open files; what was there before is kept"):
        durable_files.replace(path, b"new")
    assert path.read_bytes() == b"old"


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT])
def test_a_line_that_has_no_room_is_taken_back_durably(
    tmp_path: Path, code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, failing = tmp_path / "lines", FailingSync(3, code)
    monkeypatch.setattr(os, "fsync", failing)
    durable_files.append_line(path, "one")
    with pytest.raises(errors.StoreFailed, match=os.strerror(code)):
        durable_files.append_line(path, "two")
    assert path.read_text() == "one\n"
    assert failing.seen == [tmp_path.name, "lines", "lines", "lines"]
    durable_files.append_line(path, "three")
    assert path.read_text() == "one\nthree\n"


@pytest.mark.parametrize(("number", "code"), [(1, errno.EIO), (1, errno.ENOSPC), (2, errno.EIO)])
def test_a_line_is_unknown_after_a_failed_fsync(
    tmp_path: Path, number: int, code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "fsync", FailingSync(number, code))
    with pytest.raises(errors.StateUnknown, match="unknown"):
        durable_files.append_line(tmp_path / "lines", "one")
    assert (tmp_path / "lines").read_text() == ("" if number == 1 else "one\n")


def test_a_line_that_cannot_be_taken_back_is_unknown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "lines"
    durable_files.append_line(path, "one")
    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(errors.StateUnknown, match="unknown"):
        durable_files.append_line(path, "two")


def test_the_rest_of_a_torn_line_is_removed_before_the_next_one(tmp_path: Path) -> None:
    path = tmp_path / "lines"
    path.write_text("one\ntw")
    durable_files.append_line(path, "three")
    assert path.read_text() == "one\nthree\n"
    path.write_text("on")
    durable_files.append_line(path, "two")
    assert path.read_text() == "two\n"


def test_lines_of_several_processes_do_not_take_each_other_back(tmp_path: Path) -> None:
    path = tmp_path / "lines"
    children = []
    for number in range(4):
        child = os.fork()
        if child == 0:
            for count in range(25):
                durable_files.append_line(path, f"{number}-{count}")
            os._exit(0)
        children.append(child)
    assert [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children] == [0] * 4
    assert sorted(path.read_text().split()) == sorted(f"{number}-{count}" for number in range(4) for count in range(25))


def test_a_file_is_written_again_under_another_name_with_its_mode_and_the_time_of_its_last_change(path: Path) -> None:
    path.chmod(0o600)
    os.utime(path, (1000, 1000))
    before = path.stat()
    durable_files.write_again(path)
    after = path.stat()
    assert (path.read_bytes(), after.st_mode, after.st_mtime) == (b"old", before.st_mode, 1000)
    assert after.st_ino != before.st_ino
    assert list(path.parent.iterdir()) == [path]


def test_a_time_in_the_future_is_not_kept_when_a_file_is_written_again(path: Path) -> None:
    written = path.stat().st_ctime
    os.utime(path, (written + 5000, written + 5000))
    durable_files.write_again(path)
    assert path.stat().st_mtime < written + 5000
