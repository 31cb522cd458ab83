from __future__ import annotations

import dataclasses

import pytest
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.values import errors
from ansible_collections.roundsman.cluster.plugins.plugin_utils.cluster import (
    changes,
    left_replicas,
    membership,
    recording,
)
from ansible_collections.roundsman.cluster.plugins.plugin_utils.cluster import cluster as clusters
from ansible_collections.roundsman.cluster.plugins.plugin_utils.config import document
from ansible_collections.roundsman.cluster.plugins.plugin_utils.opcodes import (
    contract,
    instance_moves,
    left_replica,
    parameters,
)
from ansible_collections.roundsman.cluster.plugins.plugin_utils.rounds import single_moves
from ansible_collections.roundsman.cluster.plugins.plugin_utils.settings import joining

from tests.unit import small_cluster

LEFT = left_replicas.ReplicaLeft("i1", "n3", present=True)
OPCODE = left_replica.RemoveReplica("i1", "n3")


def moved(known: clusters.Cluster | None = None) -> clusters.Cluster:
    """i1 has its secondary on n10 now, and left a replica on n3, where it was."""
    stated: list[changes.Change] = [changes.InstanceNodes("i1", "n2", ("n10",)), LEFT]
    return changes.apply_all(known or small_cluster.make(), stated, now=9.0)


def left(cluster: clusters.Cluster) -> list[tuple[str, str, float]]:
    return [(one.instance.name, one.node, one.since) for one in cluster.maintenance.left_behind]


def test_the_removal_of_its_node_names_what_is_on_no_record_any_more() -> None:
    gone: list[changes.Change] = [membership.NodeGone("n3")]
    assert parameters.NodeRemove("n3").told(moved(), gone) == [
        "the replica of inst1 that was left on node3 is on no record any more: remove it by hand"
    ]
    assert parameters.NodeRemove("n3").told(small_cluster.make(), []) == ["nothing to change"]


def test_it_is_remembered_once_and_in_the_document() -> None:
    once = moved()
    assert left(once) == [("inst1", "n3", 9.0)]
    assert changes.apply(once, LEFT, now=10.0) is once
    assert document.load(document.dump(once)) == once
    assert recording.decode(recording.encode(LEFT)) == LEFT
    assert recording.lock_of(LEFT) == "instance/i1"


def test_it_stays_remembered_when_the_instance_is_removed_and_may_be_recorded_again() -> None:
    gone = changes.apply(moved(), membership.InstanceGone("i1"), now=10.0)
    assert left(changes.apply(gone, LEFT, now=11.0)) == [("inst1", "n3", 9.0)]
    assert OPCODE.variables(gone)["instance"]["name"] == "inst1"
    assert OPCODE.variables(gone)["now_nodes"] == []
    assert OPCODE.wants(gone) == contract.instance_at("i1", ("n3",))


@pytest.mark.parametrize(
    "change",
    [
        left_replicas.ReplicaLeft("i1", "n3", present=False),
        changes.InstanceNodes("i1", "n2", ("n3",)),
        changes.InstanceNodes("i1", "n3", ("n2",)),
        membership.NodeGone("n3"),
    ],
)
def test_it_is_forgotten_when_it_is_removed_in_use_again_or_its_node_has_left(change: changes.Change) -> None:
    assert left(changes.apply(moved(), change, now=10.0)) == []
    assert OPCODE.moot(changes.apply(moved(), change, now=10.0)) == "nothing is left behind there any more"


@pytest.mark.parametrize("fields", [{"disks": (clusters.Disk(10, name="vg/theirs"),)}, {"disk_template": "sharedfile"}])
def test_disks_that_were_adopted_or_are_shared_are_never_left_for_removal(fields: dict[str, object]) -> None:
    known = small_cluster.make()
    adopted = dataclasses.replace(known.instance("i1"), **fields)  # type: ignore[arg-type]
    assert left(moved(clusters.with_instance(known, adopted))) == []


def test_the_primary_is_asked_first_and_both_must_be_contacted() -> None:
    cluster = moved()
    assert OPCODE.hosts(cluster) == ["n3", "n2"]
    assert OPCODE.variables(cluster)["now_nodes"] == [contract.node_variables(cluster, "n2")]
    for uuid in ("n2", "n3"):
        off = clusters.with_node(cluster, dataclasses.replace(cluster.node(uuid), offline=True))
        with pytest.raises(errors.Refused, match="is offline"):
            OPCODE.variables(off)


def test_it_is_refused_while_a_namesake_has_a_replica_on_the_node() -> None:
    gone = changes.apply(moved(), membership.InstanceGone("i1"), now=10.0)
    namesake = dataclasses.replace(small_cluster.make().instance("i1"), uuid="i99")
    for nodes, is_there in ((("n2", "n3"), True), (("n3", "n2"), True), (("n2", "n10"), False)):
        known = dataclasses.replace(namesake, primary_node=nodes[0], secondary_nodes=nodes[1:])
        cluster = clusters.with_instance(gone, known)
        if is_there:
            with pytest.raises(errors.Refused, match="inst1 has the DRBD resource inst1-disk0 on node3"):
                OPCODE.variables(cluster)
        else:
            assert OPCODE.variables(cluster)["left_at"]["name"] == "node3"


MAKING = left_replicas.ReplicaLeft("i1", "n10", present=True, is_new=True)


def test_a_replica_that_is_being_made_is_on_record_until_its_instance_has_new_nodes() -> None:
    cluster = changes.apply(small_cluster.make(), MAKING, now=9.0)
    assert [(one.node, one.is_new) for one in cluster.maintenance.left_behind] == [("n10", True)]
    assert document.load(document.dump(cluster)) == cluster
    assert recording.decode(recording.encode(MAKING)) == MAKING
    assert changes.apply(cluster, MAKING, now=10.0) is cluster
    seen_again = changes.InstanceNodes("i1", "n2", ("n3",))
    assert left_replicas.being_made(changes.apply(cluster, seen_again, now=10.0), "i1"), "its search says nothing new"
    assert left(changes.apply(cluster, changes.InstanceNodes("i1", "n2", ("n10",)), now=10.0)) == []
    for other in (changes.InstanceNodes("i1", "n3", ("n2",)), changes.InstanceNodes("i1", "n2", ("n1",))):
        after = changes.apply(cluster, other, now=10.0)
        assert (left(after), left_replicas.being_made(after, "i1")) == ([("inst1", "n10", 9.0)], ())


def test_what_was_left_behind_may_become_a_replica_that_is_being_made() -> None:
    cluster = changes.apply(moved(), dataclasses.replace(MAKING, node="n3"), now=10.0)
    assert [(one.node, one.since, one.is_new) for one in cluster.maintenance.left_behind] == [("n3", 10.0, True)]


OTHER = (
    "run `roundsman instance replace-disks inst1` with `--to` another node, or with `--to node3`, which replaces the "
    "replica there"
)


def test_a_person_discards_no_replica_unseen_that_the_primary_may_write_to() -> None:
    cluster = changes.apply(small_cluster.make(), MAKING, now=9.0)
    with pytest.raises(errors.Refused) as refused:
        left_replica.RemoveReplica("i1", "n10", discard=True).variables(cluster)
    assert str(refused.value) == (
        "--discard node10: inst1 may be written to its new replica on node10, because replace-disks has not ended. To "
        f"give that replica up, {OTHER}"
    )
    assert not left_replica.RemoveReplica("i1", "n10").variables(cluster)["discard"]
    assert left_replica.RemoveReplica("i1", "n3", discard=True).variables(moved())["discard"]


def test_the_node_of_a_replica_that_is_being_made_does_not_leave_the_cluster() -> None:
    cluster = changes.apply(small_cluster.make(), MAKING, now=9.0)
    assert joining.remove(small_cluster.make(), "n10")
    with pytest.raises(errors.Refused) as refused:
        joining.remove(cluster, "n10")
    assert str(refused.value) == (
        "node10 may hold the newest data of inst1, whose replace-disks has not ended. To end that without node10, "
        f"{OTHER}; then retry"
    )
    gone = changes.apply(cluster, membership.InstanceGone("i1"), now=10.0)
    assert joining.remove(gone, "n10"), "no replacement can be made of an instance that is no more"


def lost() -> clusters.Cluster:
    """A replacement of i1's disks was to make a replica on n10, which is lost."""
    cluster = changes.apply(small_cluster.make(), MAKING, now=9.0)
    return clusters.with_node(cluster, dataclasses.replace(cluster.node("n10"), offline=True))


@pytest.mark.parametrize("new", ["n3", "n1"])
def test_a_replacement_onto_a_lost_node_ends_with_one_on_the_secondary_or_on_another_node(new: str) -> None:
    opcode = instance_moves.ReplaceDisks("i1", old="n3", new=new)
    variables = opcode.variables(lost())
    recorded: list[changes.Change] = [changes.InstanceNodes("i1", "n2", (new,))]
    recorded += [recording.decode(one) for one in variables["given_up"]]
    assert recorded == opcode.effects(lost())
    ended = changes.apply_all(lost(), recorded, now=10.0)
    assert left_replicas.being_made(ended, "i1") == ()
    assert [(one.node, one.is_new) for one in ended.maintenance.left_behind] == [("n10", False)]
    assert joining.remove(ended, "n10")
    assert left_replica.RemoveReplica("i1", "n10", discard=True).moot(ended) == ""


@pytest.mark.parametrize(
    ("old", "new", "offline", "apart"),
    [
        ("n3", "n1", "", ["n3", "n10"]),
        ("n3", "n3", "", ["n10"]),
        ("n3", "n10", "", ["n3"]),
        ("n3", "n1", "n3", ["n10"]),
        ("n3", "n1", "n10", ["n3"]),
    ],
)
def test_what_may_connect_to_the_primary_in_the_place_of_the_new_secondary_is_disconnected(
    old: str, new: str, offline: str, apart: list[str]
) -> None:
    # The new replica of the replacement that did not end dials too, with the secret of another pair.
    cluster = changes.apply(small_cluster.make(), MAKING, now=9.0)
    if offline:
        cluster = clusters.with_node(cluster, dataclasses.replace(cluster.node(offline), offline=True))
    opcode = instance_moves.ReplaceDisks("i1", old=old, new=new)
    assert [one["uuid"] for one in opcode.variables(cluster)["let_go"]] == apart
    held = {f"node/{uuid}" for uuid in ("n2", old, new, "n10")}
    assert set(opcode.wants(cluster)) == {"instance/i1", *held}
    assert set(opcode.hosts(cluster)) == {"n2", old, new, "n10"}
    before = instance_moves.ReplaceDisks("i1", old=old, new=new).time_limit(small_cluster.make())
    assert (opcode.time_limit(cluster) > before) is (new != "n10")


def test_a_replacement_that_is_finished_leaves_nothing_behind_on_its_new_node() -> None:
    cluster = changes.apply(small_cluster.make(), MAKING, now=9.0)
    for new in ("n10", "n1"):
        assert instance_moves.ReplaceDisks("i1", old="n3", new=new).variables(cluster)["given_up"] == []
    finished = instance_moves.ReplaceDisks("i1", old="n3", new="n10").effects(cluster)
    assert left(changes.apply_all(cluster, finished, now=10.0)) == []


def test_no_new_secondary_is_made_where_one_was_left_behind() -> None:
    cluster = moved()
    instance = cluster.instance("i1")
    with pytest.raises(errors.Refused, match="inst1 left a replica on node3, which is removed once node3 answers"):
        instance_moves.ReplaceDisks("i1", old="n10", new="n3").variables(cluster)
    assert set(left_replicas.holding(cluster, instance)) == {"n2", "n10", "n3"}
    there = left_replicas.ReplicaLeft("i1", single_moves.new_secondary(cluster, instance), present=True)
    with pytest.raises(errors.Refused, match="nowhere to go"):
        single_moves.new_secondary(changes.apply(cluster, there, now=10.0), instance)
