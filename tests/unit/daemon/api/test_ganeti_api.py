"""Ganeti's remote API as its clients see it: the shapes, the jobs, and what is better here."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

import pytest
from ansible_collections.roundsman.cluster.daemon.api.asking import Door
from ansible_collections.roundsman.cluster.daemon.jobs import values
from ansible_collections.roundsman.cluster.daemon.maintenance import agents
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.agent import diagnosis
from ansible_collections.roundsman.cluster.plugins.plugin_utils.cluster import cluster as clusters
from ansible_collections.roundsman.cluster.plugins.plugin_utils.cluster import incidents

from tests.unit.daemon import twins
from tests.unit.daemon.api.reached import Reached, is_right, reach, wrong_rows

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path


@pytest.fixture
def local(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    def run(act: Callable[[Reached], Awaitable[None]], **options: Any) -> None:
        reach(tmp_path, monkeypatch, act, is_local=True, **options)

    return run


async def told(one: Reached, path: str, method: str = "GET", body: Any = None) -> Any:
    answer = await one.ask(method, path, body)
    assert answer.status_code == 200, answer.text
    return answer.json()


async def ended(one: Reached, job: int) -> dict[str, Any]:
    while await twins.jobs_end(one.running):
        pass  # it may have submitted others
    found: dict[str, Any] = await told(one, f"/2/jobs/{job}")
    return found


def test_what_the_api_is_stands_above_it(local: Callable[..., None]) -> None:
    async def act(one: Reached) -> None:
        assert [await told(one, path) for path in ("/", "/2", "/version")] == [None, None, 2]
        assert "node-evac-res1" in await told(one, "/2/features")
        info = await told(one, "/2/info")
        assert (info["name"], info["master"]) == (one.running.configuration.current.cluster.cluster_name, "node1")

    local(act)


@pytest.mark.parametrize("noun", ["nodes", "instances", "groups"])
def test_a_list_names_its_objects_and_bulk_tells_all_of_each(local: Callable[..., None], noun: str) -> None:
    async def act(one: Reached) -> None:
        key = "name" if noun == "groups" else "id"
        listed = await told(one, f"/2/{noun}")
        assert all(entry["uri"] == f"/2/{noun}/{entry[key]}" for entry in listed)
        bulk = await told(one, f"/2/{noun}?bulk=1")
        assert [entry["name"] for entry in bulk] == [entry[key] for entry in listed]
        alone = await told(one, listed[0]["uri"])
        assert {name: alone[name] for name in bulk[0]} == bulk[0]

    local(act)


def test_a_node_tells_its_instances_and_an_instance_its_nodes(local: Callable[..., None]) -> None:
    async def act(one: Reached) -> None:
        cluster = one.running.configuration.current
        for node in await told(one, "/2/nodes?bulk=1"):
            held = [each.name for each in cluster.primaries(node["uuid"])]
            assert (node["pinst_list"], node["pinst_cnt"]) == (held, len(held))
            assert node["sinst_list"] == [each.name for each in cluster.secondaries(node["uuid"])]
        for instance in await told(one, "/2/instances?bulk=1"):
            known = cluster.instances[instance["uuid"]]
            assert instance["pnode"] == cluster.node_name(known.primary_node)
            assert instance["status"] == "running"

    local(act)


def test_a_bulk_list_is_made_again_when_something_in_it_changes(local: Callable[..., None]) -> None:
    async def act(one: Reached) -> None:
        before = await told(one, "/2/instances?bulk=1")
        await ended(one, await told(one, "/2/instances/instance1/tags?tag=new", "PUT"))
        after = await told(one, "/2/instances?bulk=1")
        changed = [one["name"] for one, other in zip(after, before, strict=True) if one != other]
        assert changed == ["instance1"]

    local(act)


def test_tags_are_given_and_taken_by_jobs(local: Callable[..., None]) -> None:
    async def act(one: Reached) -> None:
        for path in ("/2/nodes/node2/tags", "/2/groups/group1/tags", "/2/instances/instance1/tags", "/2/tags"):
            done = await ended(one, await told(one, f"{path}?tag=a/b&tag=c", "PUT", ["a/b", "c"]))
            assert (done["status"], done["ops"][0]["OP_ID"]) == ("success", "OP_TAGS_SET")
            assert await told(one, path) == ["a/b", "c"]
            await ended(one, await told(one, f"{path}?tag=c&dry-run=1", "DELETE"))
            assert await told(one, path) == ["a/b", "c"]
            await ended(one, await told(one, f"{path}?tag=c", "DELETE"))
            assert await told(one, path) == ["a/b"]
            absent = await ended(one, await told(one, f"{path}?tag=c", "DELETE"))
            assert absent["opresult"] == [["OpExecError", ["Tag(s) 'c' not found"]]]

    local(act)


def test_a_role_is_told_in_ganetis_words(local: Callable[..., None]) -> None:
    async def act(one: Reached) -> None:
        assert await told(one, "/2/nodes/node1/role") == "master"
        assert await told(one, "/2/nodes/node2/role") == "master-candidate"
        for wanted, found in (("drained", "drained"), ("master-candidate", "master-candidate")):
            await ended(one, await told(one, "/2/nodes/node2/role", "PUT", wanted))
            assert await told(one, "/2/nodes/node2/role") == found

    local(act)


def test_the_user_and_the_reason_are_in_the_reason_trail(local: Callable[..., None]) -> None:
    async def act(one: Reached) -> None:
        answer = await one.client.put(
            "/2/nodes/node2/role?reason=smoke", json="drained", headers={"X-Roundsman-User": "ann"}
        )
        trail = (await ended(one, answer.json()))["ops"][0]["reason"]
        assert [entry[:2] for entry in trail[:2]] == [["gnt:user", "smoke"], ["gnt:client:rapi", "ann"]]

    local(act, door=Door.REMOTE)


@pytest.mark.parametrize("mode", ["all", "primary-only", "secondary-only"])
def test_an_evacuation_is_one_job_per_instance(local: Callable[..., None], mode: str) -> None:
    pairs = [("node2", "node3"), ("node3", "node2")]

    async def act(one: Reached) -> None:
        cluster = one.running.configuration.current
        node = cluster.node("node2").uuid
        primaries, replicas = cluster.primaries(node), cluster.secondaries(node)
        body = {"mode": mode, "iallocator": "hail", "priority": -10}
        dry = await ended(one, await told(one, "/2/nodes/node2/evacuate?dry-run=1", "POST", body))
        assert one.running.configuration.current.primaries(node) == primaries
        done = await ended(one, await told(one, "/2/nodes/node2/evacuate", "POST", body))
        submitted = done["opresult"][0]["jobs"]
        meant = {"all": [*primaries, *replicas], "primary-only": primaries, "secondary-only": replicas}[mode]
        assert len(submitted) == len(meant) == len(dry["opresult"][0]["planned"]) > 0
        for is_so, job in submitted:
            moved = await told(one, f"/2/jobs/{job}")
            assert (is_so, moved["status"], moved["oppriority"][0]) == (True, "success", -10)
        after = one.running.configuration.current
        left = {each.uuid for each in (*after.primaries(node), *after.secondaries(node))}
        assert (
            left
            == {
                "all": set(),
                "primary-only": {each.uuid for each in (*primaries, *replicas)},
                "secondary-only": {each.uuid for each in primaries},
            }[mode]
        )
        assert mode == "secondary-only" or after.primaries(node) == []

    local(act, pairs=pairs)


def test_an_evacuation_without_room_says_which_instance_and_why_and_moves_none(local: Callable[..., None]) -> None:
    async def act(one: Reached) -> None:
        for node in ("node3", "node4"):
            await ended(one, await told(one, f"/2/nodes/{node}/role?force=1", "PUT", "offline"))
        count = len(one.running.queue.jobs)
        done = await ended(one, await told(one, "/2/nodes/node2/evacuate", "POST", {}))
        assert done["status"] == "error"
        assert done["opresult"][0][1][0].startswith("Unable to evacuate node2: instance")
        assert len(one.running.queue.jobs) == count + 1

    local(act)


def test_an_instance_is_migrated_failed_over_stopped_and_started(local: Callable[..., None]) -> None:
    async def act(one: Reached) -> None:
        def primary() -> str:
            cluster = one.running.configuration.current
            return cluster.node_name(cluster.instance("instance1").primary_node)

        first = primary()
        assert (await ended(one, await told(one, "/2/instances/instance1/migrate", "PUT")))["status"] == "success"
        second = primary()
        assert second != first
        await ended(one, await told(one, "/2/instances/instance1/failover", "PUT", {"target_node": first}))
        assert primary() == first
        assert (await one.refused("PUT", "/2/instances/instance1/migrate", {"target_node": first}))[0] == 409
        for verb, kind in (("shutdown", "OP_INSTANCE_SHUTDOWN"), ("startup", "OP_INSTANCE_STARTUP")):
            done = await ended(one, await told(one, f"/2/instances/instance1/{verb}", "PUT"))
            assert (done["status"], done["ops"][0]["OP_ID"]) == ("success", kind)
        query = "mode=replace_new_secondary&iallocator=hail"
        done = await ended(one, await told(one, f"/2/instances/instance1/replace-disks?{query}", "POST"))
        assert done["status"] == "success"
        assert second not in (await told(one, "/2/instances/instance1"))["snodes"]
        known = await ended(one, await told(one, "/2/instances/instance1/info"))
        assert known["opresult"][0]["instance1"]["pnode"] == first

    local(act)


CLOSED: list[tuple[dict[str, Any], str]] = [
    ({"group": "u-other"}, "node4 is in node group other and instance1 in group1"),
    ({"drained": True}, "node4 is drained and takes no new secondaries"),
    ({"vm_capable": False}, "node4 is not vm_capable and holds no instances"),
    ({"offline": True}, "node4 is offline: it is not contacted"),
]


def test_a_new_secondary_is_only_a_node_that_takes_one(local: Callable[..., None]) -> None:
    async def act(one: Reached) -> None:
        async def refusal() -> str:
            body = {"mode": "replace_new_secondary", "remote_node": "node4"}
            status, text = await one.refused("POST", "/2/instances/instance1/replace-disks", body)
            assert (status, one.running.queue.jobs) == (409, {})
            return text

        first = one.running.configuration.current
        first = dataclasses.replace(
            first, nodegroups={**first.nodegroups, "u-other": clusters.Group("u-other", "other")}
        )
        node = first.node("node4")
        for fields, text in CLOSED:
            await one.running.configuration.replace(clusters.with_node(first, dataclasses.replace(node, **fields)))
            assert text in await refusal()
        said = incidents.note(diagnosis.parse('{"status":"evacuate"}'), node=node.uuid, uuid="a", now=1.0)
        maintenance = dataclasses.replace(first.maintenance, incidents=(said,))
        await one.running.configuration.replace(dataclasses.replace(first, maintenance=maintenance))
        assert "node4 has an open or failed incident" in await refusal()
        await one.running.configuration.replace(first)
        one.running.intake.seen[node.uuid] = agents.Seen(misses=1)
        assert "node4 did not answer when it was last asked" in await refusal()

    local(act)


def test_adopted_disks_are_not_replaced_and_no_job_is_submitted(local: Callable[..., None]) -> None:
    async def act(one: Reached) -> None:
        first = one.running.configuration.current
        adopted = dataclasses.replace(first.instance("instance1"), disks=(clusters.Disk(10, name="r0"),))
        await one.running.configuration.replace(clusters.with_instance(first, adopted))
        for more in ({}, {"remote_node": "node3"}, {"remote_node": "node4"}):
            body = {"mode": "replace_new_secondary", **more}
            status, text = await one.refused("POST", "/2/instances/instance1/replace-disks", body)
            assert (status, one.running.queue.jobs) == (409, {})
            assert text.startswith("instance1: Roundsman does not replace its disk r0, which was adopted; to give")

    local(act)


def test_a_node_that_fell_silent_while_a_job_waited_gets_no_new_secondary(local: Callable[..., None]) -> None:
    async def act(one: Reached) -> None:
        cluster = one.running.configuration.current
        instance, new = cluster.instance("instance1"), cluster.node("node4").uuid
        one.running.intake.seen[new] = agents.Seen(misses=1)
        params = {"instance": instance.uuid, "old": instance.secondary_nodes[0], "new": new}
        (job,) = await one.running.queue.submit([twins.job(0, values.Opcode("replace_disks", params))])
        done = await ended(one, job.id)
        assert (done["status"], one.twin.ran) == ("error", [])
        assert "node4 did not answer when it was last asked" in str(done["opresult"])

    local(act)


def test_a_silent_node_is_not_chosen_for_a_new_secondary(local: Callable[..., None]) -> None:
    async def act(one: Reached) -> None:
        cluster, body = one.running.configuration.current, {"mode": "replace_new_secondary"}
        for name in ("node1", "node4"):
            one.running.intake.seen[cluster.node(name).uuid] = agents.Seen(misses=1)
        status, text = await one.refused("POST", "/2/instances/instance1/replace-disks", body)
        assert (status, "instance1 has nowhere to go" in text) == (409, True)

    local(act)


@pytest.mark.parametrize("verb", ["migrate", "failover", "startup", "shutdown"])
def test_what_cannot_be_tried_without_being_done_is_refused(local: Callable[..., None], verb: str) -> None:
    async def act(one: Reached) -> None:
        assert (await one.refused("PUT", f"/2/instances/instance1/{verb}?dry-run=1"))[0] == 400
        assert one.running.queue.jobs == {}

    local(act)


def test_a_change_of_a_job_is_waited_for(local: Callable[..., None]) -> None:
    async def act(one: Reached) -> None:
        await one.ask("PUT", "/2/nodes/node2/power", {"command": "on"})
        held = await twins.until_held(one.twin)
        body = {"fields": ["status"], "previous_job_info": None, "previous_log_serial": None}
        first = await one.client.request("GET", "/2/jobs/1/wait", json=body)
        assert first.json()["job_info"] == ["running"]
        known = {**body, "previous_job_info": ["running"]}
        assert (await one.client.request("GET", "/2/jobs/1/wait?timeout=0", json=known)).json() is None
        one.twin.finish(held[0])
        while (change := (await one.client.request("GET", "/2/jobs/1/wait", json=known)).json())["job_info"] != [
            "success"
        ]:
            known["previous_job_info"] = change["job_info"]
        known["previous_job_info"] = ["success"]
        assert (await one.client.request("GET", "/2/jobs/1/wait", json=known)).json() is None
        assert (await one.refused("GET", "/2/jobs/1/wait", {"fields": ["nonsense"]}))[0] == 400

    local(act, outcomes={"power": "held"})


FILTERED: list[tuple[Any, list[str]]] = [
    (["?", "offline"], []),
    (["!", ["==", "name", "node1"]], ["node2", "node3", "node4"]),
    (["|", ["=", "name", "node1"], ["=~", "name", "^node[34]$"]], ["node1", "node3", "node4"]),
    (["&", ["=*", "name", "node*"], ["=[]", "pinst_list", "instance1"]], ["node2"]),
    (["!=", "role", "M"], ["node2", "node3", "node4"]),
    (["<", "pinst_cnt", 0], []),
    (None, ["node1", "node2", "node3", "node4"]),
]


@pytest.fixture(scope="module")
def filtered(tmp_path_factory: pytest.TempPathFactory) -> dict[str, AssertionError]:
    async def check(one: Reached, qfilter: Any, names: list[str]) -> None:
        body = {"fields": ["name", "powered", "nonsense"], "qfilter": qfilter}
        found = await told(one, "/2/query/node", "PUT", body)
        assert [row[0] for row in found["data"]] == [[0, name] for name in names]
        assert all(row[1:] == [[0, True], [1, None]] for row in found["data"])
        assert [column["kind"] for column in found["fields"]] == ["text", "bool", "unknown"]

    return wrong_rows(tmp_path_factory.mktemp("filtered"), FILTERED, check)


@pytest.mark.parametrize(("qfilter", "names"), FILTERED)
def test_a_query_is_filtered(filtered: dict[str, AssertionError], qfilter: Any, names: list[str]) -> None:
    is_right((qfilter, names), filtered)


TOO_MANY_FIELDS: list[tuple[list[str], str]] = [
    (["name", "role", "name"], "fields: 'name' is there twice: name each field once"),
    ([f"field{number}" for number in range(61)], "60"),
    (["name"] * 8000, "60"),
]


@pytest.fixture(scope="module")
def too_many_fields(tmp_path_factory: pytest.TempPathFactory) -> dict[str, AssertionError]:
    async def check(one: Reached, names: list[str], text: str) -> None:
        listed = ",".join(names)
        for status, told_text in (
            await one.refused("GET", f"/2/query/node?fields={listed}"),
            await one.refused("GET", f"/2/query/node/fields?fields={listed}"),
            await one.refused("PUT", "/2/query/node", {"fields": names}),
        ):
            assert status == 400
            assert text in told_text
            assert "\n" not in told_text

    return wrong_rows(tmp_path_factory.mktemp("too_many_fields"), TOO_MANY_FIELDS, check)


@pytest.mark.parametrize(("names", "text"), TOO_MANY_FIELDS)
def test_a_query_names_each_field_once_and_not_more_than_there_are(
    too_many_fields: dict[str, AssertionError], names: list[str], text: str
) -> None:
    is_right((names, text), too_many_fields)


def test_a_query_has_at_most_so_many_operators(local: Callable[..., None]) -> None:
    async def act(one: Reached) -> None:
        body = {"fields": ["name"], "qfilter": ["|", *[["=", "name", "x"]] * 2000]}
        status, text = await one.refused("PUT", "/2/query/node", body)
        assert (status, text) == (400, "qfilter: use at most 200 operators in a query (got 2001)")

    local(act)


@pytest.mark.parametrize("what", ["node", "instance", "group", "job", "lock"])
def test_every_field_that_a_query_knows_can_be_asked_for(local: Callable[..., None], what: str) -> None:
    async def act(one: Reached) -> None:
        await one.ask("PUT", "/2/nodes/node2/power", {"command": "on"})
        await twins.until_held(one.twin)
        fields = [column["name"] for column in (await told(one, f"/2/query/{what}/fields"))["fields"]]
        found = await told(one, f"/2/query/{what}?fields={','.join(fields)}")
        assert found["data"]
        assert all(status != 1 for row in found["data"] for status, _ in row)

    local(act, outcomes={"power": "held"})


def test_a_filter_stands_until_it_is_removed_and_holds_jobs(local: Callable[..., None]) -> None:
    async def act(one: Reached) -> None:
        rule = {"priority": 2, "predicates": [["opcode", ["==", "OP_ID", "OP_TAGS_SET"]]], "action": "PAUSE"}
        uuid = await told(one, "/2/filters", "POST", rule)
        assert {**rule, "uuid": uuid}.items() <= (await told(one, f"/2/filters/{uuid}")).items()
        assert await told(one, "/2/filters") == [{"uuid": uuid, "uri": f"/2/filters/{uuid}"}]
        job = await told(one, "/2/tags?tag=held", "PUT")
        assert (await told(one, f"/2/jobs/{job}"))["status"] == "queued"
        assert await told(one, f"/2/filters/{uuid}", "PUT", {**rule, "action": ["RATE_LIMIT", 1]}) == uuid
        assert (await ended(one, job))["status"] == "success"
        assert await told(one, f"/2/filters/{uuid}", "DELETE") is None
        assert await told(one, "/2/filters?bulk=1") == []

    local(act)


def test_power_tells_the_record_and_the_jobs_that_may_change_it(local: Callable[..., None]) -> None:
    async def act(one: Reached) -> None:
        known = {"node": "node2", "powered": True, "oob_program": "ipmi", "jobs": []}
        assert await told(one, "/2/nodes/node2/power") == known
        await one.ask("PUT", "/2/nodes/node2/power", {"command": "on"})
        assert (await told(one, "/2/nodes/node2/power"))["jobs"] == [1]
        assert (await told(one, "/2/nodes/node3/power"))["jobs"] == []
        await one.ask("PUT", "/2/health", {"nodes": ["node3", "node2"]})
        assert [(await told(one, f"/2/nodes/node{number}/power"))["jobs"] for number in (2, 3, 4)] == [[1, 2], [2], []]

    local(act, outcomes={"power": "held"})


def test_redistributing_says_that_there_are_no_copies(local: Callable[..., None]) -> None:
    async def act(one: Reached) -> None:
        done = await ended(one, await told(one, "/2/redistribute-config", "PUT"))
        assert done["status"] == "success"
        assert "no copies" in done["text"] or "no copies" in done["opcodes"][0]["text"]

    local(act)
