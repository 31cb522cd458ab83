"""Unix sockets whose path may have any length."""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@contextlib.contextmanager
def short_name(path: Path) -> Iterator[str]:
    """A name for a socket that the kernel, which takes 107 bytes, accepts; it is good inside this context.

    Raises:
        OSError: the socket's folder cannot be opened.
    """
    folder = os.open(path.parent, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{folder}/{path.name}"
    finally:
        os.close(folder)
