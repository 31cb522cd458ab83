"""What is built once: folders by the digest of their recipe, whole or not there at all."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

MAKING = ".making-"


def default() -> Path:
    """The folder of the cache, unless the command line names another."""
    named = os.environ.get("ROUNDSMAN_TESTBED_CACHE")
    return Path(named) if named else Path.home() / ".cache/roundsman-testbed"


def digest(*recipe: str) -> str:
    """A short name for a recipe."""
    return hashlib.sha256("\0".join(recipe).encode()).hexdigest()[:12]


@contextlib.contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold the cache, which waits for another build; what a killed one left is removed."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    with (folder / "lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        for left in folder.glob(f"{MAKING}*"):
            shutil.rmtree(left)
        yield


@contextlib.contextmanager
def making(folder: Path, name: str) -> Iterator[Path]:
    """A new folder that gets its name when it is whole; on any trouble nothing of it is left."""
    made = Path(tempfile.mkdtemp(prefix=MAKING, dir=folder))
    try:
        yield made
        made.rename(folder / name)
    finally:
        if made.exists():
            shutil.rmtree(made)
