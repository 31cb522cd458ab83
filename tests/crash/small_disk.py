"""A disk that fills up: the controller's state on a tmpfs of its own (needs root)."""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import subprocess
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SIZE = "48m"


def is_possible() -> bool:
    """Whether this process may mount."""
    return os.geteuid() == 0 and shutil.which("mount") is not None


@contextlib.contextmanager
def under(folder: Path) -> Iterator[None]:
    """Put what is in a folder onto a small disk; nothing may have it open."""
    aside = folder.with_name(f"{folder.name}.aside")
    folder.rename(aside)
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={SIZE}", "tmpfs", str(folder)], check=True)
    try:
        shutil.copytree(aside, folder, symlinks=True, dirs_exist_ok=True)
        yield
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


def fill(folder: Path) -> None:
    """Leave no room on the disk of a folder."""
    with (folder / "filler").open("ab", buffering=0) as filler:
        for size in (1 << 20, 1 << 12, 1):
            with contextlib.suppress(OSError):
                while filler.write(bytes(size)) == size:
                    pass
    with contextlib.suppress(OSError):
        (folder / "probe").write_bytes(b"x")
        raise AssertionError(errno.errorcode[errno.ENOSPC])


def free(folder: Path) -> None:
    """Make room again."""
    (folder / "filler").unlink()
