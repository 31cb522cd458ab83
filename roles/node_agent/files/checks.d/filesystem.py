#!/usr/bin/python3
"""File systems that the kernel has made read-only, that cannot be read, or that have counted errors."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any, Dict, List, Tuple

TYPES = frozenset(("ext2", "ext3", "ext4", "xfs", "btrfs", "f2fs"))


def main() -> None:
    """Print how the file systems are."""
    root = Path(sys.argv[1]) if len(sys.argv) > 1 else Path("/")
    print(json.dumps(judged(root)))  # noqa: T201 - its answer


def judged(root: Path) -> Dict[str, Any]:
    """The diagnosis: what cannot be written needs another node, counted errors need a check of the file system."""
    wanted = _read_only_by_will(root / "etc/fstab")
    details: Dict[str, str] = {}
    for place, is_read_only in _mounted((root / "proc/self/mountinfo").read_text()):
        if is_read_only and place not in wanted:
            details[place] = "is read-only"
        elif not _is_readable(root / place.lstrip("/")):
            details[place] = "cannot be read"
    status = "evacuate" if details else "live-repair"
    for counter in sorted(root.glob("sys/fs/ext4/*/errors_count")):
        if int(counter.read_text()):
            details[counter.parent.name] = "has counted errors"
    return {"status": status, "details": dict(sorted(details.items()))} if details else {"status": "Ok"}


def _mounted(text: str) -> List[Tuple[str, bool]]:
    """Where file systems are, and whether they are read-only themselves: a mount may be so by will, as in a sandbox."""
    found: Dict[str, bool] = {}
    for line in text.splitlines():
        mount, _, system = line.partition(" - ")
        kind, _source, options = system.split(" ", 2)
        if kind in TYPES:
            found[_plain(mount.split(" ")[4])] = "ro" in options.split(",")
    return sorted(found.items())


def _read_only_by_will(table: Path) -> List[str]:
    lines = table.read_text().splitlines() if table.exists() else []
    fields = [line.split() for line in lines if not line.lstrip().startswith("#")]
    return [_plain(one[1]) for one in fields if len(one) > 3 and "ro" in one[3].split(",")]  # noqa: PLR2004 - options


def _plain(place: str) -> str:
    return re.sub(r"\\([0-7]{3})", lambda found: chr(int(found[1], 8)), place)


def _is_readable(path: Path) -> bool:
    try:
        # A mount that is hidden here, as in a sandbox, tells nothing.
        if path.is_dir():
            next(path.iterdir(), None)
    except PermissionError:
        return True
    except OSError:
        return False
    return True


if __name__ == "__main__":
    try:
        main()
    except (OSError, ValueError, IndexError) as error:
        sys.exit("filesystem: {!r}".format(error))
