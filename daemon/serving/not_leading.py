"""The note of a daemon that ended because another controller leads, which `roundsman-rapi` reads: it ends, too.

Nobody answers on the daemon's socket then, as after a crash, so the socket cannot say which of both it is. The note is
in the folder of the remote API's socket, which only the daemon writes to, and is gone with each boot.
"""

from __future__ import annotations

import logging
import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ...plugins.module_utils.domain.values import tree

LOG = logging.getLogger(__name__)
EXIT_STATUS = 11
"""Of a process that ends because another controller leads; systemd does not start it again (seed 000)."""
MODE = 0o640
LONGEST = 4000


def note(where: tree.Tree, reason: str) -> None:
    """Leave the note; a daemon that cannot write it ends all the same."""
    path = where.not_leading
    temporary = path.with_name(f".{path.name}.new")
    try:
        path.parent.mkdir(mode=0o750, parents=True, exist_ok=True)
        with open(temporary, "w", opener=_opened) as file:
            os.fchmod(file.fileno(), MODE)
            file.write(reason[:LONGEST])
        temporary.replace(path)
    except OSError as error:
        LOG.warning("roundsman-rapi cannot learn that another controller leads: %s", error)


def forget(where: tree.Tree) -> None:
    """Take the note away: a daemon works in this folder again, whether it leads already or waits for votes."""
    where.not_leading.unlink(missing_ok=True)


def reason(where: tree.Tree) -> str:
    """Why the last daemon here does not lead, as it noted; '' where none did."""
    try:
        with where.not_leading.open(encoding="utf-8", errors="replace") as file:
            return file.read(LONGEST) or "another controller leads"
    except (FileNotFoundError, NotADirectoryError):
        return ""


def _opened(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NOFOLLOW, MODE)
