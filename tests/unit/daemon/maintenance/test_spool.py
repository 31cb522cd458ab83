from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest
from ansible_collections.roundsman.cluster.daemon import failures
from ansible_collections.roundsman.cluster.daemon.maintenance import spool
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.values import errors

from tests.unit import other_users

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from watchdog.observers.api import BaseObserver


def events(folder: Path, act: Callable[[Path, Path], object], *, last: Callable[[Path], object] | None) -> int:
    """How many calls the watch made until one that `last` causes; without it, until the first."""
    spooled, outside = folder / "spool", folder / "outside"
    for one in (spooled, outside):
        one.mkdir()

    async def scenario() -> int:
        told: asyncio.Queue[None] = asyncio.Queue()
        observer = spool.watch(spooled, spool.Watch(asyncio.get_running_loop(), lambda: told.put_nowait(None)))
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


def test_dead_kernel_events_are_noticed_the_spool_is_polled_and_the_watch_starts_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The threads that read the kernel's events end, as one did in a fault test; the folder is replaced too."""
    monkeypatch.setattr(spool, "INTERVAL", 0.05)
    monkeypatch.setattr(spool, "POLLING", 0.05)
    monkeypatch.setattr(spool, "LIMIT", 0.5)
    started: list[BaseObserver] = []
    start = spool.watch

    def watch(folder: Path, handler: spool.Watch) -> BaseObserver:
        started.append(start(folder, handler))
        return started[-1]

    monkeypatch.setattr(spool, "watch", watch)
    folder = tmp_path / "spool"
    changed = asyncio.Event()

    async def scenario() -> None:
        calls: asyncio.Queue[None] = asyncio.Queue()
        known = failures.Failures(on_change=changed.set)
        task = asyncio.create_task(spool.keep_watching(folder, lambda: calls.put_nowait(None), failures=known))
        async with asyncio.timeout(60):
            await calls.get()
            started[0].stop()
            await changed.wait()
            assert [failure["part"] for failure in known.listed()] == ["spool watcher"]
            await calls.get()
            while known.listed():
                changed.clear()
                await changed.wait()
            assert len(started) == 2
            folder.rename(tmp_path / "old")
            while not (len(started) > 2 and not known.listed()):
                changed.clear()
                await changed.wait()
            while not calls.empty():
                calls.get_nowait()
            (folder / "report").write_text("x")
            await calls.get()
        task.cancel()
        await asyncio.wait([task])

    asyncio.run(scenario())


@other_users.only_root
def test_a_file_that_the_daemon_may_not_read_is_unreadable_and_not_malformed() -> None:
    with other_users.open_folder() as folder:
        report = folder / "node2-1.json"
        report.touch(mode=0o600)
        with other_users.acting_as(other_users.DAEMON), pytest.raises(errors.ReportRejected) as rejected:
            spool.content(report, is_kept=True)
    assert rejected.value.reason == "unreadable"
    assert str(rejected.value) == (
        f"the user with uid {other_users.DAEMON}, which is roundsmand's, may not read this file of uid 0 with the mode "
        "0600: put reports into the spool as that user, or readable by it (0644)"
    )
