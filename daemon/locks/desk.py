"""The lock table at work in the daemon: waiting for a grant, death of owners, `locks.data`."""

from __future__ import annotations

import asyncio
import fcntl
import json
import os
import threading
from pathlib import Path
from typing import TYPE_CHECKING

from ...plugins.module_utils.domain import errors
from ...plugins.module_utils.domain.locks import Mode
from ...plugins.plugin_utils import durable_files, livelocks
from . import table

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


async def ended(livelock: Path) -> None:
    """Wait until nobody holds a livelock; a thread of its own waits in the kernel, nothing is polled."""
    loop = asyncio.get_running_loop()
    done = loop.create_future()

    def tell() -> None:
        if not done.done():
            done.set_result(None)

    def wait() -> None:
        try:
            descriptor = os.open(livelock, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            loop.call_soon_threadsafe(tell)
            return
        fcntl.flock(descriptor, fcntl.LOCK_SH)
        os.close(descriptor)
        if not loop.is_closed():
            loop.call_soon_threadsafe(tell)

    threading.Thread(target=wait, name=f"livelock {livelock}", daemon=True).start()
    await done


class Desk:
    """Hands out locks; every change is in `locks.data` before anybody acts on it."""

    def __init__(self, path: Path, *, clock: Callable[[], float]) -> None:
        self.table = table.Table()
        self._path = path
        self._clock = clock
        self._grants: dict[table.Owner, asyncio.Future[None]] = {}
        self._watches: dict[table.Owner, asyncio.Task[None]] = {}

    async def acquire(
        self,
        owner: table.Owner,
        wants: Mapping[str, Mode],
        *,
        priority: int = 0,
        purpose: str = "",
        time_limit: float | None = None,
    ) -> None:
        """Wait until all wanted locks are granted together.

        Raises:
            LockRefused: against the order of levels, not granted within `time_limit` seconds, or the owner has ended.
            StoreFailed: the grant could not be made durable; the owner holds it until it is released.
        """
        granted = self.table.request(owner, wants, priority=priority, purpose=purpose, now=self._clock())
        self._watch(owner)
        if owner not in granted:
            waiting = self._grants[owner] = asyncio.get_running_loop().create_future()
            self._tell(granted)
            try:
                await asyncio.wait_for(waiting, time_limit)
            except TimeoutError as error:
                blockers = ", ".join(self.table.blockers(owner))
                self.forget_request(owner)
                raise errors.LockRefused(
                    f"locks not granted within {time_limit:g} s: they are held or awaited by {blockers}"
                ) from error
            except asyncio.CancelledError:
                self.forget_request(owner)
                raise
            finally:
                self._grants.pop(owner, None)
        else:
            self._tell(granted)
        self._save()

    def release(self, owner: table.Owner) -> None:
        """Free everything an owner holds or waits for."""
        if not self.table.locks_of(owner) and not any(one.owner == owner for one in self.table.waiting):
            return
        granted = self.table.release(owner)
        waiting = self._grants.get(owner)
        if waiting is not None and not waiting.done():
            waiting.set_exception(errors.LockRefused(f"{owner.name} has ended, and what it waited for is withdrawn"))
        try:
            self._save()
        finally:
            # On a full disk too: each of them makes its grant durable itself before it acts, or fails.
            self._tell(granted)

    def forget_request(self, owner: table.Owner) -> None:
        """Take back what an owner waits for; what it holds it keeps."""
        self.table.waiting = [one for one in self.table.waiting if one.owner != owner]
        self._tell(self.table.grant())

    def restore(self) -> None:
        """Take over the locks of the daemon before this one, from `locks.data`.

        Raises:
            StoreFailed: the file is damaged.
        """
        try:
            rows = json.loads(self._path.read_bytes())
            for name, livelock, locks in rows:
                owner = table.Owner(name, livelock)
                if livelock and not livelocks.is_alive(Path(livelock)):
                    continue
                for lock, mode in locks.items():
                    self.table.held.setdefault(lock, {})[owner] = Mode(mode)
                self._watch(owner)
        except FileNotFoundError:
            return
        except (ValueError, TypeError, AttributeError) as error:
            raise errors.StoreFailed(f"{self._path} is damaged: {error}; move it aside when no job runs") from error

    def _tell(self, granted: list[table.Owner]) -> None:
        for owner in granted:
            future = self._grants.get(owner)
            if future is not None and not future.done():
                future.set_result(None)

    def _watch(self, owner: table.Owner) -> None:
        async def wait() -> None:
            await ended(Path(owner.livelock))
            del self._watches[owner]
            self.release(owner)

        if owner.livelock and owner not in self._watches:
            self._watches[owner] = asyncio.get_running_loop().create_task(wait())

    def _save(self) -> None:
        rows = [
            [
                owner.name,
                owner.livelock,
                {lock: mode.value for lock, mode in self.table.locks_of(owner).items()},
            ]
            for owner in sorted(self.table.owners(), key=lambda one: one.name)
        ]
        durable_files.replace(self._path, json.dumps(rows).encode())
