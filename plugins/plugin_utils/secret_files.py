"""Secret files that nobody else may read (seed 004, "Privilege Separation")."""

from __future__ import annotations

import os
import stat
from pathlib import Path  # noqa: TC003 - an annotation that readers resolve
from typing import TYPE_CHECKING

from ..module_utils.domain.values import errors

if TYPE_CHECKING:
    from collections.abc import Iterable

PRIVATE, SHARED = 0o600, 0o640
"""The most that a file of one user, and one that belongs to a set's group, may allow, besides being executable."""


def refuse_readable(paths: Iterable[Path], *, most: int = PRIVATE) -> None:
    """Go on only when no file allows its group or others more than `most`; a file that is not there is no danger.

    Raises:
        Refused: one does; the text names file and mode. OSError: a file cannot be looked at.
    """
    for path in paths:
        try:
            mode = stat.S_IMODE(path.stat().st_mode)
        except FileNotFoundError:
            continue
        if mode & 0o077 & ~most:
            raise errors.Refused(
                f"{path} has the mode {mode:04o}, by which others can read or change a secret: "
                f"let it be {mode & most:04o}"
            )


def readable(paths: Iterable[Path]) -> list[Path]:
    """Those of the files that this process can read."""
    return [path for path in paths if os.access(path, os.R_OK)]
