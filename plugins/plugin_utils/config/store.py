"""The configuration on disk: read by anyone, written by whoever holds `config.lock`."""

from __future__ import annotations

import contextlib
import dataclasses
import fcntl
import logging
import os
import re
import time
from typing import TYPE_CHECKING

from ...module_utils.domain.values import errors
from .. import durable_files, folders_of_others, livelocks, unsynced
from ..cluster import changes
from . import document, history

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

    from ...module_utils.domain.values import tree
    from ..cluster import cluster as clusters

NO_CLUSTER = "; create a cluster with `roundsman cluster init`, or restore one with `roundsman config import FILE`"
DAEMON = "roundsmand, pid "
"""How a daemon signs the lock, with its process id."""
WAITS = (
    "which waits for the votes of nodes (`journalctl -u roundsmand` says for which). To power nodes on after a loss of "
    "power, stop it, run `roundsman cluster epo --on --all`, and start it again"
)
"""How a daemon that waits signs the lock."""
SIGNATURE = 1000
"""Bytes that are read of who holds the lock."""
PAUSES = (0.01, 0.05, 0.1)
"""Seconds after which a lock that is held is tried again."""
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
        raise errors.StoreFailed(f"{path} does not exist{_way_back(path) or NO_CLUSTER}") from error
    except OSError as error:
        raise errors.StoreFailed(f"{path} cannot be read: {error.strerror}") from error
    except errors.InvalidInput as error:
        raise errors.StoreFailed(f"{path} is damaged and is not loaded: {error}{_way_back(path)}") from error


def taken_over(
    cluster: clusters.Cluster, *, before: clusters.Cluster | None, serial_no: int, now: float
) -> clusters.Cluster:
    """The configuration that an imported document becomes: the round at work is that of this controller before.

    Unless the document is of the present state, maintenance is paused until a person has compared it with reality, and
    what it knew of the generations of replicas is dropped: the replicas may be other ones by now.
    """
    maintenance = cluster.maintenance
    if not is_present_state(cluster, before):
        present = before.maintenance.settings.paused if before is not None else ""
        text = present or maintenance.settings.paused or check_reason(cluster)
        left = tuple(dataclasses.replace(replica, generations=()) for replica in maintenance.left_behind)
        settings = maintenance.settings.with_pause(text)
        maintenance = dataclasses.replace(maintenance, settings=settings, left_behind=left)
    if before is not None:
        maintenance = dataclasses.replace(maintenance, round=before.maintenance.round, jobs=before.maintenance.jobs)
    return dataclasses.replace(cluster, maintenance=maintenance, serial_no=serial_no, mtime=now)


def is_present_state(cluster: clusters.Cluster, before: clusters.Cluster | None) -> bool:
    """Whether a document, edited perhaps, was exported from the present configuration, and not from another one."""
    return before is not None and (cluster.serial_no, cluster.mtime) == (before.serial_no, before.mtime)


def check_reason(cluster: clusters.Cluster) -> str:
    """Why maintenance is paused after the import of a backup, and what ends the pause."""
    return (
        f"configuration imported from a backup (serial {cluster.serial_no}): "
        "check where instances run, then run `roundsman resume`"
    )


def _way_back(path: Path) -> str:
    """Which version is the newest good one, and how to restore it; '' when there is none."""
    kept = next(_good(version.path for version in reversed(history.versions(path))), None)
    last = next(_good([last_good(path)]), None)
    found = max(
        (candidate for candidate in (last, kept) if candidate is not None),
        key=lambda candidate: candidate[0],
        default=None,
    )
    if found is None:
        return ""
    return f"; the last good version is {found[1]}: restore it with `roundsman config import {found[1]}`"


def _good(paths: Iterable[Path]) -> Iterator[tuple[int, Path]]:
    for path in paths:
        with contextlib.suppress(OSError, errors.InvalidInput):
            yield document.unseal(path.read_bytes()).serial_no, path


def write(path: Path, cluster: clusters.Cluster) -> None:
    """Replace the configuration durably; the version before it is kept beside it.

    Raises:
        InvalidInput: it cannot be represented, and the old one stands.
        StoreFailed: it could not be written, and the old one stands.
        StateUnknown: the disk failed, and the old or the new one stands.
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
    durable_files.replace(path, data, is_of_folder=True)
    try:
        if kept.exists():
            kept.replace(last_good(path))
    except OSError as error:
        LOG.warning("version %s was committed, and %s is older: %s", cluster.serial_no, last_good(path), error)
    _keep(path, cluster)


def write_again(path: Path, cluster: clusters.Cluster) -> None:
    """Rewrite the version that is in the file to a new file.

    Raises:
        StoreFailed: it could not be written, and stands as before.
        StateUnknown: the disk failed.
    """
    durable_files.replace(path, document.seal(cluster), is_of_folder=True)
    _keep(path, cluster)


def _keep(path: Path, cluster: clusters.Cluster) -> None:
    try:
        history.keep(path, cluster.serial_no)
    except OSError as error:
        LOG.warning("version %s was committed, and is not in the history: %s", cluster.serial_no, error)


def waiting(where: tree.Tree) -> str:
    """The daemon that holds the lock and waits for votes, as it signed; '' where none does or this user may not ask."""
    try:
        signed = where.config_lock.read_text(errors="replace").strip()
        # Looked at last: for that moment nobody else gets the lock.
        waits = re.match(rf"{DAEMON}[0-9]+, ", signed) is not None and livelocks.is_alive(where.config_lock)
    except (OSError, errors.Refused):
        return ""
    return signed if waits else ""


def open_lock(where: tree.Tree) -> int:
    """Take the right to write, as an open descriptor that holds it until it is closed.

    Raises:
        StoreFailed: somebody else has it, and the text says who; or another user owns the lock.
    """
    where.lib.mkdir(parents=True, exist_ok=True)
    descriptor = _opened_lock(where)
    for pause in (*PAUSES, None):
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            if pause is None:
                holder = os.pread(descriptor, SIGNATURE, 0).decode(errors="replace").strip() or "another process"
                os.close(descriptor)
                raise errors.StoreFailed(f"{where.config_lock} is held by {holder}") from error
            # Somebody may only look whether it is held (`waiting`).
            time.sleep(pause)
        else:
            break
    return descriptor


def _opened_lock(where: tree.Tree) -> int:
    flags = os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW
    try:
        descriptor = os.open(where.config_lock, flags | os.O_CREAT | os.O_EXCL, 0o640)
    except FileExistsError:
        try:
            return os.open(where.config_lock, flags)
        except PermissionError as error:
            remedy = f"as root, run `chown --no-dereference --reference={where.lib} {where.config_lock}`, then retry"
            raise errors.StoreFailed(f"{where.config_lock} belongs to another user: {remedy}") from error
    durable_files.give_to_owner_of(where.lib, descriptor)
    return descriptor


def sign_lock(descriptor: int, who: str) -> None:
    """Write into the lock file who holds it."""
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, who.encode() + b"\n", 0)


@contextlib.contextmanager
def locked(where: tree.Tree, who: str) -> Iterator[None]:
    """Hold the right to write for a moment; root has the rights of the daemon's user meanwhile, whose folder it is."""
    with folders_of_others.as_owner_of(where.lib), unsynced.noted(where):
        descriptor = open_lock(where)
        try:
            sign_lock(descriptor, who)
            yield
        finally:
            os.close(descriptor)


def commit(where: tree.Tree, stated: Sequence[changes.Change], *, now: float) -> clusters.Cluster:
    """Read, apply and write; only for the holder of the lock."""
    with folders_of_others.as_owner_of(where.lib), unsynced.noted(where):
        before = read(where.config)
        after = changes.apply_all(before, list(stated), now=now)
        if after is not before:
            write(where.config, after)
    return after
