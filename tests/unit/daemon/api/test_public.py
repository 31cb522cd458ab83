from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import pytest
from ansible_collections.roundsman.cluster.daemon import failures
from ansible_collections.roundsman.cluster.daemon.api import answers, explanations, replica_views

from tests.unit.daemon import twins
from tests.unit.daemon.api.reached import Reached, reach

if TYPE_CHECKING:
    from ansible_collections.roundsman.cluster.plugins.plugin_utils.cluster import cluster as clusters

SAID = '{"status":"evacuate","details":123456789012345678901234567890}'
ROOT = Path(__file__).resolve().parents[4]
PATHS = ("/", "/1/status", "/1/rounds", "/1/plan", "/1/reports", "/1/nodes", "/1/instances", "/1/jobs", "/1/page")


def test_the_root_is_the_list_of_versions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def act(one: Reached) -> None:
        answer = await one.ask("GET", "/")
        assert answer.json() == [1]
        assert answer.headers["content-type"] == "application/json"

    reach(tmp_path, monkeypatch, act, is_local=False)


def test_the_network_may_read_everything_and_change_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def act(one: Reached) -> None:
        for path in (*PATHS, "/ui", "/1/explain/node2", "/1/news?seconds=0"):
            assert (await one.ask("GET", path)).status_code == 200, path
            for method in ("POST", "PUT", "DELETE", "PATCH"):
                status, _ = await one.refused(method, path)
                assert status == 405, (method, path)
        assert (await one.ask("PUT", "/1/status")).headers["allow"] == "GET"

    reach(tmp_path, monkeypatch, act, is_local=False)


@pytest.mark.parametrize("path", [path for path in PATHS if path not in {"/", "/1/rounds"}])
def test_a_crowd_that_asks_for_the_whole_cluster_has_it_made_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    made = list[object]()
    encoded = answers.encoded

    def count(content: object) -> bytes:
        made.append(content)
        return encoded(content)

    async def act(one: Reached) -> None:
        # What is listed of an instance is kept for later answers.
        await one.ask("GET", path)
        monkeypatch.setattr(answers, "encoded", count)
        found = await asyncio.gather(*(one.ask("GET", path) for _ in range(20)))
        assert {answer.status_code for answer in found} == {200}
        assert len(made) == 1

    reach(tmp_path, monkeypatch, act, is_local=False)


def test_a_crowd_that_asks_why_many_nodes_are_as_they_are_has_each_explained_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = list[str]()
    of_node, of_instance = explanations.explain, replica_views.explain

    def explain_node(cluster: clusters.Cluster, name: str, **given: Any) -> dict[str, Any]:
        made.append(cluster.node(name).name)
        return of_node(cluster, name, **given)

    def explain_instance(cluster: clusters.Cluster, name: str, **given: Any) -> dict[str, Any]:
        made.append(cluster.instance(name).name)
        return of_instance(cluster, name, **given)

    async def act(one: Reached) -> None:
        monkeypatch.setattr(explanations, "explain", explain_node)
        monkeypatch.setattr(replica_views, "explain", explain_instance)
        node1 = one.running.configuration.current.node("node1").uuid
        names = ["node1", node1, "node2", "node3", "instance1"]
        found = await asyncio.gather(*(one.ask("GET", f"/1/explain/{name}") for name in names * 10))
        assert {answer.status_code for answer in found} == {200}
        assert sorted(made) == ["instance1", "node1", "node2", "node3"]

    reach(tmp_path, monkeypatch, act, is_local=False)


def test_head_is_answered_as_get_without_the_body(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def act(one: Reached) -> None:
        for path in ("/1/health", "/ui", "/1/explain/nothing"):
            whole, head = await one.ask("GET", path), await one.ask("HEAD", path)
            assert (head.status_code, head.content) == (whole.status_code, b"")
            for name in ("content-type", "content-length"):
                assert head.headers[name] == whole.headers[name]

    reach(tmp_path, monkeypatch, act, is_local=False)


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/2/jobs"),
        ("GET", "/2/locks"),
        ("PUT", "/2/nodes/node2/role"),
        ("DELETE", "/2/jobs/1"),
        ("POST", "/2/hold"),
        ("GET", "/openapi.json"),
        ("GET", "/docs"),
        ("GET", "/nothing"),
    ],
)
def test_the_network_sees_nothing_of_what_is_local(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, method: str, path: str
) -> None:
    async def act(one: Reached) -> None:
        assert (await one.refused(method, path))[0] == 404

    reach(tmp_path, monkeypatch, act, is_local=False)


def test_the_status_is_a_bare_list_with_the_original_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def act(one: Reached) -> None:
        assert (await one.ask("GET", "/1/status")).json() == []
        twins.report(twins.lab_of(one.running), one.running, "node2", SAID)
        await one.running.rounds.step()
        answer = await one.ask("GET", "/1/status")
        assert isinstance(answer.json(), list)
        assert '"original":' + SAID in answer.text

    reach(tmp_path, monkeypatch, act, is_local=False)


@pytest.mark.parametrize("said", [SAID, f'{SAID[:-1]},"more":"{"x" * 9000}"}}'])
def test_an_incident_has_its_original_whole_however_large(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: str
) -> None:
    async def act(one: Reached) -> None:
        twins.report(twins.lab_of(one.running), one.running, "node2", said)
        await one.running.rounds.step()
        (incident,) = (await one.ask("GET", "/1/status")).json()
        answer = await one.ask("GET", f"/1/incidents/{incident['uuid']}/original")
        assert (answer.headers["content-type"], answer.text) == ("application/json", said)
        for path in one.running.where.reports.glob("originals/*"):
            path.unlink()
            status, text = await one.refused("GET", f"/1/incidents/{incident['uuid']}/original")
            assert (status, "is not on this controller" in text) == (404, True)
        assert (await one.refused("GET", "/1/incidents/nothing/original"))[0] == 404

    reach(tmp_path, monkeypatch, act, is_local=False)


def test_rounds_and_plans_are_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def act(one: Reached) -> None:
        twins.report(twins.lab_of(one.running), one.running, "node2", SAID)
        await one.running.rounds.step()
        planned = (await one.ask("GET", "/1/plan")).json()
        await twins.settle(one.running)
        (shown,) = (await one.ask("GET", "/1/rounds")).json()
        assert shown["round"] == 1
        assert shown["plan"]["jobs"] == planned["jobs"]
        assert shown["jobs"] == [job["id"] for job in (await one.ask("GET", "/1/jobs")).json()]
        assert planned["waits_for_round"] is False
        (whole,) = [(await one.ask("GET", "/1/rounds/1")).json()]
        assert whole == {**shown, "names": whole["names"]}
        assert {"node2", "instance1"} <= set(whole["names"].values())
        for number in (0, 2, 99, -1):
            assert (await one.refused("GET", f"/1/rounds/{number}"))[0] == 404, "it has not been, or is kept no longer"
        assert (await one.refused("GET", "/1/rounds/x"))[0] == 400

    reach(tmp_path, monkeypatch, act, is_local=False)


@pytest.mark.parametrize(
    "name", ["node9", "..", "%2e%2e", "\x00", "é界", "a b", "'\"<script>", "x" * 5000, "__proto__", "{{ 1 }}", "%ff"]
)
def test_a_hostile_name_is_only_a_node_that_is_not_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    async def act(one: Reached) -> None:
        status, text = await one.refused("GET", "/1/explain/" + (name if "%" in name else quote(name, safe="")))
        assert status == 404
        assert text == "Not Found" or text.startswith("there is no node or instance ")

    reach(tmp_path, monkeypatch, act, is_local=False)


@pytest.mark.parametrize("query", ["seconds=nan", "seconds=inf", "seconds=x", "after=1.5", "after=" + "9" * 5000])
def test_news_refuses_what_is_no_number(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, query: str) -> None:
    async def act(one: Reached) -> None:
        status, text = await one.refused("GET", "/1/news?" + query)
        assert status == 400
        assert text.startswith("query/" + query.partition("=")[0])

    reach(tmp_path, monkeypatch, act, is_local=False)


def test_news_comes_at_once_for_whoever_is_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def act(one: Reached) -> None:
        one.running.news.tell()
        answer = await one.ask("GET", "/1/news?after=0&seconds=60")
        assert answer.json() == {"number": 1}
        assert (await one.ask("GET", "/1/news?after=1&seconds=-5")).json() == {"number": 1}

    reach(tmp_path, monkeypatch, act, is_local=False)


def test_every_part_reports_to_the_failures_that_are_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A part that is not handed the daemon's failures reports to nobody."""

    async def act(one: Reached) -> None:
        parts = [*vars(one.running).values()]
        inner = [value for part in parts if hasattr(part, "__dict__") for value in vars(part).values()]
        found = [
            (type(part).__name__, value)
            for part in [*parts, *inner]
            if hasattr(part, "__dict__")
            for value in vars(part).values()
            if isinstance(value, failures.Failures)
        ]
        assert len(found) > 8
        assert [name for name, value in found if value is not one.running.failures] == []

    reach(tmp_path, monkeypatch, act, is_local=True)


@pytest.mark.parametrize("is_local", [True, False])
def test_health_is_200_without_failures_and_503_with_the_failing_part_and_its_remedy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, is_local: bool
) -> None:
    async def act(one: Reached) -> None:
        answer = await one.ask("GET", "/1/health")
        assert (answer.status_code, answer.json()) == (
            200,
            {"status": "healthy", "failures": [], "leadership": {"epoch": None, "refused": 0}, "copies": []},
        )
        told = (ROOT / "docs/operating.md").read_text().partition("## Monitoring: `/1/health`")[2].partition("\n## ")[0]
        assert {key for key in answer.json() if f"`{key}`" not in told and f'"{key}"' not in told} == set()
        one.running.failures.failed("spool watcher", OSError("bad\x1b[2Jfile"), remedy="look at /var")
        one.running.failures.failed("spool watcher", OSError("bad\x1b[2Jfile"), remedy="look at /var")
        answer = await one.ask("GET", "/1/health")
        assert answer.status_code == 503
        (failure,) = answer.json()["failures"]
        assert (failure["part"], failure["text"], failure["remedy"], failure["times"]) == (
            "spool watcher",
            "bad\\x1b[2Jfile",
            "look at /var",
            2,
        )
        assert failure["since"] <= failure["last"]
        assert (await one.ask("GET", "/1/page")).json()["failing"] == [failure]
        assert (await one.ask("GET", "/1/explain/node2")).json()["failing"] == [failure]
        one.running.failures.recovered("spool watcher")
        assert (await one.ask("GET", "/1/health")).status_code == 200

    reach(tmp_path, monkeypatch, act, is_local=is_local)
