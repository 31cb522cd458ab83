from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

import pytest
from ansible_collections.roundsman.cluster.plugins.module_utils.domain import changes, errors
from ansible_collections.roundsman.cluster.plugins.module_utils.domain import cluster as clusters
from ansible_collections.roundsman.cluster.plugins.plugin_utils.opcodes import contract, node_work

from tests.unit import small_cluster

if TYPE_CHECKING:
    from ansible_collections.roundsman.cluster.plugins.module_utils.domain.locks import Mode

# In it, n1 is the master, i1 runs on n2 with its copy on n3, and only n3 has a BMC.
CLUSTER = small_cluster.make()


def with_node(uuid: str, **fields: Any) -> clusters.Cluster:
    return clusters.with_node(CLUSTER, dataclasses.replace(CLUSTER.node(uuid), **fields))


class Said:
    """What the nodes have reported."""

    def __init__(self, *, is_ok: bool) -> None:
        self.is_ok = is_ok
        self.asked: list[tuple[str, float]] = []

    def reported_ok_since(self, node: str, since: float) -> bool:
        self.asked.append((node, since))
        return self.is_ok


@pytest.mark.parametrize(
    "command",
    [
        "{{ lookup('pipe', 'id') }}",
        "{% if 1 %}",
        "../mend",
        "a/b",
        "/bin/sh",
        "",
        ".",
        "..",
        "a b",
        "mend\n",
        "é",
        "a;b",
    ],
)
def test_a_repair_command_that_is_no_plain_name_is_refused(command: str) -> None:
    with pytest.raises(errors.Refused, match="no file name of a whitelist"):
        node_work.RepairCommand("n2", command, "{}").variables(CLUSTER)


def test_a_repair_has_the_node_for_itself_and_the_diagnosis_as_a_file_alone() -> None:
    said = '{"status":"live-repair","command":"mend","details":"{{ 1 }}"}'
    one = node_work.RepairCommand("n2", "mend_fan-2", said)
    assert one.wants(CLUSTER) == {"node/n2": contract.EXCLUSIVE}
    assert one.files() == {"input.json": said}
    assert said not in str(one.variables(CLUSTER))
    assert one.variables(CLUSTER)["node_command"] == "mend_fan-2"


@pytest.mark.parametrize(
    ("command", "mode"),
    [("status", contract.SHARED), ("on", contract.EXCLUSIVE), ("off", contract.EXCLUSIVE)],
)
def test_reading_the_power_shares_the_node_and_changing_it_does_not(command: str, mode: Mode) -> None:
    assert node_work.Power("n3", command).wants(CLUSTER) == {"node/n3": mode}


def test_a_node_without_a_bmc_has_no_power_commands() -> None:
    with pytest.raises(errors.Refused, match="node2 does not support OOB commands"):
        node_work.Power("n2", "status").variables(CLUSTER)


@pytest.mark.parametrize("command", ["off", "cycle"])
def test_a_node_that_runs_instances_keeps_its_power_unless_forced(command: str) -> None:
    cluster = clusters.with_instance(
        CLUSTER, dataclasses.replace(CLUSTER.instance("i1"), primary_node="n3", secondary_nodes=("n2",))
    )
    with pytest.raises(errors.Refused, match="node3 still runs inst1"):
        node_work.Power("n3", command).variables(cluster)
    assert node_work.Power("n3", command, force=True).variables(cluster)["node_look_first"] is False
    assert node_work.Power("n3", "on").variables(cluster)["node_power"] == "on"
    down = clusters.with_instance(cluster, dataclasses.replace(cluster.instance("i1"), admin_state="down"))
    assert node_work.Power("n3", command).variables(down)["node_look_first"] is True


def test_every_node_is_looked_at_before_off_for_the_record_may_be_wrong() -> None:
    for fields in ({"offline": True}, {"powered": False}):
        assert node_work.Power("n3", "off").variables(with_node("n3", **fields))["node_look_first"] is True
    assert node_work.Power("n3", "on").variables(CLUSTER)["node_look_first"] is False


def test_what_shall_be_empty_is_left_alone_while_an_instance_has_it() -> None:
    emptied = dataclasses.replace(CLUSTER, instances={})
    for one in (node_work.Power("n3", "off", empty=True), node_work.NodeRole("n3", offline=True, empty=True)):
        assert one.moot(CLUSTER) == "not done: node3 holds inst1 again"
        assert one.moot(emptied) == ""


def test_offline_is_refused_while_an_instance_runs_there_unless_forced() -> None:
    with pytest.raises(errors.Refused, match="node2 still runs inst1"):
        node_work.NodeRole("n2", offline=True).changes(CLUSTER, Said(is_ok=True), since=0.0)
    assert node_work.NodeRole("n2", offline=True, force=True).changes(CLUSTER, Said(is_ok=True), since=0.0)


def test_a_diagnosis_shares_the_node_and_runs_the_configured_command() -> None:
    one = node_work.Diagnose("n2")
    assert one.wants(CLUSTER) == {"node/n2": contract.SHARED}
    assert one.variables(CLUSTER) == {"diagnose_command": ""}
    assert one.hosts(CLUSTER) == ["n2"]


@pytest.mark.parametrize(
    "one",
    [
        node_work.RepairCommand("gone", "mend", ""),
        node_work.Power("gone", "on"),
        node_work.Diagnose("gone"),
    ],
)
def test_a_node_that_has_left_is_refused(one: contract.PlayKind) -> None:
    with pytest.raises(errors.NotFound, match="there is no node 'gone'"):
        one.variables(CLUSTER)


def test_a_role_that_the_node_has_is_moot() -> None:
    assert node_work.NodeRole("n2", drained=True).moot(CLUSTER) == ""
    assert node_work.NodeRole("n2", drained=False).moot(CLUSTER) == "node2 is so already"
    assert node_work.NodeRole("n2", offline=True).moot(with_node("n2", offline=True)) == "node2 is so already"
    with pytest.raises(errors.NotFound):
        node_work.NodeRole("gone", drained=True).moot(CLUSTER)


def test_draining_shares_the_node_and_going_offline_does_not() -> None:
    assert node_work.NodeRole("n2", drained=True).wants(CLUSTER) == {"node/n2": contract.SHARED}
    assert node_work.NodeRole("n2", offline=True).wants(CLUSTER) == {"node/n2": contract.EXCLUSIVE}


def test_offline_ends_drained_and_promotes_another_candidate() -> None:
    cluster = with_node("n2", drained=True)
    stated = node_work.NodeRole("n2", offline=True, force=True).changes(cluster, Said(is_ok=False), since=0.0)
    after = changes.apply_all(cluster, stated, now=1.0)
    assert (after.node("n2").offline, after.node("n2").drained) == (True, False)
    assert after.node("n3").master_candidate


@pytest.mark.parametrize("fields", [{"drained": True}, {"offline": True}])
def test_the_master_keeps_its_role(fields: dict[str, bool]) -> None:
    with pytest.raises(errors.Refused, match="node1 is the master"):
        node_work.NodeRole("n1", **fields).changes(CLUSTER, Said(is_ok=True), since=0.0)


def test_the_way_back_needs_power_and_a_fresh_ok_or_force() -> None:
    back = node_work.NodeRole("n3", drained=False, offline=False)
    offline = with_node("n3", offline=True)
    said = Said(is_ok=True)
    after = changes.apply_all(offline, back.changes(offline, said, since=7.0), now=1.0)
    assert not after.node("n3").offline
    assert said.asked == [("n3", 7.0)]
    with pytest.raises(errors.Refused, match="has not reported Ok"):
        back.changes(offline, Said(is_ok=False), since=7.0)
    dark = with_node("n3", offline=True, powered=False)
    with pytest.raises(errors.Refused, match="recorded as powered off"):
        back.changes(dark, Said(is_ok=True), since=7.0)
    forced = dataclasses.replace(back, force=True)
    assert not changes.apply_all(dark, forced.changes(dark, Said(is_ok=False), since=7.0), now=1.0).node("n3").offline
