"""The lock table at work in the daemon: waiting for a grant, death of owners, `locks.data`."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import json
import logging
import os
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...plugins.module_utils.domain.values import errors
from ...plugins.plugin_utils import livelocks, sealed_json
from ...plugins.plugin_utils.cluster.locks import Mode
from ..failures import Failures
from . import holders, table
from .table_file import TableFile

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

LOG = logging.getLogger(__name__)
RETRY_SECONDS = 5.0


async def ended(livelock: Path) -> None:
    """Wait until nobody holds a livelock; a thread of its own waits in the kernel, nothing is polled."""
    loop = asyncio.get_running_loop()
    done = loop.create_future()

    def tell() -> None:
        if not done.done():
            done.set_result(None)

    def wait() -> None:
        with contextlib.suppress(FileNotFoundError):
            descriptor = _opened(livelock)
            fcntl.flock(descriptor, fcntl.LOCK_SH)
            os.close(descriptor)
        if not loop.is_closed():
            loop.call_soon_threadsafe(tell)

    threading.Thread(target=wait, name=f"livelock {livelock}", daemon=True).start()
    await done


def _opened(livelock: Path) -> int:
    """Open a livelock, be it later: when no more files can be open, its owner has not ended."""
    while True:
        try:
            return livelocks.opened(livelock)
        except FileNotFoundError:
            raise
        except OSError:
            LOG.exception("%s cannot be opened, and is tried again in %s s", livelock, RETRY_SECONDS)
            time.sleep(RETRY_SECONDS)


def _may_live(livelock: Path) -> bool:
    """Whether the owner of a livelock runs, or may run: one that cannot be read is not known to be free."""
    try:
        return livelocks.is_alive(livelock)
    except errors.Refused as error:
        LOG.error("the locks of a play stay held: %s", error)  # noqa: TRY400 - the trace says nothing more
        return True


class Desk:
    """Hands out locks; every grant is in `locks.data` before its owner acts on it.

    What is released is free at once, and in `locks.data` soon: a restart before that finds it held by a job that is not
    at work, or a play that has ended, and frees it.
    """

    def __init__(self, path: Path, *, clock: Callable[[], float], failures: Failures | None = None) -> None:
        self._failures = failures or Failures()
        self.table = table.Table()
        self._path = path
        self._clock = clock
        self._file = TableFile(path, self._rows, failures=self._failures)
        self._grants: dict[holders.Owner, asyncio.Future[None]] = {}
        self._granted: dict[holders.Owner, int] = {}
        self._watches: dict[holders.Owner, asyncio.Task[None]] = {}

    async def acquire(
        self,
        owner: holders.Owner,
        wants: Mapping[str, Mode],
        *,
        priority: int = 0,
        purpose: str = "",
        time_limit: float | None = None,
    ) -> None:
        """Wait until all wanted locks are granted together, and that is on the disk.

        Raises:
            LockRefused: against the order of levels, not granted within `time_limit` seconds, or the owner has ended.
            StoreFailed: the grant could not be made durable; the owner holds it until it is released.
            StateUnknown, Defect: the daemon ends.
        """
        await self.wait_for_grant(owner, wants, priority=priority, purpose=purpose, time_limit=time_limit)
        if wants:
            await self.written(owner)

    async def wait_for_grant(
        self,
        owner: holders.Owner,
        wants: Mapping[str, Mode],
        *,
        priority: int = 0,
        purpose: str = "",
        time_limit: float | None = None,
    ) -> None:
        """Wait until all wanted locks are granted together: nobody else gets them, but until `written` it does not act.

        Raises:
            LockRefused: as for `acquire`.
        """
        granted = self.table.request(owner, wants, priority=priority, purpose=purpose, now=self._clock())
        self._watch(owner)
        if owner in granted:
            self._tell(granted)
        else:
            waiting = self._grants[owner] = asyncio.get_running_loop().create_future()
            self._tell(granted)
            try:
                # Unlike `wait_for` it leaves the future alone: no grant is lost between limit and withdrawal.
                await asyncio.wait({waiting}, timeout=time_limit)
                if not waiting.done():
                    blockers = ", ".join(self.table.blockers(owner))
                    self.forget_request(owner)
                    raise errors.LockRefused(
                        f"locks not granted within {time_limit:g} s: they are held or awaited by {blockers}"
                    )
                waiting.result()
            except asyncio.CancelledError:
                self.forget_request(owner)
                raise
            finally:
                self._grants.pop(owner, None)

    def release(self, owner: holders.Owner, names: Iterable[str] | None = None) -> None:
        """Free some of the locks of an owner, or everything it holds or waits for; that is written by and by."""
        if not self.table.locks_of(owner) and not self.table.is_waiting(owner):
            return
        granted = self.table.release(owner, names)
        if not self.table.locks_of(owner):
            self._granted.pop(owner, None)
        waiting = self._grants.get(owner)
        if names is None and waiting is not None and not waiting.done():
            waiting.set_exception(errors.LockRefused(f"{owner.name} has ended, and what it waited for is withdrawn"))
        self._free(granted)

    def forget_request(self, owner: holders.Owner) -> None:
        """Take back what an owner waits for; what it holds it keeps."""
        self._tell(self.table.withdraw(owner))

    def downgrade(self, owner: holders.Owner, names: Iterable[str]) -> None:
        """Share what an owner holds alone; that is written by and by.

        Raises:
            LockRefused: it does not hold one of them.
        """
        self._free(self.table.downgrade(owner, names))

    def reprioritize(self, owner: holders.Owner, priority: int) -> None:
        """Let an owner wait with another priority."""
        self._tell(self.table.reprioritize(owner, priority))

    def restore(self) -> None:
        """Take over the locks of the daemon before this one, from `locks.data`.

        Raises:
            StoreFailed: the file is damaged.
        """
        try:
            rows = json.loads(sealed_json.unseal(self._path.read_bytes()))["held"]
            for row in rows:
                self._take_over(row)
        except FileNotFoundError:
            return
        except (errors.Refused, ValueError, TypeError, AttributeError, KeyError) as error:
            # An older table may miss what is held now, so none is kept to fall back to.
            raise errors.StoreFailed(
                f"{self._path} is damaged: {error}; move it aside when no process of an opcode and no play is at work"
            ) from error

    async def write_again(self) -> None:
        """Rewrite the table to a new file, and return when it is durable.

        Raises:
            StoreFailed, StateUnknown, Defect: it could not be made durable.
        """
        self._file.changed()
        await self._file.written()

    async def written(self, owner: holders.Owner | None = None) -> None:
        """Return once what an owner was granted, or else the table as it is, is on the disk.

        Raises:
            StoreFailed, StateUnknown, Defect: it could not be made durable.
        """
        await self._file.written(None if owner is None else self._granted.get(owner, 0))

    async def landed(self) -> None:
        """Wait until nothing is being written."""
        await self._file.landed()

    def _take_over(self, row: Mapping[str, Any]) -> None:
        owner = holders.Owner(row["owner"], row["livelock"])
        if owner.livelock and not _may_live(Path(owner.livelock)):
            return
        held = {lock: Mode(mode) for lock, mode in row["locks"].items()}
        self.table.restore(owner, held, holders.Holding(row["purpose"], row["since"]))
        self._watch(owner)

    def _free(self, granted: list[holders.Owner]) -> None:
        self._file.changed()
        self._tell(granted)
        self._file.write()

    def _tell(self, granted: list[holders.Owner]) -> None:
        """Each of them waits until its grant is on the disk before it acts."""
        if granted:
            self._granted |= dict.fromkeys(granted, self._file.changed())
        for owner in granted:
            future = self._grants.get(owner)
            if future is not None and not future.done():
                future.set_result(None)

    def _watch(self, owner: holders.Owner) -> None:
        async def wait() -> None:
            await ended(Path(owner.livelock))
            del self._watches[owner]
            self.release(owner)

        if owner.livelock and owner not in self._watches:
            self._watches[owner] = asyncio.get_running_loop().create_task(wait())
            # Nobody else would free its locks.
            self._watches[owner].add_done_callback(self._failures.watch(f"the watch of {owner.name}"))

    def _rows(self) -> list[dict[str, Any]]:
        return [
            {
                "owner": owner.name,
                "livelock": owner.livelock,
                "purpose": self.table.holdings[owner].purpose,
                "since": self.table.holdings[owner].since,
                "locks": {lock: mode.value for lock, mode in self.table.locks_of(owner).items()},
            }
            for owner in sorted(self.table.owners(), key=lambda owner: owner.name)
        ]
