from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any

import pytest
from ansible_collections.roundsman.cluster.daemon.cli import explanation, wording
from ansible_collections.roundsman.cluster.daemon.maintenance import barrier
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.agent.epochs import Epoch, Kept
from ansible_collections.roundsman.cluster.plugins.plugin_utils.config import store

from tests.unit import other_users
from tests.unit.daemon import twins
from tests.unit.daemon.api.reached import Reached, is_right, livelock, reach, wrong_rows

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


REFUSED: list[tuple[str, str, Any, int]] = [
    ("PUT", "/2/nodes/node9/role", "drained", 404),
    ("PUT", "/2/nodes/node1/role", "drained", 409),
    ("PUT", "/2/nodes/node1/role?force=1", "offline", 409),
    ("PUT", "/2/nodes/node2/role", "king", 400),
    ("PUT", "/2/nodes/node2/role", "master", 400),
    ("PUT", "/2/nodes/node2/role", {"role": "drained"}, 400),
    ("PUT", "/2/nodes/node2/role?force=maybe", "drained", 400),
    ("PUT", "/2/nodes/node2/role", None, 400),
    ("PUT", "/2/nodes/node9/power", {"command": "on"}, 404),
    ("PUT", "/2/nodes/node1/power", {"command": "off"}, 409),
    ("PUT", "/2/nodes/node2/power", {"command": "health; reboot"}, 400),
    ("PUT", "/2/nodes/node2/power", {"command": "on", "forse": True}, 400),
    ("PUT", "/2/nodes/node2/power", {"command": "on", "priority": -21}, 400),
    ("PUT", "/2/nodes/node2/power", {"command": "on", "power_delay": -1}, 400),
    ("PUT", "/2/power", {"command": "on", "nodes": []}, 400),
    ("PUT", "/2/power", {"command": "on", "nodes": ["node2", "node9"]}, 404),
    ("PUT", "/2/power", {"command": "off", "nodes": ["node2", "node1"]}, 409),
    ("PUT", "/2/health", {}, 400),
    ("PUT", "/2/nodes/node9/health", None, 404),
    ("POST", "/2/nodes/node9/evacuate", {}, 404),
    ("POST", "/2/nodes/node2/evacuate", {"mode": "everything"}, 400),
    ("POST", "/2/nodes/node2/evacuate", {"remote_node": "node3"}, 400),
    ("POST", "/2/nodes/node2/migrate", {"mode": "non-live"}, 400),
    ("PUT", "/2/instances/instance99/migrate", {}, 404),
    ("PUT", "/2/instances/instance1/migrate", {"cleanup": True}, 400),
    ("PUT", "/2/instances/instance1/startup?no_remember=1", None, 400),
    ("POST", "/2/instances/instance1/replace-disks", None, 400),
    ("POST", "/2/instances/instance1/replace-disks", {"mode": "replace_auto"}, 400),
    ("GET", "/2/jobs/99", None, 404),
    ("GET", "/2/jobs/99/wait", None, 404),
    ("DELETE", "/2/jobs/99", None, 404),
    ("GET", "/2/jobs/-1", None, 404),
    ("GET", "/2/jobs/x", None, 400),
    ("GET", "/2/jobs/1/wait?timeout=nan", None, 400),
    ("PUT", "/2/incidents/nothing/cancel", None, 404),
    ("PUT", "/2/incidents/nothing/ack", None, 404),
    ("GET", "/2/incidents/nothing", None, 404),
    ("PUT", "/2/pause", {}, 400),
    ("GET", "/2/nodes/node9/tags", None, 404),
    ("PUT", "/2/nodes/node9/tags?tag=x", None, 404),
    ("PUT", "/2/nodes/node2/tags", None, 400),
    ("PUT", "/2/nodes/node2/tags?tag=", None, 400),
    ("PUT", "/2/nodes/node2/tags?tag=a", ["b"], 400),
    ("DELETE", "/2/nodes/node2/tags", None, 400),
    ("GET", "/2/query/moon?fields=name", None, 404),
    ("GET", "/2/query/node", None, 400),
    ("PUT", "/2/query/node", {"fields": ["name"], "qfilter": ["=~", "name", "(a+)+"]}, 400),
    ("PUT", "/2/query/node", {"fields": ["name"], "qfilter": ["==", "nonsense", 1]}, 400),
    ("GET", "/2/filters/nothing", None, 404),
    ("DELETE", "/2/filters/nothing", None, 404),
    ("PUT", "/2/filters/nothing", {}, 400),
    ("POST", "/2/filters", {"action": "EXPLODE"}, 400),
    ("POST", "/2/record", {"owner": "a", "livelock": "a"}, 400),
    ("POST", "/2/hold", {"owner": "a", "livelock": "a", "wants": {"node/x": "tight"}}, 400),
    ("POST", "/2/hold", {"owner": "a", "livelock": "a", "wants": {}, "time_limit": 0}, 400),
    ("PUT", "/2/pause?dry-run=1", {"reason": "tea"}, 400),
    ("PUT", "/2/pause?dry-run=yes", {"reason": "tea"}, 400),
    ("POST", "/2/filters?dry-run=1", {"action": "REJECT", "priority": 0}, 400),
    ("PATCH", "/2/jobs", None, 405),
    ("GET", "/2/nothing", None, 404),
]


async def _is_refused_and_changes_nothing(one: Reached, method: str, path: str, body: Any, status: int) -> None:
    before = one.running.configuration.current
    assert (await one.refused(method, path, body))[0] == status
    assert one.running.configuration.current is before
    assert one.running.queue.jobs == {}


@pytest.fixture(scope="module")
def refused(tmp_path_factory: pytest.TempPathFactory) -> dict[str, AssertionError]:
    return wrong_rows(tmp_path_factory.mktemp("refused"), REFUSED, _is_refused_and_changes_nothing)


@pytest.mark.parametrize(("method", "path", "body", "status"), REFUSED)
def test_bad_input_is_refused_with_one_sentence_and_changes_nothing(
    refused: dict[str, AssertionError], method: str, path: str, body: Any, status: int
) -> None:
    is_right((method, path, body, status), refused)


def test_no_trial_asked_for_is_no_trial(local: Callable[..., None]) -> None:
    async def act(one: Reached) -> None:
        assert (await one.ask("PUT", "/2/pause?dry-run=0", {"reason": "tea"})).status_code == 200
        assert one.running.configuration.current.maintenance.settings.paused == "tea"

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
        for role, drained in (("drained", True), ("regular", False)):
            answer = await one.ask("PUT", "/2/nodes/node2/role", role)
            assert answer.status_code == 200
            job = answer.json()
            told = (await one.ask("GET", f"/2/jobs/{job}/wait?timeout=60")).json()
            assert told["status"] == "success"
            assert told == (await one.ask("GET", f"/2/jobs/{job}")).json()
            assert one.running.configuration.current.node("node2").drained is drained
        assert [job["id"] for job in (await one.ask("GET", "/2/jobs?bulk=1")).json()] == [1, 2]
        assert (await one.ask("GET", "/2/jobs")).json()[1] == {"id": 2, "uri": "/2/jobs/2"}

    local(act)


def test_a_node_with_running_instances_keeps_its_power_unless_forced(local: Callable[..., None]) -> None:
    async def act(one: Reached) -> None:
        for force, status in ((False, "error"), (True, "success")):
            job = (await one.ask("PUT", "/2/nodes/node2/power", {"command": "off", "force": force})).json()["id"]
            told = (await one.ask("GET", f"/2/jobs/{job}/wait?timeout=60")).json()
            assert told["status"] == status
            assert one.running.configuration.current.node("node2").powered is (status == "error")

    local(act)


def test_a_running_job_is_shown_and_canceled(local: Callable[..., None]) -> None:
    async def act(one: Reached) -> None:
        for _ in range(2):
            await one.ask("PUT", "/2/nodes/node2/power", {"command": "on"})
        await twins.until_held(one.twin)
        lock = (await one.ask("GET", "/2/locks")).json()[-1]
        assert (lock["lock"], lock["name"]) == (f"node-res/{uuid(one)}", "node-res/node2")
        assert [(who["owner"], who["mode"], who["purpose"]) for who in lock["owners"]] == [
            ("job 1", "exclusive", "power")
        ]
        assert [(who["owner"], who["behind"]) for who in lock["waiting"]] == [("job 2", ["job 1"])]
        assert (await one.ask("DELETE", "/2/jobs/2?dry-run=1")).json() == [True, "job 2 would be canceled"]
        assert (await one.ask("DELETE", "/2/jobs/2")).json() == [True, "job 2 is canceled"]
        assert (await one.ask("DELETE", "/2/jobs/2")).json() == [False, "job 2 has ended: canceled"]
        assert [lock["waiting"] for lock in (await one.ask("GET", "/2/locks")).json()] == [[], []]

    local(act, outcomes={"power": "held"})


def test_an_incident_is_canceled_and_a_completed_one_acknowledged(local: Callable[..., None]) -> None:
    async def act(one: Reached) -> None:
        for node, said in (("node2", EVACUATE), ("node4", '{"status":"live-repair"}')):
            twins.report(twins.lab_of(one.running), one.running, node, said)
        await one.running.rounds.step()
        ids = {told["node_name"]: told["id"] for told in (await one.ask("GET", "/1/status")).json()}
        assert (await one.refused("PUT", f"/2/incidents/{ids['node2']}/ack"))[0] == 409
        canceled = (await one.ask("PUT", f"/2/incidents/{ids['node2'][:8]}/cancel")).json()
        assert (canceled["id"], canceled["repair-status"]) == (ids["node2"], "canceled")
        assert (await one.refused("PUT", f"/2/incidents/{ids['node2']}/cancel"))[0] == 409
        told = (await one.ask("PUT", f"/2/incidents/{ids['node4']}/ack")).json()
        assert told == {"uuid": ids["node4"], "acknowledged": True}
        assert one.running.configuration.current.node("node4").tags == ()
        assert (await one.refused("PUT", f"/2/incidents/{ids['node4']}/ack"))[0] == 409

    local(act)


def test_a_completed_incident_is_canceled_with_its_tag_and_what_stays_is_said(local: Callable[..., None]) -> None:
    async def act(one: Reached) -> None:
        twins.report(twins.lab_of(one.running), one.running, "node4", '{"status":"live-repair"}')
        await twins.settle(one.running)
        (told,) = (await one.ask("GET", "/1/status")).json()
        assert told["repair-status"] == "completed"
        await one.ask("PUT", "/2/nodes/node4/role", "drained")
        await twins.settle(one.running)
        canceled = (await one.ask("PUT", f"/2/incidents/{told['id']}/cancel")).json()
        assert canceled["repair-status"] == "canceled"
        assert canceled["remaining"] == ["node4 stays drained; undo that with `roundsman node undrain node4`."]
        assert one.running.configuration.current.node("node4").tags == ()
        await twins.settle(one.running)
        assert [entry["repair-status"] for entry in (await one.ask("GET", "/1/status")).json()] == ["canceled"]

    local(act)


def test_a_clock_that_runs_ahead_is_shown_and_its_floor_is_lifted(local: Callable[..., None]) -> None:
    async def act(one: Reached) -> None:
        async def report(age: float) -> dict[str, Any]:
            twins.report(twins.lab_of(one.running), one.running, "node2", EVACUATE, age=age)
            await one.running.rounds.step()
            told: dict[str, Any] = (await one.ask("GET", "/1/reports")).json()["nodes"]["node2"]
            return told

        told = await report(-4000)
        assert (told["diagnosis"], told["refused"]["reason"]) == (None, "future")
        (shown,) = [node for node in (await one.ask("GET", "/1/nodes")).json() if node["name"] == "node2"]
        assert (wording.health(shown), shown["health"]) == ("unknown: future", None)
        assert "NTP" in shown["refused"]["remedy"]
        explained = (await one.ask("GET", "/1/explain/node2")).json()
        assert "does not count (future)" in " ".join(explanation.sentences(explained, now=time.time()))
        assert (await report(-200))["refused"] is None
        assert (await report(0))["refused"]["reason"] == "replayed"
        path = "/2/nodes/node2/reset-report-floor"
        assert 0 < (await one.ask("PUT", path)).json()["seconds_ahead"] <= 200
        assert (await report(0))["refused"] is None
        assert (await one.ask("PUT", path)).json() == {"node": "node2", "seconds_ahead": 0}
        assert (await one.refused("PUT", "/2/nodes/nothing/reset-report-floor"))[0] == 404

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


@other_users.only_root
def test_a_livelock_that_the_daemon_cannot_read_is_a_refusal_with_a_remedy_and_no_defect(
    local: Callable[..., None],
) -> None:
    async def act(one: Reached) -> None:
        hold = {"owner": "play-1", "livelock": "play-1", "wants": {f"node/{uuid(one)}": "exclusive"}}
        with livelock(one.running.where, "play-1"):
            with other_users.acting_as(other_users.DAEMON):
                status, text = await one.refused("POST", "/2/hold", hold)
            path = one.running.where.livelocks / "play-1"
            assert (status, text.partition(" cannot be read")[0]) == (409, str(path))
            assert f"`rm {path}`" in text

    local(act)


def test_a_play_by_hand_holds_and_records_while_its_livelock_is_held(local: Callable[..., None]) -> None:
    async def act(one: Reached) -> None:
        lock = f"node/{uuid(one)}"
        hold = {"owner": "play-1", "livelock": "play-1", "wants": {lock: "exclusive"}}
        change = {"change": "node_powered", "node": uuid(one), "powered": False}
        record = {"owner": "play-1", "livelock": "play-1", "changes": [change]}
        assert (await one.refused("POST", "/2/hold", hold))[0] == 409
        with livelock(one.running.where, "play-1"):
            status, text = await one.refused("POST", "/2/record", record)
            assert (status, text) == (
                409,
                f"{lock} is not held: run the play again",
            )
            assert (await one.ask("POST", "/2/hold", hold)).json() == {lock: "exclusive"}
            other = {**record, "changes": [{**change, "node": uuid(one, "node3")}]}
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


def test_a_play_that_has_all_nodes_records_each_and_one_that_shares_them_none(local: Callable[..., None]) -> None:
    async def act(one: Reached) -> None:
        play = {"owner": "play-1", "livelock": "play-1"}
        record = {**play, "changes": [{"change": "node_powered", "node": uuid(one), "powered": False}]}
        with livelock(one.running.where, "play-1"):
            await one.ask("POST", "/2/hold", {**play, "wants": {"node/[lockset]": "shared"}})
            status, text = await one.refused("POST", "/2/record", record)
            assert (status, text) == (409, f"node/{uuid(one)} is only shared: hold it exclusively first")
            wants = {"node/[lockset]": "exclusive"}
            assert (await one.ask("POST", "/2/hold", {**play, "wants": wants})).json() == wants
            assert (await one.ask("POST", "/2/record", record)).json() == {"recorded": True}
            assert not store.read(one.running.where.config).node("node2").powered

    local(act)


def test_a_play_by_hand_touches_no_instance_before_no_step_of_another_controller_is_at_work(
    local: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(barrier, "SECONDS", 0.0)
    monkeypatch.setattr(barrier, "LEAST", 0.0)

    async def act(one: Reached) -> None:
        cluster = one.running.configuration.current
        instance = next(iter(cluster.instances.values()))
        leader = one.running.leadership
        leader._kept = Kept(Epoch(5, "five"), cluster.cluster.master_node, 1)
        leader._barrier.waits = frozenset({instance.primary_node})
        play = {"owner": "play-1", "livelock": "play-1"}
        named = {f"instance/{instance.uuid}": "exclusive"}
        with livelock(one.running.where, "play-1"):
            for wants in (named, {"instance/[lockset]": "shared"}):
                status, text = await one.refused("POST", "/2/hold", {**play, "wants": wants})
                assert status == 409
                assert "another controller led before epoch 5 (five)" in text
                assert f"{cluster.nodes[instance.primary_node].name} has not answered" in text
            assert (await one.ask("POST", "/2/hold", {**play, "wants": named, "is_emergency": True})).json() == named

    local(act)


def test_what_is_known_of_another_controller_counts_once_a_play_by_hand_has_its_locks(
    local: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(barrier, "SECONDS", 0.0)
    monkeypatch.setattr(barrier, "LEAST", 0.0)

    async def act(one: Reached) -> None:
        cluster, leader = one.running.configuration.current, one.running.leadership
        instance = next(iter(cluster.instances.values()))
        wants = {f"instance/{instance.uuid}": "exclusive"}
        second = {"owner": "play-2", "livelock": "play-2", "wants": wants, "time_limit": 60}
        with livelock(one.running.where, "play-2"):
            with livelock(one.running.where, "play-1"):
                await one.ask("POST", "/2/hold", {"owner": "play-1", "livelock": "play-1", "wants": wants})
                waiting = asyncio.create_task(one.refused("POST", "/2/hold", second))
                await asyncio.sleep(0.2)
                leader._kept = Kept(Epoch(5, "five"), cluster.cluster.master_node, 1)
                leader._barrier.waits = frozenset({instance.primary_node})
            status, text = await asyncio.wait_for(waiting, 30)
            assert status == 409
            assert "another controller led before epoch 5 (five)" in text

    local(act)


NO_CHANGES: tuple[dict[str, Any], ...] = (
    {},
    {"change": "explode"},
    {"change": "node_powered", "node": 5, "powered": True},
)
NO_NAMES = ("", ".", "..", "../hold", "/etc/passwd", "a/b", "a\0b", "x" * 5000, "é", "a\n")
ASKED_BY_HAND = [
    *(("/2/record", {"owner": "a", "livelock": "a", "changes": [change]}) for change in NO_CHANGES),
    *(("/2/hold", {"owner": "a", "livelock": name, "wants": {}}) for name in NO_NAMES),
]


@pytest.fixture(scope="module")
def by_hand(tmp_path_factory: pytest.TempPathFactory) -> dict[str, AssertionError]:
    async def check(one: Reached, path: str, body: dict[str, Any]) -> None:
        assert (await one.refused("POST", path, body))[0] == 400

    return wrong_rows(tmp_path_factory.mktemp("by_hand"), ASKED_BY_HAND, check)


@pytest.mark.parametrize("row", ASKED_BY_HAND[: len(NO_CHANGES)])
def test_what_is_no_change_is_not_recorded(by_hand: dict[str, AssertionError], row: tuple[str, Any]) -> None:
    is_right(row, by_hand)


@pytest.mark.parametrize("row", ASKED_BY_HAND[len(NO_CHANGES) :], ids=[f"{name[:10]!r}" for name in NO_NAMES])
def test_a_livelock_is_a_plain_name(by_hand: dict[str, AssertionError], row: tuple[str, Any]) -> None:
    is_right(row, by_hand)
