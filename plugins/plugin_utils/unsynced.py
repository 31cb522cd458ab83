"""The note that the disk failed while state was written, and that the next daemon has to write it again.

It is in /run, which is memory, and counts within one boot: after a reboot nothing is read but what the disk has kept.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
from pathlib import Path
from typing import TYPE_CHECKING

from ..module_utils.domain.values import errors

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..module_utils.domain.values import tree

LOG = logging.getLogger(__name__)
BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


def boot() -> str:
    """The name that the kernel gave to this boot."""
    return BOOT_ID.read_text().strip()


def note(where: tree.Tree, error: errors.StateUnknown) -> None:
    """Leave the note; the first one stays, whichever process left it."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        if not pending(where):
            clear(where)
            where.run.mkdir(mode=0o755, parents=True, exist_ok=True)
            with os.fdopen(os.open(where.unsynced, flags, 0o644), "w") as stream:
                json.dump({"boot": boot(), "text": str(error)}, stream)
    except OSError:
        LOG.exception("%s cannot be written: reboot before roundsmand starts again (%s)", where.unsynced, error)


@contextlib.contextmanager
def noted(where: tree.Tree) -> Iterator[None]:
    """Leave a note of what becomes unknown inside."""
    try:
        yield
    except errors.StateUnknown as error:
        note(where, error)
        raise


def pending(where: tree.Tree) -> str:
    """What failed in this boot and was not written again since; '' for nothing. A note that cannot be read counts."""
    try:
        told = json.loads(where.unsynced.read_bytes())
        return str(told["text"]) if told["boot"] == boot() else ""
    except FileNotFoundError:
        return ""
    except (OSError, ValueError, KeyError, TypeError) as error:
        return f"the disk failed, and {where.unsynced} cannot be read: {error!r}"


def clear(where: tree.Tree) -> None:
    """All state was written again."""
    where.unsynced.unlink(missing_ok=True)
