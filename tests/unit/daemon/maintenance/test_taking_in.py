"""How the intake waits for the disk: beside the event loop, for many reports at once, and before anything counts."""

from __future__ import annotations

import asyncio
import os
import threading
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from ansible_collections.roundsman.cluster.daemon.jobs import values
from ansible_collections.roundsman.cluster.daemon.maintenance import reports as intakes
from ansible_collections.roundsman.cluster.plugins.plugin_utils import durable_files

from tests.unit.daemon import twins

if TYPE_CHECKING:
    from ansible_collections.roundsman.cluster.daemon import service

NAMES = ("node1", "node2", "node3", "node4")
OK = '{"status": "Ok"}'
EVACUATE = '{"status":"evacuate"}'


@pytest.fixture
def running(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> service.Service:
    return twins.assemble(twins.lab(tmp_path), monkeypatch)[0]


def spool(running: service.Service, *names: str, said: str = OK, age: float = 0.0) -> None:
    for name in names:
        twins.report(twins.lab_of(running), running, name, said, age=age)


def uuid(running: service.Service, name: str) -> str:
    return running.configuration.current.node(name).uuid


@pytest.fixture
def synced(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names that files had when they were made durable; of a folder its own."""
    names: list[str] = []
    sync = os.fsync

    def watch(descriptor: int) -> None:
        names.append(Path(f"/proc/self/fd/{descriptor}").readlink().name)
        sync(descriptor)

    monkeypatch.setattr(os, "fsync", watch)
    return names


def test_reports_that_come_together_are_put_on_record_together(running: service.Service, synced: list[str]) -> None:
    spool(running, *NAMES)
    files = sorted(path.name for path in running.where.spool.iterdir())
    assert asyncio.run(running.intake.take_all())
    assert sorted(synced[:-1]) == files
    assert synced[-1] == "reports"
    assert set(running.intake.observed()) == {uuid(running, name) for name in NAMES}


def test_rejected_reports_that_come_together_are_counted_in_one_write(
    running: service.Service, synced: list[str]
) -> None:
    for name in NAMES:
        (running.where.spool / name).write_bytes(b"no report")
    assert not asyncio.run(running.intake.take_all())
    assert len([name for name in synced if ".counts" in name]) == 1
    assert synced.count("rejected") == 1
    assert running.intake.rejections == {"malformed": 4}


def test_a_note_that_is_not_kept_is_not_made_durable(running: service.Service, synced: list[str]) -> None:
    (running.where.spool / "node2.unreachable").write_text('{"node": "node2", "time": 5, "text": ""}')
    assert asyncio.run(running.intake.take_all())
    assert "node2.unreachable" not in synced


def test_nothing_is_seen_before_all_of_its_batch_is_durable(
    running: service.Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[int] = []
    sync = durable_files.sync_folder

    def watch(folder: Path) -> None:
        seen.append(len(running.intake.observed()))
        sync(folder)

    monkeypatch.setattr(durable_files, "sync_folder", watch)
    monkeypatch.setattr(intakes, "BATCH", 3)
    spool(running, *NAMES)
    asyncio.run(running.intake.take_all())
    assert seen == [0, 3]
    assert len(running.intake.observed()) == len(NAMES)


def test_what_was_put_into_its_place_is_seen_though_the_rest_broke_off(
    running: service.Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    spool(running, "node1", "node2")
    rename = durable_files.rename

    def full(path: Path, target: Path) -> None:
        if path.name.startswith("node2"):
            raise OSError(28, "No space left on device")
        rename(path, target)

    monkeypatch.setattr(durable_files, "rename", full)
    with pytest.raises(OSError, match="No space"):
        asyncio.run(running.intake.take_all())
    assert set(running.intake.observed()) == {uuid(running, "node1")}
    monkeypatch.undo()
    assert asyncio.run(running.intake.take_all())
    assert set(running.intake.observed()) == {uuid(running, "node1"), uuid(running, "node2")}


def test_of_two_reports_in_one_batch_the_older_one_is_no_news(running: service.Service) -> None:
    spool(running, "node2", said=EVACUATE)
    spool(running, "node2", said=OK, age=5)
    asyncio.run(running.intake.take_all())
    assert running.intake.rejections == {"replayed": 1}
    assert running.intake.observed()[uuid(running, "node2")].original == EVACUATE


class SlowDisk:
    """Nothing becomes durable until `goes_on` is set; `waits` says that somebody waits for it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.goes_on = threading.Event()
        self.waits = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self._sync = os.fsync
        monkeypatch.setattr(os, "fsync", self._wait)

    def _wait(self, descriptor: int) -> None:
        assert threading.current_thread() is not threading.main_thread(), "the event loop waits for the disk"
        self._loop.call_soon_threadsafe(self.waits.set)
        assert self.goes_on.wait(twins.LIMIT)
        self._sync(descriptor)


def test_the_event_loop_goes_on_while_the_disk_is_waited_for(
    running: service.Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario() -> None:
        disk = SlowDisk(monkeypatch)
        spool(running, *NAMES)
        taking = asyncio.get_running_loop().create_task(running.intake.take_all())
        await asyncio.wait_for(disk.waits.wait(), twins.LIMIT)
        assert running.intake.observed() == {}
        disk.goes_on.set()
        assert await taking
        assert len(running.intake.observed()) == len(NAMES)

    asyncio.run(scenario())


def test_who_stops_waiting_loses_no_report(running: service.Service, monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario() -> None:
        disk = SlowDisk(monkeypatch)
        spool(running, "node2")
        taking = asyncio.get_running_loop().create_task(running.intake.take_all())
        await asyncio.wait_for(disk.waits.wait(), twins.LIMIT)
        taking.cancel()
        await asyncio.wait([taking])
        assert taking.cancelled()
        disk.goes_on.set()
        assert not await running.intake.take_all()
        assert set(running.intake.observed()) == {uuid(running, "node2")}

    asyncio.run(scenario())


def test_a_node_is_not_taken_for_off_when_its_report_waits_in_the_spool(running: service.Service) -> None:
    async def scenario() -> None:
        spool(running, "node3")
        await running.queue.submit([twins.job(1, values.Opcode("node_confirm_off", {"node": uuid(running, "node3")}))])
        running.queue.resume()
        await twins.jobs_end(running)
        assert "has just reported Ok" in running.queue.jobs[1].text
        assert not running.configuration.current.node("node3").off_confirmed
        await running.queue.stop()

    asyncio.run(scenario())
