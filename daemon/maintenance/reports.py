"""The way in: files in the spool become accepted reports, or are moved aside with a reason.

Accepting a report is renaming it to `reports/<node>.json` (a report of a problem: `<node>.problem.json`); what is
there is also the floor below which a report counts as replayed.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pydantic

from ...plugins.module_utils.domain import diagnosis, errors, reports
from ...plugins.plugin_utils import durable_files
from . import rejected, spool

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from ...plugins.module_utils.domain import cluster as clusters
    from ...plugins.module_utils.domain import tree
    from .agents import Seen

LOG = logging.getLogger(__name__)
BATCH = 100
"""How many files are judged, and become durable, together; each may be as large as a report is at most."""
SYNCS = 16
"""How many files of a batch are made durable side by side: a file system commits such together."""
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


@dataclass(frozen=True)
class Heard:
    """What the nodes said last, by UUID; `unreachable` is by name, `rejections` by reason."""

    diagnosed: dict[str, Received] = field(default_factory=dict)
    problems: dict[str, Received] = field(default_factory=dict)
    unreachable: dict[str, dict[str, Any]] = field(default_factory=dict)
    rejections: Counter[str] = field(default_factory=Counter)

    def copy(self) -> Heard:
        """The same once more, to be changed."""
        return Heard(dict(self.diagnosed), dict(self.problems), dict(self.unreachable), self.rejections.copy())

    def floor(self, node: str) -> int:
        """The timestamp (ns) of a node's last accepted report, 0 for none."""
        known = [kept[node].report.timestamp for kept in (self.diagnosed, self.problems) if node in kept]
        return max(known, default=0)

    def keep(self, report: reports.Report, *, name: str, accepted: float) -> None:
        """Take over the accepted report of the node of this name."""
        kept = self.diagnosed if report.diagnosis is not None else self.problems
        kept[report.node] = Received(report, accepted)
        self.unreachable.pop(name, None)
        if report.problem is not None:
            LOG.warning("node %s cannot be diagnosed: %s: %s", name, report.problem.reason, report.problem.text)


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
        self._rejected = rejected.Rejected(where.rejected)
        self._turn = asyncio.Lock()
        self._heard = self._load()

    @property
    def diagnosed(self) -> Mapping[str, Received]:
        """The last accepted diagnosis of each node (UUID)."""
        return self._heard.diagnosed

    @property
    def unreachable(self) -> Mapping[str, dict[str, Any]]:
        """The nodes (names) that could not be reached: when, and why."""
        return self._heard.unreachable

    @property
    def rejections(self) -> Mapping[str, int]:
        """How many reports were rejected, by reason."""
        return self._heard.rejections

    async def take_all(self) -> bool:
        """Judge every file in the spool; returns whether anything was accepted or noted.

        The disk is waited for beside the event loop, and what was accepted is seen when all of its batch is durable.
        """
        # Who does not wait any more leaves no batch half known: its files are in their places already.
        return await asyncio.shield(asyncio.get_running_loop().create_task(self._take_all()))

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
        last = self.diagnosed.get(node)
        if last is None or last.accepted < since or self._heard.floor(node) > last.report.timestamp:
            return False
        return last.report.diagnosis is not None and last.report.diagnosis.status is diagnosis.Status.OK

    def problem_of(self, node: str) -> reports.Problem | None:
        """The problem of a node whose last report was one."""
        last = self._heard.problems.get(node)
        return last.report.problem if last is not None and last.report.timestamp == self._heard.floor(node) else None

    async def _take_all(self) -> bool:
        async with self._turn:
            found = await asyncio.to_thread(self._found)
            taken = [await self._take(found[first : first + BATCH]) for first in range(0, len(found), BATCH)]
        return any(taken)

    def _found(self) -> list[Path]:
        return sorted(path for path in self._where.spool.iterdir() if not path.name.startswith("."))

    async def _take(self, found: list[Path]) -> bool:
        heard = self._heard.copy()
        try:
            return await asyncio.to_thread(self._judge, found, heard, self._cluster())
        finally:
            # If it broke off, what it has put into its place before is known as well.
            self._heard = heard
            self._on_change()

    def _judge(self, found: list[Path], heard: Heard, cluster: clusters.Cluster) -> bool:
        """Judge files in their order; `heard` becomes what is known afterwards."""
        with ThreadPoolExecutor(SYNCS) as pool:
            contents = [pool.submit(spool.content, path, is_kept=not _is_note(path)) for path in found]
        rejections, taken = sum(heard.rejections.values()), False
        try:
            for path, content in zip(found, contents, strict=True):
                try:
                    self._accept(path, content.result(), heard, cluster)
                    taken = True
                except (FileNotFoundError, BlockingIOError):
                    continue
                except errors.ReportRejected as error:
                    self._rejected.put(path, error, at=self._clock())
                    heard.rejections[error.reason] += 1
        finally:
            if taken:
                durable_files.sync_folder(self._where.reports)
            if sum(heard.rejections.values()) > rejections:
                self._rejected.count(heard.rejections)
        return taken

    def _accept(self, path: Path, data: bytes, heard: Heard, cluster: clusters.Cluster) -> None:
        """Put a file into its place.

        Raises:
            FileNotFoundError: somebody took it away. ReportRejected: its place is not among the accepted ones.
        """
        if _is_note(path):
            _note_unreachable(data, heard, cluster)
            path.unlink()
            return
        report = reports.accept(
            data,
            now=int(self._clock()),
            cluster_key=self._key,
            nodes=cluster.nodes,
            floor=heard.floor,
            accept_cluster_key=cluster.maintenance.settings.accept_cluster_key,
        )
        path.rename(self._where.reports / (report.node + (".json" if report.diagnosis is not None else PROBLEM)))
        heard.keep(report, name=cluster.node_name(report.node), accepted=self._clock())

    def _load(self) -> Heard:
        for folder in (self._where.spool, self._where.reports, self._where.rejected):
            folder.mkdir(mode=0o750, parents=True, exist_ok=True)
        cluster, heard = self._cluster(), Heard(rejections=self._rejected.counts())
        accepts = cluster.maintenance.settings.accept_cluster_key
        for path in self._where.reports.glob("*.json"):
            try:
                report = reports.read(path.read_bytes(), cluster_key=self._key, accept_cluster_key=accepts)
            except errors.ReportRejected as error:
                LOG.warning("%s is not an accepted report and is not used: %s", path, error)
                continue
            known = path.stat()
            # Whoever spooled the file chose its mtime, which may lie ahead; renaming it set its ctime.
            heard.keep(report, name=cluster.node_name(report.node), accepted=min(known.st_mtime, known.st_ctime))
        return heard


def _is_note(path: Path) -> bool:
    return path.name.endswith(UNREACHABLE)


def _note_unreachable(data: bytes, heard: Heard, cluster: clusters.Cluster) -> None:
    """Keep a note of an unreachable node, unless its node reported since.

    Raises:
        ReportRejected: it is none.
    """
    try:
        note = _NOTE.validate_json(data)
    except ValueError as error:
        raise errors.ReportRejected("malformed", f"not a note of an unreachable node: {error}") from error
    node = next((one for one in cluster.nodes.values() if one.name == note.node), None)
    if node is None:
        raise errors.ReportRejected("wrong-node", f"no node of the cluster: {note.node[:80]!a}")
    if note.time * 1e9 > heard.floor(node.uuid):
        heard.unreachable[node.name] = {"time": note.time, "text": note.text[:TEXT_LIMIT]}


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
