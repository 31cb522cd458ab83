from __future__ import annotations

import asyncio
import contextlib
import shutil
from pathlib import Path

import pytest
from ansible_collections.roundsman.cluster.daemon.jobs import log_following, task_log

LIMIT = 30


def inotifies() -> int:
    found = 0
    for descriptor in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(OSError):
            found += str(descriptor.readlink()) == "anon_inode:inotify"
    return found


def made(folder: Path, *names: str) -> None:
    for name in names:
        (folder / name).mkdir(parents=True)


def test_one_inotify_serves_all_who_follow_and_wakes_only_those_of_the_job(tmp_path: Path) -> None:
    made(tmp_path, "1/0", "2/0")
    before = inotifies()

    async def act() -> None:
        logs = log_following.Logs()
        assert inotifies() == before, "making it opens nothing"
        one, two = tmp_path / "1", tmp_path / "2"
        with logs.follow(one) as first, logs.follow(one) as second, logs.follow(two) as third:
            assert logs.watch(one)
            assert logs.watch(two)
            assert inotifies() == before + 1
            (one / "0/changes.jsonl").touch()
            task_log.note(one / "0", "hello")
            await asyncio.wait_for(first.wait(), LIMIT)
            await asyncio.wait_for(second.wait(), LIMIT)
            assert not third.is_set()
        assert (logs._watches, logs._followers, inotifies()) == ({}, {}, before)

    asyncio.run(act())


@pytest.mark.parametrize("name", ["0", "0/lookup"])
def test_the_folder_of_a_run_that_comes_later_wakes_and_is_watched_then(tmp_path: Path, name: str) -> None:
    made(tmp_path, str(Path("7", name).parent))
    job = tmp_path / "7"

    async def act() -> None:
        logs = log_following.Logs()
        with logs.follow(job) as changed:
            assert logs.watch(job)
            (job / name).mkdir()
            await asyncio.wait_for(changed.wait(), LIMIT)
            changed.clear()
            assert logs.watch(job)
            task_log.note(job / name, "hello")
            await asyncio.wait_for(changed.wait(), LIMIT)

    asyncio.run(act())


def test_a_job_that_is_removed_meanwhile_is_forgotten(tmp_path: Path) -> None:
    made(tmp_path, "7/0")

    async def act() -> None:
        logs = log_following.Logs()
        with logs.follow(tmp_path / "7"), logs.follow(tmp_path / "8"):
            assert logs.watch(tmp_path / "7")
            shutil.rmtree(tmp_path / "7")
            # The kernel has said so before `rmtree` returned: the next turns of the loop read it.
            for _ in range(10):
                await asyncio.sleep(0)
            assert logs._watches == {}
            assert not logs.watch(tmp_path / "8"), "it is looked at again and again instead"

    asyncio.run(act())
