from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.unit.daemon.api import reached

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path

    from ansible_collections.roundsman.cluster.plugins.plugin_utils.cluster import cluster as clusters

    Act = Callable[[reached.Reached], Awaitable[None]]


@pytest.fixture
def local(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[Act], None]:
    return lambda act: reached.reach(tmp_path, monkeypatch, act, is_local=True)


async def done(one: reached.Reached, method: str, path: str, body: Any = None) -> dict[str, Any]:
    """Ask for a change, and wait for its job."""
    job = (await one.ask(method, path, body)).json()
    assert isinstance(job, int), job
    told: dict[str, Any] = (await one.ask("GET", f"/2/jobs/{job}/wait?timeout=60")).json()
    found: dict[str, Any] = (await one.ask("GET", f"/2/jobs/{job}")).json()
    assert found["status"] == "success", (told, found)
    return found


def current(one: reached.Reached) -> clusters.Cluster:
    return one.running.configuration.current


def test_the_cluster_its_groups_and_its_nodes_are_modified_by_jobs(local: Callable[[Act], None]) -> None:
    async def act(one: reached.Reached) -> None:
        body = {"round_interval": 60, "ndparams": {"oob_program": "/bin/oob"}}
        job = await done(one, "PUT", "/2/modify", body)
        assert sorted(job["opresult"][0]) == [["ndparams", {"oob_program": "/bin/oob"}], ["round_interval", 60.0]]
        await done(one, "POST", "/2/groups", {"group_name": "rack2", "alloc_policy": "last_resort"})
        await done(one, "PUT", "/2/groups/rack2/modify", {"alloc_policy": "unallocable"})
        await done(one, "PUT", "/2/groups/rack2/rename", {"new_name": "rack3"})
        assert current(one).group("rack3").alloc_policy == "unallocable"
        await done(one, "POST", "/2/nodes", {"name": "node9", "group": "rack3"})
        await done(one, "POST", "/2/nodes/node9/modify", {"drained": True, "vm_capable": False, "auto_promote": True})
        node = current(one).node("node9")
        assert (node.drained, node.vm_capable) == (True, False)
        await done(one, "DELETE", "/2/nodes/node9")
        await done(one, "DELETE", "/2/groups/rack3")
        assert len(current(one).nodegroups) == 1

    local(act)


REFUSED: list[tuple[tuple[str, str, Any], int, str]] = [
    (("PUT", "/2/modify", {"colour": 1}), 400, "there is no parameter 'colour' here"),
    (("PUT", "/2/modify", {"ndparams": 5}), 400, "ndparams: is no object"),
    (("PUT", "/2/groups/nowhere/modify", {"alloc_policy": "preferred"}), 404, "there is no node group 'nowhere'"),
    (("POST", "/2/nodes", {"name": "node1"}), 400, "name: there is a node 'node1' already"),
    (("POST", "/2/nodes/node2/modify", {}), 400, "Please pass at least one modification"),
    (("POST", "/2/nodes/node2/modify", {"drained": True, "offline": True}), 400, "drained, offline: give one"),
    (("POST", "/2/nodes/node1/modify", {"drained": True}), 409, "node1 is the master"),
    (("POST", "/2/nodes/node2/modify", {"powered": False}), 409, "node2 is not offline"),
    (("DELETE", "/2/nodes/node1", None), 409, "node1 is the master"),
]


@pytest.fixture(scope="module")
def refused(tmp_path_factory: pytest.TempPathFactory) -> dict[str, AssertionError]:
    return reached.wrong_rows(tmp_path_factory.mktemp("refused"), REFUSED, reached.makes_no_job)


@pytest.mark.parametrize(("asked", "status", "told"), REFUSED)
def test_what_is_not_accepted_makes_no_job(
    refused: dict[str, AssertionError], asked: tuple[str, str, Any], status: int, told: str
) -> None:
    reached.is_right((asked, status, told), refused)


def test_power_on_record_is_set_alone_and_together_with_the_role(local: Callable[[Act], None]) -> None:
    async def act(one: reached.Reached) -> None:
        job = await done(one, "POST", "/2/nodes/node4/modify", {"offline": True, "powered": False})
        assert [step["kind"] for step in job["opcodes"]] == ["node_role", "node_modify"]
        assert (current(one).node("node4").offline, current(one).node("node4").powered) == (True, False)
        assert (await done(one, "POST", "/2/nodes/node4/modify", {"powered": True}))["opresult"] == [
            [["powered", True]]
        ]
        await done(one, "POST", "/2/nodes/node4/modify", {"powered": False})
        job = await done(one, "POST", "/2/nodes/node4/modify?force=1", {"offline": False, "powered": True})
        assert [step["kind"] for step in job["opcodes"]] == ["node_modify", "second_copies", "node_role"]
        assert (current(one).node("node4").offline, current(one).node("node4").powered) == (False, True)

    local(act)


def test_a_node_that_is_added_again_is_looked_at_before_it_is_in_service(local: Callable[[Act], None]) -> None:
    async def act(one: reached.Reached) -> None:
        job = (await one.ask("POST", "/2/nodes", {"name": "node2", "readd": True})).json()
        kinds = [opcode.kind for opcode in one.running.queue.jobs[job].opcodes]
        assert kinds == ["node_add", "second_copies", "node_role"]

    local(act)


def test_half_of_a_character_is_refused_and_those_who_ask_after_it_are_answered(local: Callable[[Act], None]) -> None:
    async def act(one: reached.Reached) -> None:
        body = b'{"paused": "\\ud800"}'
        kind = {"Content-Type": "application/json"}
        answer = await one.client.request("PUT", "/2/modify", content=body, headers=kind)
        assert (answer.status_code, answer.json()["detail"][:23]) == (400, "paused: '\\ud800' is not")
        await done(one, "POST", "/2/nodes/node2/modify", {"ctotal": 5})

    local(act)


def test_a_change_is_told_with_the_values_before_and_now_and_a_dry_run_makes_none(local: Callable[[Act], None]) -> None:
    async def act(one: reached.Reached) -> None:
        before = current(one)
        dry = await done(one, "PUT", "/2/modify?dry-run=1", {"round_interval": 60})
        assert current(one) is before
        assert dry["opresult"] == [[["round_interval", 60.0]]]
        change = f"round_interval: {before.maintenance.settings.round_interval} → 60.0"
        assert dry["opcodes"][0]["text"].splitlines() == ["dry run, nothing is changed", change]
        real = await done(one, "PUT", "/2/modify", {"round_interval": 60})
        assert real["opcodes"][0]["text"] == change
        again = await done(one, "PUT", "/2/modify", {"round_interval": 60})
        assert (again["opcodes"][0]["text"], again["opresult"]) == ("nothing to change", [[]])
        both = await done(one, "POST", "/2/nodes/node3/modify", {"drained": True, "ctotal": 4})
        texts = [step["text"].splitlines() for step in both["opcodes"]]
        assert "drained: false → true" in texts[0]
        assert texts[1] == ["ctotal: 32 → 4"]

    local(act)


def test_a_whole_configuration_is_taken_over_and_its_versions_are_told(local: Callable[[Act], None]) -> None:
    async def act(one: reached.Reached) -> None:
        document = (await one.ask("GET", "/2/config")).json()
        document["nodes"][current(one).node("node2").uuid]["mtotal"] = 77
        before = current(one).serial_no
        assert (await one.ask("PUT", "/2/config", document)).json() == {"serial_no": before + 1, "paused": ""}
        assert current(one).node("node2").mtotal == 77
        versions = (await one.ask("GET", "/2/config/history")).json()
        assert [entry["serial_no"] for entry in versions] == [before, before + 1]
        first = (await one.ask("GET", f"/2/config?version={before}")).json()
        assert first["serial_no"] == before
        assert (await one.refused("GET", "/2/config?version=999"))[0] == 404
        document["version"] = 99
        assert "newer Roundsman" in (await one.refused("PUT", "/2/config", document))[1]

    local(act)


def test_policies_limits_and_networks_are_told_where_they_stand(local: Callable[[Act], None]) -> None:
    async def act(one: reached.Reached) -> None:
        (group,) = current(one).nodegroups.values()
        path = f"/2/groups/{group.name}"
        job = await done(one, "PUT", "/2/modify", {"ipolicy": {"vcpu-ratio": 2, "std": {"cpu-count": 2}}})
        assert job["opcodes"][0]["text"].splitlines() == [
            'ipolicy.std: unset → {"cpu-count": 2}',
            "ipolicy.vcpu-ratio: unset → 2.0",
        ]
        body = {"max_inst_spec": [4096, 10240, 4], "networks": ["prod"], "ipolicy": {"spindle-ratio": 8}}
        job = await done(one, "PUT", f"{path}/modify", {**body, "ndparams": {"spindle_count": 6}})
        assert "max_inst_spec: unset → [4096, 10240, 4]" in job["opcodes"][0]["text"].splitlines()
        told = (await one.ask("GET", path)).json()
        assert (told["max_inst_spec"], told["networks"], told["max_cpu_ratio"]) == ([4096, 10240, 4], ["prod"], None)
        assert (told["ipolicy"]["vcpu-ratio"], told["ipolicy"]["std"]["cpu-count"]) == (2.0, 2)
        assert told["custom_ipolicy"] == {"spindle-ratio": 8.0}
        info = (await one.ask("GET", "/2/info")).json()
        assert (info["ipolicy"]["vcpu-ratio"], info["ipolicy"]["spindle-ratio"]) == (2.0, 32.0)
        assert info["max_inst_spec"] is None
        node = (await one.ask("GET", "/2/nodes/node2")).json()
        assert (node["ndparams"]["spindle_count"], node["custom_ndparams"].get("spindle_count")) == (6, None)
        refused = await one.refused("PUT", "/2/modify", {"ipolicy": {"std": {"cpu-count": 9}}})
        assert refused[:2] == (400, "ipolicy.std: cpu-count=9 is not within 1 and 8")

    local(act)
