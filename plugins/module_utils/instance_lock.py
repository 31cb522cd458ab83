"""One step at a time for each instance of a node: a killed play can leave its module at work on the node."""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import time
from typing import TYPE_CHECKING, Dict, Iterator, Optional

from . import leader_record
from .domain.values import errors

if TYPE_CHECKING:
    import pathlib

FOLDER = "run/roundsman/instances"
TIME_LIMIT = 300.0
"""How long a step waits for the one before it, in seconds: an interrupted one ends in it, save a long migration."""

_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._ -]{0,249}")
_PAUSES = (0.05, 1.0)
_NOTE_LIMIT = 500


@contextlib.contextmanager
def held(
    name: str, root: pathlib.Path, *, opcode: str, time_limit: Optional[float] = None, only_stops: bool = False
) -> Iterator[None]:
    """Hold the lock of an instance on the node with this root; it is free again when this process has ended.

    Only then is the epoch that orders the step compared with the one that the node follows: while the step waited for
    the lock, another controller may have begun to lead. A step that `only_stops` the instance is done in any boot of
    the node: nothing runs twice by it. The file stays, and tells who held it last.

    Raises:
        LockRefused: another step still holds it after `time_limit` seconds, or the usual ones; the text says which.
        NotFollowed: the node follows another epoch.
        InvalidInput: the name cannot be that of a file. StoreFailed: a file cannot be made or read.
    """
    if not _NAME.fullmatch(name):
        raise errors.InvalidInput(f"{name!r} cannot be the name of an instance: it cannot be that of a file")
    path = root / FOLDER / f"{name}.lock"
    try:
        path.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
        descriptor = os.open(str(path), os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise errors.StoreFailed(f"{path}: {error.strerror}") from error
    try:
        _wait(descriptor, name=name, deadline=time.monotonic() + (TIME_LIMIT if time_limit is None else time_limit))
        leader_record.require_ordered(root, any_boot=only_stops)
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"process {os.getpid()}, opcode {opcode}".encode()[:_NOTE_LIMIT], 0)
        yield
    finally:
        os.close(descriptor)


def steps(root: pathlib.Path) -> Dict[str, str]:
    """The steps that hold the lock of an instance on the node with this root: what each noted, by instance.

    Raises: errors.StoreFailed: it cannot be told.
    """
    found = {}
    try:
        for path in sorted((root / FOLDER).glob("*.lock")):
            descriptor = os.open(str(path), os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
            try:
                # Shared and for a moment: two who look do not see each other.
                fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                found[path.stem] = _note(descriptor)
            finally:
                os.close(descriptor)
    except OSError as error:
        raise errors.StoreFailed(f"{root / FOLDER}: {error.strerror}") from error
    return found


def _note(descriptor: int) -> str:
    return os.pread(descriptor, _NOTE_LIMIT, 0).decode(errors="replace") or "another step"


def _wait(descriptor: int, *, name: str, deadline: float) -> None:
    pause, longest = _PAUSES
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            if time.monotonic() + pause > deadline:
                raise errors.LockRefused(
                    f"{name} is being worked on by {_note(descriptor)}: nothing was done"
                ) from error
        else:
            return
        time.sleep(pause)
        pause = min(pause * 1.5, longest)
