from __future__ import annotations

import dataclasses
import re
from typing import TYPE_CHECKING, Any

import pytest
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.values import errors
from ansible_collections.roundsman.cluster.plugins.plugin_utils.cluster import changes, known_off
from ansible_collections.roundsman.cluster.plugins.plugin_utils.cluster import cluster as clusters
from ansible_collections.roundsman.cluster.plugins.plugin_utils.opcodes import contract, node_work
from ansible_collections.roundsman.cluster.plugins.plugin_utils.settings import parameters
from ansible_collections.roundsman.cluster.plugins.plugin_utils.silent_nodes import dead_nodes

from tests.unit import small_cluster

if TYPE_CHECKING:
    from collections.abc import Callable

# In it, n1 is the master, i1 runs on n2 with its replica on n3, and only n3 has a BMC.
CLUSTER = small_cluster.make()


def with_node(uuid: str, **fields: Any) -> clusters.Cluster:
    return clusters.with_node(CLUSTER, dataclasses.replace(CLUSTER.node(uuid), **fields))


class Said:
    """What the nodes have reported."""

    def __init__(self, *, is_ok: bool, silent: bool = False) -> None:
        self.is_ok = is_ok
        self.silent = silent
        self.asked: list[tuple[str, float]] = []

    async def take_all(self) -> bool:
        return False

    def reported_ok_since(self, node: str, since: float) -> bool:
        self.asked.append((node, since))
        return self.is_ok

    def last_said(self, node: str) -> float:
        del node
        return 90.0

    def off(self, node: str) -> tuple[float, float] | None:
        raise NotImplementedError

    def is_silent(self, node: str) -> bool:
        del node
        return self.silent


SAID_OK = Said(is_ok=True)


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
    assert one.variables(CLUSTER)["command"] == "mend_fan-2"


def test_the_abbreviation_of_a_large_report_is_never_the_input_of_a_repair() -> None:
    one = node_work.RepairCommand("n2", "mend", '{"status":"live-repair"}', input_digest="a" * 64)
    assert one.files() == {}
    assert one.whole_reports() == {"input.json": "a" * 64}
    assert node_work.RepairCommand("n2", "mend", "{}").whole_reports() == {}


def test_what_shall_be_empty_is_left_alone_while_an_instance_has_it() -> None:
    emptied = dataclasses.replace(CLUSTER, instances={})
    one = node_work.NodeRole("n3", offline=True, empty=True)
    assert one.moot(CLUSTER) == "not done: node3 holds inst1 again"
    assert one.moot(emptied) == ""


def test_offline_is_refused_while_an_instance_runs_there_unless_forced() -> None:
    with pytest.raises(errors.Refused, match="node2 still runs inst1"):
        node_work.NodeRole("n2", offline=True).changes(CLUSTER, Said(is_ok=True), since=0.0)
    assert node_work.NodeRole("n2", offline=True, force=True).changes(CLUSTER, Said(is_ok=True), since=0.0)


def test_offline_is_refused_where_a_migration_may_have_taken_an_instance_unless_forced() -> None:
    cluster = clusters.with_instance(CLUSTER, dataclasses.replace(CLUSTER.instance("i1"), moving="n10"))
    with pytest.raises(
        errors.Refused, match=r"may run on node10: run `roundsman instance start inst1`.*, or use --force"
    ):
        node_work.NodeRole("n10", offline=True).changes(cluster, Said(is_ok=True), since=0.0)
    assert node_work.NodeRole("n10", offline=True, force=True).changes(cluster, Said(is_ok=True), since=0.0)


def test_a_diagnosis_shares_the_node_and_runs_the_configured_command() -> None:
    one = node_work.Diagnose("n2")
    assert one.wants(CLUSTER) == {"node/n2": contract.SHARED}
    assert one.variables(CLUSTER) == {"command": ""}
    assert one.hosts(CLUSTER) == ["n2"]


@pytest.mark.parametrize(
    "one",
    [
        node_work.RepairCommand("gone", "mend", ""),
        node_work.Diagnose("gone"),
    ],
)
def test_a_node_that_has_left_is_refused(one: contract.PlayOpcode) -> None:
    with pytest.raises(errors.NotFound, match="there is no node 'gone'"):
        one.variables(CLUSTER)


@pytest.mark.parametrize(
    ("fields", "why"), [({"offline": True}, "offline"), ({"powered": False}, "recorded as powered off")]
)
def test_a_node_out_of_reach_is_not_repaired(fields: dict[str, bool], why: str) -> None:
    with pytest.raises(errors.Refused, match=f"node3 is {why}: it is not contacted"):
        node_work.RepairCommand("n3", "mend", "{}").variables(with_node("n3", **fields))


def test_an_offline_node_diagnoses_itself_on_its_way_back_and_one_without_power_does_not() -> None:
    assert node_work.Diagnose("n3").variables(with_node("n3", offline=True))
    with pytest.raises(errors.Refused, match="node3 is recorded as powered off"):
        node_work.Diagnose("n3").variables(with_node("n3", offline=True, powered=False))


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
    opted_out = with_node("n3", offline=True, powered=False, ndparams={"oob_program": "!"})
    assert back.changes(opted_out, Said(is_ok=True), since=7.0)
    forced = dataclasses.replace(back, force=True)
    assert not changes.apply_all(dark, forced.changes(dark, Said(is_ok=False), since=7.0), now=1.0).node("n3").offline


def test_a_person_is_believed_unless_the_node_answers_and_says_ok() -> None:
    one = node_work.NodeConfirmOff("n3")
    with pytest.raises(errors.Refused, match="has just reported Ok"):
        one.changes(CLUSTER, Said(is_ok=True), since=100.0)
    for said in (Said(is_ok=False), Said(is_ok=True, silent=True)):
        after = changes.apply_all(CLUSTER, one.changes(CLUSTER, said, since=100.0), now=101.0)
        assert after.node("n3").off_confirmed == 100.0
        assert not clusters.reachable(after, after.node("n3"))
        assert one.moot(after) == "", "a person may look once more, and date it anew"


def test_a_person_states_it_again_after_a_sign_of_life() -> None:
    lived = with_node("n3", off_confirmed=100.0, off_since=100.0, alive_at=150.0)
    one = node_work.NodeConfirmOff("n3")
    assert not one.moot(lived)
    after = changes.apply_all(lived, one.changes(lived, Said(is_ok=False), since=200.0), now=201.0).node("n3")
    assert (after.off_confirmed, after.off_since) == (200.0, 200.0)
    assert not node_work.NodeConfirmOff("n3", undo=True).moot(lived)


@pytest.mark.parametrize(
    ("since", "alive_at", "refusal"),
    [
        (200.5, 0.0, "--since 1970-01-01 00:03:20 UTC is in the future: it is 1970-01-01 00:03:20 UTC now"),
        (89.0, 0.0, "was not off since 1970-01-01 00:01:29 UTC: its last sign of life came at 1970-01-01 00:01:30"),
        (150.0, 160.0, "its last sign of life came at 1970-01-01 00:02:40 UTC"),
    ],
)
def test_a_node_is_off_since_no_time_in_the_future_and_none_before_it_said_anything(
    since: float, alive_at: float, refusal: str
) -> None:
    one = node_work.NodeConfirmOff("n3", off_since=since, by="alice")
    with pytest.raises(errors.Refused, match=re.escape(refusal)):
        one.changes(with_node("n3", alive_at=alive_at), Said(is_ok=False), since=200.0)


@pytest.mark.parametrize("since", [90.0, 150.0, 200.0])
def test_a_person_states_since_when_a_node_is_off(since: float) -> None:
    one = node_work.NodeConfirmOff("n3", off_since=since, by="alice")
    node = changes.apply_all(CLUSTER, one.changes(CLUSTER, Said(is_ok=False), since=200.0), now=201.0).node("n3")
    assert (known_off.seen_off(node), known_off.stated_by(node)) == (since, "alice")


def test_the_name_of_the_user_goes_with_the_statement() -> None:
    stated = with_node("n3", off_confirmed=100.0, off_since=100.0, off_stated_by="alice")
    undo = node_work.NodeConfirmOff("n3", undo=True).changes(stated, Said(is_ok=False), since=200.0)
    again = node_work.NodeConfirmOff("n3").changes(stated, Said(is_ok=False), since=200.0)
    ends = (*undo, changes.NodePowered("n3", powered=True), *again)
    for change, by in zip(ends, ("", "", "a person"), strict=True):
        after = changes.apply(stated, change, now=201.0).node("n3")
        assert (known_off.stated_by(after), after.off_stated_by) == (by, "")
    for is_commanded, by in ((True, ""), (False, "alice")):
        off = changes.NodePowered("n3", powered=False, commanded=is_commanded)
        assert known_off.stated_by(changes.apply(stated, off, now=201.0).node("n3")) == by


def test_what_a_person_said_is_taken_back() -> None:
    stated = with_node("n3", off_confirmed=100.0)
    one = node_work.NodeConfirmOff("n3", undo=True)
    assert not one.moot(stated)
    after = changes.apply_all(stated, one.changes(stated, Said(is_ok=True), since=200.0), now=201.0)
    assert after.node("n3").off_confirmed == 0
    assert one.moot(after)


@pytest.mark.parametrize("has_bmc", [True, False])
@pytest.mark.parametrize(
    "recorded", [{"powered": False}, {"off_confirmed": 100.0}, {"powered": False, "off_confirmed": 100.0}]
)
def test_a_node_that_is_on_is_stated_so_by_the_command_that_is_advised_where_its_bmc_says_nothing(
    recorded: dict[str, Any], *, has_bmc: bool
) -> None:
    params = {"oob_program": "/bin/oob"} if has_bmc else {}
    lived = with_node("n2", ndparams=params, off_since=100.0, alive_at=150.0, **recorded)
    advice = dead_nodes.to_confirm_again(lived, lived.node("n2"))
    on = advice[advice.index("if it is on") : advice.index("if it is off")]
    *_, command = re.findall(r"`roundsman ([^`]*)`", on)
    undo = node_work.NodeConfirmOff("n2", undo=True)
    stated: dict[str, Callable[[], list[changes.Change]]] = {
        "node confirm-off node2 --undo": lambda: [] if undo.moot(lived) else undo.changes(lived, SAID_OK, since=200.0),
        "node modify node2 --powered yes": lambda: parameters.node_modify(lived, "node2", {"powered": True}),
    }
    node = changes.apply_all(lived, stated[command](), now=201.0).node("n2")
    assert (known_off.is_off(node), known_off.has_lived(node)) == (False, False)
    assert clusters.reachable(lived, node)


def test_the_power_that_comes_back_ends_what_a_person_said() -> None:
    stated = with_node("n3", off_confirmed=100.0, powered=False)
    assert changes.apply(stated, changes.NodePowered("n3", powered=True), now=1.0).node("n3").off_confirmed == 0
    read = changes.NodePowered("n3", powered=False, commanded=False)
    assert changes.apply(stated, read, now=1.0).node("n3").off_confirmed == 100.0


def test_the_master_is_not_off() -> None:
    with pytest.raises(errors.Refused, match="is the master"):
        node_work.NodeConfirmOff("n1").changes(CLUSTER, Said(is_ok=False), since=1.0)
