from __future__ import annotations

import asyncio
import dataclasses
import os
import threading
from typing import TYPE_CHECKING

import pytest
from ansible_collections.roundsman.cluster.daemon.jobs import store, values
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.values import errors

if TYPE_CHECKING:
    from pathlib import Path

JOB = values.Job(
    12,
    (values.Opcode("migrate", {"instance": "i", "force": True, "x": None}, -10, values.Status.ERROR, "0", "why"),),
    depends=(values.Dependency(3, (values.Status.SUCCESS, values.Status.ERROR)),),
    reason=(values.Reason("gnt:daemon:maintd", "u", 1_700_000_000_123_456_789),),
    names={"i": "inst1"},
)


def test_a_job_survives_its_file(tmp_path: Path) -> None:
    one = store.Store(tmp_path / "queue")
    one.save(dataclasses.replace(JOB, id=3))
    one.save(JOB)
    assert list(store.Store(tmp_path / "queue").load().items()) == [(3, dataclasses.replace(JOB, id=3)), (12, JOB)]
    assert one.highest_id() == 12


def damaged_ways() -> dict[str, bytes]:
    """The file of the job cut at every sixteenth of its length, with bytes flipped in every sixteenth, and garbage."""
    whole = store.encode(JOB)
    cuts = [len(whole) * part // 16 for part in range(16)]
    ways = {f"cut at {cut}": whole[:cut] for cut in cuts}
    for cut in cuts:
        ways[f"flipped at {cut}"] = whole[:cut] + bytes([whole[cut] ^ 1]) + whole[cut + 1 :]
    return ways | {"garbage": b"[]", "unsealed": b'{"id": 12, "opcodes": []}'}


@pytest.mark.parametrize("data", damaged_ways().values(), ids=damaged_ways().keys())
def test_a_damaged_job_is_kept_aside_and_another_stands_in_for_it(
    tmp_path: Path, data: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    one = store.Store(tmp_path)
    one.save(JOB)
    other = dataclasses.replace(JOB, id=13)
    one.save(other)
    (tmp_path / "12/job.json").write_bytes(data)
    found = one.load()
    assert found[13] == other
    assert found[12].is_unreadable
    assert str(tmp_path / "12/job.json") in found[12].opcodes[0].text
    assert (tmp_path / "damaged/12/job.json").read_bytes() == data
    assert one.damaged() == [12]
    assert [record.levelname for record in caplog.records] == ["CRITICAL"]
    assert one.load() == found, "the one that stands in is a whole file"


def test_a_job_in_the_folder_of_another_is_damaged(tmp_path: Path) -> None:
    one = store.Store(tmp_path)
    one.save(JOB)
    (tmp_path / "12").rename(tmp_path / "13")
    assert "it says that it is job 12" in one.load()[13].opcodes[0].text


def test_an_archived_job_is_found_with_its_runs_and_its_number_is_never_given_again(tmp_path: Path) -> None:
    one = store.Store(tmp_path)
    for number in (7, 20_001):
        one.save(dataclasses.replace(JOB, id=number))
    one.run_folder(20_001, 0).mkdir()
    gone: list[int] = []
    one.archive.take_in([7, 20_001], on_moved=gone.append)
    assert gone == [7, 20_001]
    assert (tmp_path / "archive/2/20001/0").is_dir()
    assert store.Store(tmp_path).load() == {}
    assert one.archived(7) == dataclasses.replace(JOB, id=7, archived=True)
    assert b"archived" not in (tmp_path / "archive/0/7/job.json").read_bytes()
    assert one.archived(8) is None
    assert one.highest_id() == 20_001


def test_a_damaged_job_of_the_archive_counts_as_one_that_ended_in_error(tmp_path: Path) -> None:
    one = store.Store(tmp_path)
    one.save(JOB)
    one.archive.take_in([12], on_moved=lambda _: None)
    (tmp_path / "archive/0/12/job.json").write_bytes(b"{")
    found = one.archived(12)
    assert found is not None
    assert found.status is values.Status.ERROR


@pytest.fixture
def archive(tmp_path: Path) -> store.Store:
    """Job n was written last at n; 10 and 10,001 are the ends of two parts."""
    one = store.Store(tmp_path)
    jobs = [dataclasses.replace(JOB, id=number) for number in (9, 10, 10_000, 10_001)]
    for job in jobs:
        one.save(job)
    one.archive.take_in([job.id for job in jobs], on_moved=lambda _: None)
    for job in jobs:
        os.utime(one.archive.folder(job.id) / "job.json", (job.id, job.id))
    return one


@pytest.mark.parametrize(
    ("count", "before", "found"),
    [
        (100, None, [9, 10, 10_000, 10_001]),
        (3, None, [10, 10_000, 10_001]),
        (1, None, [10_001]),
        (2, 10_001, [10, 10_000]),
        (2, 10_000, [9, 10]),
        (2, 10, [9]),
        (2, 9, []),
    ],
)
def test_of_the_archive_the_newest_before_a_number_are_told(
    archive: store.Store, count: int, before: int | None, found: list[int]
) -> None:
    told = archive.newest_archived(count, before=before)
    assert [job.id for job in told] == found
    assert all(job.archived for job in told)


def test_what_is_too_old_leaves_the_archive_but_for_the_newest_and_what_is_needed(archive: store.Store) -> None:
    assert archive.archive.remove_older(than=10, but=()) == [9]
    assert not archive.archive.folder(9).exists()
    assert archive.archive.remove_older(than=20_000, but={10}) == [10_000]
    assert (archive.highest_id(), archive.archived(10_000)) == (10_001, None)
    assert archive.archived(10) is not None


def test_a_removal_that_was_interrupted_is_finished_later(archive: store.Store) -> None:
    (archive.archive.folder(9) / "job.json").unlink()
    assert [job.id for job in archive.newest_archived(4)] == [10, 10_000, 10_001]
    os.utime(archive.archive.folder(9), (9, 9))
    assert archive.archive.remove_older(than=10, but=()) == [9]


def test_new_jobs_are_all_there_or_none(tmp_path: Path) -> None:
    one = store.Store(tmp_path)
    jobs = [dataclasses.replace(JOB, id=number) for number in range(1, 40)]
    one.save_new(jobs)
    assert list(one.load().values()) == jobs
    (tmp_path / "42").write_text("in the way")
    with pytest.raises(errors.StoreFailed, match="no job was submitted"):
        one.save_new([dataclasses.replace(JOB, id=number) for number in (41, 42)])
    (tmp_path / "42").unlink()
    assert list(one.load().values()) == jobs


def test_a_folder_without_a_job_was_never_submitted_but_its_number_is_taken(tmp_path: Path) -> None:
    (tmp_path / "40").mkdir()
    assert store.Store(tmp_path).load() == {}
    assert store.Store(tmp_path).highest_id() == 40


def test_a_folder_that_cannot_be_made_is_a_failure_that_is_foreseen(tmp_path: Path) -> None:
    (tmp_path / "queue").write_text("")
    with pytest.raises(errors.StoreFailed, match="queue/12"):
        store.Store(tmp_path / "queue").save(JOB)


def test_a_plan_that_is_written_late_makes_no_folder_for_a_job_that_was_archived(tmp_path: Path) -> None:
    one = store.Store(tmp_path / "queue")
    for number in (1, 2):
        one.save(dataclasses.replace(JOB, id=number))

    async def story() -> None:
        begun, over = threading.Event(), threading.Event()

        def hang() -> None:
            begun.set()
            over.wait(20)

        hanging = asyncio.ensure_future(one._thread.write(hang))
        late = asyncio.ensure_future(one.save_plan(1, 0, (JOB,)))
        await asyncio.to_thread(begun.wait, 20)
        late.cancel()
        one.archive.take_in([1], on_moved=lambda _: None)
        over.set()
        await hanging
        await one.save_plan(2, 0, (JOB,))

    asyncio.run(story())
    assert sorted(store.numbers(tmp_path / "queue")) == [2]
    assert one.plan(2, 0) == (JOB,)
