from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import pytest
from ansible_collections.roundsman.cluster.plugins.plugin_utils.config import store

from tests.unit.daemon import twins
from tests.unit.daemon.http.reached import Reached, livelock, reach

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path

EVACUATE = '{"status":"evacuate"}'


@pytest.fixture
def local(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    def run(act: Callable[[Reached], Awaitable[None]], **options: Any) -> None:
        reach(tmp_path, monkeypatch, act, is_local=True, **options)

    return run


def uuid(one: Reached, name: str = "node2") -> str:
    return one.running.configuration.current.node(name).uuid


@pytest.mark.parametrize(
    ("method", "path", "body", "status"),
    [
        ("PUT", "/2/nodes/node9/role", {"role": "drained"}, 404),
        ("PUT", "/2/nodes/node1/role", {"role": "drained"}, 409),
        ("PUT", "/2/nodes/node1/role", {"role": "offline", "force": True}, 409),
        ("PUT", "/2/nodes/node2/role", {"role": "king"}, 422),
        ("PUT", "/2/nodes/node2/role", {}, 422),
        ("PUT", "/2/nodes/node2/role", {"role": "drained", "extra": 1}, 422),
        ("PUT", "/2/nodes/node2/role", [], 422),
        ("PUT", "/2/nodes/node2/role", None, 422),
        ("PUT", "/2/nodes/node9/power", {"command": "on"}, 404),
        ("PUT", "/2/nodes/node1/power", {"command": "off"}, 409),
        ("PUT", "/2/nodes/node2/power", {"command": "health; reboot"}, 422),
        ("GET", "/2/jobs/99", None, 404),
        ("GET", "/2/jobs/99/wait", None, 404),
        ("DELETE", "/2/jobs/99", None, 404),
        ("GET", "/2/jobs/-1", None, 404),
        ("GET", "/2/jobs/x", None, 422),
        ("GET", "/2/jobs/1/wait?timeout=nan", None, 422),
        ("PUT", "/2/incidents/nothing/cancel", None, 404),
        ("PUT", "/2/incidents/nothing/acknowledge", None, 404),
        ("PUT", "/2/pause", {}, 422),
        ("GET", "/2/tags/node/node9", None, 404),
        ("GET", "/2/tags/disk/node2", None, 400),
        ("PUT", "/2/tags/node/node9/x", None, 404),
        ("PUT", "/2/tags/node/node2/", None, 400),
        ("DELETE", "/2/tags/node/node2/absent", None, 404),
        ("POST", "/2/record", {"owner": "a", "livelock": "a"}, 422),
        ("POST", "/2/hold", {"owner": "a", "livelock": "a", "wants": {"node/x": "tight"}}, 422),
        ("POST", "/2/hold", {"owner": "a", "livelock": "a", "wants": {}, "time_limit": 0}, 422),
        ("PATCH", "/2/jobs", None, 405),
        ("GET", "/2/nothing", None, 404),
    ],
)
def test_bad_input_is_refused_with_one_sentence_and_changes_nothing(
    local: Callable[..., None], method: str, path: str, body: Any, status: int
) -> None:
    async def act(one: Reached) -> None:
        before = one.running.configuration.current
        assert (await one.refused(method, path, body))[0] == status
        assert one.running.configuration.current is before
        assert one.running.queue.jobs == {}

    local(act)


@pytest.mark.parametrize("content", [b"{", b"\xff", b"[" * 100_000, b'{"role": NaN}', b'{"\\ud800": 1}'])
def test_a_malformed_body_is_refused(local: Callable[..., None], content: bytes) -> None:
    async def act(one: Reached) -> None:
        answer = await one.client.put(
            "/2/nodes/node2/role", content=content, headers={"content-type": "application/json"}
        )
        assert answer.status_code in {400, 422}
        assert answer.headers["content-type"] == "application/problem+json"

    local(act)


def test_a_node_is_drained_and_undrained_by_jobs(local: Callable[..., None]) -> None:
    async def act(one: Reached) -> None:
        for role, drained in (("drained", True), ("undrained", False)):
            answer = await one.ask("PUT", "/2/nodes/node2/role", {"role": role})
            assert answer.status_code == 202
            job = answer.json()["id"]
            told = (await one.ask("GET", f"/2/jobs/{job}/wait?timeout=20")).json()
            assert told["status"] == "success"
            assert told == (await one.ask("GET", f"/2/jobs/{job}")).json()
            assert one.running.configuration.current.node("node2").drained is drained
        assert [job["id"] for job in (await one.ask("GET", "/2/jobs")).json()] == [1, 2]

    local(act)


def test_a_node_with_running_instances_keeps_its_power_unless_forced(local: Callable[..., None]) -> None:
    async def act(one: Reached) -> None:
        for force, status in ((False, "error"), (True, "success")):
            job = (await one.ask("PUT", "/2/nodes/node2/power", {"command": "off", "force": force})).json()["id"]
            told = (await one.ask("GET", f"/2/jobs/{job}/wait?timeout=20")).json()
            assert told["status"] == status
            assert one.running.configuration.current.node("node2").powered is (status == "error")

    local(act)


def test_a_running_job_is_shown_and_canceled(local: Callable[..., None]) -> None:
    async def act(one: Reached) -> None:
        for _ in range(2):
            await one.ask("PUT", "/2/nodes/node2/power", {"command": "on"})
        await twins.until_held(one.twin)
        lock = (await one.ask("GET", "/2/locks")).json()[-1]
        assert (lock["lock"], lock["name"]) == (f"node/{uuid(one)}", "node/node2")
        assert [(who["owner"], who["mode"], who["purpose"]) for who in lock["owners"]] == [
            ("job 1", "exclusive", "power")
        ]
        assert [(who["owner"], who["behind"]) for who in lock["waiting"]] == [("job 2", ["job 1"])]
        assert (await one.ask("DELETE", "/2/jobs/2")).json()["status"] == "canceled"
        assert (await one.refused("DELETE", "/2/jobs/2"))[0] == 409
        assert [lock["waiting"] for lock in (await one.ask("GET", "/2/locks")).json()] == [[]]

    local(act, outcomes={"power": "held"})


@pytest.mark.parametrize("tag", ["rack:é界", "a b?c#d%", "<b>", "x" * 129])
def test_what_is_no_tag_is_refused(local: Callable[..., None], tag: str) -> None:
    async def act(one: Reached) -> None:
        assert (await one.refused("PUT", "/2/tags/node/node2/" + quote(tag, safe="")))[0] == 400
        assert (await one.ask("GET", "/2/tags/node/node2")).json() == []

    local(act)


@pytest.mark.parametrize("tag", ["plain", "a/b/c", "maintd:repairready:x", "..", "x" * 128])
def test_a_tag_is_added_listed_and_removed(local: Callable[..., None], tag: str) -> None:
    async def act(one: Reached) -> None:
        path = "/2/tags/node/node2/" + quote(tag, safe="").replace("..", "%2E%2E")
        for _ in range(2):
            assert (await one.ask("PUT", path)).json() == [tag]
        assert (await one.ask("GET", "/2/tags/node/node2")).json() == [tag]
        assert store.read(one.running.where.config).node("node2").tags == (tag,)
        assert (await one.ask("DELETE", path)).json() == []
        assert (await one.refused("DELETE", path))[0] == 404

    local(act)


def test_the_cluster_a_group_and_an_instance_have_tags_too(local: Callable[..., None]) -> None:
    async def act(one: Reached) -> None:
        for kind, name in (("cluster", "-"), ("group", "group1"), ("instance", "instance1")):
            assert (await one.ask("PUT", f"/2/tags/{kind}/{name}/x")).json() == ["x"]

    local(act)


def test_an_incident_is_canceled_and_a_completed_one_acknowledged(local: Callable[..., None]) -> None:
    async def act(one: Reached) -> None:
        for node, said in (("node2", EVACUATE), ("node4", '{"status":"live-repair"}')):
            twins.report(twins.lab_of(one.running), one.running, node, said)
        await one.running.rounds.step()
        ids = {told["node_name"]: told["id"] for told in (await one.ask("GET", "/1/status")).json()}
        assert (await one.refused("PUT", f"/2/incidents/{ids['node2']}/acknowledge"))[0] == 409
        canceled = (await one.ask("PUT", f"/2/incidents/{ids['node2'][:8]}/cancel")).json()
        assert (canceled["id"], canceled["repair-status"]) == (ids["node2"], "canceled")
        assert (await one.refused("PUT", f"/2/incidents/{ids['node2']}/cancel"))[0] == 409
        told = (await one.ask("PUT", f"/2/incidents/{ids['node4']}/acknowledge")).json()
        assert told == {"uuid": ids["node4"], "acknowledged": True}
        assert one.running.configuration.current.node("node4").tags == ()
        assert (await one.refused("PUT", f"/2/incidents/{ids['node4']}/acknowledge"))[0] == 409

    local(act)


def test_a_pause_holds_rounds_until_it_is_lifted(local: Callable[..., None]) -> None:
    async def act(one: Reached) -> None:
        assert (await one.ask("PUT", "/2/pause", {"reason": "moving racks"})).json() == {"paused": "moving racks"}
        twins.report(twins.lab_of(one.running), one.running, "node2", EVACUATE)
        await twins.settle(one.running)
        assert one.running.queue.jobs == {}
        assert "moving racks" in (await one.ask("GET", "/1/plan")).text
        await one.ask("PUT", "/2/pause", {"reason": ""})
        await twins.settle(one.running)
        assert one.running.queue.jobs

    local(act)


def test_a_play_by_hand_holds_and_records_while_its_livelock_is_held(local: Callable[..., None]) -> None:
    async def act(one: Reached) -> None:
        lock = f"node/{uuid(one)}"
        hold = {"owner": "play-1", "livelock": "play-1", "wants": {lock: "exclusive"}}
        change = {"change": "node_powered", "node": uuid(one), "powered": False}
        record = {"owner": "play-1", "livelock": "play-1", "change": change}
        assert (await one.refused("POST", "/2/hold", hold))[0] == 409
        with livelock(one.running.where, "play-1"):
            status, text = await one.refused("POST", "/2/record", record)
            assert (status, text) == (409, f"play-1 does not hold {lock}: call hold first")
            assert (await one.ask("POST", "/2/hold", hold)).json() == {lock: "exclusive"}
            other = {**record, "change": {**change, "node": uuid(one, "node3")}}
            assert (await one.refused("POST", "/2/record", other))[0] == 409
            assert (await one.ask("POST", "/2/record", record)).json() == {"recorded": True}
            assert not store.read(one.running.where.config).node("node2").powered
            with livelock(one.running.where, "play-2"):
                late = {**hold, "owner": "play-2", "livelock": "play-2", "time_limit": 0.01}
                status, text = await one.refused("POST", "/2/hold", late)
                assert status == 423
                assert "play-1" in text
                assert (await one.refused("POST", "/2/record", {**record, "livelock": "play-2"}))[0] == 409
                bad = {**hold, "owner": "play-2", "livelock": "play-2", "wants": {"moon/1": "shared"}}
                assert (await one.refused("POST", "/2/hold", bad))[0] == 423

    local(act)


@pytest.mark.parametrize("change", [{}, {"change": "explode"}, {"change": "node_powered", "node": 5, "powered": True}])
def test_what_is_no_change_is_not_recorded(local: Callable[..., None], change: dict[str, Any]) -> None:
    async def act(one: Reached) -> None:
        body = {"owner": "a", "livelock": "a", "change": change}
        assert (await one.refused("POST", "/2/record", body))[0] == 400

    local(act)


@pytest.mark.parametrize("name", ["", ".", "..", "../hold", "/etc/passwd", "a/b", "a\0b", "x" * 5000, "é", "a\n"])
def test_a_livelock_is_a_plain_name(local: Callable[..., None], name: str) -> None:
    async def act(one: Reached) -> None:
        status, _ = await one.refused("POST", "/2/hold", {"owner": "a", "livelock": name, "wants": {}})
        assert status == 400

    local(act)
