from __future__ import annotations

import contextlib
import fcntl
import os
import select
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from ansible_collections.roundsman.cluster.plugins.plugin_utils import keeper, livelocks

from tests.unit import other_users

if TYPE_CHECKING:
    from collections.abc import Iterator


def start(pid: int, livelock: Path, *files: Path, program: tuple[str, ...] = ()) -> subprocess.Popen[str]:
    command = [sys.executable, "-S", *(program or (keeper.__file__,)), str(pid)]
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
    process = subprocess.Popen(command, text=True, **pipes)
    assert process.stdin is not None
    with process.stdin:
        process.stdin.write("\0".join(map(str, (livelock, livelock.with_name(f"{livelock.name}.run"), *files))))
    process.stdin = None
    return process


def name_for(pid: int) -> str:
    return f"play-{pid}-{start_time(pid)}-0a1b"


def said(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def test_it_holds_its_files_until_the_watched_process_ends_and_takes_the_livelock_away(tmp_path: Path) -> None:
    lock = tmp_path / "config.lock"
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE) as watched:
        livelock = tmp_path / name_for(watched.pid)
        livelock.with_name(livelock.name.replace("0a1b", "99.hold")).touch()
        with start(watched.pid, livelock, lock) as one:
            assert said(one) == "ready"
            one.send_signal(signal.SIGINT)
            with start(watched.pid, tmp_path / "play-1-2", lock) as second:
                holders = f"ansible-playbook, pid {watched.pid}, by its keeper, pid {one.pid}"
                assert said(second) == f"{lock} is held by {holders}"
                assert second.wait() == 1
            assert one.poll() is None
            watched.kill()
            assert one.wait() == 0
    descriptor = os.open(lock, os.O_RDWR)
    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    os.close(descriptor)
    assert {path.name for path in tmp_path.iterdir()} == {lock.name, "play-1-2"}


@other_users.only_root
def test_the_daemons_user_sees_that_a_play_of_root_lives_whatever_its_umask() -> None:
    with other_users.open_folder() as top, subprocess.Popen(["cat"], stdin=subprocess.PIPE) as watched:
        owners = {"owner": other_users.DAEMON, "group": other_users.ADMINISTRATORS}
        livelock = other_users.make_folder(top / "livelocks", mode=0o770, **owners) / "play-1"
        before = os.umask(0o077)
        try:
            one = start(watched.pid, livelock)
        finally:
            os.umask(before)
        try:
            assert said(one) == "ready"
            with other_users.acting_as(other_users.DAEMON):
                assert livelocks.is_alive(livelock)
        finally:
            watched.kill()
            one.communicate()


WORKER = """
import os, sys, time
receive, send = os.pipe()
if os.fork() == 0:
    os.setsid()
    os.write(1, b"%d\\n" % os.getpid())
    time.sleep(600)
os.write(1, b"0\\n")
sys.stdin.read()
"""
LONELY = """
import pathlib, sys
sys.path.insert(0, str(pathlib.Path(sys.argv[1]).parent))
import run_group
run_group._own_group = lambda: None
source = sys.argv.pop(1)
exec(compile(open(source).read(), source, "exec"), {"__name__": "__main__", "__file__": source})
"""


@pytest.mark.parametrize("how", ["group", "no group"])
def test_what_is_left_of_a_killed_play_is_ended_before_its_locks_are_free(tmp_path: Path, how: str) -> None:
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen([sys.executable, "-S", "-c", WORKER], **pipes) as play:
        worker = max(int(said(play)) for _ in range(2))
        program = ("-c", LONELY, keeper.__file__) if how == "no group" else ()
        livelock = tmp_path / name_for(play.pid)
        with start(play.pid, livelock, program=program) as one:
            assert said(one) == "ready"
            assert livelock.with_name(f"{livelock.name}.run").is_dir()
            handle = os.pidfd_open(worker)
            assert not select.select([handle], [], [], 0)[0]
            play.kill()
            assert one.wait() == 0
            assert select.select([handle], [], [], 0)[0], "it has ended before the keeper"
            os.close(handle)
    assert list(tmp_path.iterdir()) == []


@pytest.fixture
def livelocks_folder() -> Iterator[Path]:
    """The folder as the role makes it: of the daemon's user, sticky, and administrators write in it."""
    with other_users.open_folder() as top:
        owners = {"owner": other_users.DAEMON, "group": other_users.ADMINISTRATORS}
        yield other_users.make_folder(top / "livelocks", mode=0o1770, **owners)


def start_time(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]


@contextlib.contextmanager
def keeping(livelock: Path) -> Iterator[subprocess.Popen[str]]:
    """A keeper of root's play that is ready; the play ends with the block, and the keeper has ended after it."""
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE) as watched, start(watched.pid, livelock) as one:
        try:
            assert said(one) == "ready"
            yield one
        finally:
            watched.kill()
            one.communicate()


@other_users.only_root
def test_an_administrator_cannot_move_what_belongs_to_roots_play(livelocks_folder: Path) -> None:
    with keeping(livelocks_folder / "play-1-2"):
        groups = (other_users.ADMINISTRATORS,)
        with other_users.acting_as(other_users.ADMINISTRATOR, groups=groups):
            (livelocks_folder / "own").touch()
            for name in ("play-1-2", "play-1-2.run"):
                with pytest.raises(PermissionError):
                    (livelocks_folder / name).rename(livelocks_folder / "moved")


@other_users.only_root
def test_nobody_tells_the_keeper_of_roots_play_what_to_end(livelocks_folder: Path) -> None:
    """The owner of the folder can put another one into the place of the play's, and is not believed."""
    run = livelocks_folder / "play-1-2.run"
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE, start_new_session=True) as victim:
        with keeping(run.with_suffix("")), other_users.acting_as(other_users.DAEMON):
            run.rename(livelocks_folder / "moved")
            run.mkdir()
            (run / "processes").write_text(f"{victim.pid} {start_time(victim.pid)}\n")
        assert victim.poll() is None
        victim.kill()


@other_users.only_root
@pytest.mark.parametrize("plant", ["there before", "of another user", "others write", "not empty", "link", "file"])
def test_the_keeper_writes_what_is_to_be_ended_into_no_folder_that_another_user_has_or_has_filled(
    livelocks_folder: Path, monkeypatch: pytest.MonkeyPatch, plant: str
) -> None:
    """The owner of the folder acts at the worst moment: after the folder is made, and before it is opened."""
    run, make = livelocks_folder / "play-1-2.run", os.mkdir

    def exchange(name: str, mode: int, *, dir_fd: int) -> None:
        make(name, mode, dir_fd=dir_fd)
        match plant:
            case "of another user":
                os.chown(run, other_users.DAEMON, other_users.DAEMON)
            case "others write":
                run.chmod(0o770)
            case "not empty":
                (run / "processes").touch()
            case _:
                run.rmdir()
                if plant == "link":
                    run.symlink_to(livelocks_folder)
                else:
                    run.touch()

    if plant == "there before":
        run.mkdir()
    else:
        monkeypatch.setattr(os, "mkdir", exchange)
    folder = os.open(livelocks_folder, keeper.FOLDER)
    with pytest.raises((keeper.Unusable, OSError)) as refused:
        keeper._own_folder(run, folder)
    os.close(folder)
    if plant not in {"link", "file"}:
        assert str(refused.value).startswith(f"{run} ")
        assert isinstance(refused.value, keeper.Unusable)


@other_users.only_root
@pytest.mark.parametrize("plant", ["file", "link", "hard link"])
def test_a_livelock_that_somebody_else_has_put_there_is_refused_and_nothing_is_written(
    livelocks_folder: Path, plant: str
) -> None:
    livelock, victim = livelocks_folder / "play-1-2", livelocks_folder.parent / "victim"
    victim.write_text("kept")
    match plant:
        case "file":
            livelock.write_text("kept")
            os.chown(livelock, other_users.ADMINISTRATOR, other_users.ADMINISTRATORS)
        case "link":
            livelock.symlink_to(victim)
        case _:
            livelock.hardlink_to(victim)
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE) as watched, start(watched.pid, livelock) as one:
        answer = said(one)
        assert answer.startswith(str(livelock))
        assert ("must be a file, not a link" if plant == "link" else "is not a file of the user of this play") in answer
        assert one.wait() == 1
        watched.kill()
    assert livelock.read_text() == victim.read_text() == "kept"


@other_users.only_root
def test_what_a_killed_keeper_of_root_left_is_tidied_by_roots_next_play(livelocks_folder: Path) -> None:
    running = f"play-{os.getpid()}-{start_time(os.getpid())}"
    kept, held, foreign, left = running, "play-4194400-1-5f", "play-4194400-2-5f", "play-4194400-3-5f"
    for name in (kept, held, foreign, left):
        for suffix in ("", ".hold", ".hold.lock"):
            (livelocks_folder / f"{name}{suffix}").touch()
        (livelocks_folder / f"{name}.run").mkdir()
        (livelocks_folder / f"{name}.run" / "processes").touch()
    for path in (*livelocks_folder.glob(f"{foreign}*"), livelocks_folder / f"{foreign}.run" / "processes"):
        os.chown(path, other_users.DAEMON, other_users.DAEMON)
    descriptor = os.open(livelocks_folder / held, os.O_RDWR)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    with keeping(livelocks_folder / "play-1-2"):
        names = {path.name.partition(".")[0] for path in livelocks_folder.iterdir()}
    os.close(descriptor)
    assert names == {kept, held, foreign, "play-1-2"}
    assert sum(len(list(livelocks_folder.rglob(f"{name}*"))) for name in (kept, held, foreign)) == 3 * 4
    assert not list(livelocks_folder.glob(f"{left}*"))


def test_a_process_that_is_not_there_is_not_waited_for(tmp_path: Path) -> None:
    with subprocess.Popen(["true"]) as gone:
        gone.wait()
    with start(gone.pid, tmp_path / "one") as one:
        assert said(one) == ""
        assert one.wait() != 0


@other_users.only_root
def test_a_lock_that_is_left_to_root_is_given_to_the_daemon_by_the_next_keeper_and_named_before() -> None:
    with other_users.open_folder() as top, subprocess.Popen(["cat"], stdin=subprocess.PIPE) as watched:
        lib = other_users.make_folder(top / "lib", mode=0o755, owner=other_users.DAEMON, group=other_users.DAEMON)
        lock = lib / "config.lock"
        lock.touch(mode=0o640)
        with other_users.acting_as(other_users.DAEMON):
            folder = os.open(lib, os.O_RDONLY)
            with pytest.raises(keeper.Unusable) as refused:
                keeper._opened(lock, folder, is_own=False)
        os.close(folder)
        assert str(refused.value) == (
            f"{lock} belongs to another user: "
            f"as root, run `chown --no-dereference --reference={lib} {lock}`, then retry"
        )
        with start(watched.pid, top / "play-1", lock) as one:
            try:
                assert said(one) == "ready"
                assert (lock.stat().st_uid, lock.stat().st_gid) == (other_users.DAEMON, other_users.DAEMON)
            finally:
                watched.kill()
                one.communicate()
