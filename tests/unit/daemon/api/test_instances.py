"""`GET /2/instances/NAME/info` makes a job: one at a time, bounded, audited, and none in read-only mode."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from ansible_collections.roundsman.cluster.daemon.api.asking import Door
from ansible_collections.roundsman.cluster.daemon.jobs import questions, values

from tests.unit.daemon import twins
from tests.unit.daemon.api import reached

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

INFO = "/2/instances/instance{}/info"
PAIRS = (("node2", "node3"), ("node3", "node2"), ("node2", "node3"))


async def pause_jobs(one: reached.Reached) -> str:
    """Let new jobs stay queued; returns the filter that holds them."""
    answer = await one.ask("POST", "/2/filters", {"action": "PAUSE"})
    assert answer.status_code == 200, answer.text
    return str(answer.json())


async def ask(one: reached.Reached, number: int = 1, *, user: str = "ann") -> int:
    answer = await one.client.get(INFO.format(number), headers={"x-roundsman-user": user})
    assert answer.status_code == 200, answer.text
    return int(answer.json())


def test_requests_that_come_together_or_while_it_waits_share_one_job(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def act(one: reached.Reached) -> None:
        rule = await pause_jobs(one)
        together = await asyncio.gather(*(ask(one) for _ in range(20)))
        assert set(together) == {1}
        assert await ask(one, user="bob") == 1
        assert await ask(one, 2) == 2
        await one.ask("DELETE", f"/2/filters/{rule}")
        await twins.jobs_end(one.running)
        assert one.running.queue.jobs[1].opcodes[0].result["instance1"]["pnode"] == "node2"
        assert await ask(one) == 3

    reached.reach(tmp_path, monkeypatch, act, is_local=True, door=Door.REMOTE, pairs=PAIRS)


def test_a_user_and_all_users_together_have_a_bounded_number_of_unfinished_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(questions, "UNFINISHED_OF_USER", 1)
    monkeypatch.setattr(questions, "UNFINISHED", 2)

    async def act(one: reached.Reached) -> None:
        await pause_jobs(one)
        await ask(one, 1, user="ann")
        refused = await one.client.get(INFO.format(2), headers={"x-roundsman-user": "ann"})
        assert (refused.status_code, "1 of these jobs of ann" in refused.json()["detail"]) == (429, True), refused.text
        await ask(one, 2, user="bob")
        refused = await one.client.get(INFO.format(3), headers={"x-roundsman-user": "carol"})
        assert (refused.status_code, "2 of these jobs" in refused.json()["detail"]) == (429, True), refused.text
        assert await ask(one, 1, user="carol") == 1
        assert list(one.running.queue.jobs) == [1, 2]

    reached.reach(tmp_path, monkeypatch, act, is_local=True, door=Door.REMOTE, pairs=PAIRS)


def test_the_oldest_that_ended_leave_no_file_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(questions, "KEPT", 3)
    monkeypatch.setattr(questions, "LEAST_SECONDS", 0.0)

    async def act(one: reached.Reached) -> None:
        for number in range(1, 9):
            assert await ask(one) == number
            await twins.jobs_end(one.running)
        # The newest had not ended when the oldest were removed: it is not one of the three that are kept.
        assert list(one.running.queue.jobs) == [5, 6, 7, 8]
        folder = one.running.where.queue
        assert sorted(path.parent.name for path in folder.rglob("job.json")) == ["5", "6", "7", "8"]
        assert (await one.ask("GET", "/2/jobs/4")).status_code == 404

    reached.reach(tmp_path, monkeypatch, act, is_local=True, door=Door.REMOTE, pairs=PAIRS)


def test_those_that_ended_a_moment_ago_stay_for_who_asked_however_many_there_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(questions, "KEPT", 1)

    async def act(one: reached.Reached) -> None:
        for number in range(1, 5):
            await ask(one)
            await twins.jobs_end(one.running)
            assert (await one.ask("GET", "/2/jobs/1")).json()["status"] == "success", number

    reached.reach(tmp_path, monkeypatch, act, is_local=True, door=Door.REMOTE, pairs=PAIRS)


def test_those_that_ended_some_minutes_ago_leave_no_file_and_other_jobs_stay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def act(one: reached.Reached) -> None:
        await ask(one)
        node = one.running.configuration.current.node("node2").uuid
        await one.running.queue.submit([twins.job(2, values.Opcode("power", {"node": node, "command": "status"}))])
        await ask(one)
        await twins.jobs_end(one.running)
        await one.running.queue.tidy(after=0)
        assert list(one.running.queue.jobs) == []
        folder = one.running.where.queue
        assert sorted(path.parent.name for path in folder.rglob("job.json")) == ["2", "3"]

    reached.reach(tmp_path, monkeypatch, act, is_local=True, door=Door.REMOTE, pairs=PAIRS)


def test_in_read_only_mode_no_job_is_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def act(one: reached.Reached) -> None:
        one.running.read_only.reason = "roundsmand ended 3 times"
        answer = await one.client.get(INFO.format(1))
        assert answer.status_code == 503
        assert "ended 3 times" in answer.json()["detail"]
        assert one.running.queue.jobs == {}
        assert (await one.client.get("/2/instances/instance1")).status_code == 200
        one.running.read_only.reason = ""

    reached.reach(tmp_path, monkeypatch, act, is_local=True, door=Door.REMOTE, pairs=PAIRS)
