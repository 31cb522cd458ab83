"""The users of a machine that was set up by the role: tests run as root, and act as somebody else for a moment."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

DAEMON, ADMINISTRATOR, ADMINISTRATORS = 12345, 12351, 12360
"""Uids of the daemon's user and of an administrator, and the gid of the administrators' group."""
only_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away and be other users")


@contextlib.contextmanager
def acting_as(uid: int, *, groups: tuple[int, ...] = ()) -> Iterator[None]:
    """Act as another user, as far as this process had root's rights before.

    What has to be imported is imported before, as that user may not read the interpreter.
    """
    before = os.geteuid()
    os.seteuid(0)
    own, others = os.getegid(), os.getgroups()
    os.setgroups(groups)
    os.setegid(uid)
    os.seteuid(uid)
    try:
        yield
    finally:
        os.seteuid(0)
        os.setegid(own)
        os.setgroups(others)
        os.seteuid(before)


@contextlib.contextmanager
def open_folder() -> Iterator[Path]:
    """A folder that every user can reach; those of pytest belong to root alone."""
    folder = Path(tempfile.mkdtemp(dir="/tmp", prefix="roundsman-test-"))
    try:
        folder.chmod(0o755)
        yield folder
    finally:
        shutil.rmtree(folder)


def make_folder(path: Path, *, owner: int, group: int, mode: int) -> Path:
    """Make a folder as the role makes it."""
    path.mkdir(parents=True)
    os.chown(path, owner, group)
    path.chmod(mode)
    return path
