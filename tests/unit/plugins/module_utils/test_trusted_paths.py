"""What is run by its path: each step of it belongs to root alone, and the very file that was checked is run."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from ansible_collections.roundsman.cluster.plugins.module_utils import trusted_paths
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.values import errors

from tests.unit import other_users

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

STRANGER, ANOTHER = 65534, other_users.DAEMON


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder below /tmp that every user can reach, with `opt/site/oob`."""
    with other_users.open_folder() as made:
        (made / "opt/site").mkdir(parents=True)
        for place in (made / "opt", made / "opt/site"):
            place.chmod(0o755)
        write(made / "opt/site/oob")
        yield made


def write(path: Path, text: str = "#!/bin/sh\necho run\n") -> None:
    path.write_text(text)
    path.chmod(0o755)


def refusal(path: Path | str) -> str:
    with pytest.raises(errors.Refused) as refused, trusted_paths.opened(str(path)):
        pass
    assert "\n" not in str(refused.value)
    return str(refused.value)


def content(path: Path) -> str:
    with trusted_paths.opened(str(path)) as found:
        return Path(found.executable).read_text()


def test_a_file_of_the_caller_s_own_is_opened_whatever_leads_to_it(folder: Path) -> None:
    (folder / "to-file").symlink_to("opt/site/../site/oob")
    (folder / "to-folder").symlink_to(folder / "opt")
    for path in (
        folder / "opt/site/oob",
        folder / "to-file",
        folder / "to-folder/./site/oob",
        folder / "opt/../to-file",
    ):
        assert "echo run" in content(path)
    with trusted_paths.opened(str(folder / "to-file")) as found:
        assert found.places == (f"{folder}/to-file", f"{folder}/opt/site/oob")


@pytest.mark.parametrize(
    ("prepare", "place", "why"),
    [
        (lambda top: (top / "opt/site/oob").chmod(0o775), "opt/site/oob", "has the mode 0775"),
        (lambda top: (top / "opt/site/oob").chmod(0o757), "opt/site/oob", "has the mode 0757"),
        (lambda top: (top / "opt/site").chmod(0o775), "opt/site", "has the mode 0775"),
        (lambda top: (top / "opt").chmod(0o777), "opt", "has the mode 0777"),
    ],
)
def test_what_others_may_write_is_refused_with_the_command_that_ends_it(
    folder: Path, prepare: Callable[[Path], None], place: str, why: str
) -> None:
    prepare(folder)
    told = refusal(folder / "opt/site/oob")
    assert f"{folder}/{place} {why}, so others than its owner can write it" in told
    assert told.endswith(f"`chmod go-w {folder}/{place}`")
    assert str(folder / "opt/site/oob") in told
    subprocess.run(told.rpartition("`")[0].rpartition("`")[2], shell=True, check=True)
    assert "echo run" in content(folder / "opt/site/oob")


@other_users.only_root
@pytest.mark.parametrize("place", ["opt/site/oob", "opt/site", "opt"])
def test_root_takes_nothing_that_a_step_of_the_path_gives_to_somebody_else(folder: Path, place: str) -> None:
    os.chown(folder / place, STRANGER, STRANGER)
    told = refusal(folder / "opt/site/oob")
    assert f"{folder}/{place} is owned by uid {STRANGER}: it must be owned by root" in told
    assert told.endswith(f"`chown root:root {folder}/{place}`")
    subprocess.run(told.rpartition("`")[0].rpartition("`")[2], shell=True, check=True)
    assert "echo run" in content(folder / "opt/site/oob")


@other_users.only_root
def test_a_link_counts_by_its_owner_and_by_where_it_leads(folder: Path) -> None:
    (folder / "link").symlink_to("opt/site/oob")
    os.chown(folder / "link", STRANGER, STRANGER, follow_symlinks=False)
    assert refusal(folder / "link").endswith(f"must be owned by root: `chown -h root:root {folder}/link`")
    (folder / "theirs").mkdir()
    write(folder / "theirs/oob")
    os.chown(folder / "theirs", STRANGER, STRANGER)
    (folder / "opt/site/good").symlink_to(folder / "theirs/oob")
    assert f"{folder}/opt/site/good: {folder}/theirs is owned by uid {STRANGER}" in refusal(folder / "opt/site/good")
    (folder / "theirs/back").symlink_to(folder / "opt/site/oob")
    assert f"{folder}/theirs is owned by" in refusal(folder / "theirs/back")
    assert f"{folder}/theirs is owned by" in refusal(folder / "theirs/../opt/site/oob")


def test_below_a_sticky_folder_only_a_folder_counts(folder: Path) -> None:
    sticky = folder / "sticky"
    (sticky / "own").mkdir(parents=True)
    sticky.chmod(0o1777)
    (sticky / "own").chmod(0o755)
    for path in (sticky / "own/oob", sticky / "oob"):
        write(path)
    (sticky / "link").symlink_to(folder / "opt/site/oob")
    (sticky / "to-folder").symlink_to(folder / "opt")
    assert "echo run" in content(sticky / "own/oob")
    for path in (sticky / "oob", sticky / "link", sticky / "to-folder/site/oob"):
        assert f"is in {sticky}, where others can create files too: move it" in refusal(path)
    sticky.chmod(0o777)
    assert f"{sticky} has the mode 0777" in refusal(sticky / "own/oob")


@other_users.only_root
def test_in_a_sticky_folder_both_it_and_the_folder_below_must_be_root_s(
    folder: Path,
) -> None:
    sticky = folder / "sticky"
    (sticky / "own").mkdir(parents=True)
    write(sticky / "own/oob")
    sticky.chmod(0o1777)
    (sticky / "own").chmod(0o755)
    os.chown(sticky / "own", STRANGER, STRANGER)
    assert f"{sticky}/own is owned by uid {STRANGER}" in refusal(sticky / "own/oob")
    os.chown(sticky / "own", 0, 0)
    os.chown(sticky, STRANGER, STRANGER)
    assert f"{sticky} is owned by uid {STRANGER}" in refusal(sticky / "own/oob")


@pytest.mark.parametrize(
    ("path", "why"),
    [
        ("opt/absent", "No such file or directory"),
        ("opt/site/oob/below", "Not a directory"),
        ("opt/site", "must be a regular file"),
        ("pipe", "must be a regular file"),
        ("loop", "Too many levels of symbolic links"),
    ],
)
def test_what_is_no_file_is_refused_and_a_pipe_holds_nobody_up(folder: Path, path: str, why: str) -> None:
    os.mkfifo(folder / "pipe", 0o755)
    (folder / "loop").symlink_to("loop")
    assert why in refusal(folder / path)


@pytest.mark.parametrize("path", ["", "oob", "./oob", "/", "/tmp/\0"])
def test_a_path_that_is_none_is_refused(path: str) -> None:
    refusal(path)


def test_a_program_that_this_process_cannot_execute_is_named(folder: Path) -> None:
    (folder / "opt/site/oob").chmod(0o644)
    with pytest.raises(errors.Refused) as refused, trusted_paths.helper(str(folder / "opt/site/oob")):
        pass
    assert str(refused.value) == f"{folder}/opt/site/oob cannot be executed: `chmod 0755 {folder}/opt/site/oob`"


def test_no_descriptor_is_left_open(folder: Path) -> None:
    before = len(list(Path("/proc/self/fd").iterdir()))
    content(folder / "opt/site/oob")
    refusal(folder / "opt/absent")
    assert len(list(Path("/proc/self/fd").iterdir())) == before


def test_the_file_that_was_opened_is_run_though_another_one_took_its_place(folder: Path) -> None:
    path = folder / "opt/site/oob"
    with trusted_paths.opened(str(path)) as found:
        write(folder / "evil", "#!/bin/sh\necho swapped\n")
        (folder / "evil").rename(path)
        done = subprocess.run(
            [path], executable=found.executable, pass_fds=[found.descriptor], capture_output=True, check=True
        )
    assert done.stdout == b"run\n"


def as_user(uid: int, path: Path) -> str:
    """What a process of this user gets of a path."""
    with other_users.acting_as(uid):
        try:
            with trusted_paths.opened(str(path)) as found:
                found.refuse_unless_executable()
        except errors.Refused as error:
            return str(error)
    return "it may run it"


@other_users.only_root
def test_another_user_takes_its_own_files_and_root_s_and_nobody_else_s(folder: Path) -> None:
    path = folder / "opt/site/oob"
    assert as_user(STRANGER, path) == "it may run it"
    for place in (path, path.parent):
        os.chown(place, STRANGER, STRANGER)
    assert as_user(STRANGER, path) == "it may run it"
    assert "is owned by uid 65534: it must be owned by root or uid 12345" in as_user(ANOTHER, path)
    assert f"is owned by uid {STRANGER}: it must be owned by root: " in refusal(path)
    # A program that may be run and not read.
    os.chown(path, 0, 0)
    shutil.copy("/bin/true", path)
    path.chmod(0o711)
    assert as_user(STRANGER, path) == "it may run it"


def test_the_content_of_a_settings_file_is_read_only_from_a_folder_and_a_file_without_links(folder: Path) -> None:
    site = folder / "opt/site"
    assert trusted_paths.read(site / "absent", root=folder) is None
    assert trusted_paths.read(site / "oob", root=folder) == b"#!/bin/sh\necho run\n"
    (site / "link").symlink_to("oob")
    with pytest.raises(errors.Refused, match="must be a regular file"):
        trusted_paths.read(site / "link", root=folder)


@other_users.only_root
def test_below_a_root_folder_of_somebody_else_only_root_s_files_count(folder: Path) -> None:
    path = folder / "opt/site/oob"
    assert trusted_paths.is_trusted(path, root=folder)
    os.chown(folder, STRANGER, STRANGER)
    assert trusted_paths.owners(folder) == {0}
    assert trusted_paths.owners(folder / "absent") == {0}
    assert not trusted_paths.is_trusted(path, root=folder)
