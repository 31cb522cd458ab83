from __future__ import annotations

import asyncio
import contextlib
import errno
import gc
import json
import os
import subprocess
import sys
import threading
from typing import TYPE_CHECKING, Iterator

import pytest
from ansible_collections.roundsman.cluster.daemon import failures
from ansible_collections.roundsman.cluster.daemon.locks import desk, holders
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.values import errors
from ansible_collections.roundsman.cluster.plugins.plugin_utils import durable_files, sealed_json
from ansible_collections.roundsman.cluster.plugins.plugin_utils.cluster.locks import Mode
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.unit import other_users

if TYPE_CHECKING:
    from pathlib import Path

X, SH = Mode.EXCLUSIVE, Mode.SHARED
JOB, NEXT = holders.Owner("job 1"), holders.Owner("job 2")
HOLD = "import fcntl, sys; f = open(sys.argv[1], 'w'); fcntl.flock(f, fcntl.LOCK_EX); print(1, flush=True); input()"


@contextlib.contextmanager
def living(path: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A process that holds a livelock."""
    command = [sys.executable, "-S", "-c", HOLD, str(path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        yield process
        process.kill()


def at(tmp_path: Path) -> desk.Desk:
    return desk.Desk(tmp_path / "locks.data", clock=lambda: 5.0)


def saved(tmp_path: Path) -> dict[str, dict[str, str]]:
    rows = json.loads((tmp_path / "locks.data").read_bytes())["held"]
    return {row["owner"]: row["locks"] for row in rows}


async def settle() -> None:
    for _turn in range(5):
        await asyncio.sleep(0)


def test_an_end_is_seen_although_no_more_files_could_be_open_for_a_while(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, failed = os.open, threading.Event()

    def opened(path: str, *flags: int) -> int:
        if not failed.is_set():
            failed.set()
            raise OSError(errno.EMFILE, "too many open files")
        return real(path, *flags)

    async def story() -> None:
        with living(tmp_path / "live") as process:
            monkeypatch.setattr(os, "open", opened)
            ending = asyncio.create_task(desk.ended(tmp_path / "live"))
            await asyncio.to_thread(failed.wait, 20)
            process.kill()
            await asyncio.wait_for(ending, 60)

    monkeypatch.setattr(desk, "RETRY_SECONDS", 0.001)
    asyncio.run(story())


def test_a_release_lets_the_next_go_on_and_both_are_on_disk_first(tmp_path: Path) -> None:
    async def story() -> None:
        one = at(tmp_path)
        await one.acquire(JOB, {"node/1": X})
        assert saved(tmp_path) == {"job 1": {"node/1": "exclusive"}}
        waiting = asyncio.create_task(one.acquire(NEXT, {"node/1": SH}))
        await settle()
        assert not waiting.done()
        one.release(JOB)
        await waiting
        assert saved(tmp_path) == {"job 2": {"node/1": "shared"}}

    asyncio.run(story())


def test_the_end_of_a_process_frees_its_locks(tmp_path: Path) -> None:
    async def story() -> None:
        one, play = at(tmp_path), holders.Owner("play", str(tmp_path / "live"))
        with living(tmp_path / "live") as process:
            await one.acquire(play, {"node/1": X})
            await one.acquire(play, {"node/2": X})
            waiting = asyncio.create_task(one.acquire(JOB, {"node/1": X, "node/2": X}))
            await settle()
            assert not waiting.done()
            process.kill()
            await asyncio.wait_for(waiting, 60)
        assert saved(tmp_path) == {"job 1": {"node/1": "exclusive", "node/2": "exclusive"}}

    asyncio.run(story())


def test_the_end_of_a_process_withdraws_what_it_waits_for(tmp_path: Path) -> None:
    async def story() -> None:
        one, play = at(tmp_path), holders.Owner("play", str(tmp_path / "live"))
        await one.acquire(JOB, {"node/1": SH})
        with living(tmp_path / "live") as process:
            waiting = asyncio.create_task(one.acquire(play, {"node/1": X}))
            await settle()
            behind = asyncio.create_task(one.acquire(NEXT, {"node/1": SH}))
            await settle()
            assert not behind.done()
            process.kill()
            with pytest.raises(errors.LockRefused, match="play has ended"):
                await asyncio.wait_for(waiting, 60)
            await asyncio.wait_for(behind, 60)
        assert one.table.waiting == []

    asyncio.run(story())


def test_a_time_limit_names_who_holds_and_takes_the_request_back(tmp_path: Path) -> None:
    async def story() -> None:
        one = at(tmp_path)
        await one.acquire(JOB, {"node/1": X})
        with pytest.raises(errors.LockRefused, match=r"within 0.01 s.*job 1"):
            await one.acquire(NEXT, {"node/1": X}, time_limit=0.01)
        assert one.table.waiting == []
        one.release(JOB)
        await one.written()
        assert saved(tmp_path) == {}

    asyncio.run(story())


def test_a_canceled_wait_lets_those_behind_it_go_on(tmp_path: Path) -> None:
    async def story() -> None:
        one = at(tmp_path)
        await one.acquire(JOB, {"node/1": SH})
        waiting = asyncio.create_task(one.acquire(NEXT, {"node/1": X}))
        await settle()
        behind = asyncio.create_task(one.acquire(holders.Owner("job 3"), {"node/1": SH}))
        await settle()
        waiting.cancel()
        await asyncio.wait_for(behind, 60)

    asyncio.run(story())


def test_locks_survive_a_restart_but_not_those_of_processes_that_ended(tmp_path: Path) -> None:
    async def story() -> None:
        with living(tmp_path / "live") as process, living(tmp_path / "gone") as gone:
            before = at(tmp_path)
            await before.acquire(JOB, {"instance/1": X, "node/1": SH})
            for name in ("live", "gone"):
                await before.acquire(holders.Owner(name, str(tmp_path / name)), {f"node/{name}": X})
            written = (tmp_path / "locks.data").read_bytes()
            gone.kill()
            await before._watches[holders.Owner("gone", str(tmp_path / "gone"))]
            await before.landed()
            for watch in before._watches.values():
                watch.cancel("its daemon is no more")
            (tmp_path / "locks.data").write_bytes(written)
            after = at(tmp_path)
            after.restore()
            assert after.table.locks_of(JOB) == {"instance/1": X, "node/1": SH}
            assert {one.name for one in after.table.owners()} == {"job 1", "live"}
            waiting = asyncio.create_task(after.acquire(NEXT, {"node/live": X}))
            await settle()
            assert not waiting.done()
            process.kill()
            await asyncio.wait_for(waiting, 60)

    asyncio.run(story())


@other_users.only_root
def test_a_play_whose_livelock_cannot_be_read_keeps_its_locks_over_a_restart(caplog: pytest.LogCaptureFixture) -> None:
    async def story(folder: Path) -> None:
        livelock = folder / "play-1"
        livelock.touch(mode=0o600)
        before = at(folder)
        await before.acquire(holders.Owner("play-1", str(livelock)), {"node/1": X})
        written = (folder / "locks.data").read_bytes()
        await asyncio.gather(*before._watches.values())
        await before.landed()
        (folder / "locks.data").write_bytes(written)
        (folder / "locks.data").chmod(0o644)
        after = at(folder)
        with other_users.acting_as(other_users.DAEMON):
            after.restore()
        assert [owner.name for owner in after.table.owners()] == ["play-1"]
        assert f"`rm {livelock}`" in caplog.text

    with other_users.open_folder() as folder:
        asyncio.run(story(folder))


@pytest.fixture
def table_on_disk(tmp_path: Path) -> bytes:
    async def story() -> None:
        one = at(tmp_path)
        await one.acquire(JOB, {"instance/1": X, "node/1": SH}, purpose="migrate")
        await one.acquire(NEXT, {"node/2": X})

    asyncio.run(story())
    return (tmp_path / "locks.data").read_bytes()


def test_what_for_and_since_when_survives_a_restart(tmp_path: Path, table_on_disk: bytes) -> None:
    after = at(tmp_path)
    after.restore()
    assert after.table.holdings[JOB] == holders.Holding("migrate", 5.0)
    assert b"migrate" in table_on_disk


@pytest.mark.parametrize("part", range(16))
def test_a_torn_table_is_refused_with_its_path(tmp_path: Path, table_on_disk: bytes, part: int) -> None:
    (tmp_path / "locks.data").write_bytes(table_on_disk[: len(table_on_disk) * part // 16])
    with pytest.raises(errors.StoreFailed, match=r"locks\.data is damaged"):
        at(tmp_path).restore()


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_no_flipped_byte_is_taken_for_right(tmp_path: Path, table_on_disk: bytes, data: st.DataObject) -> None:
    index = data.draw(st.integers(len(b"{"), len(table_on_disk) - 1))
    flipped = bytes([table_on_disk[index] ^ data.draw(st.integers(1, 255))])
    (tmp_path / "locks.data").write_bytes(table_on_disk[:index] + flipped + table_on_disk[index + 1 :])
    after = at(tmp_path)
    try:
        after.restore()
    except errors.StoreFailed:
        return
    assert flipped.isspace()
    assert after.table.locks_of(JOB) == {"instance/1": X, "node/1": SH}


@pytest.mark.parametrize(
    "row", [5, {}, {"owner": "a", "livelock": "", "purpose": "", "since": 0, "locks": {"x": "shared"}}]
)
def test_a_table_that_makes_no_sense_is_refused_with_its_path(tmp_path: Path, row: object) -> None:
    (tmp_path / "locks.data").write_bytes(sealed_json.seal(json.dumps({"held": [row]}).encode()))
    with pytest.raises(errors.StoreFailed, match=r"locks\.data is damaged"):
        at(tmp_path).restore()


def test_locks_are_given_back_one_by_one_and_made_shared(tmp_path: Path) -> None:
    async def story() -> None:
        one = at(tmp_path)
        await one.acquire(JOB, {"instance/1": X, "node/1": X})
        waiting = asyncio.create_task(one.acquire(NEXT, {"instance/1": X, "node/1": SH}))
        await settle()
        one.downgrade(JOB, ["node/1"])
        await settle()
        assert not waiting.done()
        one.release(JOB, ["instance/1"])
        await waiting
        assert saved(tmp_path) == {
            "job 1": {"node/1": "shared"},
            "job 2": {"instance/1": "exclusive", "node/1": "shared"},
        }

    asyncio.run(story())


def test_no_table_is_an_empty_one(tmp_path: Path) -> None:
    one = at(tmp_path)
    one.restore()
    assert one.table.held == {}


def test_on_a_full_disk_nobody_is_left_waiting_for_ever(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(path: Path, _data: bytes) -> None:
        raise errors.StoreFailed(f"{path}: no space")

    async def story() -> None:
        one = at(tmp_path)
        await one.acquire(JOB, {"node/1": X})
        waiting = asyncio.create_task(one.acquire(NEXT, {"node/1": X}))
        await settle()
        monkeypatch.setattr(durable_files, "replace", fail)
        one.release(JOB)
        with pytest.raises(errors.StoreFailed):
            await asyncio.wait_for(waiting, 60)
        with pytest.raises(errors.StoreFailed):
            await asyncio.wait_for(one.written(), 60)
        assert one.table.locks_of(NEXT) == {"node/1": X}, "nobody else gets what it may have"

    asyncio.run(story())


def test_those_who_are_granted_together_share_the_write_of_the_release(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written: list[Path] = []
    replace = durable_files.replace

    def counted(path: Path, data: bytes) -> None:
        written.append(path)
        replace(path, data)

    async def story() -> None:
        one = at(tmp_path)
        await one.acquire(JOB, {"node/[lockset]": X})
        shares = [one.acquire(holders.Owner(f"share {number}"), {f"node/{number}": SH}) for number in range(20)]
        waiting = [asyncio.create_task(share) for share in shares]
        await settle()
        monkeypatch.setattr(durable_files, "replace", counted)
        one.release(JOB)
        await asyncio.gather(*waiting)
        assert len(written) == 1
        assert len(saved(tmp_path)) == 20

    asyncio.run(story())


class Held:
    """A disk whose writes wait until it is let go, and what they wrote."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.begun, self.over = threading.Event(), threading.Event()
        self.failing: list[Exception] = []
        self.writes = 0
        self._replace = durable_files.replace
        monkeypatch.setattr(durable_files, "replace", self.replace)

    def replace(self, path: Path, data: bytes) -> None:
        self.writes += 1
        self.begun.set()
        self.over.wait(20)
        if self.failing:
            raise self.failing.pop()
        self._replace(path, data)

    async def until_begun(self) -> None:
        await asyncio.to_thread(self.begun.wait, 20)


@pytest.fixture
def held(monkeypatch: pytest.MonkeyPatch) -> Iterator[Held]:
    disk = Held(monkeypatch)
    yield disk
    disk.over.set()


def test_a_lock_is_answered_once_it_is_on_the_disk_and_the_loop_goes_on_meanwhile(tmp_path: Path, held: Held) -> None:
    async def story() -> None:
        one = at(tmp_path)
        asked = [asyncio.create_task(one.acquire(JOB, {"node/1": X}))]
        await held.until_begun()
        asked += [
            asyncio.create_task(one.acquire(holders.Owner(f"job {number}"), {f"node/{number}": X}))
            for number in range(2, 20)
        ]
        await settle()
        assert not any(task.done() for task in asked)
        held.over.set()
        await asyncio.wait_for(asyncio.gather(*asked), 20)
        assert held.writes == 2, "those who came while the first was written share the next"
        assert len(saved(tmp_path)) == 19

    asyncio.run(story())


def test_who_has_its_grant_on_the_disk_waits_for_no_change_of_others(tmp_path: Path, held: Held) -> None:
    async def story() -> None:
        held.over.set()
        one = at(tmp_path)
        await one.acquire(JOB, {"node/1": X})
        held.over.clear()
        other = asyncio.create_task(one.acquire(NEXT, {"node/2": X}))
        await settle()
        await asyncio.wait_for(one.written(JOB), 20)
        assert not other.done()
        held.over.set()
        await asyncio.wait_for(other, 20)

    asyncio.run(story())


def test_a_canceled_owner_cancels_no_write(tmp_path: Path, held: Held) -> None:
    async def story() -> None:
        one = at(tmp_path)
        asked = asyncio.create_task(one.acquire(JOB, {"node/1": X}))
        await held.until_begun()
        asked.cancel()
        await settle()
        assert asked.cancelled()
        one.release(JOB)
        held.over.set()
        await asyncio.wait_for(one.landed(), 20)
        assert saved(tmp_path) == {}
        assert held.writes == 2

    asyncio.run(story())


def test_who_comes_while_a_write_fails_has_one_of_its_own(tmp_path: Path, held: Held) -> None:
    held.failing.append(errors.StoreFailed("no space"))

    async def story() -> None:
        one = at(tmp_path)
        asked = asyncio.create_task(one.acquire(JOB, {"node/1": X}))
        await held.until_begun()
        later = asyncio.create_task(one.acquire(NEXT, {"node/2": X}))
        await settle()
        held.over.set()
        with pytest.raises(errors.StoreFailed, match="no space"):
            await asyncio.wait_for(asked, 20)
        await asyncio.wait_for(later, 20)
        assert saved(tmp_path) == {"job 1": {"node/1": "exclusive"}, "job 2": {"node/2": "exclusive"}}

    asyncio.run(story())


@pytest.mark.parametrize("error", [errors.StateUnknown("the disk failed"), ZeroDivisionError()])
def test_after_a_defect_of_its_writer_nobody_waits_for_ever_and_the_daemon_ends(
    tmp_path: Path, held: Held, error: Exception
) -> None:
    held.failing.append(error)

    async def story() -> None:
        failed = failures.Failures()
        one = desk.Desk(tmp_path / "locks.data", clock=lambda: 5.0, failures=failed)
        asked = [asyncio.create_task(one.acquire(JOB, {"node/1": X}))]
        await held.until_begun()
        asked.append(asyncio.create_task(one.acquire(NEXT, {"node/2": X})))
        await settle()
        held.over.set()
        ends = await asyncio.wait_for(asyncio.gather(*asked, return_exceptions=True), 20)
        one.release(JOB)
        await asyncio.wait_for(one.landed(), 20)
        with pytest.raises((errors.StateUnknown, failures.Defect)):
            await asyncio.wait_for(one.acquire(holders.Owner("job 3"), {"node/3": X}), 20)
        with pytest.raises((errors.StateUnknown, failures.Defect)):
            await asyncio.wait_for(failed.until_defect(), 20)
        assert all(isinstance(end, (errors.StateUnknown, failures.Defect)) for end in ends)
        assert held.writes == 1

    asyncio.run(story())


def test_an_end_that_cannot_be_written_frees_the_locks_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(path: Path, _data: bytes) -> None:
        raise errors.StoreFailed(f"{path}: no space")

    async def story() -> None:
        unseen: list[object] = []
        asyncio.get_running_loop().set_exception_handler(lambda _, context: unseen.append(context))
        one, play = at(tmp_path), holders.Owner("play", str(tmp_path / "live"))
        with living(tmp_path / "live") as process:
            await one.acquire(play, {"node/1": X})
            waiting = asyncio.create_task(one.acquire(NEXT, {"node/1": X}))
            await settle()
            with monkeypatch.context() as full:
                full.setattr(durable_files, "replace", fail)
                process.kill()
                with pytest.raises(errors.StoreFailed):
                    await asyncio.wait_for(waiting, 60)
        gc.collect()
        assert unseen == []
        assert one.table.locks_of(play) == {}

    asyncio.run(story())
