from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING, Any

import pytest
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.values import errors
from ansible_collections.roundsman.cluster.plugins.plugin_utils.config import store

from tests.unit.daemon import twins
from tests.unit.daemon.api.reached import Reached, reach

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path

    import httpx

ON = {"command": "on"}


@pytest.fixture
def local(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    def run(act: Callable[[Reached], Awaitable[None]], **options: Any) -> None:
        reach(tmp_path, monkeypatch, act, is_local=True, **options)

    return run


class Gate:
    """Lets the calls of a function wait until it is opened."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, owner: object, name: str) -> None:
        self._act = getattr(owner, name)
        self._reached, self._open = threading.Event(), threading.Event()
        monkeypatch.setattr(owner, name, self._wait)

    def _wait(self, *arguments: Any) -> Any:
        self._reached.set()
        assert self._open.wait(twins.LIMIT)
        return self._act(*arguments)

    async def reached(self) -> None:
        assert await asyncio.to_thread(self._reached.wait, twins.LIMIT)

    def open(self) -> None:
        self._open.set()


async def begun(request: Awaitable[httpx.Response]) -> asyncio.Task[httpx.Response]:
    """A request that has come as far as it can without what it waits for."""
    task = asyncio.ensure_future(request)
    for _ in range(200):
        await asyncio.sleep(0)
    assert isinstance(task, asyncio.Task)
    return task


async def take_over(one: Reached, *, force: bool = False) -> httpx.Response:
    document = (await one.client.get("/2/config")).json()
    return await one.ask("PUT", f"/2/config?force={int(force)}", document)


def test_a_configuration_that_was_exported_is_taken_over_under_the_next_serial_number(
    local: Callable[..., None],
) -> None:
    async def act(one: Reached) -> None:
        before = one.running.configuration.current
        answer = await take_over(one)
        assert answer.json() == {"serial_no": before.serial_no + 1, "paused": ""}
        assert store.read(one.running.where.config).serial_no == before.serial_no + 1
        assert one.running.configuration.current.nodes == before.nodes

    local(act)


def test_a_backup_pauses_until_a_person_resumes_and_an_edited_export_does_not(local: Callable[..., None]) -> None:
    async def act(one: Reached) -> None:
        backup = (await one.client.get("/2/config")).json()
        assert (await take_over(one)).json()["paused"] == ""
        assert one.running.configuration.current.maintenance.settings.paused == ""
        answer = (await one.ask("PUT", "/2/config", backup)).json()
        reason = f"configuration imported from a backup (serial {backup['serial_no']}): check where instances run"
        assert answer["paused"].startswith(reason)
        assert store.read(one.running.where.config).maintenance.settings.paused == answer["paused"]
        twins.report(twins.lab_of(one.running), one.running, "node2", '{"status":"evacuate"}')
        await twins.settle(one.running)
        assert one.running.queue.jobs == {}
        await one.ask("PUT", "/2/pause", {"reason": ""})
        await twins.settle(one.running)
        assert one.running.queue.jobs

    local(act)


@pytest.mark.parametrize(("force", "status"), [(False, 409), (True, 200)])
def test_a_configuration_on_which_jobs_rely_is_replaced_only_by_force(
    local: Callable[..., None], *, force: bool, status: int
) -> None:
    async def act(one: Reached) -> None:
        await one.ask("PUT", "/2/nodes/node2/power", ON)
        await twins.until_held(one.twin)
        assert (await take_over(one, force=force)).status_code == status
        one.twin.finish(one.twin.held()[0])
        await twins.jobs_end(one.running)
        assert (await take_over(one)).status_code == 200

    local(act, outcomes={"power": "held"})


def test_a_job_that_is_on_its_way_into_the_queue_keeps_the_configuration(
    local: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def act(one: Reached) -> None:
        before = one.running.configuration.current
        save = Gate(monkeypatch, one.running.queue._ports.store, "save_new")
        job = asyncio.create_task(one.ask("PUT", "/2/nodes/node2/power", ON))
        await save.reached()
        taken = await begun(take_over(one))
        save.open()
        assert (await job).status_code == 202
        assert "1 jobs have not ended" in (await taken).json()["detail"]
        assert one.running.configuration.current is before

    local(act, outcomes={"power": "held"})


def test_no_job_is_submitted_while_the_configuration_is_being_replaced(
    local: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def act(one: Reached) -> None:
        write = Gate(monkeypatch, store, "write")
        taken = asyncio.create_task(take_over(one))
        await write.reached()
        status, said = await one.refused("PUT", "/2/nodes/node2/power", ON)
        write.open()
        assert (status, (await taken).status_code) == (409, 200)
        assert "the configuration is being taken over" in said
        assert one.running.queue.jobs == {}
        assert (await one.ask("PUT", "/2/nodes/node2/power", ON)).status_code == 202

    local(act)


def test_a_take_over_that_fails_leaves_the_queue_open(
    local: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def act(one: Reached) -> None:
        before = one.running.configuration.current
        with monkeypatch.context() as patched:
            patched.setattr(store, "write", full)
            assert (await take_over(one)).status_code == 507
        assert one.running.configuration.current is before
        assert (await one.ask("PUT", "/2/nodes/node2/power", ON)).status_code == 202

    local(act)


def full(*_arguments: object) -> None:
    raise errors.StoreFailed("No space left on device")


def test_a_round_that_is_about_to_submit_its_jobs_keeps_the_configuration(
    local: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def act(one: Reached) -> None:
        twins.report(twins.lab_of(one.running), one.running, "node2", '{"status":"evacuate"}')
        await one.running.rounds.step()
        write = Gate(monkeypatch, store, "write")
        step = asyncio.create_task(one.running.rounds.step())
        await write.reached()
        taken = await begun(take_over(one))
        write.open()
        await step
        assert one.running.rounds.is_at_work
        assert "jobs have not ended" in (await taken).json()["detail"]

    local(act, outcomes={"migrate": "held"})


def test_simulated_instances_are_imported_by_the_controller_of_a_lab_only(local: Callable[..., None]) -> None:
    async def act(one: Reached) -> None:
        assert (await take_over(one, force=True)).status_code == 200
        one.running.where.lab_file.unlink()
        refused = await take_over(one, force=True)
        assert (refused.status_code, "instance instance1: hypervisor: fake is for labs" in refused.text) == (400, True)

    local(act)


def test_a_document_with_values_that_cannot_be_set_is_refused_as_a_whole(local: Callable[..., None]) -> None:
    async def act(one: Reached) -> None:
        before = one.running.configuration.current
        document = (await one.client.get("/2/config")).json()
        document["maintenance"]["settings"]["agent_port"] = 99999999
        document["nodes"][before.node("node2").uuid]["primary_ip"] = "-oProxyCommand=id"
        status, text = await one.refused("PUT", "/2/config", document)
        assert status == 400
        assert "the settings: agent_port: " in text
        assert "node node2: primary_ip: " in text
        assert one.running.configuration.current == before

    local(act)
