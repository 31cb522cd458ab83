"""A new file takes the place of the one before, and the disk keeps it."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pathlib


def replace(new: pathlib.Path, path: pathlib.Path) -> None:
    """Give a file, whose content is synced, the name of another one beside it, durably.

    Raises: OSError.
    """
    new.replace(path)
    folder = os.open(str(path.parent), os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
