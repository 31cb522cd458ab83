from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

import pytest
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.power import power
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.values import errors
from ansible_collections.roundsman.cluster.plugins.plugin_utils.cluster import cluster as clusters
from ansible_collections.roundsman.cluster.plugins.plugin_utils.opcodes import contract, node_power

from tests.unit import small_cluster

if TYPE_CHECKING:
    from ansible_collections.roundsman.cluster.plugins.plugin_utils.cluster.locks import Mode

# In it, n1 is the master, i1 runs on n2 with its replica on n3, and only n3 has a BMC.
CLUSTER = small_cluster.make()


def with_node(uuid: str, cluster: clusters.Cluster = CLUSTER, **fields: Any) -> clusters.Cluster:
    return clusters.with_node(cluster, dataclasses.replace(cluster.node(uuid), **fields))


def all_with_oob() -> clusters.Cluster:
    parameters = dataclasses.replace(CLUSTER.cluster, ndparams={"oob_program": "ipmi"})
    return dataclasses.replace(CLUSTER, cluster=parameters)


def running_on_n3() -> clusters.Cluster:
    moved = dataclasses.replace(CLUSTER.instance("i1"), primary_node="n3", secondary_nodes=("n2",))
    return clusters.with_instance(CLUSTER, moved)


@pytest.mark.parametrize(
    ("command", "node", "its_power"),
    [
        ("status", contract.SHARED, contract.SHARED),
        ("on", contract.EXCLUSIVE, contract.EXCLUSIVE),
        ("off", contract.EXCLUSIVE, contract.EXCLUSIVE),
        ("cycle", contract.EXCLUSIVE, contract.EXCLUSIVE),
        ("fence", contract.SHARED, contract.EXCLUSIVE),
        ("confirm_off", contract.SHARED, contract.EXCLUSIVE),
        ("off --force", contract.SHARED, contract.EXCLUSIVE),
    ],
)
def test_who_commands_power_has_it_alone_and_a_silent_nodes_is_taken_beside_its_jobs(
    command: Any, node: Mode, its_power: Mode
) -> None:
    wanted = {"node/n3": node, "node-res/n3": its_power}
    verb, is_forced = command.removesuffix(" --force"), command.endswith(" --force")
    assert node_power.Power("n3", command=verb, force=is_forced).wants(CLUSTER) == wanted
    several = node_power.Power(nodes=("n3", "n2"), command=verb, force=is_forced)
    assert several.wants(CLUSTER) == wanted | {"node/n2": node, "node-res/n2": its_power}


@pytest.mark.parametrize("nodes", [{}, {"node": "n2", "nodes": ("n3",)}])
def test_an_opcode_is_about_a_node_or_about_several(nodes: dict[str, Any]) -> None:
    with pytest.raises(errors.InvalidInput, match="give one of them"):
        node_power.Power(**nodes, command="status")


def test_a_node_without_a_bmc_has_no_power_commands_and_no_health() -> None:
    for one in (node_power.Power("n2", command="status"), node_power.Health("n2")):
        with pytest.raises(errors.Refused, match=r"^Node node2 does not support OOB commands$"):
            one.variables(CLUSTER)


def test_one_nodes_trouble_stops_no_other() -> None:
    for one in (node_power.Power(nodes=("n2", "n3"), command="status"), node_power.Health(nodes=("n2", "n3"))):
        told = one.variables(CLUSTER)
        assert [target["name"] for target in told["targets"]] == ["node3"]
        assert told["refused"] == {"node2": "Node node2 does not support OOB commands"}


def test_a_node_that_has_left_is_passed_over_and_the_last_one_is_refused() -> None:
    assert len(node_power.Power(nodes=("gone", "n3"), command="on").variables(CLUSTER)["targets"]) == 1
    for one in (node_power.Power("gone", command="on"), node_power.Health("gone")):
        with pytest.raises(errors.NotFound, match="there is no node 'gone'"):
            one.variables(CLUSTER)


def test_each_node_is_asked_by_its_own_driver_and_its_record_is_known() -> None:
    cluster = with_node("n2", all_with_oob(), powered=False)
    told = node_power.Power(nodes=("n3", "n2"), command="on").variables(cluster)
    assert told["targets"] == [
        {"uuid": "n2", "name": "node2", "powered": False, "driver": "ipmi"},
        {"uuid": "n3", "name": "node3", "powered": True, "driver": "/bin/oob"},
    ]


@pytest.mark.parametrize("command", ["off", "cycle"])
def test_a_node_that_runs_instances_keeps_its_power_unless_forced(command: Any) -> None:
    cluster = running_on_n3()
    with pytest.raises(errors.Refused, match="node3 still runs inst1"):
        node_power.Power("n3", command=command).variables(cluster)
    assert node_power.Power("n3", command=command, force=True).variables(cluster)["look_first"] == []
    assert node_power.Power("n3", command="on").variables(cluster)["command"] == "on"
    down = clusters.with_instance(cluster, dataclasses.replace(cluster.instance("i1"), admin_state="down"))
    assert node_power.Power("n3", command=command).variables(down)["look_first"] == ["node3"]


@pytest.mark.parametrize("command", ["off", "cycle"])
@pytest.mark.parametrize("state", ["up", "down"])
def test_a_node_keeps_its_power_where_a_migration_may_have_taken_an_instance(command: Any, state: str) -> None:
    known = dataclasses.replace(CLUSTER.instance("i1"), moving="n3", admin_state=state)
    cluster = clusters.with_instance(CLUSTER, known)
    with pytest.raises(
        errors.Refused, match=r"may run on node3: run `roundsman instance start inst1`.*, or use --force"
    ):
        node_power.Power("n3", command=command).variables(cluster)
    assert node_power.Power("n3", command=command, force=True).variables(cluster)["look_first"] == []


def test_a_node_is_looked_at_before_off_and_none_that_is_out_of_reach() -> None:
    one = node_power.Power("n3", command="off")
    assert (one.hosts(CLUSTER), one.variables(CLUSTER)["look_first"]) == (["n3"], ["node3"])
    for cluster in (with_node("n3", offline=True), with_node("n3", powered=False)):
        assert (one.hosts(cluster), one.variables(cluster)["look_first"]) == ([], [])
    assert node_power.Power("n3", command="on").variables(CLUSTER)["look_first"] == []


@pytest.mark.parametrize("command", ["off", "cycle"])
@pytest.mark.parametrize(("program", "shown"), [("ipmi", "roundsman-oob"), ("/bin/oob", "/bin/oob")])
def test_the_master_keeps_its_power_and_it_is_told_how_else(command: Any, program: str, shown: str) -> None:
    cluster = with_node("n1", ndparams={"oob_program": program})
    with pytest.raises(errors.Refused, match=f"^node1 is the master: .* `{shown} power-{command} node1`"):
        node_power.Power("n1", command=command, force=True).variables(cluster)
    assert node_power.Power("n1", command="status").variables(cluster)


def test_what_shall_be_empty_is_left_alone_while_an_instance_has_it() -> None:
    emptied = dataclasses.replace(CLUSTER, instances={})
    one = node_power.Power("n3", command="off", empty=True)
    assert one.moot(CLUSTER) == "not done: node3 holds inst1 again"
    assert one.moot(emptied) == ""


def test_a_lost_command_has_its_nodes_looked_at_and_a_lost_reading_none() -> None:
    assert node_power.Power(nodes=("n2", "n3"), command="cycle").about() == ("n2", "n3")
    for one in (
        node_power.Power("n3", command="status"),
        node_power.Power("n3", command="off", check=True),
        node_power.Health("n3"),
    ):
        assert one.about() == ()


@pytest.mark.parametrize(
    ("delay", "count"), [(-1.0, 1), (float("nan"), 1), (float("inf"), 1), (1801.0, 11), (19.0, 1000)]
)
def test_all_delays_together_have_their_bound(delay: float, count: int) -> None:
    nodes = tuple(f"n{number}" for number in range(count))
    with pytest.raises(errors.InvalidInput, match="delay"):
        node_power.Power(nodes=nodes, command="on", delay=delay)


def test_a_delay_is_between_batches_and_one_batch_has_none() -> None:
    nodes = tuple(f"n{number}" for number in range(10))
    assert node_power.Power(nodes=nodes, command="on", delay=3000.0).delay == 3000.0
    assert node_power.Power(nodes=(*nodes, "n3"), command="on", delay=3000.0).delay == 3000.0


def outcome(command: power.Command, **options: Any) -> dict[str, Any]:
    options = {"before": power.State.ON, "attempts": [power.Attempt(power.Answer.ACCEPTED)], "seconds": 0.1, **options}
    return power.judge(command, name="node3", **options).as_dict()


def test_each_command_that_went_out_is_noted_and_no_other() -> None:
    one = node_power.Power("n3", command="off")
    done = outcome(power.Command.OFF, seen=[power.State.OFF])
    missed = outcome(power.Command.OFF, seen=[power.State.ON])
    unsent = outcome(power.Command.OFF, attempts=[], before=power.State.OFF)
    assert [notice.text for notice in one.notices([done, missed, unsent])] == [
        "power off node3: on → off, confirmed",
        "power off node3: on → on, not confirmed: accepted, but the node does not read off",
    ]
    assert node_power.Power("n3", command="off", check=True).notices([done]) == []


def test_warning_and_critical_items_are_noted_and_the_others_are_not() -> None:
    items = [["fan 1", "WARNING"], ["fan 2", "OK"], ["PS", "CRITICAL"], ["temp", "UNKNOWN"]]
    told = node_power.Health("n3").notices([{"name": "node3", "items": items}])
    assert told == [
        contract.Notice("node3: fan 1 is WARNING", is_trouble=True),
        contract.Notice("node3: PS is CRITICAL", is_trouble=True),
    ]


def test_a_node_that_has_lived_since_it_was_known_to_be_off_is_not_confirmed_off_by_the_daemon() -> None:
    lived = with_node("n3", powered=False, off_since=10.0, alive_at=20.0)
    one = node_power.Power("n3", command="confirm_off")
    assert one.hosts(lived) == []
    with pytest.raises(errors.Refused, match="it showed that it lives, after it was known to be off") as refused:
        one.variables(lived)
    assert "`roundsman node power off node3 --force`" in str(refused.value)
    with pytest.raises(errors.Refused, match=r"^Node node2 does not support OOB commands$"):
        node_power.Power("n2", command="confirm_off").variables(with_node("n2", off_confirmed=10.0, alive_at=20.0))
    others = (
        one.variables(with_node("n3", powered=False, off_since=20.0)),
        node_power.Power("n3", command="fence").variables(lived),
        node_power.Power("n3", command="off", force=True).variables(lived),
    )
    for told in others:
        assert [target["name"] for target in told["targets"]] == ["node3"]
