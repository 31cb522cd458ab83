"""Every write is in the audit log, once, with user, door, status and jobs."""

from __future__ import annotations

import asyncio
import logging
import os
import pwd
import re
from typing import TYPE_CHECKING, Any

import httpx
import pytest
from ansible_collections.roundsman.cluster.daemon import app as apps
from ansible_collections.roundsman.cluster.daemon.api.asking import Door
from ansible_collections.roundsman.cluster.plugins.plugin_utils import log_output
from ansible_collections.roundsman.cluster.plugins.plugin_utils.settings import permissions

from tests.unit.daemon import twins
from tests.unit.daemon.api.reached import livelock

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator
    from pathlib import Path

    from ansible_collections.roundsman.cluster.daemon import service
    from fastapi import FastAPI

ME = pwd.getpwuid(os.geteuid()).pw_name
USERS = {Door.SOCKET: ME, Door.REMOTE: "ann"}
NAMES = {
    "nodes": "node3",
    "instances": "instance1",
    "groups": "default",
    "filters": "3f2a91c0-1111-4222-8333-444455556666",
    "incidents": "3f2a",
    "jobs": "1",
}
HOSTILE = "\n2026-11-22 00:00:00,000 INFO roundsman.audit: user=root"
FORGED = "user=root uid=0 door=socket PUT /2/nodes/node3/power status=202 jobs=7: power off node3"
HELD = {"owner": "play", "livelock": "play", "wants": {"cluster/config": "exclusive"}}
ACCEPTED: tuple[tuple[str, str, Any, str], ...] = (
    ("PUT", "/2/pause", {"reason": "tea"}, 'jobs=none text="pause: tea"'),
    ("PUT", "/2/pause", {"reason": ""}, 'jobs=none text="resume"'),
    ("PUT", "/2/modify", {"round_interval": 60}, 'jobs=1 text="modify cluster: round_interval"'),
    ("PUT", "/2/nodes/node3/power", {"command": "status"}, 'jobs=2 text="power status node3"'),
    ("PUT", "/2/nodes/node3/tags?tag=rack:1", None, 'jobs=3 text="tag node3: rack:1"'),
    (
        "POST",
        "/2/nodes/node3/modify",
        {"hostvars": {"ansible_user": "carol"}},
        'jobs=4 text="modify node node3: hostvars"',
    ),
    ("POST", "/2/filters", {"action": "CONTINUE"}, "jobs=none"),
    ("PUT", "/2/queue/drained", {"drained": False}, "jobs=none"),
    ("DELETE", "/2/jobs/1", None, "jobs=none"),
)


class Audited:
    """A service with its applications, and its audit log."""

    def __init__(self, running: service.Service, audit: Path) -> None:
        self.running = running
        self._audit = audit
        self._apps = {door: apps.make_app(running, door=door) for door in Door}

    async def ask(self, door: Door, method: str, path: str, body: Any = None) -> tuple[httpx.Response, list[str]]:
        """An answer, and the lines of the audit log that its request made."""
        before = len(self.lines())
        headers = {"x-roundsman-user": "ann"} if door is Door.REMOTE else {}
        transport = httpx.ASGITransport(
            app=self._apps[door],
            client=(str(os.geteuid()), os.getpid()),
            raise_app_exceptions=False,
        )
        async with httpx.AsyncClient(transport=transport, base_url="http://daemon", headers=headers) as client:
            answer = await client.request(method, path, json=body)
        return answer, self.lines()[before:]

    def app(self, door: Door) -> FastAPI:
        """The application behind a door."""
        return self._apps[door]

    def all_lines(self) -> list[str]:
        """Every line, without its time and its logger."""
        return [line.partition(" roundsman.audit: ")[2] for line in self._audit.read_text().splitlines()]

    def lines(self) -> list[str]:
        return [line for line in self._audit.read_text().splitlines() if " door=" in line]


@pytest.fixture(name="audited")
def fixture_audited(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[[Callable[[Audited], Awaitable[None]]], None]]:
    logger = logging.getLogger(log_output.AUDIT)
    before, level = logger.handlers[:], logger.level
    log_output.open_audit(tmp_path / "audit.log")

    def run(act: Callable[[Audited], Awaitable[None]]) -> None:
        async def scenario() -> None:
            running, _ = twins.assemble(twins.lab(tmp_path, pairs=[("node2", "node3")]), monkeypatch)
            await act(Audited(running, tmp_path / "audit.log"))
            await running.queue.stop()

        asyncio.run(scenario())

    yield run
    for handler in set(logger.handlers) - set(before):
        logger.removeHandler(handler)
        handler.close()
    logger.setLevel(level)


def writes(one: Audited, door: Door) -> list[tuple[str, str]]:
    """Every write that there is behind a door, its path with names of objects; one with an unknown name is an error."""
    found = []
    for path, operations in one.app(door).openapi()["paths"].items():
        kind = path.split("/")[2] if path.count("/") > 1 else ""
        filled = path.replace("{verb}", "verify")
        methods = [one.upper() for one in operations if not permissions.is_reading(one.upper(), path)]
        if methods:
            filled = re.sub("{(name|uuid|job)}", NAMES.get(kind, "{unknown}"), filled)
        found += [(method, filled) for method in methods]
    return found


@pytest.mark.parametrize("door", [Door.SOCKET, Door.REMOTE])
def test_every_write_there_is_makes_exactly_one_line_with_user_and_door(
    audited: Callable[..., None], door: Door
) -> None:
    async def act(one: Audited) -> None:
        asked = writes(one, door)
        assert len(asked) > 40
        assert "{" not in str(asked)
        for method, path in asked:
            answer, lines = await one.ask(door, method, path, {})
            (line,) = lines
            assert f"user={USERS[door]} uid={os.geteuid()} door={door.value} {method} {path} status=" in line
            assert f" status={answer.status_code} jobs=" in line
            if isinstance(told := answer.json(), int) and answer.status_code < 300:
                assert f' jobs={told} text="' in line

    audited(act)


@pytest.mark.parametrize("door", [Door.SOCKET, Door.REMOTE])
def test_what_was_accepted_names_its_job_and_the_job_names_the_user(audited: Callable[..., None], door: Door) -> None:
    async def act(one: Audited) -> None:
        for method, path, body, told in ACCEPTED:
            answer, (line,) = await one.ask(door, method, path, body)
            assert answer.status_code < 300, answer.text
            assert f"{method} {path.partition('?')[0]} status={answer.status_code} {told}" in line
        client = "gnt:client:rapi" if door is Door.REMOTE else "gnt:client:socket"
        for job in one.running.queue.jobs.values():
            assert (client, USERS[door]) in [(entry.source, entry.text) for entry in job.reason]

    audited(act)


def test_whoever_ignores_consistency_is_named_in_the_audit_log_and_in_the_job(audited: Callable[..., None]) -> None:
    async def act(one: Audited) -> None:
        path = "/2/instances/instance1/failover"
        answer, (line,) = await one.ask(Door.REMOTE, "PUT", path, {"ignore_consistency": True})
        assert answer.status_code == 200, answer.text
        text = "ignore_consistency by ann; fail instance1 over from node2 to node3, ignoring consistency"
        assert f'jobs={answer.json()} text="{text}"' in line
        job = one.running.queue.jobs[answer.json()]
        assert ("gnt:user", "ignore_consistency by ann") in [(entry.source, entry.text) for entry in job.reason]
        assert job.opcodes[0].params["ignore_consistency"] is True
        answer, (line,) = await one.ask(Door.SOCKET, "PUT", path)
        assert "consistency" not in line
        assert "ignore_consistency" not in one.running.queue.jobs[answer.json()].opcodes[0].params

    audited(act)


def test_whoever_accepts_a_loss_is_named_in_the_audit_log_and_in_the_job(audited: Callable[..., None]) -> None:
    async def act(one: Audited) -> None:
        path = "/2/instances/instance1/failover"
        answer, (line,) = await one.ask(Door.REMOTE, "PUT", path, {"max_loss": 360})
        assert answer.status_code == 200, answer.text
        text = "loss of writes up to 360 s accepted by ann"
        assert f'jobs={answer.json()} text="{text}; fail instance1 over from node2 to node3' in line
        job = one.running.queue.jobs[answer.json()]
        assert ("gnt:user", text) in [(entry.source, entry.text) for entry in job.reason]
        assert job.opcodes[0].params["max_loss"] == 360
        for wrong in (-1, 86401, "six", 1.5, True):
            answer, _ = await one.ask(Door.REMOTE, "PUT", path, {"max_loss": wrong})
            assert answer.status_code == 400, wrong

    audited(act)


@pytest.mark.parametrize(
    ("node", "steps", "done"),
    [
        (
            "node3",
            ["startup", "repair_disks"],
            (
                "start instance1, discarding what node3 wrote, then repair the disks of instance1, "
                "discarding what node3 wrote"
            ),
        ),
        (
            "node2",
            ["repair_disks", "startup"],
            "repair the disks of instance1, discarding what node2 wrote, then start instance1",
        ),
    ],
)
def test_whoever_gives_up_the_data_of_a_node_for_a_start_is_named_in_the_audit_log_and_in_the_job(
    node: str, steps: list[str], done: str, audited: Callable[..., None]
) -> None:
    """Nothing that hinders the repair of a secondary keeps the instance down."""

    async def act(one: Audited) -> None:
        path = "/2/instances/instance1/startup"
        answer, (line,) = await one.ask(Door.REMOTE, "PUT", path, {"discard": node})
        assert answer.status_code == 200, answer.text
        assert f'jobs={answer.json()} text="discard what {node} wrote by ann; {done}"' in line
        job = one.running.queue.jobs[answer.json()]
        assert [opcode.kind for opcode in job.opcodes] == steps
        assert ("gnt:user", f"discard what {node} wrote by ann") in [(entry.source, entry.text) for entry in job.reason]
        answer, _ = await one.ask(Door.REMOTE, "PUT", path, {"discard": "node1"})
        assert (answer.status_code, "node1 has no replica of instance1" in answer.text) == (400, True)
        answer, (line,) = await one.ask(Door.SOCKET, "PUT", path)
        assert "discard" not in line
        assert "discard" not in one.running.queue.jobs[answer.json()].opcodes[0].params

    audited(act)


def test_whoever_discards_writes_is_named_in_the_audit_log_and_in_the_job(audited: Callable[..., None]) -> None:
    async def act(one: Audited) -> None:
        path = "/2/instances/instance1/repair-disks"
        answer, (line,) = await one.ask(Door.REMOTE, "PUT", path, {"discard": "node2"})
        assert answer.status_code == 200, answer.text
        text = "discard what node2 wrote by ann; repair the disks of instance1, discarding what node2 wrote"
        assert f'jobs={answer.json()} text="{text}"' in line
        job = one.running.queue.jobs[answer.json()]
        assert ("gnt:user", "discard what node2 wrote by ann") in [(entry.source, entry.text) for entry in job.reason]
        answer, (line,) = await one.ask(Door.SOCKET, "PUT", path)
        assert "discard" not in line
        assert "discard" not in one.running.queue.jobs[answer.json()].opcodes[0].params
        answer, _ = await one.ask(Door.REMOTE, "PUT", path, {"discard": "node1"})
        assert (answer.status_code, "node1 has no replica of instance1" in answer.text) == (400, True)

    audited(act)


def test_reading_and_queries_are_no_writes(audited: Callable[..., None]) -> None:
    async def act(one: Audited) -> None:
        for method, path in (("GET", "/2/nodes"), ("GET", "/1/jobs"), ("PUT", "/2/query/node")):
            assert (await one.ask(Door.SOCKET, method, path, {"fields": ["name"]}))[1] == []
        assert (await one.ask(Door.PUBLIC, "PUT", "/2/pause", {"reason": ""}))[1] == []

    audited(act)


def test_a_dry_run_is_named_in_the_audit_log_and_in_the_lists_of_jobs(audited: Callable[..., None]) -> None:
    async def act(one: Audited) -> None:
        body = {"round_interval": 60}
        answer, (line,) = await one.ask(Door.REMOTE, "PUT", "/2/modify?dry-run=1", body)
        assert f'jobs={answer.json()} text="dry run: modify cluster: round_interval"' in line
        listed = (await one.ask(Door.PUBLIC, "GET", "/1/jobs"))[0].json()
        assert [step["what"] for step in listed[0]["opcodes"]] == ["dry run: modify cluster: round_interval"]
        assert (await one.ask(Door.SOCKET, "GET", "/2/jobs/1"))[0].json()["opcodes"][0]["dry_run"] is True
        answer, (line,) = await one.ask(Door.REMOTE, "PUT", "/2/modify?dry-run=1", {"round_interval": "x"})
        assert answer.status_code == 400
        assert line.endswith('jobs=none text="dry run"')
        answer, (line,) = await one.ask(Door.REMOTE, "PUT", "/2/modify?dry-run=0", body)
        assert 'text="modify cluster: round_interval"' in line

    audited(act)


def test_a_read_that_makes_a_job_is_in_the_audit_log(audited: Callable[..., None]) -> None:
    async def act(one: Audited) -> None:
        answer, (line,) = await one.ask(Door.REMOTE, "GET", "/2/instances/instance1/info")
        assert answer.json() == 1
        assert f"user=ann uid={os.geteuid()} door=remote GET /2/instances/instance1/info status=200 jobs=1 " in line
        assert 'text="read the record of instance1"' in line
        assert (await one.ask(Door.REMOTE, "GET", "/2/instances/instance1"))[1] == []

    audited(act)


def test_a_play_by_hand_is_named_with_what_it_holds_and_records(audited: Callable[..., None]) -> None:
    async def act(one: Audited) -> None:
        with livelock(one.running.where, "play"):
            answer, (line,) = await one.ask(Door.SOCKET, "POST", "/2/hold", HELD)
            assert answer.status_code == 200, answer.text
            assert line.endswith(
                f"roundsman.audit: request user={ME} uid={os.geteuid()} door=socket POST /2/hold status=200 jobs=none"
                ' text="play holds 1 lock"'
            )
            _, (line,) = await one.ask(Door.SOCKET, "POST", "/2/hold", {**HELD, "is_emergency": True})
            assert "in an emergency: steps of another controller are not waited for" in line

    audited(act)


def test_nothing_of_a_request_forges_a_line_or_a_field(audited: Callable[..., None]) -> None:
    async def act(one: Audited) -> None:
        path = "/2/nodes/%0A2026%20user=root%20door=socket/power"
        _, (line,) = await one.ask(Door.REMOTE, "PUT", path, {"command": "off"})
        assert f"user=ann uid={os.geteuid()} door=remote PUT {path} status=404 jobs=none" in line
        with livelock(one.running.where, "play"):
            for owner in (HOSTILE, FORGED, "job 7", ""):
                answer, (line,) = await one.ask(Door.SOCKET, "POST", "/2/hold", {**HELD, "owner": owner})
                assert answer.status_code == 400
                assert line.endswith("POST /2/hold status=400 jobs=none")

    audited(act)


def test_what_a_play_or_an_import_changes_begins_with_its_kind_and_the_user_of_the_socket(
    audited: Callable[..., None],
) -> None:
    async def act(one: Audited) -> None:
        before = one.running.configuration.current
        node = before.node("node3").uuid
        wants = {f"node/{node}": "exclusive"}
        change = {"change": "node_powered", "node": node, "powered": False}
        with livelock(one.running.where, "play"):
            for owner in (FORGED, "play"):
                play = {"owner": owner, "livelock": "play"}
                await one.ask(Door.SOCKET, "POST", "/2/hold", {**play, "wants": wants, "time_limit": 0.1})
                await one.ask(Door.SOCKET, "POST", "/2/record", {**play, "changes": [change]})
        document = (await one.ask(Door.SOCKET, "GET", "/2/config"))[0].json()
        document["nodes"][node].update(powered=True, ndparams={"oob_program": "redfish"})
        answer, (line,) = await one.ask(Door.SOCKET, "PUT", "/2/config?force=1", document)
        assert answer.status_code == 200, answer.text
        version = answer.json()["serial_no"]
        assert line.endswith(f'PUT /2/config status=200 jobs=none text="config import: version {version}"')
        user = f"user={ME} uid={os.geteuid()}"
        assert [line for line in one.all_lines() if not line.startswith("request ")] == [
            f"record {user} play=play: node3 is recorded as powered off, was on",
            f"import {user}: node3 is recorded as powered on, was off",
            f"import {user}: new: oob_program redfish: node node3",
        ]

    audited(act)


def test_an_unforeseen_error_is_a_line_too(audited: Callable[..., None], monkeypatch: pytest.MonkeyPatch) -> None:
    async def act(one: Audited) -> None:
        def fail(*_: object) -> None:
            raise ZeroDivisionError

        monkeypatch.setattr(one.running.queue, "set_drained", fail)
        answer, (line,) = await one.ask(Door.SOCKET, "PUT", "/2/queue/drained", {"drained": True})
        assert answer.status_code == 500
        assert f"user={ME} uid={os.geteuid()} door=socket PUT /2/queue/drained status=500 jobs=none" in line

    audited(act)
