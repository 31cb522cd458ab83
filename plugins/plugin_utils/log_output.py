"""Where a daemon's log goes: standard error, and a file that may be rotated under it."""

from __future__ import annotations

import contextlib
import errno
import io
import logging
import logging.handlers
import os
import pwd
import stat
from pathlib import Path  # noqa: TC003 - an annotation that readers resolve
from typing import TYPE_CHECKING

from ..module_utils import log_lines
from ..module_utils.domain.values import errors
from . import durable_files, folders_of_others

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ..module_utils.domain.values import tree

AUDIT = "roundsman.audit"
"""The logger of what people will ask about later: writes, power, and health that is not well.

A line begins with its kind: `request`, `command`, `record`, `import`, `job` or `daemon`.
"""
FORMAT = "%(asctime)s %(levelname)s %(name)s: %(message)s"


class _PrivateFile(logging.handlers.WatchedFileHandler):
    """A log that only its daemon can read (seed 004, "Directory structure and permissions")."""

    def emit(self, record: logging.LogRecord) -> None:
        try:
            super().emit(record)
        except OSError:
            # The file was replaced by something that is no log: standard error still has the line.
            self.handleError(record)

    def _open(self) -> io.TextIOWrapper:
        return io.TextIOWrapper(
            io.FileIO(_open_log(self.baseFilename), "a"), encoding="utf-8", errors="backslashreplace"
        )


def _open_log(name: str) -> int:
    """Open a regular file for appending; neither a link, which may lead anywhere, nor a pipe, which may block."""
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
    descriptor = os.open(name, flags, 0o600)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, "not a regular file", name)
    return descriptor


def install(*, level: str, file: Path | None, audit: Path | None = None) -> None:
    """Send the log to standard error, and to a file if one is named; that of `AUDIT` to one of its own too.

    Raises:
        OSError: a file cannot be written.
    """
    root = logging.getLogger()
    handlers: list[logging.Handler] = [logging.StreamHandler()]
    if file is not None:
        handlers.append(_PrivateFile(file))
    for handler in handlers:
        handler.setFormatter(log_lines.Formatter(FORMAT))
        root.addHandler(handler)
    root.setLevel(level.upper())
    if audit is not None:
        open_audit(audit)


def open_audit(file: Path) -> None:
    """Send what is logged for the audit to a file, whatever the level of the rest.

    Raises:
        OSError: the file cannot be written.
    """
    logger = logging.getLogger(AUDIT)
    logger.addHandler(_audit_handler(file))
    logger.setLevel(logging.INFO)


def append_audit(where: tree.Tree, lines: Iterable[str]) -> None:
    """Add lines to the audit log from a process that logs nothing else; a log that cannot be written costs no work.

    Where it is missing, root and the daemon's user create it for the daemon. Another user's file would keep the daemon
    from starting.
    """
    with contextlib.suppress(OSError, errors.Refused):
        may_create = where.lib.is_dir() and os.geteuid() in {0, where.lib.stat().st_uid}
        if may_create and not os.path.lexists(where.log):
            _create_log_folder(where)
        with folders_of_others.as_owner_of(where.log):
            if may_create and not os.path.lexists(where.audit_log):
                _create_audit_log(where.audit_log)
            if not where.audit_log.exists():
                return
            handler = _audit_handler(where.audit_log)
            for line in lines:
                handler.emit(logging.LogRecord(AUDIT, logging.INFO, __file__, 0, line, None, None))
            handler.close()


def _create_log_folder(where: tree.Tree) -> None:
    """Create the folder of the logs for the owner of the daemon's state.

    Raises:
        OSError, Refused: it cannot be created.
    """
    with folders_of_others.as_owner_of(where.log):
        where.log.mkdir(mode=0o750, parents=True)
        descriptor = os.open(where.log, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            durable_files.give_to_owner_of(where.lib, descriptor)
        finally:
            os.close(descriptor)


def _create_audit_log(file: Path) -> None:
    """Create the audit log, with the group of its folder if the user is in it.

    Raises:
        OSError: it cannot be created.
    """
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = os.open(file, flags, 0o600)
    try:
        with contextlib.suppress(PermissionError):
            os.fchown(descriptor, -1, file.parent.stat().st_gid)
    finally:
        os.close(descriptor)


def account() -> str:
    """The user and the uid of this process, for a line of the audit log."""
    return f"user={user()} uid={os.getuid()}"


def user() -> str:
    """The name of the user of this process."""
    try:
        return pwd.getpwuid(os.getuid()).pw_name.replace(" ", "-")
    except KeyError:
        return "unknown"


def _audit_handler(file: Path) -> logging.Handler:
    handler = _PrivateFile(file)
    handler.setFormatter(log_lines.Formatter(FORMAT))
    return handler
