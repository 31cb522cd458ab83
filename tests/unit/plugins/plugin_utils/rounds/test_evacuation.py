from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Collection, Mapping, NamedTuple

import pytest
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.disks import replicas
from ansible_collections.roundsman.cluster.plugins.plugin_utils.cluster import cluster as clusters
from ansible_collections.roundsman.cluster.plugins.plugin_utils.placement.plan import Plan, Refusal
from ansible_collections.roundsman.cluster.plugins.plugin_utils.rounds import evacuation, moving, room, waves
from ansible_collections.roundsman.cluster.plugins.plugin_utils.rounds.basis import Basis

from . import steps, tables

if TYPE_CHECKING:
    from ansible_collections.roundsman.cluster.plugins.plugin_utils.rounds import work


class Evacuated(NamedTuple):
    """The jobs of an evacuation's plan, and what it refuses and notes."""

    jobs: tuple[work.Job, ...]
    refusals: tuple[Refusal, ...]
    notes: tuple[str, ...]


def _plan(
    table: str,
    *,
    failover: bool = False,
    avoid: Collection[str] = (),
    kept: Mapping[str, Refusal] | None = None,
    limit: int = 9,
) -> Evacuated:
    cluster = tables.read(table)
    plan = evacuation.plan(
        Basis(cluster, avoid=avoid), "u-node1", failover=failover, room=room.Room(cluster), kept=kept or {}
    )
    jobs = moving.Jobs(
        cluster,
        failover=failover,
        after=("drain:node1",),
        incident="a1",
        reason="evacuating node1: moving {} away",
        waves=waves.Waves(limit=limit),
    ).make_all(plan.moves)
    return Evacuated(jobs, plan.refusals, plan.notes)


def _only(table: str, **options: object) -> list[str]:
    plan = _plan(table, **options)  # type: ignore[arg-type] # passed on as they are
    assert plan.refusals == ()
    (job,) = plan.jobs
    return steps.text(job)


def _refusal(table: str, **options: object) -> tuple[str, str, bool]:
    plan = _plan(table, **options)  # type: ignore[arg-type] # passed on as they are
    assert plan.jobs == ()
    (refusal,) = plan.refusals
    assert refusal.subject == "instance1"
    return refusal.reason, refusal.unblock, refusal.permanent


def _left(table: str, **options: object) -> tuple[str, str]:
    """Of an instance that goes to its secondary: why its replica stays on node1, and what would free it."""
    plan = _plan(table, **options)  # type: ignore[arg-type] # passed on as they are
    assert list(steps.of(plan.jobs).values()) == [["migrate instance1 node1 node2"]]
    (refusal,) = plan.refusals
    assert (refusal.subject, refusal.permanent) == ("instance1", False)
    moved, reason = refusal.reason.split(": ", 1)
    assert moved == "instance1 runs on node2 then; its replica stays on node1"
    return reason, refusal.unblock


NODES = """
node1 16384 100000
node2 16384 100000
node3 16384 100000
"""
DRBD = "instance1 drbd 4096 10000 node1 node2"


def test_a_replicated_primary_migrates_to_its_secondary_and_gets_a_new_one() -> None:
    assert _only(NODES + DRBD) == ["migrate instance1 node1 node2", "replace_disks instance1 node1 node3"]


def _of_parted(table: str, *, failover: bool = False) -> Evacuated:
    cluster = tables.read(table)
    parted = dataclasses.replace(cluster.instance("instance1"), parted=replicas.Parted(100.0, 90.0, "u-node1"))
    cluster = clusters.with_instance(cluster, parted)
    plan = evacuation.plan(Basis(cluster), "u-node1", failover=failover, room=room.Room(cluster))
    return Evacuated(moving.Jobs(cluster, failover=failover).make_all(plan.moves), plan.refusals, plan.notes)


@pytest.mark.parametrize("failover", [False, True])
def test_an_instance_that_is_not_in_sync_waits_alone_and_the_others_go(failover: bool) -> None:
    plan = _of_parted(
        NODES.replace("node3 16384 100000", "") + DRBD + "\ninstance2 drbd 1024 1000 node1 node2", failover=failover
    )
    (refusal,) = plan.refusals[:1]
    assert (refusal.subject, refusal.permanent) == ("instance1", False)
    assert refusal.reason.startswith("its replica on node2 is not in sync")
    assert "instance1 in sync again: `roundsman instance repair-disks instance1`" in refusal.unblock
    assert [job.key for job in plan.jobs] == ["move:instance2"]


def test_an_instance_that_is_not_in_sync_gets_a_new_secondary_before_it_moves() -> None:
    plan = _of_parted(NODES + "node4 16384 100000\n" + DRBD)
    (job,) = plan.jobs
    assert [step.split()[0] for step in steps.text(job)] == ["replace_disks", "migrate", "replace_disks"]
    assert steps.text(job)[1].split()[-1] != "node2"


def test_it_fails_over_when_live_migration_is_forbidden() -> None:
    assert _only(NODES + DRBD, failover=True)[0] == "failover instance1 node1 node2"


def test_it_fails_over_when_it_is_down() -> None:
    assert _only(NODES + DRBD + " down")[0] == "failover instance1 node1 node2"


def test_it_fails_over_when_the_source_is_offline() -> None:
    table = NODES.replace("node1 16384 100000", "node1 16384 100000 offline") + DRBD
    assert steps.of(_plan(table).jobs)["move:instance1"] == ["failover instance1 node1 node2"]


def test_it_fails_over_when_the_source_is_powered_off() -> None:
    table = NODES.replace("node1 16384 100000", "node1 16384 100000 unpowered") + DRBD
    assert steps.of(_plan(table).jobs)["move:instance1"] == ["failover instance1 node1 node2"]


def test_all_instances_of_a_dead_node_fail_over_before_any_gets_its_new_secondary() -> None:
    table = NODES.replace("node1 16384 100000", "node1 16384 100000 offline") + DRBD
    table += "\ninstance2 drbd 1024 1000 node1 node3\ninstance3 rbd 1024 1000 node1\ninstance4 drbd 9 9 node2 node1\n"
    plan = _plan(table, limit=1)
    assert steps.of(plan.jobs) == {
        "move:instance1": ["failover instance1 node1 node2"],
        "move:instance2": ["failover instance2 node1 node3"],
        "move:instance3": ["failover instance3 node1 node3"],
        "move:instance4": ["replace_disks instance4 node1 node3"],
        "move:instance1:2": ["replace_disks instance1 node1 node3"],
        "move:instance2:2": ["replace_disks instance2 node1 node2"],
    }
    waits = {job.key: job.after for job in plan.jobs}
    behind = {job.key: job.behind for job in plan.jobs}
    assert (waits["move:instance3"], behind["move:instance3"]) == (("drain:node1",), ("move:instance2",))
    assert waits["move:instance4"] == ("drain:node1", "move:instance1", "move:instance3")
    assert waits["move:instance2:2"] == (
        "drain:node1",
        "move:instance2",
        "move:instance1:2",
        "move:instance3",
        "move:instance1",
    )


def test_the_reason_of_each_part_of_a_failover_says_what_it_is_about() -> None:
    table = NODES.replace("node1 16384 100000", "node1 16384 100000 offline") + DRBD
    first, second = _plan(table).jobs
    assert first.reason == "evacuating node1: moving instance1 away"
    assert second.reason == "evacuating node1: moving instance1 away; node3 is the only node with room"


def test_every_job_comes_after_the_drain_and_carries_the_incident() -> None:
    (job,) = _plan(NODES + DRBD).jobs
    assert (job.key, job.after, job.incident) == ("move:instance1", ("drain:node1",), "a1")


DETOUR = [
    "replace_disks instance1 node2 node3",
    "migrate instance1 node1 node3",
    "replace_disks instance1 node1 node4",
]
FOUR = NODES + "node4 16384 90000\n"


def test_a_secondary_with_an_incident_is_replaced_before_the_move() -> None:
    assert _only(FOUR + DRBD, avoid={"u-node2"}) == DETOUR


def test_a_secondary_that_is_drained_offline_off_or_not_vm_capable_is_replaced_before_the_move() -> None:
    for flag in ("drained", "offline", "unpowered", "incapable"):
        table = FOUR.replace("node2 16384 100000", f"node2 16384 100000 {flag}") + DRBD
        assert _only(table) == DETOUR


def test_a_secondary_in_another_group_is_replaced_before_the_move() -> None:
    assert _only(FOUR.replace("node2 16384 100000", "node2 16384 100000 group=b") + DRBD) == DETOUR


def test_a_secondary_without_memory_is_replaced_before_the_move_and_may_keep_a_copy() -> None:
    table = NODES.replace("node2 16384 100000", "node2 3072 10000") + DRBD
    assert _only(table) == [
        "replace_disks instance1 node2 node3",
        "migrate instance1 node1 node3",
        "replace_disks instance1 node1 node2",
    ]


def test_a_copy_does_not_return_to_a_node_whose_disk_is_overfull() -> None:
    table = NODES.replace("node2 16384 100000", "node2 3072 9999") + DRBD
    reason, _, permanent = _refusal(table)
    assert (reason, permanent) == (
        (
            "its secondary node2 has 3072 MiB free and not 4096, "
            "and if it moves to node3, no node has 10000 MiB of disk free: best is node2 with -1"
        ),
        False,
    )


def test_a_bad_secondary_cannot_be_replaced_when_the_source_is_unreachable() -> None:
    table = FOUR.replace("node1 16384 100000", "node1 16384 100000 offline")
    table = table.replace("node2 16384 100000", "node2 16384 100000 drained")
    assert _refusal(table + DRBD) == (
        "its secondary node2 is drained, and node1 is not reachable",
        "node2 back from drained (`roundsman node undrain node2`), or node1 reachable again",
        False,
    )


def test_without_memory_at_the_secondary_and_the_source_unreachable_the_numbers_are_named() -> None:
    table = FOUR.replace("node1 16384 100000", "node1 16384 100000 offline")
    table = table.replace("node2 16384", "node2 3072")
    assert _refusal(table + DRBD)[:2] == (
        "its secondary node2 has 3072 MiB free and not 4096, and node1 is not reachable",
        "1024 MiB more memory on node2, or node1 reachable again",
    )


def test_when_neither_the_secondary_nor_a_new_one_will_do_both_reasons_are_named() -> None:
    table = NODES.replace("node3 16384", "node3 1024") + DRBD
    assert _refusal(table, avoid={"u-node2"})[:2] == (
        "its secondary node2 is part of an incident, and no node has 4096 MiB free: best is node3 with 1024",
        "node2 free of its incident, or 3072 MiB more memory on node3",
    )


def test_a_secondary_on_the_node_is_replaced() -> None:
    assert _only(NODES + "instance1 drbd 4096 10000 node2 node1") == ["replace_disks instance1 node1 node3"]


def test_a_secondary_is_not_replaced_while_its_primary_is_unreachable() -> None:
    table = NODES.replace("node2 16384 100000", "node2 16384 100000 offline")
    assert _refusal(table + "instance1 drbd 4096 10000 node2 node1") == (
        "its primary node2 is not reachable",
        "node2 reachable again",
        False,
    )


def test_instances_whose_disks_are_elsewhere_move_to_the_best_node_of_the_group() -> None:
    for template in ("sharedfile", "rbd", "ext", "gluster", "diskless", "blockdev"):
        table = NODES + f"instance9 sharedfile 1024 9 node2\ninstance1 {template} 4096 10000 node1"
        assert _only(table) == ["migrate instance1 node1 node3"]
        assert _only(table, failover=True) == ["failover instance1 node1 node3"]


def test_plain_and_file_instances_can_never_move() -> None:
    for template in ("plain", "file"):
        assert _refusal(NODES + f"instance1 {template} 4096 10000 node1") == (
            (
                f"disk template {template} keeps its only replica on node1: it can never be moved; "
                "move it by hand or remove it"
            ),
            "",
            True,
        )


def test_an_unknown_disk_template_can_never_move() -> None:
    assert _refusal(NODES + "instance1 tape 4096 10000 node1")[2] is True


def test_a_running_instance_that_cannot_be_migrated_never_moves_unless_failover_is_used() -> None:
    table = NODES + DRBD + " migratable=no"
    assert _refusal(table)[2] is True
    assert _only(table, failover=True)[0] == "failover instance1 node1 node2"
    assert _only(table + " down")[0] == "failover instance1 node1 node2"


def test_a_copy_of_an_instance_that_cannot_be_migrated_can_be_replaced() -> None:
    table = NODES + "instance1 drbd 4096 10000 node2 node1 migratable=no"
    assert _only(table) == ["replace_disks instance1 node1 node3"]


def test_a_replicated_instance_without_second_copy_waits_for_one() -> None:
    reason, unblock, permanent = _refusal(NODES + "instance1 drbd 4096 10000 node1")
    assert (reason, permanent) == ("it has no secondary replica to move to", False)
    assert unblock


def test_only_open_nodes_of_the_group_are_targets() -> None:
    for flag in ("drained", "offline", "unpowered", "incapable", "group=b"):
        table = NODES.replace("node2 16384 100000", f"node2 16384 100000 {flag}")
        assert _only(table + "instance1 sharedfile 4096 9 node1") == ["migrate instance1 node1 node3"]
    assert _only(NODES + "instance1 sharedfile 4096 9 node1", avoid={"u-node2"}) == ["migrate instance1 node1 node3"]


def test_a_powered_off_node_without_oob_counts_as_reachable() -> None:
    table = NODES.replace("node2 16384 100000", "node2 16384 100000 oob")
    assert _only(table + "instance1 sharedfile 4096 9 node1") == ["migrate instance1 node1 node2"]


def test_memory_that_is_lacking_is_named_in_numbers() -> None:
    table = """
    node1 16384 100000
    node2 16384 100000 drained
    node3 16384 100000 drained
    node4 16384 100000 offline
    node5 1024 100000 drained
    node7 3072 100000
    node8 2048 100000
    instance1 sharedfile 4096 9 node1
    """
    assert _refusal(table) == (
        "no node has 4096 MiB free: best is node7 with 3072",
        (
            "1024 MiB more memory on node7, or node4 back from offline (`roundsman node online node4`), or one of "
            "node2, node3 back from drained (`roundsman node undrain NODE`)"
        ),
        False,
    )


def test_disk_that_is_lacking_is_named_in_numbers() -> None:
    table = NODES.replace("node3 16384 100000", "node3 16384 9000") + DRBD
    assert _left(table) == (
        "no node has 10000 MiB of disk free: best is node3 with 9000",
        "1000 MiB more disk on node3",
    )


TWO = "node1 16384 100000\nnode2 16384 100000\n"


def test_without_a_third_node_it_moves_to_its_secondary_and_its_copy_stays() -> None:
    for more in ("", "node3 16384 100000 group=b\n"):
        assert _left(TWO + more + DRBD) == (
            "no third node in group default (node2 holds its other replica)",
            "another node in group default",
        )


def test_when_no_third_node_takes_its_copy_it_moves_to_its_secondary_and_its_copy_stays() -> None:
    for flag, command in (("drained", "undrain"), ("offline", "online")):
        assert _left(f"{TWO}node3 16384 100000 {flag}\n{DRBD}") == (
            "no other node of group default takes it (node2 holds its other replica)",
            f"node3 back from {flag} (`roundsman node {command} node3`)",
        )


def test_a_third_node_that_would_have_no_disk_either_is_no_cure() -> None:
    assert _left(f"{TWO}node3 16384 9000 drained\n{DRBD}")[1] == "another node in group default"


def test_a_stopped_instance_whose_copy_stays_is_failed_over_and_is_not_said_to_run() -> None:
    plan = _plan(TWO + DRBD + " down")
    assert steps.of(plan.jobs) == {"move:instance1": ["failover instance1 node1 node2"]}
    assert [one.reason.split(";")[0] for one in plan.refusals] == ["instance1 is on node2 then"]


def test_an_instance_fails_over_from_a_dead_node_even_if_its_copy_stays() -> None:
    plan = _plan("node1 16384 100000 unpowered\nnode2 16384 100000\n" + DRBD)
    assert steps.of(plan.jobs) == {"move:instance1": ["failover instance1 node1 node2"]}
    assert len(plan.refusals) == 1


ADOPTED = f"{DRBD} adopted"
NOT_REPLACED = (
    "Roundsman does not replace its disk r-instance1, which was adopted; to give instance1 another secondary, use "
    "drbdadm, then correct its secondary_nodes on record (`roundsman config export`, `roundsman config import`)"
)


@pytest.mark.parametrize(
    ("flags", "opcode", "verb"),
    [
        ("", "migrate", "runs"),
        (" down", "failover", "is"),
    ],
)
def test_an_instance_with_adopted_disks_goes_to_its_secondary_and_its_replica_stays(
    flags: str, opcode: str, verb: str
) -> None:
    plan = _plan(NODES + ADOPTED + flags)
    assert steps.of(plan.jobs) == {"move:instance1": [f"{opcode} instance1 node1 node2"]}
    (refusal,) = plan.refusals
    assert refusal.reason == f"instance1 {verb} on node2 then; its replica stays on node1: {NOT_REPLACED}"
    assert (refusal.subject, refusal.unblock, refusal.permanent) == ("instance1", "", True)


def test_an_instance_with_adopted_disks_fails_over_from_a_dead_node() -> None:
    plan = _plan(NODES.replace("node1 16384 100000", "node1 16384 100000 unpowered") + ADOPTED)
    assert steps.of(plan.jobs) == {"move:instance1": ["failover instance1 node1 node2"]}
    assert [one.reason.endswith(NOT_REPLACED) for one in plan.refusals] == [True]


def test_an_instance_with_adopted_disks_gets_no_new_secondary_to_move_to() -> None:
    reason, unblock, permanent = _refusal(NODES.replace("node2 16384 100000", "node2 16384 100000 drained") + ADOPTED)
    assert reason == f"its secondary node2 is drained, and {NOT_REPLACED}"
    assert (unblock, permanent) == ("node2 back from drained (`roundsman node undrain node2`)", False)


@pytest.mark.parametrize("primary", ["node2 16384 100000", "node2 16384 100000 offline"])
def test_a_replica_of_adopted_disks_never_leaves_its_node(primary: str) -> None:
    table = NODES.replace("node2 16384 100000", primary) + "instance1 drbd 4096 10000 node2 node1 adopted"
    assert _refusal(table) == (NOT_REPLACED, "", True)


def test_adopted_disks_on_shared_storage_keep_no_instance_on_its_node() -> None:
    assert len(_only(NODES + "instance1 sharedfile 4096 10000 node1 adopted")) == 1


def test_one_instance_with_adopted_disks_holds_no_other_back() -> None:
    plan = _plan(NODES + ADOPTED + "\ninstance2 drbd 1024 1000 node1 node2\ninstance3 drbd 1024 1000 node2 node1\n")
    assert list(steps.of(plan.jobs)) == ["move:instance1", "move:instance2", "move:instance3"]
    assert [one.subject for one in plan.refusals] == ["instance1"]


def test_no_instance_goes_to_a_secondary_without_memory_for_the_sake_of_leaving() -> None:
    reason, unblock, permanent = _refusal("node1 16384 100000\nnode2 3072 100000\n" + DRBD)
    assert reason == (
        "its secondary node2 has 3072 MiB free and not 4096, "
        "and no third node in group default (node2 holds its other replica)"
    )
    assert (unblock, permanent) == ("1024 MiB more memory on node2, or another node in group default", False)


def test_moves_whose_copies_stay_share_no_memory_at_the_secondary() -> None:
    plan = _plan("node1 16384 9\nnode2 6000 9\ninstance1 drbd 4096 1 node1 node2\ninstance2 drbd 2048 1 node1 node2")
    assert list(steps.of(plan.jobs)) == ["move:instance1"]
    assert [one.subject for one in plan.refusals] == ["instance1", "instance2"]


def test_a_copy_that_stays_loses_no_failure_that_was_survived() -> None:
    assert _plan("node1 4096 100000\nnode2 4096 100000\n" + DRBD).notes == ()


def test_a_copy_that_stays_on_an_overfull_node_is_named_with_what_is_free_there() -> None:
    assert _plan("node1 4000 100000\nnode2 4096 100000\n" + DRBD).notes == (
        "node2 may no longer fail: node1 has 4000 MiB free for the 4096 MiB that would start there",
    )


def test_a_copy_without_a_third_node_waits_and_says_so() -> None:
    assert _refusal(TWO + "instance1 drbd 4096 10000 node2 node1") == (
        "no third node in group default (node2 holds its other replica)",
        "another node in group default",
        False,
    )


def test_what_a_new_primary_would_lack_for_the_second_copy_is_told_as_such() -> None:
    assert _refusal(NODES.replace("node2 16384 100000", "node2 16384 100000 group=b") + DRBD)[0] == (
        "its secondary node2 is in another group, "
        "and if it moves to node3, no third node in group default (node3 holds its other replica)"
    )


def test_memory_and_disk_on_different_nodes_are_no_room() -> None:
    table = "node1 9000 90000\nnode2 9000 90000 drained\nnode3 9000 900\nnode4 900 90000\n" + DRBD
    reason, unblock, _ = _refusal(table)
    assert reason.endswith(
        "no node has both 4096 MiB of memory and 10000 MiB of disk free: best is node4 with 900 MiB of memory"
    )
    assert unblock == "node2 back from drained (`roundsman node undrain node2`), or 3196 MiB more memory on node4"


def test_without_any_other_node_the_group_is_named() -> None:
    assert _refusal("node1 9000 9000\ninstance1 sharedfile 4096 9 node1")[:2] == (
        "no other node of group default takes instances",
        "another node in group default",
    )


def test_many_nodes_that_would_help_are_counted_and_not_all_named() -> None:
    drained = "\n".join(f"node{k} 9000 9000 drained" for k in range(2, 10))
    assert _refusal(f"node1 9000 9000\n{drained}\ninstance1 sharedfile 4096 9 node1")[1] == (
        "one of node2, node3, node4, node5, node6 and 3 more back from drained (`roundsman node undrain NODE`)"
    )


def test_the_target_with_the_best_score_of_the_cluster_is_best() -> None:
    table = "node1 9000 9000\nnode2 10000 9000\nnode3 20000 9000\ninstance1 sharedfile 4096 9 node1"
    assert _only(table) == ["migrate instance1 node1 node3"]


def test_a_score_counts_instances_before_room() -> None:
    table = """
    node1 90000 9000
    node2 90000 9000
    node3 20000 9000
    instance7 sharedfile 100 9 node2
    instance8 sharedfile 100 9 node2
    instance1 sharedfile 4096 9 node1
    """
    assert _only(table) == ["migrate instance1 node1 node3"]


def test_what_an_evacuation_moved_counts_for_the_next_choice() -> None:
    table = NODES + "instance1 sharedfile 1000 9 node1\ninstance2 sharedfile 1000 9 node1"
    assert [steps.text(job) for job in _plan(table).jobs] == [
        ["migrate instance1 node1 node2"],
        ["migrate instance2 node1 node3"],
    ]


def test_why_a_node_was_chosen_is_told() -> None:
    (job,) = _plan(FOUR + DRBD).jobs
    assert job.reason == "evacuating node1: moving instance1 away; node3 is the best of 2 nodes with room"
    (job,) = _plan(NODES + DRBD).jobs
    assert job.reason.endswith("; node3 is the only node with room")


def test_virtual_cpus_beyond_the_policy_are_refused_with_numbers() -> None:
    table = """
    node1 16384 100000 cpus=4
    node2 16384 100000 cpus=1
    instance1 sharedfile 4096 9 node1 vcpus=4
    """
    assert _refusal(table) == (
        "no node with room has 4 virtual CPUs left: best is node2 with 3",
        "1 virtual CPU less in use on node2, or a higher vcpu-ratio in the instance policy",
        False,
    )
    assert _only(table.replace("vcpus=4", "vcpus=3")) == ["migrate instance1 node1 node2"]


def test_a_secondary_without_virtual_cpus_is_replaced_before_the_move() -> None:
    table = FOUR.replace("node2 16384 100000", "node2 16384 100000 cpus=1") + DRBD + " vcpus=4"
    assert _only(table)[:2] == DETOUR[:2]


def test_virtual_cpus_and_tags_keep_nothing_on_a_node_that_is_gone() -> None:
    table = """
    tags htools:iextags:dns
    node1 16384 100000 offline
    node2 16384 100000 cpus=1
    instance1 sharedfile 4096 9 node1 vcpus=4 tags=dns
    instance2 sharedfile 4096 9 node2 tags=dns
    """
    assert _only(table) == ["failover instance1 node1 node2"]


EXCLUSIVE = """
tags htools:iextags:dns
node1 16384 100000
node2 16384 100000
node3 16384 100000
instance2 sharedfile 10 9 node2 tags=dns-a
"""


def test_instances_with_the_same_exclusion_tag_stay_apart() -> None:
    assert _only(EXCLUSIVE + "instance3 sharedfile 10 9 node3\ninstance1 sharedfile 10 9 node1 tags=dns-a") == [
        "migrate instance1 node1 node3"
    ]
    assert _only(EXCLUSIVE + "instance3 sharedfile 10 9 node3\ninstance1 sharedfile 10 9 node1 tags=dns-b") == [
        "migrate instance1 node1 node2"
    ]


def test_two_that_leave_the_same_node_stay_apart_as_well() -> None:
    plan = _plan(EXCLUSIVE + "instance1 sharedfile 9 9 node1 tags=dns-b\ninstance4 sharedfile 8 9 node1 tags=dns-b")
    assert len({job.opcodes[0].params["target"] for job in plan.jobs}) == 2


def test_a_tag_that_is_everywhere_is_a_refusal_that_says_so() -> None:
    assert _refusal(EXCLUSIVE + "instance3 sharedfile 10 9 node3 tags=dns-a\ninstance1 rbd 10 9 node1 tags=dns-a") == (
        "another instance with the exclusion tag dns-a is on each node with room",
        "that instance off one of node2, node3",
        False,
    )


def test_a_secondary_beside_an_excluded_instance_is_replaced_before_the_move() -> None:
    table = EXCLUSIVE + "node4 16384 100000\n" + DRBD + " tags=dns-a"
    assert _only(table)[0].startswith("replace_disks instance1 node2 ")


MIGRATION = """
tags htools:migration:os
node1 16384 100000 tags=os:new
node2 16384 100000 tags=os:old
"""


def test_no_instance_migrates_live_against_migration_tags() -> None:
    one = "instance1 sharedfile 10 9 node1"
    assert _refusal(MIGRATION + one) == (
        "no node with room receives live migrations from node1 (migration tags)",
        "other migration tags",
        False,
    )
    assert _only(MIGRATION + one, failover=True) == ["failover instance1 node1 node2"]
    assert _only(MIGRATION + "tags htools:allowmigration:os:new::os:old\n" + one) == ["migrate instance1 node1 node2"]


def test_of_equally_utilised_targets_the_one_with_fewer_instances_is_best() -> None:
    table = NODES + "instance8 sharedfile 0 9 node2\ninstance1 sharedfile 4096 9 node1"
    assert _only(table) == ["migrate instance1 node1 node3"]


def test_of_equal_targets_the_first_by_natural_name_is_best() -> None:
    table = "node1 9000 9000\nnode10 9000 9000\nnode2 9000 9000\ninstance1 sharedfile 4096 9 node1"
    assert _only(table) == ["migrate instance1 node1 node2"]


def test_a_target_that_keeps_n_plus_1_is_preferred_to_a_less_utilised_one() -> None:
    table = """
    node1 16000 9000
    node2 16000 9000
    node3 9000 9000
    node4 16000 9000
    instance8 drbd 13000 10 node4 node2
    instance1 sharedfile 4096 9 node1
    """
    plan = _plan(table)
    assert steps.text(plan.jobs[0]) == ["migrate instance1 node1 node3"]
    assert plan.notes == ()


def test_where_no_target_keeps_n_plus_1_the_plan_goes_on_and_names_the_failure() -> None:
    table = """
    node1 16000 9000
    node2 16000 9000
    node4 16000 9000 drained
    instance8 drbd 13000 10 node4 node2
    instance1 sharedfile 4096 9 node1
    """
    plan = _plan(table)
    assert steps.text(plan.jobs[0]) == ["migrate instance1 node1 node2"]
    assert plan.notes == (
        "node4 may no longer fail: node2 has 11904 MiB free for the 13000 MiB that would start there",
    )


def test_a_new_secondary_has_memory_for_the_failure_of_the_new_primary_if_one_does() -> None:
    table = "node1 16384 90000\nnode2 16384 90000\nnode3 3000 900000\nnode4 16384 20000\n" + DRBD
    plan = _plan(table)
    assert steps.text(plan.jobs[0])[1] == "replace_disks instance1 node1 node4"


def test_a_secondary_that_would_lose_n_plus_1_is_replaced_before_the_move_where_another_keeps_it() -> None:
    table = FOUR + "node5 16384 90000\n" + DRBD + "\ninstance8 drbd 13000 10 node5 node2"
    plan = _plan(table)
    assert steps.text(plan.jobs[0])[:2] == [
        "replace_disks instance1 node2 node3",
        "migrate instance1 node1 node3",
    ]
    assert plan.notes == ()


def test_a_secondary_keeps_n_plus_1_when_only_the_evacuated_node_reserves_memory_there() -> None:
    table = NODES.replace("node2 16384", "node2 4096") + DRBD
    assert _only(table)[0] == "migrate instance1 node1 node2"


def test_no_move_counts_on_the_room_that_another_one_frees() -> None:
    table = """
    node1 16000 9000
    node2 4096 9000
    node3 9000 9000 drained
    instance1 sharedfile 4096 9 node1
    instance2 sharedfile 4096 9 node1
    """
    plan = _plan(table)
    assert list(steps.of(plan.jobs)) == ["move:instance1"]
    assert [one.reason for one in plan.refusals] == ["no node has 4096 MiB free: best is node2 with 0"]


def test_two_evacuations_of_a_round_share_no_room() -> None:
    cluster = tables.read(
        "node1 9000 9000\nnode2 9000 9000\nnode3 4096 9000\n"
        "instance1 sharedfile 4096 9 node1\ninstance2 sharedfile 4096 9 node2"
    )
    shared, avoid = room.Room(cluster), {"u-node1", "u-node2"}
    first, second = (
        evacuation.plan(Basis(cluster, avoid=avoid), node, failover=False, room=shared)
        for node in ("u-node1", "u-node2")
    )
    assert len(first.moves) == 1
    assert (second.moves, len(second.refusals)) == ((), 1)


def test_an_instance_that_is_kept_is_refused_as_it_says() -> None:
    kept = {"u-instance1": Refusal("instance1", "waits: another job moves it", "the end of job 7")}
    assert _refusal(NODES + DRBD, kept=kept) == ("waits: another job moves it", "the end of job 7", False)


def test_replicated_primaries_go_first_then_other_primaries_then_copies_and_large_before_small() -> None:
    table = (
        NODES
        + """
    instance1 drbd 100 10 node2 node1
    instance2 sharedfile 300 10 node1
    instance3 drbd 100 10 node1 node2
    instance4 drbd 200 10 node1 node2
    instance10 drbd 200 10 node1 node2
    """
    )
    assert [job.key.removeprefix("move:instance") for job in _plan(table).jobs] == ["4", "10", "3", "2", "1"]


def test_no_more_moves_run_at_the_evacuated_node_than_the_limit() -> None:
    many = "".join(f"node{k} 16384 100000\n" for k in range(1, 9))
    table = many + "\n".join(f"instance{k} diskless 10 10 node1" for k in range(1, 6))
    jobs = _plan(table, limit=2).jobs
    assert [job.after for job in jobs] == [
        ("drain:node1",),
        ("drain:node1",),
        ("drain:node1", "move:instance1"),
        ("drain:node1", "move:instance2"),
        ("drain:node1", "move:instance3"),
    ]


def test_a_node_without_instances_needs_no_moves() -> None:
    cluster = tables.read(NODES)
    empty = evacuation.plan(Basis(cluster), "u-node1", failover=False, room=room.Room(cluster))
    assert empty == Plan()


def test_a_failure_that_was_not_survived_before_is_not_called_lost() -> None:
    cluster = tables.read("node1 9000 9000\nnode2 1000 9000\ninstance1 drbd 2000 100 node1 node2")
    watched = evacuation.Survival(room.Room(cluster))
    watched.watch(["u-node1", "u-node2"])
    assert watched.lost() == ()


def test_a_failure_that_is_survived_no_longer_is_named_with_its_numbers() -> None:
    cluster = tables.read(
        "node1 9000 9000\nnode2 3000 9000\nnode3 9000 900\n"
        "instance1 drbd 2000 100 node1 node2\ninstance2 sharedfile 1500 9 node3"
    )
    stands = room.Room(cluster)
    watched = evacuation.Survival(stands)
    watched.watch(["u-node2"])
    stands.move(cluster.instance("instance2"), primary="u-node2", secondaries=())
    assert watched.lost() == (
        "node1 may no longer fail: node2 has 1500 MiB free for the 2000 MiB that would start there",
    )


@pytest.mark.parametrize("is_dead", [False, True])
@pytest.mark.parametrize(
    ("line", "step"),
    [
        ("instance1 sharedfile 4096 10000 node1", "failover instance1 node1 node3"),
        ("instance1 drbd 4096 10000 node1 node3", "failover instance1 node1 node3"),
    ],
)
def test_what_a_migration_may_have_taken_to_a_node_goes_there_or_waits_for_it(
    line: str, step: str, *, is_dead: bool
) -> None:
    """It may run there: a failover to another node is refused, and its incident would fail."""
    cluster = tables.read(NODES.replace("node2 16384", "node2 65536") + line)
    cluster = clusters.with_instance(cluster, dataclasses.replace(cluster.instance("instance1"), moving="u-node3"))
    if is_dead:
        cluster = clusters.with_node(cluster, dataclasses.replace(cluster.node("u-node1"), offline=True))

    def planned(seen: clusters.Cluster) -> Evacuated:
        found = evacuation.plan(Basis(seen), "u-node1", failover=True, room=room.Room(seen))
        return Evacuated(moving.Jobs(seen, failover=True).make_all(found.moves), found.refusals, found.notes)

    (job,) = planned(cluster).jobs
    assert steps.text(job) == [step]
    waits = planned(clusters.observed(cluster, silent=["u-node3"]))
    assert waits.jobs == ()
    (refusal,) = waits.refusals
    assert (refusal.unblock, refusal.permanent) == ("node3 reachable", False)
