from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest
from ansible_collections.roundsman.cluster.daemon.maintenance import spool

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


def events(folder: Path, act: Callable[[Path, Path], object], *, last: Callable[[Path], object] | None) -> int:
    """How many calls the watch made until one that `last` causes; without it, until the first."""
    spooled, outside = folder / "spool", folder / "outside"
    for one in (spooled, outside):
        one.mkdir()

    async def scenario() -> int:
        told: asyncio.Queue[None] = asyncio.Queue()
        observer = spool.watch(spooled, lambda: told.put_nowait(None), loop=asyncio.get_running_loop())
        try:
            kept = act(spooled, outside)
            if last is not None:
                last(outside / "marker")
                (outside / "marker").rename(spooled / "marker")
            await asyncio.wait_for(told.get(), 60)
            del kept
            return 1 + told.qsize()
        finally:
            observer.stop()
            await asyncio.to_thread(observer.join)

    return asyncio.run(scenario())


def rename_in(spooled: Path, outside: Path) -> None:
    (outside / "report").write_text("x")
    (outside / "report").rename(spooled / "report")


def write_and_close(spooled: Path, _outside: Path) -> None:
    (spooled / "report").write_text("x")


def rename_within(spooled: Path, outside: Path) -> None:
    (outside / "report").write_text("x")
    (outside / "report").rename(spooled / ".report")
    (spooled / ".report").rename(spooled / "report")


@pytest.mark.parametrize("act", [rename_in, write_and_close, rename_within])
def test_a_file_that_is_complete_counts(tmp_path: Path, act: Callable[[Path, Path], object]) -> None:
    assert events(tmp_path, act, last=None) >= 1


def test_a_file_that_is_only_created_or_written_to_does_not_count(tmp_path: Path) -> None:
    def create(spooled: Path, _outside: Path) -> object:
        stream = (spooled / "report").open("w")
        stream.write("half")
        stream.flush()
        return stream

    # Events come in order: the only one is the marker's.
    assert events(tmp_path, create, last=lambda marker: marker.write_text("x")) == 1
