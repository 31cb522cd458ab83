"""The configuration on disk: read by anyone, written by whoever holds `config.lock`."""

from __future__ import annotations

import contextlib
import fcntl
import logging
import os
from typing import TYPE_CHECKING

from ...module_utils.domain import changes, errors
from .. import durable_files
from . import document, history

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from ...module_utils.domain import cluster as clusters
    from ...module_utils.domain import tree

LOG = logging.getLogger(__name__)


def last_good(path: Path) -> Path:
    """The version before the newest one."""
    return path.with_name(path.name + ".last")


def read(path: Path) -> clusters.Cluster:
    """The configuration in a file; a damaged one is never loaded.

    Raises:
        StoreFailed: the file cannot be read, or holds no configuration; the text names the last good version too.
    """
    try:
        return document.unseal(path.read_bytes())
    except FileNotFoundError as error:
        raise errors.StoreFailed(f"{path} does not exist: is there a cluster here?") from error
    except OSError as error:
        raise errors.StoreFailed(f"{path} cannot be read: {error.strerror}") from error
    except errors.InvalidInput as error:
        kept = last_good(path)
        hint = (
            f"; the last good version is {kept}, and `roundsman config import {kept}` takes it over"
            if _is_good(kept)
            else ""
        )
        raise errors.StoreFailed(f"{path} is damaged and is not loaded: {error}{hint}") from error


def _is_good(path: Path) -> bool:
    try:
        document.unseal(path.read_bytes())
    except (OSError, errors.InvalidInput):
        return False
    return True


def write(path: Path, cluster: clusters.Cluster) -> bytes:
    """Replace the configuration durably; the version before it is kept beside it. Returns what was written.

    Raises:
        InvalidInput: it cannot be represented, and the old one stands.
        StoreFailed: it could not be written, and the old one stands.
    """
    data = document.seal(cluster)
    kept = path.with_name(f".{path.name}.last.new")
    try:
        kept.unlink(missing_ok=True)
        if path.exists():
            os.link(path, kept)
    except OSError as error:
        raise errors.StoreFailed(
            f"{last_good(path)} could not be kept: {error.strerror}; nothing was changed"
        ) from error
    durable_files.replace(path, data)
    try:
        if kept.exists():
            kept.replace(last_good(path))
    except OSError as error:
        LOG.warning("version %s was committed, and %s is older: %s", cluster.serial_no, last_good(path), error)
    try:
        history.keep(path, cluster.serial_no)
    except OSError as error:
        LOG.warning("version %s was committed, and is not in the history: %s", cluster.serial_no, error)
    return data


def open_lock(where: tree.Tree) -> int:
    """Take the right to write, as an open descriptor that holds it until it is closed.

    Raises:
        StoreFailed: somebody else has it; the text says who.
    """
    where.lib.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(where.config_lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o640)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        holder = os.pread(descriptor, 200, 0).decode(errors="replace").strip() or "another process"
        os.close(descriptor)
        raise errors.StoreFailed(f"{where.config_lock} is held by {holder}") from error
    return descriptor


def sign_lock(descriptor: int, who: str) -> None:
    """Write into the lock file who holds it."""
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, who.encode() + b"\n", 0)


@contextlib.contextmanager
def locked(where: tree.Tree, who: str) -> Iterator[None]:
    """Hold the right to write for a moment."""
    descriptor = open_lock(where)
    try:
        sign_lock(descriptor, who)
        yield
    finally:
        os.close(descriptor)


def commit(where: tree.Tree, stated: Sequence[changes.Change], *, now: float) -> clusters.Cluster:
    """Read, apply and write; only for the holder of the lock."""
    before = read(where.config)
    after = changes.apply_all(before, list(stated), now=now)
    if after is not before:
        write(where.config, after)
    return after
