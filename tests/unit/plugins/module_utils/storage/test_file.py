from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING

import pytest
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.values import errors
from ansible_collections.roundsman.cluster.plugins.module_utils.storage import file, sharedfile, templates
from ansible_collections.roundsman.cluster.plugins.module_utils.storage.disks import Disk, Disks, State

if TYPE_CHECKING:
    from pathlib import Path

UUID = "5f0c5d2e-6a0e-4d86-8f0e-0f9d1e3f7a11"
KINDS = [file.Template, sharedfile.Template]


def made(kind: type[file.Template], folder: Path, *wanted: Disk) -> file.Template:
    return kind(Disks("a", UUID, wanted or (Disk(2), Disk(2)), file_dir=str(folder)))


@pytest.mark.parametrize("kind", KINDS)
def test_files_are_made_once_and_removed_with_their_folder(tmp_path: Path, kind: type[file.Template]) -> None:
    storage = made(kind, tmp_path / "disks")
    templates.done(storage.steps(State.PRESENT))
    assert [disk.size for disk in storage.local_disks()] == [2.0, 2.0]
    assert [path.stat().st_mode & 0o777 for path in (tmp_path / "disks" / UUID).iterdir()] == [0o600, 0o600]
    (tmp_path / "disks" / UUID / "disk1").write_bytes(b"data")
    for state in (State.PRESENT, State.ACTIVE, State.STANDBY, State.INFO):
        assert storage.steps(state) == []
    templates.done(storage.steps(State.ABSENT))
    assert list((tmp_path / "disks").iterdir()) == []
    assert storage.steps(State.ABSENT) == []


def test_only_shared_files_are_active_on_two_nodes(tmp_path: Path) -> None:
    for kind in KINDS:
        templates.done(made(kind, tmp_path).steps(State.PRESENT))
    assert made(sharedfile.Template, tmp_path).steps(State.SHARED) == []
    with pytest.raises(errors.Refused, match="files of this node: no other can reach them"):
        made(file.Template, tmp_path).steps(State.SHARED)


def test_a_file_that_is_not_there_cannot_be_active(tmp_path: Path) -> None:
    with pytest.raises(errors.Refused, match="has no file"):
        made(file.Template, tmp_path).steps(State.ACTIVE)


def test_a_file_that_a_process_has_open_is_kept(tmp_path: Path) -> None:
    storage = made(file.Template, tmp_path)
    templates.done(storage.steps(State.PRESENT))
    with (tmp_path / UUID / "disk1").open("rb"), pytest.raises(errors.Refused, match="disk1 of a is in use"):
        storage.steps(State.ABSENT)
    assert len(storage.steps(State.ABSENT)) == 2


def test_an_adopted_file_is_neither_made_nor_removed(tmp_path: Path) -> None:
    storage = made(file.Template, tmp_path, Disk(1, name=str(tmp_path / "old.img")))
    with pytest.raises(errors.Refused, match=r"old\.img"):
        storage.steps(State.PRESENT)
    (tmp_path / "old.img").touch()
    assert storage.steps(State.PRESENT) == storage.steps(State.ABSENT) == []


def test_a_full_disk_leaves_no_half_of_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "posix_fallocate", full)
    with pytest.raises(errors.Failed, match="No space left"):
        templates.done(made(file.Template, tmp_path).steps(State.PRESENT))
    assert list((tmp_path / UUID).iterdir()) == []


def test_what_cannot_be_part_of_a_name_is_refused(tmp_path: Path) -> None:
    storage = file.Template(Disks("a", "../b", (Disk(1),), file_dir=str(tmp_path)))
    with pytest.raises(errors.InvalidInput, match="is no UUID"):
        storage.steps(State.PRESENT)
