from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import pytest
from ansible_collections.roundsman.cluster.daemon.api import submissions
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.values import errors
from ansible_collections.roundsman.cluster.plugins.plugin_utils.cluster import roles

from tests.unit.daemon import twins
from tests.unit.daemon.api.reached import Reached, reach

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    ("wanted", "force", "kinds"),
    [
        ("drained", False, ["node_role"]),
        ("undrained", False, ["node_role"]),
        ("offline", False, ["node_role"]),
        ("online", False, ["power", "diagnose", "second_copies", "node_role"]),
        ("online", True, ["second_copies", "node_role"]),
    ],
)
def test_a_role_is_a_job_and_back_online_asks_for_power_and_a_diagnosis_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wanted: str, force: bool, kinds: list[str]
) -> None:
    async def act(one: Reached) -> None:
        opcodes = submissions.role(one.running.configuration.current, "node2", wanted, force=force)
        job = await submissions.submit(one.running, opcodes, priority=-10, reason=[("gnt:user", f"node {wanted}")])
        assert one.running.queue.jobs[job.id].opcodes == job.opcodes
        assert [opcode.kind for opcode in job.opcodes] == kinds
        assert {opcode.priority for opcode in job.opcodes} == {-10}
        assert {opcode.params["node"] for opcode in job.opcodes} == set(job.names)
        assert list(job.names.values()) == ["node2"]
        assert (job.reason[0].source, job.reason[0].text) == ("gnt:user", f"node {wanted}")

    reach(tmp_path, monkeypatch, act, is_local=True)


@pytest.mark.parametrize("wanted", ["drained", "offline"])
def test_the_master_keeps_its_role_and_its_power(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wanted: str) -> None:
    async def act(one: Reached) -> None:
        cluster = one.running.configuration.current
        with pytest.raises(errors.Refused, match="node1 is the master"):
            submissions.role(cluster, "node1", wanted, force=True)
        for command in ("off", "cycle"):
            with pytest.raises(errors.Refused, match="node1 is the master"):
                submissions.power(cluster, ["node1"], command, force=True)
        assert submissions.power(cluster, ["node1"], "status")[0].params["command"] == "status"

    reach(tmp_path, monkeypatch, act, is_local=True)


def test_a_node_without_a_bmc_has_no_power_commands_and_comes_back_without_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def act(one: Reached) -> None:
        cluster = one.running.configuration.current
        node = dataclasses.replace(cluster.node("node2"), ndparams={"oob_program": "!"})
        changed = dataclasses.replace(cluster, nodes={**cluster.nodes, node.uuid: node})
        with pytest.raises(errors.Refused, match="does not support OOB"):
            submissions.power(changed, ["node2"], "on")
        assert [one.kind for one in submissions.role(changed, "node2", "online", force=False)] == [
            "diagnose",
            "second_copies",
            "node_role",
        ]

    reach(tmp_path, monkeypatch, act, is_local=True)


def test_power_of_several_nodes_is_one_opcode_and_those_that_are_off_leave_service(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def act(one: Reached) -> None:
        cluster = one.running.configuration.current
        uuids = {name: cluster.node(name).uuid for name in ("node2", "node3")}
        names = ["node2", uuids["node3"], "node2"]
        made = submissions.power(cluster, names, "off", offline=True, force=True)
        assert [opcode.kind for opcode in made] == ["power", "node_role", "node_role"]
        assert made[0].params == {"nodes": list(uuids.values()), "command": "off", "force": True}
        assert [opcode.params["node"] for opcode in made[1:]] == list(uuids.values())
        assert [opcode.params["force"] for opcode in made[1:]] == [True, True]
        for options in ({"command": "on"}, {"command": "off", "check": True}):
            assert len(submissions.power(cluster, names, **options, offline=True)) == 1
        (health,) = submissions.health(cluster, names)
        assert (health.kind, health.params) == ("health", {"nodes": list(uuids.values())})
        job = await submissions.submit(one.running, made)
        assert set(job.names.values()) == {"node2", "node3"}

    reach(tmp_path, monkeypatch, act, is_local=True)


@pytest.mark.parametrize(("said", "comes_back"), [('{"status":"Ok"}', True), ('{"status":"evacuate"}', False)])
def test_a_node_comes_back_only_with_a_fresh_ok(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: str, comes_back: bool
) -> None:
    async def act(one: Reached) -> None:
        running = one.running
        cluster = running.configuration.current
        await running.configuration.commit(lambda head: roles.change(head, cluster.node("node4"), offline=True))
        opcodes = submissions.role(running.configuration.current, "node4", "online", force=False)
        job = await submissions.submit(running, opcodes)
        await twins.until_held(one.twin)
        twins.report(twins.lab_of(running), running, "node4", said)
        one.twin.finish(one.twin.held()[0])
        await twins.jobs_end(running)
        assert running.configuration.current.node("node4").offline is not comes_back
        assert twins.statuses(running)[job.id] == ("success" if comes_back else "error")

    reach(tmp_path, monkeypatch, act, is_local=True, outcomes={"diagnose": "held"})
