"""The versions of the configuration that were committed, beside it: the newest ten, and one an hour for a day.

Each is a name more for a file that was written anyway; together they are kept below a bound.
"""

from __future__ import annotations

import contextlib
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ...module_utils.domain.values import errors
from .. import durable_files

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

NEWEST = 10
HOURS = 24
HOUR = 3600.0
MOST_BYTES = 256 << 20


@dataclass(frozen=True)
class Version:
    """A version by the serial number of its document; `time` in unix seconds."""

    serial_no: int
    time: float
    size: int
    path: Path


def folder(config: Path) -> Path:
    """Where the versions are."""
    return config.with_name("config.history")


def versions(config: Path) -> list[Version]:
    """All versions that are kept, oldest first."""
    found = []
    for path in folder(config).glob("*.data"):
        if path.stem.isdigit():
            with contextlib.suppress(FileNotFoundError):
                known = path.stat()
                found.append(Version(int(path.stem), known.st_mtime, known.st_size, path))
    return sorted(found, key=lambda version: version.serial_no)


def get(config: Path, serial_no: int) -> Version:
    """The version with this serial number.

    Raises:
        NotFound: it is not kept.
    """
    known = versions(config)
    found = next((version for version in known if version.serial_no == serial_no), None)
    if found is None:
        kept = f"{known[0].serial_no} to {known[-1].serial_no}" if known else "none"
        raise errors.NotFound(f"version {serial_no} is not kept: there are versions of {kept}")
    return found


def keep(config: Path, serial_no: int) -> None:
    """Keep the version that was just written, durably, and let go of those that are too old.

    Raises:
        OSError: it could not be kept; the configuration itself is written.
    """
    own = folder(config)
    if not own.exists():
        _make(own)
        durable_files.sync_folder(own.parent)
    path = own / f"{serial_no:010d}.data"
    path.unlink(missing_ok=True)
    path.hardlink_to(config)
    # First the new name, then the end of the old ones: a crash between leaves too many, never too few.
    durable_files.sync_folder(own)
    for version in superfluous(versions(config)):
        version.path.unlink(missing_ok=True)


def _make(own: Path) -> None:
    own.mkdir(mode=0o750)
    descriptor = os.open(own, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        durable_files.give_to_owner_of(own.parent, descriptor)
    finally:
        os.close(descriptor)


def superfluous(known: Sequence[Version]) -> list[Version]:
    """Which versions are let go of: beyond the newest, all but the last of each hour, and what is over the bound."""
    kept: list[Version] = list(known[-NEWEST:])
    hours: set[int] = set()
    for version in reversed(known[:-NEWEST]):
        hour = int(version.time // HOUR)
        if hour not in hours and len(hours) < HOURS:
            hours.add(hour)
            kept.append(version)
    kept.sort(key=lambda version: version.serial_no, reverse=True)
    size = 0
    bounded: list[Version] = []
    for version in kept:
        size += version.size
        if not bounded or size <= MOST_BYTES:
            bounded.append(version)
    return [version for version in known if version not in bounded]
