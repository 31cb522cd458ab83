"""Keeps locks for a play by hand: a process that holds files locked for as long as anything of the play lives.

Started as `python keeper.py PID`, it reads paths from its standard input, each but the last followed by a zero byte:
the livelock, a folder to make, and other files. It locks every file, says `ready` (or why not), waits for the end of
PID, ends what is left of its play, then removes the livelock and what lies beside it. A process that cannot be ended
may still act: the locks are held for as long as it lives. The paths are not arguments, which every user can read:
nobody else may know them before the files are there.
The folder of livelocks belongs to the daemon's user, and others write in it: the keeper opens it once, uses only files
of its own user, and knows its own folder by its descriptor, so that nobody else says what is to be ended.
It uses the standard library only, and nothing else of the collection, so that it starts at once.
"""

from __future__ import annotations

import contextlib
import fcntl
import importlib
import os
import re
import select
import signal
import stat
import sys
from pathlib import Path
from typing import Any

LIVELOCK_MODE = 0o644
"""The daemon reads livelocks of other users, and they hold nothing that is secret."""
INHERITED = 3
"""Descriptors below this one are a play's input and output, which it shares with others."""
PLAY = re.compile(r"play-(?P<pid>[0-9]+)-(?P<started>[0-9]+)(-[0-9a-f]+)?(\.run|\.hold|\.hold\.lock)?")
"""A livelock, which has no suffix, or what lies beside it."""
FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class Unusable(Exception):
    """A file cannot be used; the text is for the user of the play."""


def main() -> int:
    """Hold the files until the play has ended."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    pid = int(sys.argv[1])
    process, started = os.pidfd_open(pid), _started(pid)
    livelock, run, *files = map(Path, sys.stdin.read().split("\0"))
    folder = os.open(livelock.parent, FOLDER)
    try:
        _lock(livelock, folder, pid=pid, mode=LIVELOCK_MODE)
        for path in files:
            _lock(path, os.open(path.parent, FOLDER), pid=pid, mode=None)
        _tidy(folder)
        play = _own_folder(run, folder)
    except Unusable as error:
        print(error, flush=True)
        return 1
    groups = _run_group()
    groups.gather(play, {pid, *groups.descendants(pid)} - {os.getpid()})
    pipes = _private_pipes({pid, *groups.descendants(pid)})
    print("ready", flush=True)
    os.close(1)
    select.select([process], [], [])
    while groups.end(play, also=_holders(pipes)).left:
        pass
    for name in _plays(folder).get((str(pid), started), []):
        _remove(name, folder)
    return 0


def _lock(path: Path, folder: int, *, pid: int, mode: int | None) -> None:
    """Lock a file until this process ends, and write into it for whom; one with a mode must be the caller's own."""
    descriptor = _opened(path, folder, is_own=mode is not None)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        holder = os.pread(descriptor, 1000, 0).decode(errors="replace").strip() or "another process"
        raise Unusable(f"{path} is held by {holder}") from None
    if mode is not None:
        os.fchmod(descriptor, mode)
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, f"ansible-playbook, pid {pid}, by its keeper, pid {os.getpid()}\n".encode(), 0)


def _opened(path: Path, folder: int, *, is_own: bool) -> int:
    flags = os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        try:
            descriptor = os.open(path.name, flags | os.O_CREAT | os.O_EXCL, 0o640, dir_fd=folder)
        except FileExistsError:
            descriptor = os.open(path.name, flags, dir_fd=folder)
    except OSError as error:
        if isinstance(error.__context__, FileExistsError) and isinstance(error, PermissionError) and not is_own:
            remedy = f"as root, run `chown --no-dereference --reference={path.parent} {path}`, then retry"
            raise Unusable(f"{path} belongs to another user: {remedy}") from error
        raise Unusable(f"{path} cannot be opened: {error.strerror}: it must be a file, not a link") from error
    found = os.fstat(descriptor)
    is_plain = stat.S_ISREG(found.st_mode) and found.st_nlink == 1
    if not is_plain or (is_own and found.st_uid != os.geteuid()):
        user = f"of the user of this play (uid {os.geteuid()})" if is_own else "with one name"
        raise Unusable(f"{path} is not a file {user}: remove it, then retry")
    if not is_own and os.geteuid() == 0 and found.st_uid == 0:
        # The daemon writes into it as well. Older keepers left it to root.
        owner = os.fstat(folder)
        os.fchown(descriptor, owner.st_uid, owner.st_gid)
    return descriptor


def _own_folder(path: Path, folder: int) -> Path:
    """Make a folder that nobody else writes in, and return a path that leads to it whatever takes its place."""
    try:
        os.mkdir(path.name, 0o700, dir_fd=folder)
    except FileExistsError as error:
        raise Unusable(f"{path} is there already, and not made by this play: remove it, then retry") from error
    descriptor = os.open(path.name, FOLDER, dir_fd=folder)
    found = os.fstat(descriptor)
    if found.st_uid != os.geteuid() or found.st_mode & 0o022 or any(os.scandir(descriptor)):
        raise Unusable(f"{path} was replaced by another user: remove it, then retry")
    return Path(f"/proc/self/fd/{descriptor}")


def _tidy(folder: int) -> None:
    """Remove what keepers of this user that were killed have left, once their plays have ended."""
    for (pid, started), names in _plays(folder).items():
        if _started(int(pid)) != started and all(_is_free(name, folder) for name in names):
            for name in names:
                _remove(name, folder)


def _plays(folder: int) -> dict[tuple[str, str], list[str]]:
    """The names of files of plays, by the pid and the start of each play; the livelock is the last one."""
    found: dict[tuple[str, str], list[str]] = {}
    for entry in sorted(os.scandir(folder), key=lambda entry: "." not in entry.name):
        if match := PLAY.fullmatch(entry.name):
            found.setdefault((match["pid"], match["started"]), []).append(entry.name)
    return found


def _started(pid: int) -> str:
    """When a process started, in ticks since the boot; '' if there is none."""
    try:
        return Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()[19]
    except (OSError, IndexError):
        return ""


def _is_free(name: str, folder: int) -> bool:
    """Whether nobody holds a file; what belongs to others does not count."""
    try:
        descriptor = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
    except OSError:
        return True
    try:
        if os.fstat(descriptor).st_uid == os.geteuid():
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    finally:
        os.close(descriptor)
    return True


def _remove(name: str, folder: int) -> None:
    """Remove a file of this user, or a folder of files; what belongs to others stays."""
    with contextlib.suppress(OSError):
        found = os.stat(name, dir_fd=folder, follow_symlinks=False)
        if found.st_uid != os.geteuid():
            return
        if not stat.S_ISDIR(found.st_mode):
            os.unlink(name, dir_fd=folder)
            return
        descriptor = os.open(name, FOLDER, dir_fd=folder)
        try:
            for inner in os.scandir(descriptor):
                os.unlink(inner.name, dir_fd=descriptor)
        finally:
            os.close(descriptor)
        os.rmdir(name, dir_fd=folder)


def _run_group() -> Any:
    # Found by its folder: there is no package where this program starts.
    sys.path.insert(0, str(Path(__file__).parent))
    return importlib.import_module("run_group")


def _private_pipes(play: set[int]) -> set[str]:
    """The pipes that only processes of the play have: by them its workers are known when their parent is gone."""
    own = {pipe for pid in play for pipe in _pipes(pid)}
    return own.difference(*(_pipes(pid) for pid in _pids() - play - {os.getpid()}))


def _holders(pipes: set[str]) -> set[int]:
    return {pid for pid in _pids() - {os.getpid()} if pipes & _pipes(pid)}


def _pipes(pid: int) -> set[str]:
    found = set()
    with contextlib.suppress(OSError):
        for entry in os.scandir(f"/proc/{pid}/fd"):
            if int(entry.name) >= INHERITED:
                with contextlib.suppress(OSError):
                    found.add(os.readlink(entry.path))  # noqa: PTH115 - what it reads is no path
    return {link for link in found if link.startswith("pipe:")}


def _pids() -> set[int]:
    return {int(entry.name) for entry in os.scandir("/proc") if entry.name.isdigit()}


if __name__ == "__main__":
    sys.exit(main())
