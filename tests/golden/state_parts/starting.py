"""The one place of this trace that calls the product and the tests' twins: a daemon that starts on a kept folder.

It calls: `twins.assemble` (a service on a root folder whose opcodes a twin runs), what the daemon does first when it
works (`queue.resume`), its parts' `step`, and the API by the `Daemon` of the trace `faces`.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import time
from typing import TYPE_CHECKING, Any

from ansible_collections.roundsman.cluster.daemon.jobs import process
from ansible_collections.roundsman.cluster.daemon.lab import world

from tests.golden.faces_parts import adapter, text
from tests.unit.daemon import twins

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

MADE = 1_700_000_000.0
"""The unix time at which the kept folder's daemon was killed, and its files were written last."""
SECONDS = 120.0
"""How much later the next daemon starts."""
LAB = "/srv/lab"
"""The folder of the lab whose controller's state was kept, in texts of the folder."""


class Started:
    """A daemon on a copy of the folder, and what it says."""

    def __init__(self, service: Any, daemon: adapter.Daemon, twin: twins.Processes) -> None:
        self._service, self._twin = service, twin
        self.daemon = daemon

    @property
    def runs(self) -> list[str]:
        """The runs that were started, by the kinds of their opcodes, with the job and the opcode's index."""
        return sorted(self._twin.ran)

    def resume(self) -> None:
        """Do what a start of the daemon does."""
        self._service.queue.resume()

    async def settle(self) -> None:
        """Let every part work until nothing changes any more."""
        before = None
        await self._until_still()
        while before != (before := await self._all()):
            await self.daemon.rounds()
            await self._until_still()
            await self._service.dead.step()
            await self._service.replicas.step()
            await self._service.left_behind.step()
            await self._until_still()

    async def _all(self) -> list[str]:
        paths = ("/2/config", "/2/jobs?bulk=1", "/2/locks", "/2/queue")
        return [(await self.daemon.ask("GET", path)).body for path in paths]

    async def _until_still(self) -> None:
        """Wait until each job that has not ended is held by a filter, or waits for a job of which that is true."""
        end = time.monotonic() + adapter.SECONDS
        while not await self._is_still():
            assert time.monotonic() < end, f"jobs neither end nor wait: {await self.daemon.statuses()}"
            await asyncio.sleep(adapter.PAUSE)

    async def _is_still(self) -> bool:
        queue = await self.daemon.value("/2/queue")
        jobs = [await self.daemon.value(f"/2/jobs/{number}") for number in await self.daemon.statuses()]
        unfinished = {job["id"] for job in jobs if job["status"] not in {"success", "error", "canceled"}}
        waiting = [job for job in jobs if job["id"] in unfinished and _depends(job, unfinished)]
        return bool(len(unfinished) == queue["jobs"]["queued"] == queue["held"] + len(waiting))


def _depends(job: dict[str, Any], unfinished: set[int]) -> bool:
    return any(other in unfinished for other, _statuses in job["depends"])


@contextlib.asynccontextmanager
async def started(kept: Path, folder: Path) -> AsyncIterator[Started]:
    """A daemon that has read a copy of the kept folder; nothing of it works yet."""
    with adapter.frozen() as (patch, clock):
        clock.now = MADE + SECONDS
        lab = world.Lab(folder)
        shutil.copytree(kept, lab.controller)
        for path in (lab.controller, *lab.controller.rglob("*")):
            os.utime(path, (MADE, MADE))
        # No process of the folder is left, and nobody looks for one.
        patch.setattr(process, "end_run", adapter._never_ended)
        service, twin = twins.assemble(lab, patch)
        daemon = adapter.Daemon(lab, service, twin, patch, clock)
        daemon.names.learn(adapter.named(text.parse((await daemon.ask("GET", "/2/config")).body)))
        try:
            yield Started(service, daemon, twin)
        finally:
            await service.queue.stop()
