"""A disk that fills up: the controller's state on a tmpfs of its own."""

from __future__ import annotations

import contextlib
import shutil
import subprocess
import tempfile
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

MOST_TRIES = 100


def why_not() -> str:
    """Why this process cannot mount a small disk, or ''."""
    if shutil.which("mount") is None or shutil.which("umount") is None:
        return "there is no command `mount`"
    with tempfile.TemporaryDirectory(prefix="roundsman-disk-") as folder:
        tried = subprocess.run(_mounted(folder, size="1m"), capture_output=True, text=True, check=False)
        if tried.returncode == 0:
            subprocess.run(["umount", folder], check=True)
            return ""
    return tried.stderr.strip() or f"mount ended with {tried.returncode}"


@contextlib.contextmanager
def under(folder: Path, *, size: str = "48m") -> Iterator[None]:
    """Put what is in a folder onto a small disk, and what is there at the end back; nothing may have it open."""
    aside = folder.with_name(f"{folder.name}.aside")
    folder.rename(aside)
    folder.mkdir()
    subprocess.run(_mounted(str(folder), size=size), check=True)
    try:
        shutil.copytree(aside, folder, symlinks=True, dirs_exist_ok=True)
        yield
    finally:
        shutil.rmtree(aside)
        shutil.copytree(folder, aside, symlinks=True, ignore=shutil.ignore_patterns("filler"))
        subprocess.run(["umount", "--lazy", str(folder)], check=True)
        folder.rmdir()
        aside.rename(folder)


def fill(folder: Path) -> None:
    """Leave no room on the disk of a folder, at this moment."""
    probe = folder / "probe"
    with (folder / "filler").open("ab", buffering=0) as filler:
        # Others make room meanwhile by what they remove.
        for _ in range(MOST_TRIES):
            for size in (1 << 20, 1 << 12, 1):
                with contextlib.suppress(OSError):
                    while filler.write(bytes(size)) == size:
                        pass
            try:
                probe.write_bytes(b"x")
            except OSError:
                return
            probe.unlink()
    raise AssertionError(f"{folder} does not fill up")


def free(folder: Path) -> None:
    """Make room again."""
    (folder / "filler").unlink()
    (folder / "probe").unlink(missing_ok=True)


def _mounted(folder: str, *, size: str) -> list[str]:
    return ["mount", "-t", "tmpfs", "-o", f"size={size},mode=0755", "tmpfs", folder]
