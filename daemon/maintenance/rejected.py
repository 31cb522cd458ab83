"""The folder of rejected reports: the newest of them, each with its reason, and how many there ever were."""

from __future__ import annotations

import json
import logging
import os
import shutil
from collections import Counter
from typing import TYPE_CHECKING

from ...plugins.plugin_utils import durable_files

if TYPE_CHECKING:
    from pathlib import Path

    from ...plugins.module_utils.domain import errors

LOG = logging.getLogger(__name__)
KEPT = 200


class Rejected:
    """Where rejected files go."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def put(self, path: Path, error: errors.ReportRejected, *, at: float) -> None:
        """Move a rejected file aside, with its reason; `at` is the unix time."""
        # A file name may hold anything but "/": a line break would forge a line of the log.
        LOG.warning("report %a rejected: %s: %s", path.name, error.reason, error)
        # In bytes: a name of 255 of them is as long as a file system allows.
        name = f"{at:.6f}-{error.reason}-{os.fsdecode(os.fsencode(path.name)[-100:])}"
        path.rename(self._folder / name)
        (self._folder / f"{name}.reason").write_text(f"{error.reason}: {error}\n")

    def count(self, rejections: Counter[str]) -> None:
        """Write down how many were rejected, by reason, and remove the oldest files."""
        durable_files.replace(self._folder / ".counts", json.dumps(rejections).encode())
        kept = sorted(path for path in self._folder.iterdir() if not path.name.startswith("."))
        for old in kept[: max(0, len(kept) - 2 * KEPT)]:
            _remove(old)

    def counts(self) -> Counter[str]:
        """What was written down."""
        try:
            return Counter(json.loads((self._folder / ".counts").read_bytes()))
        except (FileNotFoundError, ValueError):
            LOG.debug("no counts of rejected reports yet")
            return Counter()


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink()
