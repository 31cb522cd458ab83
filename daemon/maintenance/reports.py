"""The way in: files in the spool become accepted reports, or are moved aside with a reason.

Accepting a report is renaming it to `reports/<node>.json` (a report of a problem: `<node>.problem.json`); what is
there is also the floor below which a report counts as replayed. A floor that lies ahead of every honest report was
set while a clock was wrong: it is lowered to the present, which lets nothing older in.
"""

from __future__ import annotations

import asyncio
import dataclasses
import heapq
import logging
import os
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from ...plugins.module_utils.domain.agent import diagnosis, reports
from ...plugins.module_utils.domain.disks import replicas
from ...plugins.module_utils.domain.values import errors
from ...plugins.plugin_utils import durable_files
from ...plugins.plugin_utils.cluster import known_off
from ...plugins.plugin_utils.silent_nodes import report_ages
from ..failures import Failures
from . import rejected, spool
from .heard import Heard, Received, RefusedReport, Rejected, note_unreachable

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from concurrent.futures import Future
    from pathlib import Path

    from ...plugins.module_utils.domain.values import tree
    from ...plugins.plugin_utils.cluster import cluster as clusters
    from .agents import Seen

LOG = logging.getLogger(__name__)
BATCH = 100
"""How many files are judged, and become durable, together."""
BATCH_BYTES = 8 * 2**20
"""How many bytes of files are in memory together."""
FILES = 2000
"""How many files one step takes; more wait for the next."""
SYNCS = 16
"""How many files of a batch are made durable side by side: a file system commits such together."""
UNREACHABLE = ".unreachable"
PROBLEM = ".problem.json"


class Intake:
    """What the nodes said last, changed by `take_all` only.

    `seen` says how their agents answer; who asks them fills it. `deaf` says why a silent node (UUID) is known to live:
    replication to it does; who judges silent nodes fills it.

    `is_behind` says that files are left in the spool for another step.
    """

    def __init__(
        self,
        where: tree.Tree,
        *,
        clock: Callable[[], float],
        cluster: Callable[[], clusters.Cluster],
        on_change: Callable[[], None] = lambda: None,
        failures: Failures | None = None,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._monotonic = monotonic
        self._began = monotonic()
        self._failures = failures or Failures()
        self._unusable: dict[Path, str] = {}
        self.seen: dict[str, Seen] = {}
        self.deaf: dict[str, str] = {}
        self.is_behind = False
        self._on_change = on_change
        self._where = where
        self._clock = clock
        self._cluster = cluster
        self._key = _cluster_key(where.hmac_key)
        self._rejected = rejected.Rejected(where.rejected)
        self._turn = asyncio.Lock()
        self._heard = self._load()
        self._offs: dict[str, replicas.Moment] = {}

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

    @property
    def refused(self) -> Mapping[str, RefusedReport]:
        """The nodes (UUIDs) whose newest reports are not accepted because of a clock."""
        return self._heard.refused

    @property
    def rejected(self) -> Mapping[str, Rejected]:
        """The nodes (UUIDs) that were asked and of which no report has counted since some were rejected."""
        return self._heard.rejected

    async def reset_floor(self, node: str) -> float:
        """Lower the replay floor of a node (UUID) to the present; returns by how many seconds it lay ahead."""
        async with self._turn:
            heard = self._heard.copy()
            ahead = heard.lower_floor(node, now=self._clock())
            heard.refused.pop(node, None)
            self._heard = heard
        self._on_change()
        return ahead

    async def take_all(self) -> bool:
        """Judge every file in the spool; returns whether anything was accepted or noted.

        The disk is waited for beside the event loop, and what was accepted is seen when all of its batch is durable.
        """
        # Who does not wait any more leaves no batch half known: its files are in their places already.
        taking = asyncio.get_running_loop().create_task(self._take_all())
        taking.add_done_callback(lambda done: done.cancelled() or done.exception())
        return await asyncio.shield(taking)

    def observed(self) -> dict[str, diagnosis.Diagnosis]:
        """The last diagnosis of every node of the cluster that is not offline."""
        nodes = self._cluster().nodes
        return {
            uuid: received.report.diagnosis
            for uuid, received in self.diagnosed.items()
            if received.report.diagnosis is not None and uuid in nodes and not nodes[uuid].offline
        }

    def is_silent(self, node: str) -> bool:
        """Whether a node signed no answer the last time it was asked."""
        seen = self.seen.get(node)
        return (seen is not None and seen.is_silent) or self._cluster().node_name(node) in self.unreachable

    @property
    def age_limit(self) -> float:
        """Seconds after its acceptance for which a report counts."""
        cluster = self._cluster()
        return report_ages.limit(cluster.maintenance.settings, nodes=len(cluster.nodes))

    def age(self, node: str) -> float | None:
        """Seconds since the last report of a node (UUID) was accepted, of a problem or not; None without one."""
        last = self.last(node)
        return None if last is None else self._clock() - last.accepted

    def ahead(self, node: str) -> float:
        """By how many seconds the last report of a node (UUID) is dated after its acceptance; 0 where it is not."""
        last = self.last(node)
        return 0.0 if last is None else max(0.0, last.report.timestamp / 1e9 - last.accepted)

    def is_current(self, node: str) -> bool:
        """Whether the last report of a node (UUID) is recent enough to count as what is known of it."""
        last = self.last(node)
        if last is None or not last.is_dated:
            return False
        return report_ages.is_current(last.accepted, now=self._clock(), limit=self.age_limit)

    @property
    def tracks(self) -> Mapping[str, replicas.NodeTrack]:
        """What each node (UUID) has reported of its replicas."""
        return self._heard.tracks

    def reported_boot(self, node: str) -> str:
        """The boot id that a node (UUID) has reported last; '' where it has reported none."""
        track = self.tracks.get(node)
        return track.boot_id if track is not None else ""

    @property
    def now(self) -> replicas.Moment:
        """The present."""
        return replicas.Moment(self._clock(), self._monotonic())

    @property
    def serves_for(self) -> float:
        """Seconds since this daemon began to take reports in."""
        return self._monotonic() - self._began

    @property
    def offs(self) -> Mapping[str, replicas.Moment]:
        """When nodes (UUIDs) were first known to be off, by the monotonic clock, too: the wall clock may be set."""
        return self._offs

    def follow_offs(self) -> None:
        """Note the nodes that are known to be off, soon after that became known."""
        now, nodes = self.now, self._cluster().nodes
        known = {uuid: known_off.seen_off(node) for uuid, node in nodes.items() if known_off.is_known_off(node)}
        self._offs = {
            uuid: self._offs[uuid]
            if uuid in self._offs and self._offs[uuid].wall == at
            else dataclasses.replace(now.earlier(max(0.0, now.wall - at)), wall=at)
            for uuid, at in known.items()
        }

    def off(self, node: str) -> tuple[float, float] | None:
        """When a node was first known to be off (unix seconds on record), and how many seconds ago; None: it is not."""
        self.follow_offs()
        known = self._offs.get(node)
        return None if known is None else (known.wall, min(self.now.after(known), self.now.wall - known.wall))

    def last(self, node: str) -> Received | None:
        """The last accepted report of a node (UUID), of a problem or not."""
        kept = [kept[node] for kept in (self._heard.diagnosed, self._heard.problems) if node in kept]
        # After the clock was set back two of them may have been accepted at one moment.
        return max(kept, key=lambda received: (received.accepted, received.floor), default=None)

    def reported_ok_since(self, node: str, since: float) -> bool:
        """Whether a node's last accepted report says Ok, still counts, and was accepted after a unix time."""
        last = self.diagnosed.get(node)
        if last is None or not last.is_dated or last.accepted < since or self._heard.floor(node) > last.floor:
            return False
        if not self.is_current(node):
            return False
        return last.report.diagnosis is not None and last.report.diagnosis.status is diagnosis.Status.OK

    def last_said(self, node: str) -> float:
        """When a node (UUID) last reported or answered (unix seconds), 0 for never."""
        seen = self.seen.get(node)
        return max(self.last_accepted(node), seen.answered if seen is not None else 0.0)

    def last_accepted(self, node: str) -> float:
        """When the last report of a node (UUID), of a problem or not, was accepted (unix seconds), 0 for never."""
        last = self.last(node)
        return last.accepted if last is not None else 0.0

    def diagnosed_by(self, node: str) -> str | None:
        """The diagnose command of a node's (UUID) last accepted report, None where that does not name it."""
        last = self.last(node)
        return last.report.command if last is not None else None

    def problem_of(self, node: str) -> reports.Problem | None:
        """The problem of a node whose last report was one."""
        last = self._heard.problems.get(node)
        return last.report.problem if last is not None and last.floor == self._heard.floor(node) else None

    async def _take_all(self) -> bool:
        async with self._turn:
            heard = self._heard.copy()
            heard.follow_clock(now=self._clock())
            self._heard = heard
            batches = await asyncio.to_thread(self._found)
            taken = [await self._take(batch) for batch in batches]
            await self._look_at_unusable()
        return any(taken)

    async def _look_at_unusable(self) -> None:
        """See which accepted reports that could not be used at the start are gone, or were replaced."""
        for path, part in list(self._unusable.items()):
            try:
                await asyncio.to_thread(self._read, path)
            except FileNotFoundError:
                LOG.debug("%s is gone", path)
            except (errors.ReportRejected, OSError):
                continue
            del self._unusable[path]
            self._failures.recovered(part)

    def _found(self) -> list[list[Path]]:
        """The oldest files by name, as many as one step takes, in batches of bounded size."""
        self._where.spool.mkdir(mode=0o750, parents=True, exist_ok=True)
        with os.scandir(self._where.spool) as entries:
            names = (entry.name for entry in entries if not entry.name.startswith("."))
            found = heapq.nsmallest(FILES + 1, names)
        self.is_behind = len(found) > FILES
        batches: list[list[Path]] = []
        left = 0
        for name in found[:FILES]:
            path = self._where.spool / name
            size = min(_size(path), reports.LIMIT)
            if not batches or len(batches[-1]) == BATCH or size > left:
                batches.append([])
                left = BATCH_BYTES
            batches[-1].append(path)
            left -= size
        return batches

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
        rejections, taken, failure = sum(heard.rejections.values()), False, None
        try:
            for path, content in zip(found, contents, strict=True):
                try:
                    taken = self._has_accepted(path, content, heard, cluster) or taken
                except OSError as error:
                    # The other reports count nevertheless.
                    failure = failure or error
        finally:
            if taken:
                durable_files.sync_folder(self._where.reports)
            if sum(heard.rejections.values()) > rejections:
                self._rejected.count(heard.rejections)
        if failure is not None:
            raise failure
        return taken

    def _has_accepted(self, path: Path, content: Future[bytes], heard: Heard, cluster: clusters.Cluster) -> bool:
        try:
            self._accept(path, content.result(), heard, cluster)
        except errors.ReportRejected as error:
            self._rejected.put(path, error, at=self._clock())
            heard.refuse(error, at=self._clock(), asked=rejected.asked(path.name, cluster))
        except BlockingIOError:
            return False
        except FileNotFoundError:
            if path.exists():
                raise
            return False
        else:
            return True
        return False

    def _accept(self, path: Path, data: bytes, heard: Heard, cluster: clusters.Cluster) -> None:
        """Put a file into its place.

        Raises:
            FileNotFoundError: somebody took it away. ReportRejected: its place is not among the accepted ones.
        """
        if _is_note(path):
            note_unreachable(data, heard, cluster)
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
        name = report.node + (".json" if report.diagnosis is not None else PROBLEM)
        durable_files.rename(path, self._where.reports / name)
        name, monotonic = cluster.node_name(report.node), self._monotonic()
        heard.keep(report, name=name, accepted=self._clock(), monotonic=monotonic)

    def _load(self) -> Heard:
        for folder in (self._where.spool, self._where.reports, self._where.rejected):
            folder.mkdir(mode=0o750, parents=True, exist_ok=True)
        cluster, heard = self._cluster(), Heard(rejections=self._rejected.counts())
        found = list[tuple[reports.Report, float]]()
        for path in self._where.reports.glob("*.json"):
            try:
                report = self._read(path)
            except (errors.ReportRejected, OSError) as error:
                LOG.warning("%s is not an accepted report and is not used: %s", path, error)
                self._note_unusable(path, error)
                continue
            known = path.stat()
            # Whoever spooled the file chose its mtime, which may lie ahead; renaming it set its ctime.
            found.append((report, min(known.st_mtime, known.st_ctime)))
        for report, accepted in sorted(found, key=lambda entry: entry[0].timestamp):
            heard.keep(report, name=cluster.node_name(report.node), accepted=accepted)
        heard.follow_clock(now=self._clock())
        return heard

    def _read(self, path: Path) -> reports.Report:
        accepts = self._cluster().maintenance.settings.accept_cluster_key
        return reports.read(path.read_bytes(), cluster_key=self._key, accept_cluster_key=accepts)

    def _note_unusable(self, path: Path, error: Exception) -> None:
        node = self._cluster().nodes.get(path.name.partition(".")[0])
        if node is not None:
            self._unusable[path] = f"accepted report {path.name} of {node.name}"
            remedy = f"remove {path}, then let the node report"
            self._failures.failed(self._unusable[path], f"{type(error).__name__}: {error}", remedy=remedy)


def _size(path: Path) -> int:
    try:
        return path.lstat().st_size
    except FileNotFoundError:
        return 0


def _is_note(path: Path) -> bool:
    return path.name.endswith(UNREACHABLE)


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
