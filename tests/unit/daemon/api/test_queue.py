from __future__ import annotations

from typing import TYPE_CHECKING

from tests.unit.daemon import twins
from tests.unit.daemon.api import reached
from tests.unit.daemon.jobs import daemons

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


def test_the_queue_is_drained_told_of_and_archived(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def act(one: reached.Reached) -> None:
        queue = one.running.queue
        await queue.submit(
            [twins.job(1, daemons.delay()), twins.job(2, daemons.delay(60)), twins.job(3, daemons.delay())]
        )
        await queue.wait(1, seconds=twins.LIMIT)
        await queue.wait(3, seconds=twins.LIMIT)
        drained = (await one.ask("PUT", "/2/queue/drained", {"drained": True})).json()
        assert (drained["drained"], drained["jobs"]["success"], drained["slots"]["taken"]) == (True, 2, 1)
        status, told = await one.refused("PUT", "/2/nodes/node3/power", {"command": "status"})
        assert (status, "the job queue is drained" in told) == (409, True)
        assert (await one.ask("PUT", "/2/jobs/1/archive")).json() == {"id": 1, "archived": True}
        assert (await one.refused("PUT", "/2/jobs/2/archive"))[0] == 409
        assert (await one.refused("PUT", "/2/jobs/99/archive"))[0] == 404
        assert (await one.ask("PUT", "/2/queue/archive", {"older_than": 0})).json() == [3]
        archived = (await one.ask("GET", "/2/jobs/1")).json()
        assert (archived["status"], archived["archived"]) == ("success", True)
        assert (await one.ask("GET", "/2/jobs/2")).json()["archived"] is False
        assert [job["id"] for job in (await one.ask("GET", "/2/jobs")).json()] == [2]
        assert (await one.ask("GET", "/2/jobs?archived=1&limit=1")).json() == [{"id": 3, "uri": "/2/jobs/3"}]
        bulk = (await one.ask("GET", "/2/jobs?archived=1&bulk=1&before=3")).json()
        assert [(job["id"], job["archived"]) for job in bulk] == [(1, True)]
        assert (await one.refused("GET", "/2/jobs?archived=1&limit=0"))[0] == 400
        assert (await one.ask("PUT", "/2/queue/drained", {"drained": False})).json()["drained"] is False
        await daemons.cancel(one.running, 2)

    reached.reach(tmp_path, monkeypatch, act, is_local=True)


def test_a_job_that_waits_gets_one_of_three_priorities(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def act(one: reached.Reached) -> None:
        await one.running.queue.submit(
            [twins.job(1, daemons.delay(60)), twins.job(2, daemons.delay(), depends=daemons.depends(1))]
        )
        answer = await one.ask("PUT", "/2/jobs/2/priority", {"priority": -10})
        assert answer.json() == {"id": 2, "priority": -10}
        assert one.running.queue.jobs[2].priority == -10
        assert (await one.refused("PUT", "/2/jobs/2/priority", {"priority": -11}))[0] in {400, 422}
        await daemons.cancel(one.running, 1)

    reached.reach(tmp_path, monkeypatch, act, is_local=True)
