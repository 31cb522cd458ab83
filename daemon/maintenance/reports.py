"""The way in: files in the spool become accepted reports, or are moved aside with a reason.

Accepting a report is renaming it to `reports/<node>.json` (a report of a problem: `<node>.problem.json`); what is
there is also the floor below which a report counts as replayed.
"""

from __future__ import annotations

import fcntl
import json
import logging
import os
import shutil
import stat
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pydantic

from ...plugins.module_utils.domain import diagnosis, errors, reports
from ...plugins.plugin_utils import durable_files

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from ...plugins.module_utils.domain import cluster as clusters
    from ...plugins.module_utils.domain import tree
    from .agents import Seen

LOG = logging.getLogger(__name__)
KEPT_REJECTED = 200
TEXT_LIMIT = 500
UNREACHABLE = ".unreachable"
PROBLEM = ".problem.json"


@dataclass(frozen=True)
class Note:
    """What a note of an unreachable node holds: its name, the unix time of the attempt, and why."""

    node: str
    time: pydantic.FiniteFloat
    text: str


_NOTE = pydantic.TypeAdapter(Note)


@dataclass(frozen=True)
class Received:
    """An accepted report and the unix time of its acceptance."""

    report: reports.Report
    accepted: float


class Intake:
    """What the nodes said last, changed by `take_all` only, and in `seen` how their agents answer, which those say."""

    def __init__(
        self,
        where: tree.Tree,
        *,
        clock: Callable[[], float],
        cluster: Callable[[], clusters.Cluster],
        on_change: Callable[[], None] = lambda: None,
    ) -> None:
        self.seen: dict[str, Seen] = {}
        self._on_change = on_change
        self._where = where
        self._clock = clock
        self._cluster = cluster
        self._key = _cluster_key(where.hmac_key)
        self.diagnosed: dict[str, Received] = {}
        self.problems: dict[str, Received] = {}
        self.unreachable: dict[str, dict[str, Any]] = {}
        self.rejections: Counter[str] = Counter()
        self._load()

    def take_all(self) -> bool:
        """Judge every file in the spool; returns whether anything was accepted or noted."""
        found = sorted(path for path in self._where.spool.iterdir() if not path.name.startswith("."))
        taken = [self._take(path) for path in found]
        if any(taken):
            durable_files.sync_folder(self._where.reports)
        if taken:
            self._on_change()
        return any(taken)

    def observed(self) -> dict[str, diagnosis.Diagnosis]:
        """The last diagnosis of every node of the cluster that is not offline."""
        nodes = self._cluster().nodes
        return {
            uuid: one.report.diagnosis
            for uuid, one in self.diagnosed.items()
            if one.report.diagnosis is not None and uuid in nodes and not nodes[uuid].offline
        }

    def is_silent(self, node: str) -> bool:
        """Whether a node did not answer the last time it was asked."""
        seen = self.seen.get(node)
        return (seen is not None and seen.misses > 0) or self._cluster().node_name(node) in self.unreachable

    def reported_ok_since(self, node: str, since: float) -> bool:
        """Whether a node's last accepted report says Ok and was accepted after a unix time."""
        self.take_all()
        last = self.diagnosed.get(node)
        if last is None or last.accepted < since or self._floor(node) > last.report.timestamp:
            return False
        return last.report.diagnosis is not None and last.report.diagnosis.status is diagnosis.Status.OK

    def _take(self, path: Path) -> bool:
        if path.name.endswith(UNREACHABLE):
            return self._note_unreachable(path)
        try:
            data = _content(path)
            report = reports.accept(
                data,
                now=int(self._clock()),
                cluster_key=self._key,
                nodes=self._cluster().nodes,
                floor=self._floor,
                accept_cluster_key=self._cluster().maintenance.settings.accept_cluster_key,
            )
        except (FileNotFoundError, BlockingIOError):
            return False
        except errors.ReportRejected as error:
            self._reject(path, error)
            return False
        target = self._where.reports / (report.node + (".json" if report.diagnosis is not None else PROBLEM))
        path.rename(target)
        self._keep(report, accepted=self._clock())
        return True

    def _keep(self, report: reports.Report, *, accepted: float) -> None:
        kept = self.diagnosed if report.diagnosis is not None else self.problems
        kept[report.node] = Received(report, accepted)
        name = self._cluster().node_name(report.node)
        self.unreachable.pop(name, None)
        if report.problem is not None:
            LOG.warning("node %s cannot be diagnosed: %s: %s", name, report.problem.reason, report.problem.text)

    def _floor(self, node: str) -> int:
        known = [kept[node].report.timestamp for kept in (self.diagnosed, self.problems) if node in kept]
        return max(known, default=0)

    def problem_of(self, node: str) -> reports.Problem | None:
        """The problem of a node whose last report was one."""
        last = self.problems.get(node)
        return last.report.problem if last is not None and last.report.timestamp == self._floor(node) else None

    def _note_unreachable(self, path: Path) -> bool:
        try:
            note = _NOTE.validate_json(_content(path))
        except (FileNotFoundError, BlockingIOError):
            return False
        except (ValueError, errors.ReportRejected) as error:
            self._reject(path, errors.ReportRejected("malformed", f"not a note of an unreachable node: {error}"))
            return False
        node = next((one for one in self._cluster().nodes.values() if one.name == note.node), None)
        if node is None:
            self._reject(path, errors.ReportRejected("wrong-node", f"no node of the cluster: {note.node[:80]!a}"))
            return False
        if note.time * 1e9 > self._floor(node.uuid):
            self.unreachable[node.name] = {"time": note.time, "text": note.text[:TEXT_LIMIT]}
        path.unlink()
        return True

    def _reject(self, path: Path, error: errors.ReportRejected) -> None:
        # A file name may hold anything but "/": a line break would forge a line of the log.
        LOG.warning("report %a rejected: %s: %s", path.name, error.reason, error)
        self.rejections[error.reason] += 1
        where = self._where.rejected
        # In bytes: a name of 255 of them is as long as a file system allows.
        name = f"{self._clock():.6f}-{error.reason}-{os.fsdecode(os.fsencode(path.name)[-100:])}"
        path.rename(where / name)
        (where / f"{name}.reason").write_text(f"{error.reason}: {error}\n")
        durable_files.replace(where / ".counts", json.dumps(self.rejections).encode())
        kept = sorted(path for path in where.iterdir() if not path.name.startswith("."))
        for old in kept[: max(0, len(kept) - 2 * KEPT_REJECTED)]:
            _remove(old)

    def _load(self) -> None:
        for folder in (self._where.spool, self._where.reports, self._where.rejected):
            folder.mkdir(mode=0o750, parents=True, exist_ok=True)
        accepts = self._cluster().maintenance.settings.accept_cluster_key
        for path in self._where.reports.glob("*.json"):
            try:
                report = reports.read(path.read_bytes(), cluster_key=self._key, accept_cluster_key=accepts)
            except errors.ReportRejected as error:
                LOG.warning("%s is not an accepted report and is not used: %s", path, error)
                continue
            known = path.stat()
            # Whoever spooled the file chose its mtime, which may lie ahead; renaming it set its ctime.
            self._keep(report, accepted=min(known.st_mtime, known.st_ctime))
        try:
            self.rejections.update(json.loads((self._where.rejected / ".counts").read_bytes()))
        except (FileNotFoundError, ValueError):
            LOG.debug("no counts of rejected reports yet")


def _cluster_key(path: Path) -> bytes:
    try:
        key = path.read_bytes()
    except OSError as error:
        raise errors.StoreFailed(
            f"{path} cannot be read: {error.strerror}; without it no report can be trusted"
        ) from error
    if not key.strip():
        raise errors.StoreFailed(f"{path} is empty; without a key no report can be trusted")
    return key


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink()


def _content(path: Path) -> bytes:
    """The bytes of a spooled file, durable before they count; never those of a link, a pipe or a large file.

    Raises:
        FileNotFoundError, BlockingIOError: it is gone, or somebody still writes it; another event will follow.
        ReportRejected: it is nothing that could be a report.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise errors.ReportRejected("malformed", f"not a file that can be read: {error.strerror}") from error
    found = os.fstat(descriptor)
    if not stat.S_ISREG(found.st_mode):
        os.close(descriptor)
        raise errors.ReportRejected("malformed", "not a regular file")
    with os.fdopen(descriptor, "rb") as stream:
        _refuse_while_written(stream.fileno())
        if found.st_size > reports.LIMIT:
            raise errors.ReportRejected("oversized", f"{found.st_size} bytes, and {reports.LIMIT} is the limit")
        data = stream.read(reports.LIMIT + 1)
        os.fsync(stream.fileno())
    return data


def _refuse_while_written(descriptor: int) -> None:
    """A read lease is granted only when nobody has the file open for writing (the daemon ignores SIGIO)."""
    try:
        fcntl.fcntl(descriptor, fcntl.F_SETLEASE, fcntl.F_RDLCK)
        fcntl.fcntl(descriptor, fcntl.F_SETLEASE, fcntl.F_UNLCK)
    except BlockingIOError:
        raise
    except OSError:
        LOG.debug("no leases on this file: it is taken as complete")
