"""`locks.data`: the lock table as it was last written, by a thread; changes that come together share a write."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

from ...plugins.module_utils.domain.values import errors
from ...plugins.plugin_utils import durable_files, sealed_json
from ..writing import Writer

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from ..failures import Failures

PART = "lock table"


class TableFile:
    """Writes the newest table; `rows` returns it, in the event loop. Who relies on a change waits until `written`.

    What a full disk refused is written with the next change, or when somebody waits for it.
    """

    def __init__(self, path: Path, rows: Callable[[], list[dict[str, Any]]], *, failures: Failures) -> None:
        self._path = path
        self._rows = rows
        self._failures = failures
        self._thread = Writer(PART)
        self._version = self._on_disk = self._under_way = 0
        self._is_asked = False
        self._waiting: list[asyncio.Future[None]] = []
        self._writing: list[asyncio.Future[None]] = []
        self._writer: asyncio.Task[None] | None = None
        self._defect: Exception | None = None

    def changed(self) -> int:
        """The table is another one than before; who waits for it, or `write`, has it written. Returns its version."""
        self._version += 1
        return self._version

    def write(self) -> None:
        """Have the table written, by and by; that it cannot be is reported."""
        self._is_asked = True
        if self._writer is None and self._defect is None:
            self._writer = asyncio.get_running_loop().create_task(self._write())

    async def written(self, version: int | None = None) -> None:
        """Return once a version of the table, which is that of now if none is given, or a later one is on the disk.

        Raises:
            StoreFailed: it could not be written. StateUnknown, Defect: the writer ended.
        """
        if self._defect is not None:
            raise self._defect
        wanted = self._version if version is None else version
        if self._on_disk >= wanted:
            return
        done = asyncio.get_running_loop().create_future()
        if self._under_way >= wanted:
            self._writing.append(done)
        else:
            self._waiting.append(done)
            self.write()
        await done

    async def landed(self) -> None:
        """Wait until nothing is being written."""
        if self._writer is not None:
            await asyncio.wait([self._writer])

    async def _write(self) -> None:
        try:
            while self._is_asked:
                self._is_asked = False
                await self._write_newest()
        except Exception as error:  # noqa: BLE001 - whatever it is, nobody may wait for ever
            self._defect = self._failures.end("the writer of the lock table", error)
            _fail([*self._writing, *self._waiting], self._defect)
        self._writer = None

    async def _write_newest(self) -> None:
        self._under_way = self._version
        self._writing, self._waiting = self._waiting, []
        try:
            await self._thread.write(_replace, self._path, self._rows())
        except errors.StoreFailed as error:
            self._failures.failed(PART, error, remedy="free space on the disk of /var/lib/roundsman")
            _fail(self._writing, errors.StoreFailed(str(error)))
        else:
            self._on_disk = self._under_way
            self._failures.recovered(PART)
            for done in self._writing:
                if not done.done():
                    done.set_result(None)
        self._writing, self._under_way = [], 0


def _fail(waiting: list[asyncio.Future[None]], error: Exception) -> None:
    for done in waiting:
        if not done.done():
            done.set_exception(error)


def _replace(path: Path, rows: list[dict[str, Any]]) -> None:
    durable_files.replace(path, sealed_json.seal(json.dumps({"held": rows}, indent=1).encode()))
