from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.values import errors
from ansible_collections.roundsman.cluster.plugins.plugin_utils.cluster import changes, left_replicas
from ansible_collections.roundsman.cluster.plugins.plugin_utils.cluster import cluster as clusters
from ansible_collections.roundsman.cluster.plugins.plugin_utils.opcodes import (
    contract,
    instance_disks,
    instance_making,
    instance_moves,
    instance_runs,
)

from tests.unit import small_cluster

# In it, i1 runs on n2 with its replica on n3.
CLUSTER = small_cluster.make()
MOVES = [instance_moves.Migrate, instance_moves.Failover]


def after(stated: list[changes.Change]) -> clusters.Cluster:
    return changes.apply_all(CLUSTER, stated, now=9.0)


def with_instance(**fields: Any) -> clusters.Cluster:
    return clusters.with_instance(CLUSTER, dataclasses.replace(CLUSTER.instance("i1"), **fields))


@pytest.mark.parametrize("kind", MOVES)
def test_a_move_wants_the_instance_for_itself_and_its_nodes_with_others(kind: Any) -> None:
    wants = {"instance/i1": contract.EXCLUSIVE, "node/n2": contract.SHARED, "node/n3": contract.SHARED}
    assert kind("i1", "n2", "n3").wants(CLUSTER) == wants | power_of_source(kind)


def power_of_source(kind: Any) -> dict[str, Any]:
    """A failover may command the power of the node that it leaves, and a migration may become one."""
    return {"node-res/n2": contract.SHARED} if kind in MOVES else {}


@pytest.mark.parametrize("kind", MOVES)
def test_a_move_makes_the_secondary_the_primary_and_is_moot_afterwards(kind: Any) -> None:
    one = kind("i1", "n2", "n3")
    assert one.moot(CLUSTER) == ""
    moved = after(one.effects(CLUSTER))
    assert moved.instance("i1").nodes == ("n3", "n2")
    assert one.moot(moved) == "inst1 has left node2 already: its primary is node3"


REPLACES = instance_moves.ReplaceDisks


@pytest.mark.parametrize("kind", [*MOVES, REPLACES])
def test_a_move_of_an_instance_that_was_removed_is_moot_and_needs_no_look_at_it(kind: Any) -> None:
    one = kind("i9", "n2", "n3")
    assert one.wants(CLUSTER) == contract.instance_at("i9", ("n2", "n3")) | power_of_source(kind)
    assert one.moot(CLUSTER) == "nothing to do: instance i9 has been removed from the cluster"


@pytest.mark.parametrize(("kind", "old"), [*((kind, "n2") for kind in MOVES), (REPLACES, "n3")])
def test_a_move_to_a_node_that_left_is_moot_and_says_that_the_instance_stays(kind: Any, old: str) -> None:
    told = "not done: its new node n9 has left the cluster; inst1 stays where it is"
    assert kind("i1", old, "n9").moot(CLUSTER) == told


@pytest.mark.parametrize("kind", MOVES)
def test_a_replicated_instance_moves_only_to_its_copy(kind: Any) -> None:
    with pytest.raises(errors.Refused, match="inst1 has no replica on node10"):
        kind("i1", "n2", "n10").variables(CLUSTER)


@pytest.mark.parametrize("kind", MOVES)
def test_an_instance_on_shared_storage_moves_anywhere_and_leaves_no_copy(kind: Any) -> None:
    cluster = with_instance(disk_template="sharedfile", secondary_nodes=())
    one = kind("i1", "n2", "n10")
    assert one.variables(cluster)["secondaries"] == []
    assert one.effects(cluster) == [changes.InstanceNodes("i1", "n10", ())]


@pytest.mark.parametrize("kind", MOVES)
@pytest.mark.parametrize("params", [("gone", "n2", "n3"), ("i1", "gone", "n3")])
def test_what_has_left_the_cluster_is_refused(kind: Any, params: tuple[str, str, str]) -> None:
    with pytest.raises(errors.NotFound):
        kind(*params).variables(CLUSTER)


def test_a_migration_knows_its_instance_and_nodes() -> None:
    told = instance_moves.Migrate("i1", "n2", "n3").variables(CLUSTER)
    assert told["instance"]["name"] == "inst1"
    assert [disk["size"] for disk in told["instance"]["disks"]] == [10, 20]
    assert told["source"] == {"uuid": "n2", "name": "node2", "address": "node2"}
    assert told["target"] == {"uuid": "n3", "name": "node3", "address": "node3"}
    assert told["secondaries"] == ["n2"]


@pytest.mark.parametrize(("powered", "offline", "reachable"), [(True, False, True), (True, True, False)])
def test_a_failover_knows_whether_its_source_answers_and_has_a_bmc(
    powered: bool, offline: bool, reachable: bool
) -> None:
    node = dataclasses.replace(CLUSTER.node("n3"), powered=powered, offline=offline)
    moved = with_instance(primary_node="n3", secondary_nodes=("n2",))
    cluster = clusters.with_node(moved, node)
    told = instance_moves.Failover("i1", "n3", "n2").variables(cluster)
    assert told["source_reachable"] is reachable
    assert told["source_oob"] == "/bin/oob"
    assert instance_moves.Failover("i1", "n2", "n3").variables(CLUSTER)["source_oob"] == ""


@pytest.mark.parametrize("is_ignored", [False, True])
def test_only_a_failover_that_a_person_asked_so_ignores_consistency(is_ignored: bool) -> None:
    made = instance_moves.Failover("i1", "n2", "n3", ignore_consistency=is_ignored)
    assert made.variables(CLUSTER)["ignore_consistency"] is is_ignored
    assert instance_moves.Migrate("i1", "n2", "n3").variables(CLUSTER)["ignore_consistency"] is False


def test_a_replacement_gives_a_new_secondary_and_is_moot_afterwards() -> None:
    one = instance_moves.ReplaceDisks("i1", "n3", "n10")
    assert one.wants(CLUSTER) == {
        "instance/i1": contract.EXCLUSIVE,
        "node/n2": contract.SHARED,
        "node/n3": contract.SHARED,
        "node/n10": contract.SHARED,
    }
    replaced = after(one.effects(CLUSTER))
    assert replaced.instance("i1").nodes == ("n2", "n10")
    assert one.moot(CLUSTER) == ""
    assert one.moot(replaced) == "inst1 keeps no replica on node3 any more"


@pytest.mark.parametrize(
    ("old", "new", "text"),
    [("n2", "n10", "has its primary, not its secondary, on node2"), ("n3", "n2", "keeps a replica on node2 already")],
)
def test_a_replacement_that_does_not_fit_is_refused(old: str, new: str, text: str) -> None:
    with pytest.raises(errors.Refused, match=text):
        instance_moves.ReplaceDisks("i1", old, new).variables(CLUSTER)


class Facts:
    """What the daemon would know of nodes beside the configuration."""

    def __init__(self, *silent: str, off: tuple[float, float] | None = None) -> None:
        self._silent = silent
        self._off = off

    def off(self, node: str) -> tuple[float, float] | None:
        assert node == "n2"
        return self._off

    async def take_all(self) -> bool:
        return False

    def reported_ok_since(self, node: str, since: float) -> bool:
        del node, since
        return False

    def last_said(self, node: str) -> float:
        del node
        return 0.0

    def is_silent(self, node: str) -> bool:
        return node in self._silent


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"group": "g2"}, "node10 is in node group other and inst1 in rack one"),
        ({"drained": True}, "node10 is drained and takes no new secondaries"),
        ({"vm_capable": False}, "node10 is not vm_capable and holds no instances"),
        ({"offline": True}, "node10 is offline: it is not contacted"),
    ],
)
def test_a_node_that_takes_no_new_secondary_is_refused_and_a_planner_chooses_none_but_of_another_group(
    fields: dict[str, Any], text: str
) -> None:
    cluster = clusters.with_node(CLUSTER, dataclasses.replace(CLUSTER.node("n10"), **fields))
    one = instance_moves.ReplaceDisks("i1", "n3", "n10")
    with pytest.raises(errors.Refused, match=text):
        one.variables(cluster)
    planned = dataclasses.replace(one, planned=True)
    if "group" in fields:
        assert planned.variables(cluster)
    else:
        with pytest.raises(errors.Refused, match="node10 is"):
            planned.variables(cluster)
    closed = dataclasses.replace(CLUSTER.node("n3"), group="g2", drained=True)
    assert instance_moves.ReplaceDisks("i1", "n3", "n3").variables(clusters.with_node(CLUSTER, closed))


def test_a_node_with_an_open_incident_takes_no_new_secondary() -> None:
    moved = with_instance(secondary_nodes=("n10",))
    with pytest.raises(errors.Refused, match="node3 has an open or failed incident"):
        instance_moves.ReplaceDisks("i1", "n10", "n3").variables(moved)


@pytest.mark.parametrize("fields", [{"drained": True}, {"vm_capable": False}])
@pytest.mark.parametrize("kind", [instance_moves.Migrate, instance_moves.Failover])
def test_what_was_planned_goes_to_no_node_that_was_drained_since(kind: Any, fields: dict[str, Any]) -> None:
    cluster = clusters.with_node(CLUSTER, dataclasses.replace(CLUSTER.node("n3"), **fields))
    with pytest.raises(errors.Refused, match=r"node3 is (drained|not vm_capable)"):
        kind("i1", "n2", "n3").variables(cluster)


def test_what_was_planned_goes_to_no_node_that_fell_silent_since() -> None:
    silent = "did not answer when it was last asked"
    for one, names in (
        (instance_moves.Migrate("i1", "n2", "n3"), ("n2", "n3")),
        (instance_moves.Failover("i1", "n2", "n3"), ("n3",)),
    ):
        for name in names:
            with pytest.raises(errors.Refused, match=silent):
                one.check_facts(CLUSTER, Facts(name))
        one.check_facts(CLUSTER, Facts("n10"))


def test_a_silent_node_takes_no_new_secondary_whoever_chose_it() -> None:
    one = instance_moves.ReplaceDisks("i1", "n3", "n10")
    with pytest.raises(errors.Refused) as refused:
        one.check_facts(CLUSTER, Facts("n10"))
    assert str(refused.value) == (
        "node10 did not answer when it was last asked: see `roundsman explain node10`; restore its network link if "
        "that is cut, or reboot the node if it hangs, then retry"
    )
    one.check_facts(CLUSTER, Facts("n3"))
    with pytest.raises(errors.Refused, match="node10 did not answer when it was last asked"):
        dataclasses.replace(one, planned=True).check_facts(CLUSTER, Facts("n10"))


@pytest.mark.parametrize("kind", [*MOVES, instance_moves.ReplaceDisks])
def test_a_lost_move_is_about_its_instance_and_its_hosts(kind: Any) -> None:
    one = kind("i1", "n3", "n10")
    assert one.about() == ("i1",)
    assert set(one.hosts(CLUSTER)) >= {"n3", "n10"}
    assert one.files() == {}


def test_a_target_without_the_room_now_is_refused_with_the_numbers() -> None:
    full = with_instance(memory=5000)
    with pytest.raises(errors.Refused, match="node3 has 4096 MiB of memory free, and inst1 needs 5000"):
        instance_moves.Migrate("i1", "n2", "n3").variables(full)
    large = with_instance(disks=(clusters.Disk(1001),))
    with pytest.raises(errors.Refused, match="node10 has 1000 MiB of disk free, and inst1 needs 1001"):
        instance_moves.ReplaceDisks("i1", "n3", "n10").variables(large)


def test_what_a_replacement_that_broke_off_has_made_takes_no_more_room() -> None:
    making = left_replicas.ReplicaLeft("i1", "n10", present=True, is_new=True)
    large = changes.apply(with_instance(disks=(clusters.Disk(1001),)), making, now=9.0)
    assert instance_moves.ReplaceDisks("i1", "n3", "n10").variables(large)["new"]["name"] == "node10"


def test_a_replacement_is_told_what_one_that_broke_off_knew_of_the_secondary() -> None:
    making = left_replicas.ReplicaLeft("i1", "n10", present=True, is_new=True, generations=("00000000000000a0",))
    cluster = changes.apply(with_instance(disks=(clusters.Disk(64),)), making, now=9.0)
    for new in ("n10", "n3"):
        told = instance_moves.ReplaceDisks("i1", "n3", new).variables(cluster)
        assert told["old_generations"] == ["00000000000000a0"]
    assert instance_moves.ReplaceDisks("i1", "n3", "n10").variables(CLUSTER)["old_generations"] == []


def test_the_same_secondary_gets_a_new_copy_however_full_it_is() -> None:
    large = with_instance(disks=(clusters.Disk(10**9),))
    told = instance_moves.ReplaceDisks("i1", "n3", "n3").variables(large)
    assert told["old"] == told["new"]


@pytest.mark.parametrize("new", ["n3", "n10"])
def test_adopted_disks_are_not_replaced(new: str) -> None:
    adopted = with_instance(disks=(clusters.Disk(10, name="r0"),))
    text = "^inst1: Roundsman does not replace its disk r0, which was adopted; to give inst1 another secondary, use"
    with pytest.raises(errors.Refused, match=text):
        instance_moves.ReplaceDisks("i1", "n3", new).variables(adopted)


def test_a_failover_knows_what_a_person_stated_of_its_source() -> None:
    stated = clusters.with_node(CLUSTER, dataclasses.replace(CLUSTER.node("n2"), off_confirmed=5.0))
    told = instance_moves.Failover("i1", "n2", "n3").variables(stated)
    assert (told["source_reachable"], told["source_stated_off"]) == (False, True)
    assert not instance_moves.Failover("i1", "n2", "n3").variables(CLUSTER)["source_stated_off"]
    lived = clusters.with_node(CLUSTER, dataclasses.replace(CLUSTER.node("n2"), off_confirmed=5.0, alive_at=6.0))
    assert not instance_moves.Failover("i1", "n2", "n3").variables(lived)["source_stated_off"]


def test_a_failover_may_lose_what_a_person_accepted_or_what_the_group_of_its_source_allows_then() -> None:
    for accepted, told in ((None, -1), (0, 0), (360, 360)):
        assert instance_moves.Failover("i1", "n2", "n3", max_loss=accepted).variables(CLUSTER)["max_loss"] == told


OFF = clusters.with_node(CLUSTER, dataclasses.replace(CLUSTER.node("n2"), offline=True))


def test_the_play_of_a_failover_is_told_since_when_its_source_is_off_by_a_clock_that_nobody_sets() -> None:
    move = instance_moves.Failover("i1", "n2", "n3")
    for off in (None, (1000.0, 7.5)):
        assert move.check_facts(OFF, Facts(off=off)) == contract.Start(off)
    with pytest.raises(errors.Refused, match="node3 did not answer"):
        move.check_facts(OFF, Facts("n3"))


@pytest.mark.parametrize("kind", MOVES)
def test_the_result_of_a_failover_that_waits_for_a_person_has_why(kind: Any) -> None:
    waits = {"reason": "it may lack some", "unblock": "a person", "basis": [120, 0.0, "n2", "n3"]}
    move = kind("i1", "n2", "n3")
    assert move.outcome({"waits": waits}) == {"waits": waits}
    for value in (None, {}, {"source_stopped": True}):
        assert move.outcome(value) is None


def test_only_a_replacement_gives_a_primary_another_peer_while_a_new_replica_is_made() -> None:
    making = left_replicas.ReplicaLeft("i1", "n10", present=True, is_new=True)
    cluster = changes.apply(CLUSTER, making, now=9.0)
    assert instance_moves.Failover("i1", "n2", "n3").variables(cluster)["instance"]["keeps_peer"]
    assert not instance_moves.Failover("i1", "n2", "n3").variables(CLUSTER)["instance"]["keeps_peer"]
    assert not instance_moves.ReplaceDisks("i1", "n3", "n10").variables(cluster)["instance"]["keeps_peer"]


# A migration from n2 to n3 has not ended.
MOVING = with_instance(moving="n3")


def test_until_a_migration_has_ended_a_failover_goes_from_either_of_its_nodes_to_the_other() -> None:
    away, back = instance_moves.Failover("i1", "n2", "n3"), instance_moves.Failover("i1", "n3", "n2")
    assert (away.moot(MOVING), back.moot(MOVING)) == ("", "")
    assert back.moot(CLUSTER) == "inst1 has left node3 already: its primary is node2"
    told = back.variables(MOVING)
    assert (told["source"]["name"], told["target"]["name"]) == ("node3", "node2")
    assert (told["secondaries"], told["unfinished"]) == (["n3"], True)
    assert away.variables(MOVING)["unfinished"]
    assert not away.variables(CLUSTER)["unfinished"]
    ended = changes.apply_all(MOVING, back.effects(MOVING), now=9.0).instance("i1")
    assert (ended.nodes, ended.moving) == (("n2", "n3"), "")


@pytest.mark.parametrize(("source", "target"), [("n3", "n2"), ("n2", "n3")])
def test_a_failover_that_ends_a_migration_asks_for_no_room_and_not_whether_the_node_is_drained(
    source: str, target: str
) -> None:
    """Both nodes had room for it, and it may run on either."""
    node = dataclasses.replace(MOVING.nodes[target], drained=True, mtotal=MOVING.nodes[target].mnode + 600)
    cluster = clusters.with_node(MOVING, node)
    assert instance_moves.Failover("i1", source, target).variables(cluster)["unfinished"]


@pytest.mark.parametrize(
    "made",
    [
        REPLACES("i1", "n3", "n10"),
        instance_runs.Shutdown("i1"),
        instance_disks.ActivateDisks("i1"),
        instance_disks.DeactivateDisks("i1"),
        instance_making.InstanceRemove("i1"),
    ],
    ids=lambda made: made.kind,
)
def test_nothing_is_done_to_an_instance_that_may_run_on_one_of_two_nodes_until_it_was_looked_for(made: Any) -> None:
    is_for_what_is_down = isinstance(made, instance_disks.DeactivateDisks)
    cluster = with_instance(moving="n3", admin_state="down" if is_for_what_is_down else "up")
    with pytest.raises(errors.Refused, match="it may run on node3: run `roundsman instance start inst1`"):
        made.variables(cluster)


def test_the_start_of_an_instance_whose_migration_has_not_ended_is_told_of_both_nodes() -> None:
    made = instance_runs.Startup("i1")
    power = {"node-res/n3": contract.SHARED}
    assert made.wants(MOVING) == contract.instance_at("i1", ("n2", "n3")) | power, "it may fail over from there"
    told = made.variables(MOVING)
    assert (told["source"]["name"], told["target"]["name"], told["unfinished"]) == ("node3", "node2", True)
    assert not made.variables(CLUSTER)["unfinished"]
    # Its node has no power: it is asked whether that is true, and nothing else.
    off = changes.apply(MOVING, changes.NodePowered("n3", powered=False), now=5.0)
    told = made.variables(off)
    assert ([one["name"] for one in told["members"]], told["source_reachable"]) == (["node2"], False)
    assert made.hosts(off) == ["n2", "n3"]


def test_a_node_where_an_instance_may_run_is_not_empty() -> None:
    assert "inst1" in contract.not_empty(with_instance(moving="n10"), "n10")
    assert "inst1" not in contract.not_empty(CLUSTER, "n10")
