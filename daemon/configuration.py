"""The daemon's copy of the configuration: changed in memory, visible once it is durable."""

from __future__ import annotations

import asyncio
import dataclasses
from typing import TYPE_CHECKING

from ..plugins.module_utils.domain.values import errors
from ..plugins.plugin_utils.cluster import changes
from ..plugins.plugin_utils.config import store
from . import audit, faults
from .failures import Failures
from .writing import Writer

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ..plugins.module_utils.domain.values import tree
    from ..plugins.plugin_utils.cluster import cluster as clusters

PART = "configuration"


class Configuration:
    """One writer; whoever holds this object holds `config.lock`. Writers that come together share one write."""

    def __init__(
        self,
        where: tree.Tree,
        *,
        clock: Callable[[], float],
        on_change: Callable[[], None] = lambda: None,
        failures: Failures | None = None,
    ) -> None:
        self._failures = failures or Failures()
        self._on_change = on_change
        self._path = where.config
        self._clock = clock
        self._current = self._head = store.read(where.config)
        self._waiting: list[asyncio.Future[None]] = []
        self._writing: list[asyncio.Future[None]] = []
        self._thread = Writer(PART)
        self._writer: asyncio.Task[None] | None = None
        self._defect: Exception | None = None

    @property
    def current(self) -> clusters.Cluster:
        """The last durable version."""
        return self._current

    async def commit(
        self, decide: Callable[[clusters.Cluster], Sequence[changes.Change]], *, by: str = "daemon"
    ) -> clusters.Cluster:
        """Apply what `decide` says of the newest version, and return when it is durable; `by` is for the audit log.

        Raises:
            Refused, InvalidInput: from `decide` or a change; nothing is changed.
            StoreFailed: it could not be written; nothing is changed.
            StateUnknown, Defect: the writer ended; what is on disk is unknown until the daemon has started again.
        """
        before, stated = self._head, list(decide(self._head))
        after = changes.apply_all(before, stated, now=self._clock())
        if after is before and after is self._current:
            return after
        await self._follow(after)
        audit.power_changes(before, after, by=by)
        return after

    async def replace(self, cluster: clusters.Cluster, *, by: str = "import") -> clusters.Cluster:
        """Take over a whole configuration, under the next serial number, and return when it is durable.

        The round at work stays this controller's own. A configuration that is not of the present state is paused.
        `by` is for the audit log.

        Raises:
            StoreFailed, StateUnknown, Defect: as for `commit`.
        """
        now = self._clock()
        before = self._head
        serial_no = max(cluster.serial_no, before.serial_no) + 1
        after = store.taken_over(cluster, before=before, serial_no=serial_no, now=now)
        await self._follow(after)
        audit.imported(before, after, by=by)
        return after

    async def go_on_above(self, serial_no: int) -> None:
        """Give the newest version a serial number above this one, which others had, and return when it is durable.

        Raises:
            StoreFailed, StateUnknown, Defect: as for `commit`.
        """
        if serial_no > self._head.serial_no:
            await self._follow(dataclasses.replace(self._head, serial_no=serial_no + 1))

    async def write_again(self) -> None:
        """Rewrite the newest version to a new file, and return when it is durable.

        Raises:
            StoreFailed, StateUnknown, Defect: as for `commit`.
        """
        await self._follow(self._head)

    async def _follow(self, after: clusters.Cluster) -> None:
        if self._defect is not None:
            raise self._defect
        self._head = after
        done = asyncio.get_running_loop().create_future()
        self._waiting.append(done)
        if self._writer is None:
            self._writer = asyncio.get_running_loop().create_task(self._write())
        await done

    async def _write(self) -> None:
        try:
            await self._write_all()
        except Exception as error:  # noqa: BLE001 - whatever it is, nobody may wait for ever
            self._defect = self._failures.end("the writer of the configuration", error)
            for done in self._writing + self._waiting:
                if not done.done():
                    done.set_exception(self._defect)
            self._waiting = []
        self._writer = None

    async def _write_all(self) -> None:
        while self._waiting:
            version, waiting, self._waiting = self._head, self._waiting, []
            self._writing = waiting
            try:
                write = store.write_again if version is self._current else store.write
                await self._thread.write(write, self._path, version)
            except (errors.StoreFailed, errors.InvalidInput) as error:
                self._failures.failed(PART, error, remedy="free space on the disk of /var/lib/roundsman")
                self._head = self._current
                for done in waiting + self._waiting:
                    if not done.done():
                        done.set_exception(errors.StoreFailed(str(error)))
                self._waiting = []
                break
            self._failures.recovered(PART)
            self._current = version
            self._on_change()
            faults.point("between-commits")
            for done in waiting:
                if not done.done():
                    done.set_result(None)
