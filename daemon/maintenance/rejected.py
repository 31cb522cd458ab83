"""The folder of rejected reports: the newest of them, each with its reason, and how many there ever were.

The folder is bounded in files and in bytes. Where it is full, the oldest file of the node that has most goes first,
so one node cannot push out the evidence against another.
"""

from __future__ import annotations

import json
import logging
import os
import re
import shutil
import stat
from collections import Counter
from typing import TYPE_CHECKING
from urllib.parse import quote

from ...plugins.plugin_utils import durable_files

if TYPE_CHECKING:
    from pathlib import Path

    from ...plugins.module_utils.domain.values import errors
    from ...plugins.plugin_utils.cluster import cluster as clusters

LOG = logging.getLogger(__name__)
KEPT = 200
"""Rejected files in the folder, each with its reason beside it."""
HEAD = 64 * 1024
"""Bytes that are kept of each."""
LIMIT = 8 * 2**20
"""Bytes of all files in the folder."""
LOGGED = 20
"""Lines of the log for the rejections of one batch."""
REASON = ".reason"
LONGEST_NAME = 200
"""Characters of a node's name in the name of a file."""
_ANSWER = re.compile(r"(?P<node>.+)-[0-9]+\.json")
_SOURCE = re.compile(r"[0-9.]+-[a-z-]+?-(?P<node>.+?)(-[0-9]+\.json|\.unreachable)")


class Rejected:
    """Where rejected files go."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._unlogged = -LOGGED

    def put(self, path: Path, error: errors.ReportRejected, *, at: float) -> None:
        """Move the beginning of a rejected file aside, with its reason; `at` is the unix time."""
        # A file name may hold anything but "/": a line break would forge a line of the log.
        self._unlogged += 1
        if self._unlogged <= 0:
            LOG.warning("report %a rejected: %s: %s", path.name, error.reason, error)
        # In bytes: a name of 255 of them is as long as a file system allows.
        name = f"{at:.6f}-{error.reason}-{os.fsdecode(os.fsencode(path.name)[-100:])}"
        _keep_head(path, self._folder / name)
        (self._folder / f"{name}{REASON}").write_text(f"{error.reason}: {error}\n")

    def count(self, rejections: Counter[str]) -> None:
        """Write down how many were rejected, by reason, and remove what is beyond the bounds."""
        if self._unlogged > 0:
            LOG.warning("%d more reports were rejected", self._unlogged)
        self._unlogged = -LOGGED
        durable_files.replace(self._folder / ".counts", json.dumps(rejections).encode())
        self._prune()

    def counts(self) -> Counter[str]:
        """What was written down."""
        try:
            return Counter(json.loads((self._folder / ".counts").read_bytes()))
        except (FileNotFoundError, ValueError):
            LOG.debug("no counts of rejected reports yet")
            return Counter()

    def _prune(self) -> None:
        kept: dict[str, list[tuple[str, int]]] = {}
        for name, size in sorted(self._sizes().items()):
            kept.setdefault(_source(name), []).append((name, size))
        count = sum(len(files) for files in kept.values())
        total = sum(size for files in kept.values() for _, size in files)
        while count > KEPT or (total > LIMIT and count):
            weigh = _number if count > KEPT else _bytes
            name, size = max(kept.values(), key=weigh).pop(0)
            for path in (self._folder / name, self._folder / f"{name}{REASON}"):
                _remove(path)
            count, total = count - 1, total - size

    def _sizes(self) -> Counter[str]:
        """The bytes of each rejected file and its reason, by the name of the former."""
        found: Counter[str] = Counter()
        for path in self._folder.iterdir():
            if not path.name.startswith("."):
                found[path.name.removesuffix(REASON)] += path.lstat().st_size
        return found


def asked(name: str, cluster: clusters.Cluster) -> str:
    """The UUID of the node whose answer a file of the spool holds; '' for a note, or one that no poll put there."""
    found = _ANSWER.fullmatch(name)
    if found is None:
        return ""
    told = found["node"]
    return next((node.uuid for node in cluster.nodes.values() if told in {node.name, file_name(node.name)}), "")


def file_name(node: str) -> str:
    """The beginning of a file's name that stays in the folder, whatever the node is called."""
    return quote(node, safe="")[:LONGEST_NAME]


def _source(name: str) -> str:
    """The node that was asked, whose name the files of polls begin with; '' for any other file."""
    found = _SOURCE.fullmatch(name)
    return found["node"] if found else ""


def _number(files: list[tuple[str, int]]) -> int:
    return len(files)


def _bytes(files: list[tuple[str, int]]) -> int:
    return sum(size for _, size in files)


def _keep_head(path: Path, target: Path) -> None:
    """Move a file, cut to its beginning; of a folder, or a large file that cannot be cut, nothing is kept."""
    try:
        found = path.lstat()
        is_large = found.st_size > HEAD
        if stat.S_ISDIR(found.st_mode) or (is_large and found.st_nlink > 1):
            _remove(path)
            return
        path.rename(target)
        if is_large:
            _cut(target)
    except FileNotFoundError:
        LOG.debug("%a is gone", path.name)


def _cut(path: Path) -> None:
    try:
        os.truncate(path, HEAD)
    except PermissionError:
        LOG.debug("%a belongs to another user", path.name)
        path.unlink()


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
