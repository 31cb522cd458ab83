from __future__ import annotations

import fcntl
import os
import select
import signal
import tempfile
from typing import TYPE_CHECKING

import pytest
from ansible_collections.roundsman.cluster.plugins.module_utils import whitelist
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.values import errors

if TYPE_CHECKING:
    import pathlib

OWNER = whitelist.Owner(os.geteuid(), os.getegid())
LIMIT = 30.0


@pytest.fixture
def folder(tmp_path: pathlib.Path) -> pathlib.Path:
    made = tmp_path / "commands"
    made.mkdir()
    made.chmod(0o755)
    return made


def put(folder: pathlib.Path, body: str = "true", *, name: str = "probe", mode: int = 0o755) -> pathlib.Path:
    path = folder / name
    path.write_text("#!/bin/sh\n" + body + "\n")
    os.chown(path, OWNER.uid, OWNER.gid)
    path.chmod(mode)
    return path


def refusal(folder: pathlib.Path, name: str = "probe", *, owner: whitelist.Owner = OWNER) -> str:
    with pytest.raises(errors.CommandRefused) as caught:
        whitelist.check(folder, name, owner=owner)
    return caught.value.reason


def failure(path: pathlib.Path, *, time_limit: float = LIMIT) -> str:
    with pytest.raises(errors.CommandFailed) as caught:
        whitelist.run(path, stdin=b"", time_limit=time_limit)
    return caught.value.reason


def say(path: pathlib.Path, *, stdin: bytes = b"") -> bytes:
    return whitelist.run(path, stdin=stdin, time_limit=LIMIT).stdout


def has_ended(pid: int, *, within_ms: int) -> bool:
    try:
        handle = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        ending = select.poll()
        ending.register(handle, select.POLLIN)
        return bool(ending.poll(within_ms))
    finally:
        os.close(handle)


def test_a_protected_executable_file_in_a_protected_folder_is_allowed(folder: pathlib.Path) -> None:
    assert whitelist.check(folder, put(folder).name, owner=OWNER) == folder / "probe"


def test_a_link_to_a_protected_file_is_allowed_and_counts_as_the_file(folder: pathlib.Path) -> None:
    target = put(folder, name="target")
    (folder / "probe").symlink_to(target)
    assert whitelist.check(folder, "probe", owner=OWNER) == folder / "probe"
    target.chmod(0o777)
    assert refusal(folder) == "mode"


@pytest.mark.parametrize("mode", [0o775, 0o757, 0o1755, 0o2755, 0o4755])
def test_a_folder_with_more_than_0755_allows_nothing(folder: pathlib.Path, mode: int) -> None:
    put(folder)
    folder.chmod(mode)
    assert refusal(folder) == "mode"


@pytest.mark.parametrize("mode", [0o775, 0o757, 0o777, 0o1755, 0o2755, 0o4755])
def test_a_file_with_more_than_0755_is_refused(folder: pathlib.Path, mode: int) -> None:
    put(folder).chmod(mode)
    assert refusal(folder) == "mode"


@pytest.mark.parametrize("mode", [0o644, 0o655, 0o411])
def test_a_file_that_its_owner_may_not_execute_is_refused(folder: pathlib.Path, mode: int) -> None:
    put(folder, mode=mode)
    assert refusal(folder) == "not_executable"


@pytest.mark.parametrize("mode", [0o700, 0o500, 0o100, 0o755])
def test_a_file_with_less_than_0755_is_allowed(folder: pathlib.Path, mode: int) -> None:
    put(folder, mode=mode)
    assert whitelist.check(folder, "probe", owner=OWNER) == folder / "probe"


@pytest.mark.parametrize(
    "owner", [whitelist.Owner(OWNER.uid + 1, OWNER.gid), whitelist.Owner(OWNER.uid, OWNER.gid + 1)]
)
def test_a_folder_of_another_user_or_group_allows_nothing(folder: pathlib.Path, owner: whitelist.Owner) -> None:
    put(folder)
    assert refusal(folder, owner=owner) == "owner"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
@pytest.mark.parametrize(("uid", "gid"), [(OWNER.uid + 1, OWNER.gid), (OWNER.uid, OWNER.gid + 1)])
def test_a_file_of_another_user_or_group_is_refused(folder: pathlib.Path, uid: int, gid: int) -> None:
    os.chown(put(folder), uid, gid)
    assert refusal(folder) == "owner"


@pytest.mark.parametrize(
    "name",
    [
        "",
        " ",
        ".",
        "..",
        "../probe",
        "sub/probe",
        "/bin/true",
        "probe.sh",
        "probe\n",
        "pro be",
        "pröbe",
        "a\0b",
        "-é",
    ],
)
def test_a_name_is_a_bare_word(folder: pathlib.Path, name: str) -> None:
    put(folder)
    assert refusal(folder, name) == "name"


def test_a_missing_folder_a_missing_file_and_a_folder_for_a_file_are_refused(folder: pathlib.Path) -> None:
    assert refusal(folder / "none") == "directory"
    assert refusal(put(folder, name="file")) == "directory"
    assert refusal(folder) == "missing"
    (folder / "probe").mkdir()
    (folder / "probe").chmod(0o755)
    assert refusal(folder) == "not_a_file"


def test_the_folder_is_checked_before_the_name_and_the_name_before_the_file(folder: pathlib.Path) -> None:
    assert refusal(folder, "no/name") == "name"
    folder.chmod(0o777)
    assert refusal(folder, "no/name") == "mode"
    assert refusal(folder, "none") == "mode"


def test_a_command_gets_its_input_and_neither_arguments_nor_environment_nor_folder(
    folder: pathlib.Path,
) -> None:
    told = b'{"a": "\xc3\xa9"}'
    assert say(put(folder, "/bin/cat"), stdin=told) == told
    assert say(put(folder, 'printf %s "$#"; pwd')) == b"0/\n"
    path = put(folder, "/bin/tr '\\0' '\\n' </proc/$$/environ")
    assert say(path) == b""


def test_a_command_that_reads_nothing_of_a_large_input_blocks_nobody(folder: pathlib.Path) -> None:
    assert say(put(folder, "echo done"), stdin=b"x" * 1_000_000) == b"done\n"


def test_a_node_without_room_for_temporary_files_can_still_run_what_needs_no_input(
    folder: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(folder / "none"))
    path = put(folder, "/bin/cat; echo done")
    assert say(path) == b"done\n"
    with pytest.raises(errors.CommandFailed) as caught:
        whitelist.run(path, stdin=b"x", time_limit=LIMIT)
    assert caught.value.reason == "start"


def test_exit_code_signal_and_both_outputs_are_told(folder: pathlib.Path) -> None:
    ended = whitelist.run(put(folder, "echo out; echo err >&2; exit 3"), stdin=b"", time_limit=LIMIT)
    assert ended == whitelist.Completed(3, b"out\n", b"err\n")
    killed = whitelist.run(put(folder, "kill -9 $$"), stdin=b"", time_limit=LIMIT)
    assert killed.returncode == -signal.SIGKILL


def test_what_cannot_be_started_is_a_failure(folder: pathlib.Path) -> None:
    path = put(folder)
    path.write_text("#!/no/such/interpreter\n")
    assert failure(path) == "start"
    path.write_text("no program")
    assert failure(path) == "start"


def test_the_time_limit_ends_the_whole_process_group(folder: pathlib.Path, tmp_path: pathlib.Path) -> None:
    noted = tmp_path / "pid"
    path = put(folder, "/bin/sleep 600 & echo $! >{}; wait".format(noted))
    assert failure(path, time_limit=2.0) == "timeout"
    child = int(noted.read_text())
    assert has_ended(child, within_ms=20_000)


def test_the_time_limit_holds_for_a_command_that_closed_its_outputs(folder: pathlib.Path) -> None:
    assert failure(put(folder, "exec >&- 2>&-; exec /bin/sleep 600"), time_limit=0.3) == "timeout"


def test_a_grandchild_that_keeps_the_pipe_open_is_not_waited_for(folder: pathlib.Path) -> None:
    path = put(folder, "/bin/sleep 600 & echo $!")
    child = int(say(path))
    assert not has_ended(child, within_ms=0)
    os.kill(child, signal.SIGKILL)


@pytest.mark.parametrize("where", ["", ">&2"])
def test_more_than_a_mebibyte_of_output_is_a_failure(folder: pathlib.Path, where: str) -> None:
    assert failure(put(folder, "exec /bin/cat /dev/zero " + where)) == "oversized"


def test_a_mebibyte_of_output_is_none(folder: pathlib.Path) -> None:
    assert len(say(put(folder, "/usr/bin/head -c 1048576 /dev/zero"))) == whitelist.OUTPUT_LIMIT


def execute(folder: pathlib.Path, lock: pathlib.Path) -> whitelist.Completed:
    return whitelist.execute(folder, "probe", owner=OWNER, lock_path=lock, stdin=b"", time_limit=LIMIT)


def test_the_lock_is_free_again_while_the_command_runs(folder: pathlib.Path, tmp_path: pathlib.Path) -> None:
    lock = tmp_path / "run" / "lock"
    put(folder, "/usr/bin/flock --wait 20 {} /bin/echo free".format(lock))
    assert execute(folder, lock).stdout == b"free\n"


def test_the_lock_is_free_again_after_a_refusal(folder: pathlib.Path, tmp_path: pathlib.Path) -> None:
    for _attempt in range(2):
        with pytest.raises(errors.CommandRefused) as caught:
            execute(folder, tmp_path / "lock")
        assert caught.value.reason == "missing"


def test_nothing_is_verified_while_another_holds_the_lock(
    folder: pathlib.Path, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(whitelist, "LOCK_SECONDS", 0.15)
    put(folder)
    with (tmp_path / "lock").open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        with pytest.raises(errors.CommandRefused) as caught:
            execute(folder, tmp_path / "lock")
    assert caught.value.reason == "lock"
    assert execute(folder, tmp_path / "lock").returncode == 0


def test_a_lock_that_is_a_link_is_not_followed(folder: pathlib.Path, tmp_path: pathlib.Path) -> None:
    put(folder)
    (tmp_path / "lock").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(errors.CommandRefused) as caught:
        execute(folder, tmp_path / "lock")
    assert caught.value.reason == "lock"
    assert not (tmp_path / "elsewhere").exists()
