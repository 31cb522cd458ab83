from __future__ import annotations

import os
import pwd
import time
from typing import TYPE_CHECKING, Any

import pytest
from ansible_collections.roundsman.cluster.plugins.plugin_utils.cluster import known_off, left_replicas
from ansible_collections.roundsman.cluster.plugins.plugin_utils.disks import replica_texts

from tests.unit.daemon.api import reached

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path

    Act = Callable[[reached.Reached], Awaitable[None]]


@pytest.fixture
def local(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    return lambda act, **options: reached.reach(tmp_path, monkeypatch, act, is_local=True, **options)


async def ended(one: reached.Reached, method: str, path: str, body: Any = None) -> dict[str, Any]:
    """Ask for a change, and wait for its job."""
    job = (await one.ask(method, path, body)).json()
    assert isinstance(job, int), job
    await one.ask("GET", f"/2/jobs/{job}/wait?timeout=60")
    found: dict[str, Any] = (await one.ask("GET", f"/2/jobs/{job}")).json()
    return found


def steps(job: dict[str, Any]) -> list[tuple[str, str]]:
    return [(one["kind"], one["status"]) for one in job["opcodes"]]


@pytest.mark.parametrize("verb", ["activate", "verify", "repair"])
def test_disks_are_activated_and_verified_whether_the_instance_is_up_or_not(
    local: Callable[..., None], verb: str
) -> None:
    async def act(one: reached.Reached) -> None:
        job = await ended(one, "PUT", f"/2/instances/instance1/{verb}-disks")
        assert steps(job) == [(f"{verb}_disks", "success")]

    local(act)


@pytest.mark.parametrize(("method", "path"), [("PUT", "deactivate-disks"), ("POST", "recreate-disks")])
def test_what_would_take_the_disks_of_a_running_instance_is_refused(
    local: Callable[..., None], method: str, path: str
) -> None:
    async def act(one: reached.Reached) -> None:
        job = await ended(one, method, f"/2/instances/instance1/{path}")
        assert [status for _, status in steps(job)] == ["error"]
        assert "instance1 is up: stop it first" in str(job["opresult"])
        await ended(one, "PUT", "/2/instances/instance1/shutdown")
        job = await ended(one, method, f"/2/instances/instance1/{path}")
        assert [status for _, status in steps(job)] == ["success"]

    local(act)


def test_an_instance_is_installed_anew_by_a_playbook_and_started(local: Callable[..., None], tmp_path: Path) -> None:
    playbook = tmp_path / "debian.yml"
    playbook.write_text("[]")

    async def act(one: reached.Reached) -> None:
        await ended(one, "PUT", "/2/instances/instance1/shutdown")
        job = await ended(one, "POST", "/2/instances/instance1/reinstall", {"os_playbook": str(playbook)})
        assert steps(job) == [("reinstall", "success"), ("startup", "success")]

    local(act)


def test_nobody_discards_a_replica_that_is_being_made_before_its_replacement_ends(local: Callable[..., None]) -> None:
    async def act(one: reached.Reached) -> None:
        current = one.running.configuration.current
        uuid, node = current.instance("instance1").uuid, current.node("node4").uuid
        making = left_replicas.ReplicaLeft(uuid, node, present=True, is_new=True)
        await one.running.configuration.commit(lambda _: [making])
        nodes = {entry["name"]: entry for entry in (await one.ask("GET", "/1/nodes")).json()}
        assert (nodes["node4"]["being_made"], nodes["node4"]["left_behind"]) == (["instance1"], [])

        _, text = await one.refused("PUT", "/2/instances/instance1/repair-disks", {"discard": "node4"})

        assert text.startswith("--discard node4: instance1 may be written to its new replica on node4")
        assert "with `--to` another node, or with `--to node3`" in text
        body = {"mode": "replace_new_secondary", "remote_node": "node3"}
        job = await ended(one, "POST", "/2/instances/instance1/replace-disks", body)
        assert steps(job) == [("replace_disks", "success")]
        job = await ended(one, "PUT", "/2/instances/instance1/repair-disks", {"discard": "node4"})
        assert steps(job)[0][0] == "remove_replica"

    local(act)


@pytest.mark.parametrize("body", [{}, {"os": "../x"}, {"os": "missing"}, {"os_playbook": "relative.yml"}])
def test_a_reinstallation_without_a_playbook_is_refused_at_once(
    local: Callable[..., None], body: dict[str, Any]
) -> None:
    async def act(one: reached.Reached) -> None:
        answer = await one.ask("POST", "/2/instances/instance1/reinstall", body)
        assert answer.status_code == 400
        assert "os" in answer.text

    local(act)


def test_a_person_states_that_a_node_is_off_and_takes_it_back(local: Callable[..., None]) -> None:
    async def act(one: reached.Reached) -> None:
        def stated() -> float:
            return one.running.configuration.current.node("node3").off_confirmed

        await ended(one, "PUT", "/2/nodes/node3/confirm-off")
        assert stated() > 0
        await ended(one, "PUT", "/2/nodes/node3/confirm-off?undo=1")
        assert stated() == 0

    local(act)


def test_what_follows_of_a_statement_is_shown_before_it_is_made_with_the_users_name(
    local: Callable[..., None], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")

    async def act(one: reached.Reached) -> None:
        configuration, now = one.running.configuration, time.time()
        user = pwd.getpwuid(os.getuid()).pw_name
        primary = configuration.current.nodes[configuration.current.instance("instance1").primary_node].name
        path = f"/2/nodes/{primary}/confirm-off?since={now - 60:.3f}"
        told = (await one.ask("GET", path)).json()
        assert (told["node"], told["since"], told["by"]) == (primary, round(now - 60, 3), user)
        assert [found["instance"] for found in told["instances"]][:1] == ["instance1"]
        assert told["instances"][0]["loss"] is None, "nothing is reported of its replicas"
        assert not known_off.is_off(configuration.current.node(primary)), "nothing is changed"
        for method in ("GET", "PUT"):
            refused = await one.ask(method, f"/2/nodes/{primary}/confirm-off?since={now + 60:.3f}")
            assert refused.status_code == 409
            assert "is in the future" in refused.text
        await ended(one, "PUT", path)
        node = configuration.current.node(primary)
        assert (known_off.seen_off(node), known_off.stated_by(node)) == (round(now - 60, 3), user)
        assert f"{primary} is off since {replica_texts.clock(now - 60)} by the word of {user}" in caplog.text

    local(act)
