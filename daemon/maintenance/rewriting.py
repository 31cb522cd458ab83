"""State that a failed disk may not have kept is written again under other names, before anybody relies on it.

What a failed fsync did not write, the kernel still shows and takes for written; only a new file is written for certain.
Files in the folder of a run are left alone: a process may be appending to them, and what is made of them is committed.
"""

from __future__ import annotations

import asyncio
import logging
import os
import stat
import tempfile
from concurrent import futures
from typing import TYPE_CHECKING

from ...plugins.module_utils.domain.values import errors
from ...plugins.plugin_utils import durable_files, unsynced
from ...plugins.plugin_utils.config import history
from ..jobs import store
from . import spool

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from ...plugins.module_utils.domain.values import tree
    from ..abnormal_ends import ReadOnly
    from ..configuration import Configuration
    from ..locks.desk import Desk

PROOF = ".proof"
LOG = logging.getLogger(__name__)
TOGETHER = 16
"""How many files are made durable at once: file systems join such requests."""


async def at_start(where: tree.Tree, *, configuration: Configuration, desk: Desk, read_only: ReadOnly) -> None:
    """Write the state again if a disk failed in this boot; while that cannot be done the daemon answers no questions.

    A daemon that is read-only already stays, and says so, where the disk still fails; any other ends.

    Raises:
        StateUnknown: the disk failed again.
    """
    failed = unsynced.pending(where)
    if not failed:
        return
    try:
        if read_only.reason:
            await asyncio.to_thread(_try_disk, where.lib)
        await write_again(where, configuration=configuration, desk=desk)
    except (errors.StoreFailed, OSError) as error:
        read_only.wait_for_disk(failed, str(error))


def _try_disk(folder: Path) -> None:
    """Raises: OSError: the disk does not take a new file. Nothing is made unknown by it."""
    with tempfile.TemporaryFile(dir=folder) as stream:
        stream.write(PROOF.encode())
        stream.flush()
        os.fsync(stream.fileno())


async def write_again(where: tree.Tree, *, configuration: Configuration, desk: Desk) -> None:
    """Write all state again, durably.

    Raises:
        StoreFailed, OSError: there is no room for it, or a file cannot be read. StateUnknown: the disk failed again.
    """
    # Who has them in memory writes them: a play by hand may record in a daemon that is read-only.
    await configuration.write_again()
    desk.write_again()
    count = await asyncio.to_thread(_write_files, where, configuration.current.maintenance.round)
    unsynced.clear(where)
    LOG.info("all state was written again: %d files beside the configuration and the lock table", count)


def _write_files(where: tree.Tree, at_work: int) -> int:
    with futures.ThreadPoolExecutor(TOGETHER) as pool:
        count = sum(pool.map(_written, _files(where, at_work)))
        count += sum(pool.map(_history_written, _history(where, at_work)))
        count += sum(pool.map(_spooled, _entries(where.spool)))
    # A name that was removed, or moved to another folder, leaves nothing to write: each folder has one new name.
    for folder in _folders(where):
        if folder.is_dir():
            durable_files.replace(folder / PROOF, b"proof\n")
            (folder / PROOF).unlink()
    return count


def _files(where: tree.Tree, at_work: int) -> Iterator[Path]:
    """The state beside the history; `at_work` is the number of the last round, whose jobs may not be submitted yet."""
    if where.queue.is_dir():
        yield where.queue / "drain"
        yield from (where.queue / str(number) / "job.json" for number in store.numbers(where.queue))
    yield where.rounds / f"{at_work}.json"
    for folder in (where.reports, where.report_originals):
        yield from (path for path in _entries(folder) if path.suffix == ".json")


def _history(where: tree.Tree, at_work: int) -> Iterator[Path]:
    """The rounds before the last one, and the kept versions of the configuration: nothing is decided by them."""
    known = (path for path in _entries(where.rounds) if path.suffix == ".json")
    yield from (path for path in known if path.stem != str(at_work))
    # Each is another name of a file that was the configuration, perhaps of the one that could not be written.
    yield from (version.path for version in history.versions(where.config))


def _folders(where: tree.Tree) -> Iterator[Path]:
    archive = where.queue / "archive"
    yield from (where.lib, history.folder(where.config), where.queue, archive, where.queue / "damaged")
    # A job was complete before it was moved here, so only its name may be lost.
    yield from (path for path in _entries(archive) if path.is_dir() and not path.is_symlink())
    yield from (where.rounds, where.reports, where.report_originals)


def _entries(folder: Path) -> list[Path]:
    return sorted(path for path in folder.iterdir() if not path.name.startswith(".")) if folder.is_dir() else []


def _written(path: Path) -> bool:
    """Write a file again, unless it is not the daemon's: it never read that one, so nothing relies on it.

    Raises:
        StoreFailed: it cannot be read, or there is no room for it. StateUnknown: the disk failed again.
    """
    try:
        return _try_write(path)
    except OSError as error:
        text = f"{path} cannot be read ({error.strerror or error}): restore it from a backup, or remove it"
        raise errors.StoreFailed(text) from error


def _history_written(path: Path) -> bool:
    """Write a file of the history again; one that cannot be read is passed over.

    Raises:
        StoreFailed: there is no room for it. StateUnknown: the disk failed again.
    """
    try:
        return _try_write(path)
    except OSError as error:
        LOG.warning("%s cannot be read (%s): it is not written again; remove it", path, error.strerror or error)
        return False


def _try_write(path: Path) -> bool:
    """Raises: OSError: the file cannot be read. StoreFailed, StateUnknown: it cannot be written."""
    try:
        if not stat.S_ISREG(path.lstat().st_mode):
            LOG.warning("%s is not a regular file: it is not written again; remove it", path)
            return False
        durable_files.write_again(path)
    except FileNotFoundError:
        return False
    except PermissionError as error:
        LOG.warning("%s: it is not written again; remove it, or give it to the daemon's user: %s", path, error)
        return False
    return True


def _spooled(path: Path) -> bool:
    """A report that was not accepted because of the disk; those that are refused are left to the next step."""
    if path.suffix != ".json":
        return False
    try:
        spool.content(path, is_kept=False)
    except (errors.ReportRejected, OSError):
        return False
    return _written(path)
