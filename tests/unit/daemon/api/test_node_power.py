from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from tests.unit.daemon.api.reached import Reached, reach

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path


@pytest.fixture
def local(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    def run(act: Callable[[Reached], Awaitable[None]], **options: Any) -> None:
        reach(tmp_path, monkeypatch, act, is_local=True, **options)

    return run


async def ended(one: Reached, path: str, body: Any = None) -> dict[str, Any]:
    answer = await one.ask("PUT", path, body)
    assert answer.status_code == 202, answer.text
    found: dict[str, Any] = (await one.ask("GET", f"/2/jobs/{answer.json()['id']}/wait?timeout=60")).json()
    return found


@pytest.mark.parametrize("outcome", ["success", "error"])
def test_what_a_job_left_for_each_node_is_told_even_if_it_ended_badly(local: Callable[..., None], outcome: str) -> None:
    rows: list[dict[str, Any]] = [{"name": name, "items": [["fan", "OK"]]} for name in ("node2", "node3")]

    async def act(one: Reached) -> None:
        one.twin.values["health"] = rows
        told = await ended(one, "/2/health", {"nodes": ["node2", "node3"]})
        assert (told["status"], told["results"]) == (outcome, [rows])
        assert told == (await one.ask("GET", f"/2/jobs/{told['id']}")).json()
        listed = (await one.ask("GET", "/2/jobs?bulk=1")).json()
        assert [entry.get("results") for entry in listed] == [None], "lists stay short"
        one.running.queue.archive(told["id"])
        assert (await one.ask("GET", f"/2/jobs/{told['id']}")).json()["results"] == [rows]

    local(act, outcomes={"health": outcome})


def test_many_nodes_are_commanded_by_one_run_and_are_off_and_out_of_service_together(
    local: Callable[..., None],
) -> None:
    async def act(one: Reached) -> None:
        body = {"command": "off", "nodes": ["node3", "node4"], "offline": True, "priority": -10}
        told = await ended(one, "/2/power", body)
        assert told["status"] == "success"
        assert one.twin.ran == ["power 1/0"]
        current = one.running.configuration.current
        assert {(current.node(name).powered, current.node(name).offline) for name in ("node3", "node4")} == {
            (False, True)
        }
        assert told["reason"][0][1] == "node power off"

    local(act)


def test_a_trial_is_a_run_that_sends_nothing(local: Callable[..., None]) -> None:
    async def act(one: Reached) -> None:
        await ended(one, "/2/nodes/node3/power?dry-run=1", {"command": "on"})
        (spec,) = one.twin.specs.values()
        assert spec.variables["step"]["check"] is True

    local(act)


def test_the_health_of_one_node_needs_no_body_and_verify_is_a_job(local: Callable[..., None]) -> None:
    async def act(one: Reached) -> None:
        assert (await ended(one, "/2/nodes/node3/health"))["opcodes"][0]["kind"] == "health"
        assert (await ended(one, "/2/verify"))["opcodes"][0]["kind"] == "cluster_verify"

    local(act)


def test_verify_skips_a_node_whose_host_variables_are_not_root_s_and_names_it(local: Callable[..., None]) -> None:
    async def act(one: Reached) -> None:
        folder = one.running.where.host_vars
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "node2.yml").write_text("ansible_user: ops\n")
        (folder / "node2.yml").chmod(0o666)
        await ended(one, "/2/verify")
        (spec,) = one.twin.specs.values()
        (name,) = spec.variables["step"]["refused"]
        assert (name, "node2" in json.loads(spec.inventory)["all"]["hosts"]) == ("node2", False)
        assert "0666" in spec.variables["step"]["refused"]["node2"]
        assert spec.environment["ANSIBLE_FORKS"] == "5"

    local(act)
