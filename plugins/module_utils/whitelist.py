"""Commands that a node allows: files in a folder which only their owner can change."""

from __future__ import annotations

import contextlib
import dataclasses
import fcntl
import os
import pathlib
import re
import selectors
import signal
import stat
import subprocess
import tempfile
import time
from typing import IO, Dict, Iterator

from .domain.values import errors

OUTPUT_LIMIT = 1024 * 1024
LOCK_SECONDS = 8.0

_ALLOWED_MODE = 0o755
_NAME = re.compile("[a-zA-Z0-9_-]+")
_EXIT_POLL_SECONDS = 0.05
_REAP_SECONDS = 5.0
_CHUNK = 65536


@dataclasses.dataclass(frozen=True)
class Owner:
    """Who alone may own a whitelisted command and its folder."""

    uid: int
    gid: int


@dataclasses.dataclass(frozen=True)
class Completed:
    """A command that has ended; `returncode` is negative for the signal that killed it."""

    returncode: int
    stdout: bytes
    stderr: bytes


def check(directory: pathlib.Path, name: str, *, owner: Owner) -> pathlib.Path:
    """Give the path of a whitelisted command, checking the folder, then the name, then the file.

    Folder and file may have no mode bit outside 0755 and no owner or group but `owner`; a symbolic link
    counts as what it points to.

    Raises: errors.CommandRefused, reason `missing`, `directory`, `mode`, `owner`, `name`, `not_a_file` or
    `not_executable`.
    """
    try:
        found = directory.stat()
    except OSError as e:
        raise errors.CommandRefused("directory", "{}: {}".format(directory, e.strerror)) from e
    _check_protected(directory, found, owner=owner)
    if not stat.S_ISDIR(found.st_mode):
        raise errors.CommandRefused("directory", "{} is not a directory".format(directory))
    if not name.strip() or pathlib.PurePath(name).name != name or not _NAME.fullmatch(name):
        raise errors.CommandRefused("name", "not the bare name of a command: " + ascii(name[:80]))
    path = directory / name
    try:
        found = path.stat()
    except OSError as e:
        raise errors.CommandRefused("missing", "{}: {}".format(path, e.strerror)) from e
    _check_protected(path, found, owner=owner)
    if not stat.S_ISREG(found.st_mode):
        raise errors.CommandRefused("not_a_file", "{} is not a regular file".format(path))
    if not found.st_mode & stat.S_IXUSR:
        raise errors.CommandRefused("not_executable", "{} is not executable by its owner".format(path))
    return path


def run(path: pathlib.Path, *, stdin: bytes, time_limit: float) -> Completed:
    """Run a command without arguments, environment or shell, in a session of its own, with `/` as folder.

    It has `time_limit` seconds and 1 MiB of output; beyond either its whole process group is killed. What it
    leaves behind in the background is not waited for.

    Raises: errors.CommandFailed, reason `start`, `timeout` or `oversized`.
    """
    return _finish(_start(path, stdin=stdin), time_limit=time_limit)


def execute(
    directory: pathlib.Path,
    name: str,
    *,
    owner: Owner,
    lock_path: pathlib.Path,
    stdin: bytes,
    time_limit: float,
) -> Completed:
    """Check a command and run it; nobody else verifies between the check and the start.

    Raises: errors.CommandRefused as `check` does, and with reason `lock` if the lock is not free within 8 s;
    errors.CommandFailed as `run` does.
    """
    with _locked(lock_path):
        process = _start(check(directory, name, owner=owner), stdin=stdin)
    return _finish(process, time_limit=time_limit)


def _check_protected(path: pathlib.Path, found: os.stat_result, *, owner: Owner) -> None:
    mode = stat.S_IMODE(found.st_mode)
    if mode & ~_ALLOWED_MODE:
        raise errors.CommandRefused("mode", "{} has mode {:04o}, 0755 is the most".format(path, mode))
    if (found.st_uid, found.st_gid) != (owner.uid, owner.gid):
        wanted = "{}:{}".format(owner.uid, owner.gid)
        has = "{}:{}".format(found.st_uid, found.st_gid)
        raise errors.CommandRefused("owner", "{} is owned by {}, not by {}".format(path, has, wanted))


@contextlib.contextmanager
def _locked(path: pathlib.Path) -> Iterator[None]:
    try:
        path.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    except OSError as e:
        raise errors.CommandRefused("lock", "{}: {}".format(path, e.strerror)) from e
    try:
        _wait_for_lock(descriptor, path=path)
        yield
    finally:
        os.close(descriptor)


def _wait_for_lock(descriptor: int, *, path: pathlib.Path) -> None:
    deadline = time.monotonic() + LOCK_SECONDS
    pause = 0.1
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as e:
            if time.monotonic() + pause > deadline:
                raise errors.CommandRefused("lock", "{} is held by another command".format(path)) from e
        else:
            return
        time.sleep(pause)
        pause = min(pause * 1.2, 1.0)


def _start(path: pathlib.Path, *, stdin: bytes) -> subprocess.Popen[bytes]:
    try:
        with _input(stdin) as given:
            return subprocess.Popen(
                [str(path)],
                stdin=given,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env={},
                cwd="/",
                start_new_session=True,
            )
    except OSError as e:
        raise errors.CommandFailed("start", "{} does not start: {}".format(path, e.strerror)) from e


@contextlib.contextmanager
def _input(stdin: bytes) -> Iterator[int]:
    # Without input no file: a node with a full or read-only disk must still be able to say so.
    if not stdin:
        yield subprocess.DEVNULL
        return
    # From a file and not a pipe, so that a command which reads nothing blocks nobody.
    with tempfile.TemporaryFile() as given:
        given.write(stdin)
        given.seek(0)
        yield given.fileno()


def _finish(process: subprocess.Popen[bytes], *, time_limit: float) -> Completed:
    assert process.stdout is not None
    assert process.stderr is not None
    deadline = time.monotonic() + time_limit
    with process.stdout as stdout, process.stderr as stderr:
        try:
            output = _Output(stdout, stderr)
            output.read_until_end(process, deadline=deadline)
            returncode = process.wait(max(0.0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired as e:
            raise errors.CommandFailed("timeout", "not done after {:g} s".format(time_limit)) from e
        finally:
            _kill(process)
        return Completed(returncode=returncode, stdout=output.bytes_from(stdout), stderr=output.bytes_from(stderr))


def _kill(process: subprocess.Popen[bytes]) -> None:
    # Once the leader is reaped its number may be another's.
    if process.poll() is not None:
        return
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(_REAP_SECONDS)


class _Output:
    """What a process has said so far, on two pipes, 1 MiB together at most."""

    def __init__(self, *pipes: IO[bytes]) -> None:
        self._said: Dict[int, bytearray] = {pipe.fileno(): bytearray() for pipe in pipes}
        self._open = set(self._said)
        for descriptor in self._said:
            os.set_blocking(descriptor, False)

    def bytes_from(self, pipe: IO[bytes]) -> bytes:
        return bytes(self._said[pipe.fileno()])

    def read_until_end(self, process: subprocess.Popen[bytes], *, deadline: float) -> None:
        """Read until both pipes are closed or the process has ended, whatever it left in the background."""
        with selectors.DefaultSelector() as selector:
            for descriptor in self._open:
                selector.register(descriptor, selectors.EVENT_READ)
            while self._open:
                left = deadline - time.monotonic()
                if left <= 0:
                    raise subprocess.TimeoutExpired(process.args, 0)
                ended = process.poll() is not None
                ready = selector.select(0 if ended else min(left, _EXIT_POLL_SECONDS))
                if ended and not ready:
                    return
                for key, _events in ready:
                    if not self._read(key.fd):
                        selector.unregister(key.fd)

    def _read(self, descriptor: int) -> bool:
        try:
            chunk = os.read(descriptor, _CHUNK)
        except BlockingIOError:
            return True
        if not chunk:
            self._open.discard(descriptor)
            return False
        self._said[descriptor] += chunk
        if sum(len(said) for said in self._said.values()) > OUTPUT_LIMIT:
            raise errors.CommandFailed("oversized", "more than {} bytes of output".format(OUTPUT_LIMIT))
        return True
