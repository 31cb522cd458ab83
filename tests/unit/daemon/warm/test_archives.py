"""The archives of modules that runs leave for the next ones."""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING

import pytest
from ansible_collections.roundsman.cluster.daemon.warm import archives

if TYPE_CHECKING:
    from pathlib import Path

OWN = "ansible_collections.roundsman.cluster.plugins.modules.{}-ZIP_DEFLATED-none"
OTHER = "ansible_collections.my.own.plugins.modules.thing-ZIP_DEFLATED-none"


@pytest.fixture
def plugins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A collection of one module and one file that it ships."""
    made = tmp_path / "plugins"
    for name in ("modules/a.py", "module_utils/domain/b.py", "action/c.py"):
        (made / name).parent.mkdir(parents=True)
        (made / name).write_text("pass\n")
    monkeypatch.setattr(archives, "PLUGINS", made)
    return made


def run_of(tmp_path: Path, **made: str) -> Path:
    """The temporary folder of a run that has made these archives."""
    folder = tmp_path / f"run{len(list(tmp_path.iterdir()))}"
    (folder / archives.CACHE).mkdir(parents=True)
    for name, content in made.items():
        (folder / archives.CACHE / name).write_text(content)
        (folder / archives.CACHE / f"{name}.lock").touch()
    return folder


def keep(temporary: Path, kept: Path) -> None:
    """Keep what a run has made while nothing changed."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(archives, "folder", lambda _: kept)
        archives.keep(temporary, kept, kept.parent.parent)


def test_a_run_finds_the_archives_of_this_collection_that_another_has_made(tmp_path: Path) -> None:
    kept, second = tmp_path / "warm" / "archives" / "1", tmp_path / "second"
    keep(run_of(tmp_path, **{OWN.format("a"): "archive", OTHER: "not ours"}), kept)
    second.mkdir()

    archives.lend(kept, second)

    assert {path.name: path.read_text() for path in (second / archives.CACHE).iterdir()} == {OWN.format("a"): "archive"}
    (second / archives.CACHE / OWN.format("b")).write_text("more")
    keep(second, kept)
    assert {path.name: path.read_text() for path in kept.iterdir()} == {
        OWN.format("a"): "archive",
        OWN.format("b"): "more",
    }
    assert not any(path.is_symlink() for path in kept.iterdir())
    assert [path.name for path in kept.parent.iterdir()] == ["1"]


@pytest.mark.parametrize("name", ["modules/a.py", "module_utils/domain/b.py"])
@pytest.mark.parametrize("change", ["written", "replaced", "gone", "touched"])
def test_a_change_of_what_is_shipped_has_all_made_anew(tmp_path: Path, plugins: Path, name: str, change: str) -> None:
    before, path = archives.folder(tmp_path / "warm"), plugins / name
    assert archives.folder(tmp_path / "warm") == before
    status = path.stat()
    if change == "written":
        path.write_text("pass  # more\n")
        os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    elif change == "replaced":
        path.with_suffix(".new").write_text("fail\n")
        os.utime(path.with_suffix(".new"), ns=(status.st_atime_ns, status.st_mtime_ns))
        path.with_suffix(".new").rename(path)
    elif change == "touched":
        os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns + 1))
    else:
        path.unlink()

    assert archives.folder(tmp_path / "warm") != before


def test_a_reboot_has_all_made_anew_and_a_change_of_an_action_nothing(
    tmp_path: Path, plugins: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = archives.folder(tmp_path)
    (plugins / "action/c.py").write_text("pass  # more\n")
    assert archives.folder(tmp_path) == before
    (tmp_path / "boot").write_text("another\n")
    monkeypatch.setattr(archives, "BOOT_ID", tmp_path / "boot")
    assert archives.folder(tmp_path) != before


def test_what_was_kept_of_modules_as_they_were_before_goes_with_the_next_archive(tmp_path: Path) -> None:
    old, new = tmp_path / "archives" / "old", tmp_path / "archives" / "new"
    keep(run_of(tmp_path, **{OWN.format("a"): "old"}), old)
    keep(run_of(tmp_path), new)
    assert old.exists()
    keep(run_of(tmp_path, **{OWN.format("a"): "new"}), new)
    assert [path.name for path in new.parent.iterdir()] == ["new"]


def test_where_nothing_can_be_kept_a_run_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept, run = tmp_path / "archives" / "1", run_of(tmp_path, **{OWN.format("a"): "archive"})
    archives.lend(kept, tmp_path / "second")
    keep(tmp_path / "second", kept)

    def full(_: Path, copied: Path) -> None:
        copied.write_text("half")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(shutil, "copyfile", full)
    keep(run, kept)
    assert list(kept.iterdir()) == []
    assert [path.name for path in kept.parent.iterdir()] == ["1"]


@pytest.mark.parametrize("name", ["release.py", "module_utils/basic.py"])
def test_another_ansible_has_all_made_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    # Archives hold ansible.module_utils, too, and are pickles of a class of Ansible.
    ansible = tmp_path / "ansible"
    for path in ("release.py", "module_utils/basic.py"):
        (ansible / path).parent.mkdir(parents=True, exist_ok=True)
        (ansible / path).write_text("pass\n")
    monkeypatch.setattr(archives, "ANSIBLE", ansible)
    before = archives.folder(tmp_path / "warm")
    (ansible / name).write_text("pass  # more\n")
    assert archives.folder(tmp_path / "warm") != before


def test_what_is_removed_while_it_is_looked_at_ends_no_run(
    tmp_path: Path, plugins: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stat = type(plugins).stat

    def removed(path: Path, **options: bool) -> os.stat_result:
        if path.name == "a.py":
            path.unlink(missing_ok=True)
        return stat(path, **options)

    monkeypatch.setattr(type(plugins), "stat", removed)
    before = archives.folder(tmp_path / "warm")
    monkeypatch.undo()
    monkeypatch.setattr(archives, "PLUGINS", plugins)
    assert archives.folder(tmp_path / "warm") == before


def test_what_a_run_has_made_while_modules_changed_is_not_kept(tmp_path: Path, plugins: Path) -> None:
    warm = tmp_path / "warm"
    before = archives.folder(warm)
    (plugins / "modules/a.py").write_text("pass  # more\n")
    archives.keep(run_of(tmp_path, **{OWN.format("a"): "archive"}), before, warm)
    assert not before.exists()


def test_nobody_else_can_put_a_folder_in_place_of_what_is_kept(tmp_path: Path) -> None:
    warm, umask = tmp_path / "warm", os.umask(0)
    try:
        kept = archives.folder(warm)
        archives.keep(run_of(tmp_path, **{OWN.format("a"): "archive"}), kept, warm)
    finally:
        os.umask(umask)
    assert {oct(path.stat().st_mode & 0o777) for path in (kept, kept.parent)} == {"0o700"}
