from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

from ansible_collections.roundsman.cluster.daemon.api import job_log
from ansible_collections.roundsman.cluster.daemon.jobs import task_log, values

from tests.unit.daemon import twins
from tests.unit.daemon.api import reached

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    import httpx
    import pytest


def power(one: reached.Reached) -> values.Opcode:
    node = one.running.configuration.current.node("node2").uuid
    return values.Opcode("power", {"node": node, "command": "status"})


def get(one: reached.Reached, path: str) -> asyncio.Task[httpx.Response]:
    return asyncio.ensure_future(one.ask("GET", path))


def test_new_tasks_are_told_as_they_happen_and_the_end_when_it_comes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(job_log, "LOOK_SECONDS", 3600.0)

    async def act(one: reached.Reached) -> None:
        await one.running.queue.submit([twins.job(7, power(one))])
        run = (await twins.until_held(one.twin))[0]
        log = task_log.Writer(run)
        log.tell("started", host="node2", task="Ask")
        first = (await one.ask("GET", "/2/jobs/7/log")).json()
        assert [(entry[0], *entry[2:]) for entry in first["entries"]] == [(1, "started", "node2: Ask")]
        assert (first["status"], first["final"]) == ("running", False)

        waits = get(one, "/2/jobs/7/log?after=1&seconds=60")
        is_watched = asyncio.Event()
        monkeypatch.setattr(task_log, "job_entries", told(task_log.job_entries, is_watched))
        await asyncio.wait_for(is_watched.wait(), twins.LIMIT)
        log.tell("ok", host="node2", task="Ask", seconds=0.25)
        second = (await asyncio.wait_for(waits, twins.LIMIT)).json()
        assert [(entry[0], *entry[2:]) for entry in second["entries"]] == [(2, "ok", "node2: Ask: ok (0.2 s)")]

        waits = get(one, "/2/jobs/7/log?after=2&seconds=60")
        one.twin.finish(run)
        last = (await asyncio.wait_for(waits, twins.LIMIT)).json()
        assert (last["status"], last["final"], last["entries"]) == ("success", True, [])

    reached.reach(tmp_path, monkeypatch, act, is_local=True, outcomes={"power": "held"})


def told(real: Callable[..., Any], event: asyncio.Event) -> Callable[..., Any]:
    def looked(folder: Path, **options: Any) -> Any:
        event.set()
        return real(folder, **options)

    return looked


def test_the_log_of_an_archived_job_can_still_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def act(one: reached.Reached) -> None:
        await one.running.queue.submit([twins.job(7, power(one))])
        run = (await twins.until_held(one.twin))[0]
        task_log.Writer(run).tell("ok", host="node2", task="Ask")
        one.twin.finish(run)
        await twins.jobs_end(one.running)
        before = (await one.ask("GET", "/2/jobs/7/log")).json()
        one.running.queue.archive(7)
        assert (await one.ask("GET", "/2/jobs/7/log?seconds=60")).json() == before
        assert [entry[3] for entry in before["entries"]] == ["node2: Ask: ok"]
        asked = {"fields": ["status", "archived"], "previous_job_info": None, "previous_log_serial": None}
        changed = (await one.ask("GET", "/2/jobs/7/wait", asked)).json()
        assert (changed["job_info"], changed["log_entries"]) == (["success", True], before["entries"])

    reached.reach(tmp_path, monkeypatch, act, is_local=True, outcomes={"power": "held"})


def test_a_job_that_is_not_there_has_no_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def act(one: reached.Reached) -> None:
        assert (await one.ask("GET", "/2/jobs/9/log")).status_code == 404
        assert (await one.ask("GET", "/2/jobs/9/log?after=-1")).status_code == 400

    reached.reach(tmp_path, monkeypatch, act, is_local=True)


def test_lines_in_folders_that_come_later_are_seen(tmp_path: Path) -> None:
    assert task_log.sizes(tmp_path / "none") == {}
    for run in (tmp_path / "0", tmp_path / "0" / "lookup"):
        before = task_log.sizes(tmp_path)
        run.mkdir()
        task_log.Writer(run).tell("message", text="hello")
        assert task_log.sizes(tmp_path) != before


def test_the_log_is_bounded_and_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(task_log, "MOST_LINES", 3)
    log = task_log.Writer(tmp_path)
    for _ in range(5):
        log.tell("ok", host="node1", task="Again", text="x" * 1000, seconds=1)
    found = task_log.entries(tmp_path, first=1)
    assert [entry[0] for entry in found] == [1, 2, 3]
    assert found[2][2:] == ["message", task_log.CUT]
    assert len(found[0][3]) < 600


def test_serial_numbers_grow_over_opcodes_and_a_damaged_line_is_passed_over(tmp_path: Path) -> None:
    for index in ("0", "0/lookup", "1"):
        (tmp_path / index).mkdir()
        task_log.Writer(tmp_path / index).tell("ok", task=index)
    with (tmp_path / "0/tasks.jsonl").open("a") as lines:
        lines.write('{"time"\n[]\n' + json.dumps({"torn": 1}))
    found = task_log.job_entries(tmp_path, opcodes=3)
    assert [entry[0] for entry in found] == [1, task_log.MOST_LINES + 1, task_log.SPAN + 1]
    assert task_log.job_entries(tmp_path, opcodes=3, after=task_log.MOST_LINES + 1) == found[2:]
