from __future__ import annotations

import dataclasses
import json
from typing import TYPE_CHECKING, Any

import pytest
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.power import power
from ansible_collections.roundsman.cluster.plugins.plugin_utils import sealed_json
from ansible_collections.roundsman.cluster.plugins.plugin_utils.config import store

from .running import Bmcs

if TYPE_CHECKING:
    from .running import Controller

RUNS: dict[str, Any] = {name: [{"states": {}}] for name in ("node1", "node2", "node3")}
RIGHT = {**RUNS, "node2": [{"states": {"inst1": "running"}}]}
TARGET = {"name": "node3", "powered": True, "driver": "/bin/oob"}


def verify(controller: Controller, **options: Any) -> dict[str, Any]:
    given = {"targets": [], "paths": ["/bin/oob"], "looks": {}, "runs": RIGHT, "credentials_file": "/none"}
    result = controller.run("cluster_verify", **{**given, **options})
    assert not result.get("failed"), result
    assert result["changed"] is False
    assert (controller.held, controller.recorded) == ({}, [])
    return result


def found(result: dict[str, Any]) -> list[tuple[str, str]]:
    # The small cluster's UUIDs are none that an import takes.
    return [(one["check"], one["node"]) for one in result["findings"] if one["check"] != "configuration"]


def work(controller: Controller, locks: dict[str, str]) -> None:
    """A job holds these locks now."""
    rows = json.dumps({"held": [{"owner": "job 7", "locks": locks}]})
    controller.where.locks.write_bytes(sealed_json.seal(rows.encode()))


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, []),
        ({"looks": {"node1": {"problems": {"/bin/oob": "is missing"}}}}, [("oob_program", "node1")]),
        ({"looks": {"node1": {"problems": {"/bin/other": "is missing"}}}}, []),
        ({"looks": {"node1": {"unreachable": True}}}, [("oob_program", "node1")]),
        ({"unseen": {"node2": "is offline"}}, [("oob_program", "node2")]),
        ({"targets": [TARGET]}, []),
        ({"targets": [{**TARGET, "powered": False}]}, [("powered", "node3")]),
        ({"targets": [{**TARGET, "name": "node10"}]}, [("powered", "node10")]),
        ({"runs": RUNS}, [("instances", "node2")]),
        ({"runs": {**RUNS, "node2": [{"failed": True, "msg": "no libvirt"}]}}, [("instances", "node2")]),
        ({"runs": {**RIGHT, "node3": [{"states": {"inst1": "running"}}]}}, [("instances", "node3")]),
        ({"runs": {**RIGHT, "node3": [{"states": {"stray": "running"}}]}}, [("instances", "node3")]),
        ({"left_behind": {"node3": ["inst1"], "node2": []}}, [("left_behind", "node3")]),
        ({"ignored": {"node3": ["ansible_become_exe"]}}, [("hostvars", "node3")]),
        ({"refused": {"node3": "its file is not root's"}}, [("hostvars", "node3")]),
        ({"differing": {"node3": "another command"}}, [("diagnose_command", "node3")]),
        ({"degraded": [{"node": "node2", "text": "inst1 is degraded"}]}, [("replica", "node2")]),
    ],
)
def test_each_check_tells_its_finding_and_mends_nothing(
    controller: Controller, monkeypatch: pytest.MonkeyPatch, options: dict[str, Any], expected: list[tuple[str, str]]
) -> None:
    bmcs = Bmcs(monkeypatch, {"node3": power.State.ON, "node10": power.State.UNKNOWN})
    for is_check in (False, True):
        assert found(verify(controller, is_check=is_check, **options)) == expected
    assert {command for command, _ in bmcs.sent} <= {"status"}


def test_what_no_import_would_take_is_a_finding_of_the_configuration(controller: Controller) -> None:
    told = [finding for finding in verify(controller)["findings"] if finding["check"] == "configuration"]
    (line,) = [finding for finding in told if finding["text"].startswith("node node3: uuid:")]
    assert line["node"] == "node1"
    assert line["text"].endswith("correct it with a command, or in an export that is imported then")


def test_a_simulated_instance_outside_of_a_lab_is_a_finding(controller: Controller) -> None:
    def simulated() -> list[str]:
        told = [finding["text"] for finding in verify(controller)["findings"]]
        return [text for text in told if "hypervisor: fake is for labs" in text]

    cluster = store.read(controller.where.config)
    instances = {uuid: dataclasses.replace(instance, hypervisor="fake") for uuid, instance in cluster.instances.items()}
    store.write(controller.where.config, dataclasses.replace(cluster, instances=instances))
    assert [text.partition(":")[0] for text in simulated()] == [f"instance {one.name}" for one in instances.values()]
    controller.where.lab_file.touch()
    assert simulated() == []


def test_a_node_that_is_offline_may_be_silent_and_what_it_runs_is_judged_all_the_same(controller: Controller) -> None:
    def seen(answers: list[dict[str, Any]], *offline: str, **more: Any) -> dict[str, Any]:
        return verify(controller, runs={**RIGHT, "node3": answers}, offline=list(offline), **more)

    silent: dict[str, Any] = {"unreachable": True, "msg": "no route"}
    away = seen([silent], "node3", not_asked={"node10": "it is recorded as powered off"})
    assert (found(away), away["looked_at"]) == ([], ["node1", "node2"])
    assert away["not_looked_at"] == {
        "node10": "it is recorded as powered off",
        "node3": "it is offline, and it does not answer",
    }
    # One that is in service has to answer; and what an offline one says counts.
    assert found(seen([silent])) == [("instances", "node3")]
    assert found(seen([{"states": {"inst1": "running"}}], "node3")) == [("instances", "node3")]
    assert seen([{"states": {}}], "node3")["not_looked_at"] == {}
    # It could not run on a node that is away; on one that answers it would.
    assert found(verify(controller, runs={**RIGHT, "node2": [silent]}, offline=["node2"])) == []
    down = verify(controller, runs={**RIGHT, "node2": [{"states": {}}]}, offline=["node2"])["findings"]
    assert "roundsman node online node2" in next(one["text"] for one in down if one["check"] == "instances")


def test_texts_of_nodes_are_printable_and_cut_and_many_are_counted(controller: Controller) -> None:
    states = {f"\x1b[2J\nnode1: {number:0600}": "running\r" for number in range(150)}
    result = verify(controller, runs={**RIGHT, "node3": [{"states": states}]})
    texts = [finding["text"] for finding in result["findings"] if finding["check"] == "instances"]
    assert len(texts) == 101
    assert texts[-1] == "and 50 more on node3"
    assert all(text.isprintable() and len(text) < 600 for text in texts)


def test_what_differs_is_looked_at_twice_unless_a_job_works_on_it(controller: Controller) -> None:
    first = verify(controller, runs=RUNS)
    assert (first["again"], first["differing"], first["busy"]) == (["node2"], ["inst1"], [])
    assert first["records"]["inst1"]["primary"] == "node2"
    second = verify(controller, runs={"node2": RUNS["node2"]}, before=first)
    assert (found(second), second["unjudged"]) == ([("instances", "node2")], [])
    assert found(verify(controller, runs=RIGHT, before=first)) == []
    assert found(verify(controller, runs=RUNS, before={**first, "differing": []})) == []
    assert found(verify(controller, runs=RUNS, before={**first, "records": {"inst1": {"primary": "node3"}}})) == []

    work(controller, {"instance/i1": "shared"})
    assert verify(controller, runs=RUNS)["busy"] == []
    for lock in ("instance/i1", "instance/[lockset]"):
        work(controller, {lock: "exclusive"})
        third = verify(controller, runs=RUNS, before=first)
        assert (found(third), third["busy"], third["unjudged"]) == ([], ["inst1"], ["inst1"])


@pytest.mark.parametrize(("broken", "said"), [("config", "config.data is damaged"), ("locks", "checksum")])
def test_without_a_readable_configuration_nothing_is_said_to_be_right(
    controller: Controller, broken: str, said: str
) -> None:
    getattr(controller.where, broken).write_bytes(b"{}")
    options: dict[str, Any] = {"targets": [], "paths": [], "looks": {}, "runs": RIGHT, "credentials_file": "/none"}
    assert said in controller.refusal("cluster_verify", **options)
