from __future__ import annotations

import dataclasses

from ansible_collections.roundsman.cluster.plugins.module_utils.domain.disks import replicas
from ansible_collections.roundsman.cluster.plugins.plugin_utils.cluster import changes
from ansible_collections.roundsman.cluster.plugins.plugin_utils.cluster import cluster as clusters
from ansible_collections.roundsman.cluster.plugins.plugin_utils.disks import possible_loss
from ansible_collections.roundsman.cluster.plugins.plugin_utils.rounds import rounds, unfinished, work

from . import steps, tables

NODES = "".join(f"node{k} 16384 100000\n" for k in range(1, 10))


def _plan(table: str, **at_work: bool) -> rounds.RoundPlan:
    return rounds.plan(tables.read(table), at_work=at_work)


def _with(flags: str, node: str = "node1") -> str:
    return NODES.replace(f"{node} 16384 100000\n", f"{node} 16384 100000 {flags}\n")


def _reasons(plan: rounds.RoundPlan) -> list[tuple[str, str]]:
    return [(one.subject, one.reason) for one in plan.refusals]


EVACUATE = "incident a1 node1 evacuate noted 100\n"
PENDING = "incident a1 node1 evacuate pending 100\n"
DRBD = "instance1 drbd 4096 10000 node1 node2\n"


def test_an_evacuation_drains_moves_every_instance_and_sets_offline_in_that_order() -> None:
    plan = _plan(NODES + EVACUATE + DRBD + "instance2 diskless 100 0 node1\n")
    assert list(steps.of(plan.jobs)) == ["drain:node1", "move:instance1", "move:instance2", "offline:node1"]
    assert [steps.text(plan.jobs[0]), steps.text(plan.jobs[-1])] == [
        ["node_role node1 drained"],
        ["node_role node1 offline empty"],
    ]
    assert [job.after for job in plan.jobs] == [
        (),
        ("drain:node1",),
        ("drain:node1",),
        ("drain:node1", "move:instance1", "move:instance2"),
    ]
    assert {job.incident for job in plan.jobs} == {"a1"}
    assert (plan.refusals, plan.completed, plan.failed) == ((), (), ())


def test_evacuate_failover_never_migrates() -> None:
    plan = _plan(NODES + EVACUATE.replace("evacuate", "evacuate-failover") + DRBD)
    assert steps.of(plan.jobs)["move:instance1"][0] == "failover instance1 node1 node2"


def test_a_drained_or_offline_node_is_not_drained_again() -> None:
    assert list(steps.of(_plan(_with("drained") + PENDING + DRBD).jobs)) == [
        "move:instance1",
        "offline:node1",
    ]
    assert list(steps.of(_plan(_with("offline") + PENDING + DRBD).jobs)) == ["move:instance1", "move:instance1:2"]


def test_a_node_is_powered_off_after_its_evacuation_where_the_policy_says_so_and_it_has_oob() -> None:
    policy = "settings power_off_evacuated=yes\n"
    off = _plan(_with("oob") + EVACUATE + policy).jobs[-1]
    assert steps.text(off) == ["node_role node1 offline empty", "power node1 off empty"]
    assert steps.text(_plan(NODES + EVACUATE + policy).jobs[-1]) == ["node_role node1 offline empty"]
    assert steps.text(_plan(_with("oob") + EVACUATE).jobs[-1]) == ["node_role node1 offline empty"]


def test_an_empty_offline_node_is_completed_once_it_is_off_where_the_policy_says_so() -> None:
    policy = "settings power_off_evacuated=yes\n"
    assert _plan(_with("offline oob") + PENDING).completed == ("a1",)
    still_on = _plan(_with("offline oob") + PENDING + policy)
    assert (steps.of(still_on.jobs), still_on.completed) == ({"offline:node1": ["power node1 off empty"]}, ())
    assert _plan(_with("offline unpowered") + PENDING + policy).completed == ("a1",)
    assert _plan(_with("offline") + PENDING + policy).completed == ("a1",)


def test_a_drained_empty_node_is_not_completed_before_it_is_offline() -> None:
    plan = _plan(_with("drained") + PENDING)
    assert (list(steps.of(plan.jobs)), plan.completed) == (["offline:node1"], ())


def test_the_master_is_emptied_but_neither_drained_nor_set_offline() -> None:
    assert list(steps.of(_plan(_with("master") + EVACUATE + DRBD).jobs)) == ["move:instance1"]


def test_the_empty_master_waits_for_the_master_role_to_move() -> None:
    plan = _plan(_with("master") + PENDING)
    assert _reasons(plan) == [("node1", "node1 is the master: it waits for the master role to move")]
    assert (plan.refusals[0].permanent, plan.refusals[0].incident) == (False, "a1")
    assert (plan.jobs, plan.completed, plan.failed) == ((), (), ())


def test_an_instance_without_room_waits_and_the_node_does_not_go_offline() -> None:
    plan = _plan(NODES + EVACUATE + "instance1 diskless 99999 0 node1\ninstance2 diskless 9 0 node1\n")
    assert list(steps.of(plan.jobs)) == ["drain:node1", "move:instance2"]
    assert [one.subject for one in plan.refusals] == ["instance1"]
    again = _plan(_with("drained") + PENDING + "instance1 diskless 99999 0 node1\n")
    assert (again.jobs, again.failed, len(again.refusals)) == ((), (), 1)


PAIR = "node1 16384 100000\nnode2 16384 100000\n"


def test_a_node_of_which_only_a_copy_has_to_stay_is_drained_but_not_set_offline() -> None:
    plan = _plan(PAIR + EVACUATE + DRBD)
    assert steps.of(plan.jobs) == {
        "drain:node1": ["node_role node1 drained"],
        "move:instance1": ["migrate instance1 node1 node2"],
    }
    assert [(one.subject, one.permanent) for one in plan.refusals] == [("instance1", False)]
    assert (plan.completed, plan.failed) == ((), ())


def test_in_the_rounds_after_the_copy_that_stayed_waits_and_goes_once_there_is_a_third_node() -> None:
    moved = PENDING + "instance1 drbd 4096 10000 node2 node1\n"
    waits = _plan(PAIR.replace("node1 16384 100000", "node1 16384 100000 drained") + moved)
    assert (waits.jobs, waits.completed, waits.failed) == ((), (), ())
    assert _reasons(waits) == [("instance1", "no third node in group default (node2 holds its other replica)")]
    goes = _plan(_with("drained") + moved)
    assert steps.of(goes.jobs)["move:instance1"] == ["replace_disks instance1 node1 node3"]
    assert goes.jobs[-1].key == "offline:node1"


PLAIN = "instance3 plain 100 100 node1\n"


def test_while_others_can_move_an_instance_that_never_can_does_not_fail_the_incident() -> None:
    plan = _plan(_with("drained") + PENDING + PLAIN + DRBD)
    assert (list(steps.of(plan.jobs)), plan.failed) == (["move:instance1"], ())
    assert [one.permanent for one in plan.refusals] == [True]


def test_while_others_wait_an_instance_that_never_can_move_does_not_fail_the_incident() -> None:
    assert _plan(_with("drained") + PENDING + PLAIN + "instance1 diskless 99999 0 node1\n").failed == ()


def test_the_incident_fails_when_only_instances_that_can_never_move_are_left() -> None:
    plan = _plan(_with("drained") + PENDING + PLAIN)
    ((uuid, reason),) = plan.failed
    assert uuid == "a1"
    assert reason.startswith("instance3: disk template plain keeps its only replica on node1")
    assert plan.jobs == ()


def test_an_adopted_replica_that_stays_fails_the_incident_once_all_else_has_left() -> None:
    first = _plan(_with("drained") + PENDING + DRBD.replace("\n", " adopted\n"))
    assert (steps.of(first.jobs), first.failed) == ({"move:instance1": ["migrate instance1 node1 node2"]}, ())
    then = _plan(_with("drained") + PENDING + "instance1 drbd 4096 10000 node2 node1 adopted\n")
    ((uuid, reason),) = then.failed
    assert (uuid, then.jobs) == ("a1", ())
    assert reason.startswith("instance1: Roundsman does not replace its disk r-instance1, which was adopted; to give")


def test_a_node_is_drained_before_its_incident_fails() -> None:
    plan = _plan(NODES + EVACUATE + PLAIN)
    assert (list(steps.of(plan.jobs)), plan.failed) == (["drain:node1"], ())


def test_an_instance_on_two_evacuating_nodes_belongs_to_the_first_evacuation() -> None:
    plan = _plan(NODES + EVACUATE + "incident b1 node2 evacuate noted 200\n" + DRBD)
    assert list(steps.of(plan.jobs)) == ["drain:node1", "move:instance1", "offline:node1", "drain:node2"]
    assert _reasons(plan) == [
        ("instance1", "waits: instance1 is moved by the evacuation of node1 (incident a1)"),
    ]
    assert "node2" not in steps.of(plan.jobs)["move:instance1"][1]


def test_two_evacuations_meet_at_a_node_without_hanging_on_each_others_success() -> None:
    plan = _plan(
        _with("group=b", "node9")
        + EVACUATE
        + "incident b1 node2 evacuate noted 200\nsettings moves_per_node=1\n"
        + "instance1 drbd 10 10 node1 node3\ninstance2 drbd 10 10 node2 node3\n"
    )
    second = next(job for job in plan.jobs if job.key == "move:instance2")
    assert (second.after, second.behind) == (("drain:node2",), ("move:instance1",))


def test_nodes_go_by_action_then_age_then_natural_name() -> None:
    plan = _plan(
        NODES
        + "incident a1 node10 evacuate noted 100\n".replace("node10", "node9")
        + "incident b1 node2 evacuate noted 100\n"
        + "incident c1 node3 evacuate noted 50\n"
        + "incident d1 node4 evacuate-failover noted 999\n"
        + "incident e1 node5 live-repair noted 1 command=fix\n"
        + "settings storm_minimum=99\n"
    )
    firsts = [job.key for job in plan.jobs if not job.key.startswith("offline")]
    assert firsts == ["drain:node4", "drain:node3", "drain:node2", "drain:node9", "repair:node5"]


def test_an_incident_with_unfinished_jobs_gets_no_verdict_and_no_new_jobs() -> None:
    assert _plan(NODES + PENDING + DRBD, a1=True) == rounds.RoundPlan()
    assert _plan(_with("offline") + PENDING, a1=True) == rounds.RoundPlan()
    assert _plan(NODES + "incident a1 node1 live-repair pending 1 command=fix\n", a1=True) == rounds.RoundPlan()


BESIDE = (
    "node1 16384 1000\nnode2 16384 1000\nnode3 16384 1000\nnode4 16384 1000 unpowered\n"
    "instance1 drbd 1024 100 node1 node2\ninstance2 drbd 1024 100 node4 node2\n"
    "incident a1 node1 evacuate pending 100\nincident b1 node4 evacuate-failover noted 200\n"
    "settings storm_minimum=99 moves_per_node=1\n"
)


def _copies(number: int, instance: str, old: str, new: str, incident: str = "a1") -> unfinished.Job:
    params = {"instance": f"u-{instance}", "old": f"u-{old}", "new": f"u-{new}", "planned": True}
    return unfinished.Job(number, (work.Opcode("replace_disks", params),), incident=incident, is_running=True)


def test_a_dead_node_is_failed_over_beside_the_resyncs_of_another_evacuation() -> None:
    resync = _copies(7, "instance1", "node2", "node3")
    plan = rounds.plan(tables.read(BESIDE), at_work={"a1": True}, jobs=[resync])
    jobs = {job.key: job for job in plan.jobs}
    assert steps.text(jobs["move:instance2"]) == ["failover instance2 node4 node2"]
    assert (jobs["move:instance2"].behind, jobs["move:instance2"].earlier) == ((), ()), "no failover waits for a resync"
    assert jobs["move:instance2:2"].earlier == (7,), "what copies at the same node has the slot after it"
    assert plan.refusals == ()


def test_an_instance_that_an_unfinished_job_holds_waits_for_that_job() -> None:
    held = _copies(7, "instance2", "node2", "node3")
    plan = rounds.plan(tables.read(BESIDE), at_work={"a1": True}, jobs=[held])
    assert [job.key for job in plan.jobs] == ["drain:node4"]
    (refusal,) = plan.refusals
    assert (refusal.subject, refusal.incident) == ("instance2", "b1")
    assert refusal.reason == "waits: instance2 is moved by job 7 of the evacuation of node1 (incident a1)"
    assert refusal.unblock == "the end of job 7 of the evacuation of node1 (incident a1)"
    (by_hand,) = rounds.plan(tables.read(BESIDE), at_work={}, jobs=[dataclasses.replace(held, incident=None)]).refusals
    assert by_hand.reason == "waits: instance2 is moved by job 7"


def test_a_node_is_not_empty_while_an_unfinished_job_brings_something_there() -> None:
    table = BESIDE.replace("instance2 drbd 1024 100 node4 node2", "instance2 drbd 1024 100 node3 node2")
    coming = _copies(7, "instance2", "node2", "node4")
    plan = rounds.plan(tables.read(table), at_work={"a1": True}, jobs=[coming])
    assert "offline:node4" not in steps.of(plan.jobs)
    assert [one.subject for one in plan.refusals] == ["instance2"]
    assert "offline:node4" in steps.of(rounds.plan(tables.read(table), at_work={"a1": True}).jobs)


def test_a_node_that_is_left_by_unfinished_jobs_takes_nothing_though_its_incident_is_canceled() -> None:
    table = (
        "node1 16384 1000\nnode2 16384 1000\nincident a1 node1 evacuate canceled 1\n"
        "incident b1 node2 evacuate noted 2\ninstance1 diskless 100 0 node2\nsettings storm_minimum=99\n"
    )
    assert "move:instance1" in steps.of(_plan(table).jobs)
    assert "move:instance1" not in steps.of(_plan(table, a1=True).jobs)


def test_of_two_nodes_that_died_all_failovers_come_before_any_resync() -> None:
    table = BESIDE.replace("node1 16384 1000", "node1 16384 1000 unpowered")
    table = table.replace("evacuate pending", "evacuate-failover pending")
    plan = rounds.plan(tables.read(table), at_work={})
    keys = [job.key for job in plan.jobs if job.key.startswith("move")]
    assert keys == ["move:instance1", "move:instance2", "move:instance1:2", "move:instance2:2"]
    resync = next(job for job in plan.jobs if job.key == "move:instance1:2")
    assert "move:instance2" in resync.behind
    assert plan.jobs[-1].key == "offline:node4"


def test_live_repairs_begin_beside_everything() -> None:
    plan = _plan(NODES + PENDING + "incident c1 node3 live-repair noted 1 command=fix\n", a1=True)
    assert list(steps.of(plan.jobs)) == ["repair:node3"]


def test_nodes_with_an_open_or_failed_incident_are_no_targets() -> None:
    for incident in ("live-repair noted", "evacuate failed", "live-repair pending"):
        table = (
            "node1 16384 1000\nnode2 16384 1000\nnode3 9000 1000\n"
            + EVACUATE
            + f"incident b1 node2 {incident} 200 command=fix\ninstance1 diskless 100 0 node1\n"
        )
        assert steps.of(_plan(table).jobs)["move:instance1"] == ["migrate instance1 node1 node3"]


RECOVERED = (
    "node1 16384 1000\nnode2 16384 1000\ninstance1 drbd 1024 100 node1 node2\nincident a1 node1 evacuate noted 100\n"
)
FAILED = "incident b1b2b3b4-x node2 live-repair failed 50 command=fix\n"


def test_a_secondary_that_says_ok_since_an_incident_of_it_failed_is_the_last_resort() -> None:
    cluster = tables.read(RECOVERED + FAILED)
    stays = rounds.plan(cluster, at_work={})
    assert "move:instance1" not in steps.of(stays.jobs)
    assert "node2 free of its incident (`roundsman incident ack b1b2b3b4`)" in stays.refusals[0].unblock
    (move,) = [
        job for job in rounds.plan(cluster, at_work={}, recovered=["u-node2"]).jobs if job.key == "move:instance1"
    ]
    assert steps.text(move) == ["migrate instance1 node1 node2"]
    assert "node2 is the last resort: it says Ok since an incident of it failed" in move.reason
    assert "`roundsman incident ack b1b2b3b4`" in move.reason


def test_a_recovered_secondary_is_no_resort_while_there_is_another_way_or_the_pair_is_not_in_sync() -> None:
    third = tables.read("node3 16384 1000\nnode4 16384 1000\n" + RECOVERED + FAILED)
    (move,) = [job for job in rounds.plan(third, at_work={}, recovered=["u-node2"]).jobs if job.key == "move:instance1"]
    assert steps.text(move)[0] == "replace_disks instance1 node2 node3"
    degraded = changes.apply(
        tables.read(RECOVERED + FAILED),
        changes.InstanceParted("u-instance1", replicas.Parted(5.0, 4.0, "u-node1")),
        now=9.0,
    )
    assert "move:instance1" not in steps.of(rounds.plan(degraded, at_work={}, recovered=["u-node2"]).jobs)
    drained = tables.read((RECOVERED + FAILED).replace("node2 16384 1000\n", "node2 16384 1000 drained\n"))
    assert "move:instance1" not in steps.of(rounds.plan(drained, at_work={}, recovered=["u-node2"]).jobs)


def test_recovered_are_nodes_that_say_ok_since_their_last_failed_incident_and_have_no_open_one() -> None:
    def recovered(incidents: str, *, ok_at: float) -> frozenset[str]:
        return rounds.recovered(tables.read(RECOVERED + incidents), lambda _node, since: ok_at >= since)

    assert recovered(FAILED, ok_at=60.0) == {"u-node2"}
    assert recovered(FAILED, ok_at=40.0) == frozenset()
    assert recovered(FAILED + "incident c1 node2 evacuate noted 60\n", ok_at=99.0) == frozenset()
    assert recovered(FAILED + "incident c1 node2 evacuate failed 80\n", ok_at=70.0) == frozenset()
    assert recovered("incident c1 node2 evacuate completed 80\n", ok_at=99.0) == frozenset()


def test_nodes_with_a_canceled_or_completed_incident_are_targets() -> None:
    for status in ("canceled", "completed"):
        table = (
            "node1 16384 1000\nnode2 16384 1000\nnode3 9000 1000\n"
            + EVACUATE
            + f"incident b1 node2 evacuate {status} 200\ninstance1 diskless 100 0 node1\n"
        )
        assert steps.of(_plan(table).jobs)["move:instance1"] == ["migrate instance1 node1 node2"]


def test_in_a_storm_no_evacuation_begins_and_every_node_says_so() -> None:
    asking = "".join(f"incident a{k} node{k} evacuate noted 100\n" for k in (1, 2, 3))
    repair = "incident b1 node4 live-repair noted 1 command=fix\n"
    plan = _plan(NODES + asking + repair + DRBD)
    assert list(steps.of(plan.jobs)) == ["repair:node4"]
    assert [one.subject for one in plan.refusals] == ["node1", "node2", "node3"]
    assert all("storm" in one.reason for one in plan.refusals)


def test_an_evacuation_that_has_nothing_left_to_do_is_completed_even_in_a_storm() -> None:
    asking = "".join(f"incident a{k} node{k} evacuate pending 100\n" for k in (1, 2, 3))
    assert _plan(_with("offline") + asking).completed == ("a1",)


def test_a_pause_holds_every_job_and_every_verdict() -> None:
    plan = _plan(
        _with("offline")
        + PENDING
        + "incident b1 node2 live-repair noted 1\nincident c1 node3 evacuate noted 1\nsettings paused=audit\n"
    )
    assert {one.reason for one in plan.refusals} == {"maintenance is paused: audit"}
    assert [one.subject for one in plan.refusals] == ["node3", "node1", "node2"]
    assert (plan.jobs, plan.completed, plan.failed) == ((), (), ())


def test_as_if_resumed_the_pause_is_told_first_and_then_what_would_be_done_without_it() -> None:
    table = NODES + EVACUATE + DRBD + "incident b1 node1 live-repair noted 1 command=fix\n"
    cluster = tables.read(table + "settings paused=audit\n")
    resumed = _plan(table)
    shown = rounds.plan(cluster, at_work={}, as_if_resumed=True)
    held = rounds.plan(cluster, at_work={})
    assert (shown.jobs, shown.notes) == (resumed.jobs, resumed.notes)
    assert shown.refusals == (*held.refusals, *resumed.refusals)
    assert shown.refusals[0].reason == "maintenance is paused: audit"
    assert held.jobs == ()


def test_as_if_resumed_nothing_is_added_where_nothing_is_paused() -> None:
    cluster = tables.read(NODES + EVACUATE + DRBD)
    assert rounds.plan(cluster, at_work={}, as_if_resumed=True) == rounds.plan(cluster, at_work={})


def test_as_if_resumed_an_incident_at_work_is_left_alone_all_the_same() -> None:
    cluster = tables.read(NODES + PENDING + DRBD + "settings paused=audit\n")
    assert rounds.plan(cluster, at_work={"a1": True}, as_if_resumed=True) == rounds.RoundPlan()


LIVE = "incident a1 node1 live-repair noted 100 command=fix\n"


def test_a_live_repair_is_one_job_that_gets_the_whole_report_as_input() -> None:
    (job,) = _plan(NODES + LIVE).jobs
    assert (job.key, job.after, job.incident) == ("repair:node1", (), "a1")
    assert job.opcodes[0].params == {"node": "u-node1", "command": "fix", "input": tables.ORIGINAL}


def test_a_live_repair_whose_jobs_have_ended_is_completed() -> None:
    plan = _plan(NODES + LIVE.replace("noted", "pending"))
    assert (plan.jobs, plan.completed) == ((), ("a1",))


def test_a_live_repair_without_command_is_completed_at_once() -> None:
    plan = _plan(NODES + "incident a1 node1 live-repair noted 100\n")
    assert (plan.jobs, plan.completed) == ((), ("a1",))


def test_a_live_repair_waits_until_its_node_is_back() -> None:
    for flags in ("offline", "unpowered"):
        plan = _plan(_with(flags) + LIVE)
        assert (plan.jobs, plan.completed) == ((), ())
        assert _reasons(plan) == [("node1", "it is not reachable: the live repair waits")]
        assert plan.refusals[0].unblock == "node1 reachable again"


def test_a_pending_evacuation_whose_jobs_ended_and_where_work_is_left_gets_further_jobs() -> None:
    plan = _plan(_with("drained") + PENDING + "instance1 drbd 4096 10000 node2 node1\n")
    assert list(steps.of(plan.jobs)) == ["move:instance1", "offline:node1"]


def test_the_less_invasive_incident_of_a_node_waits_for_the_other() -> None:
    plan = _plan(NODES + "incident b1 node1 live-repair noted 1 command=fix\n" + EVACUATE)
    assert list(steps.of(plan.jobs)) == ["drain:node1", "offline:node1"]
    assert _reasons(plan) == [("node1", "waits for incident a1 of the same node")]
    assert plan.refusals[0].incident == "b1"


def test_of_two_equally_invasive_incidents_the_younger_waits() -> None:
    plan = _plan(NODES + "incident b1 node1 evacuate noted 200\n" + EVACUATE)
    assert {job.incident for job in plan.jobs} == {"a1"}
    assert [one.incident for one in plan.refusals] == ["b1"]


def test_an_incident_of_a_node_that_left_the_cluster_is_passed_over() -> None:
    assert _plan(NODES + "incident a1 node77 evacuate pending 100\n") == rounds.RoundPlan()


def test_finished_incidents_get_nothing() -> None:
    for status in ("canceled", "failed", "completed"):
        assert _plan(NODES + PENDING.replace("pending", status) + DRBD) == rounds.RoundPlan()


def test_failures_no_longer_survived_are_notes_of_the_round() -> None:
    plan = _plan(
        "node1 16000 9000\nnode2 16000 9000\nnode4 16000 9000 drained\n"
        "instance8 drbd 13000 10 node4 node2\ninstance1 sharedfile 4096 9 node1\n" + EVACUATE
    )
    assert [note.split(":")[0] for note in plan.notes] == ["node4 may no longer fail"]


def test_planning_again_and_in_another_order_of_the_document_gives_the_equal_plan() -> None:
    table = NODES + EVACUATE + "incident b1 node2 evacuate noted 100\n" + DRBD + "instance2 drbd 10 10 node2 node1\n"
    cluster = tables.read(table)
    turned = dataclasses.replace(
        cluster,
        nodes=dict(reversed(list(cluster.nodes.items()))),
        instances=dict(reversed(list(cluster.instances.items()))),
    )
    assert rounds.plan(cluster, at_work={}) == rounds.plan(cluster, at_work={}) == rounds.plan(turned, at_work={})


def test_evacuations_of_a_round_leave_the_reserve_of_capacity_together() -> None:
    nodes = "".join(f"node{k} 8192 3100\n" for k in range(1, 8))
    table = nodes + EVACUATE + "incident a2 node2 evacuate noted 200\nsettings storm_minimum=9 capacity_reserve={}\n"
    assert _plan(table.format(7)).refusals == ()
    held = _plan(table.format(8))
    assert [job.incident for job in held.jobs if job.key.startswith("drain:")] == []
    assert [one.subject for one in held.refusals] == ["node1", "node2"]
    alone = _plan(nodes + EVACUATE + "settings capacity_reserve=9\n")
    assert (alone.refusals, bool(alone.jobs)) == ((), True)


def test_what_a_migration_may_have_taken_to_a_dead_node_is_failed_over_from_there_before_it_is_moved() -> None:
    cluster = tables.read(NODES + EVACUATE.replace("node1", "node2") + DRBD)
    moving = dataclasses.replace(cluster.instance("instance1"), moving="u-node2")
    plan = rounds.plan(clusters.with_instance(cluster, moving), at_work={})
    assert steps.of(plan.jobs) == {
        "drain:node2": ["node_role node2 drained"],
        "start:instance1": ["failover instance1 node2 node1"],
    }
    assert [(one.subject, one.reason.startswith("waits: ")) for one in plan.refusals] == [("instance1", True)]


def test_what_a_lost_move_may_have_left_down_is_started_before_its_node_is_empty() -> None:
    cluster = tables.read(NODES + EVACUATE + "instance1 drbd 4096 10000 node2 node1\n")
    plan = rounds.plan(cluster, at_work={}, unstarted={"a1": ["u-instance1", "u-gone"]})
    assert steps.of(plan.jobs)["start:instance1"] == ["startup instance1"]
    assert "offline:node1" not in steps.of(plan.jobs)
    silent = clusters.observed(cluster, silent=["u-node2"])
    waits = rounds.plan(silent, at_work={}, unstarted={"a1": ["u-instance1"]})
    assert "start:instance1" not in steps.of(waits.jobs)
    assert "it may be down on node2, which does not answer" in {one.reason for one in waits.refusals}


def test_a_failover_that_waits_for_a_person_is_not_submitted_again_by_the_next_round() -> None:
    cluster = tables.read(NODES + EVACUATE.replace("node1", "node2") + DRBD)
    unfinished = clusters.with_instance(cluster, dataclasses.replace(cluster.instance("instance1"), moving="u-node2"))
    refused = possible_loss.Answer(possible_loss.Verdict.ASK, reason="may lack writes", unblock="`--max-loss 200s`")
    plan = rounds.plan(unfinished, at_work={}, evidence={"u-instance1": refused})
    assert "start:instance1" not in steps.of(plan.jobs)
    assert ("instance1", "may lack writes", "`--max-loss 200s`") in {
        (one.subject, one.reason, one.unblock) for one in plan.refusals
    }


def test_a_start_that_waits_for_a_person_is_not_submitted_again_by_the_next_round() -> None:
    cluster = tables.read(NODES + EVACUATE + "instance1 drbd 4096 10000 node2 node3\n")
    unfinished = clusters.with_instance(cluster, dataclasses.replace(cluster.instance("instance1"), moving="u-node3"))
    lost = {"a1": ["u-instance1"]}
    assert steps.of(rounds.plan(unfinished, at_work={}, unstarted=lost).jobs)["start:instance1"] == [
        "startup instance1"
    ]
    refused = possible_loss.Answer(possible_loss.Verdict.ASK, reason="may lack writes", unblock="`--max-loss 200s`")
    plan = rounds.plan(unfinished, at_work={}, unstarted=lost, evidence={"u-instance1": refused})
    assert "start:instance1" not in steps.of(plan.jobs)
    assert ("instance1", "`--max-loss 200s`") in {(one.subject, one.unblock) for one in plan.refusals}


def test_of_a_dead_node_that_is_back_only_what_a_lost_move_left_down_is_started_and_then_it_is_done() -> None:
    moved = "instance1 drbd 4096 10000 node2 node1\ninstance2 drbd 4096 10000 node1 node3\n"
    cluster = tables.read(_with("drained") + PENDING.replace("evacuate", "evacuate-failover") + moved)
    (incident,) = cluster.maintenance.incidents
    back = dataclasses.replace(incident, returned_at=9.0)
    cluster = dataclasses.replace(cluster, maintenance=dataclasses.replace(cluster.maintenance, incidents=(back,)))
    plan = rounds.plan(cluster, at_work={}, unstarted={"a1": ["u-instance1"]})
    assert (steps.of(plan.jobs), plan.completed) == ({"start:instance1": ["startup instance1"]}, ())
    assert rounds.plan(cluster, at_work={"a1": True}) == rounds.RoundPlan()
    unfinished = clusters.with_instance(cluster, dataclasses.replace(cluster.instance("instance2"), moving="u-node1"))
    for one in (cluster, unfinished):
        assert rounds.plan(one, at_work={}) == rounds.RoundPlan(completed=("a1",)), "it is looked for, and not moved"


def test_an_incident_takes_no_instance_whose_primary_it_cannot_ask() -> None:
    both = EVACUATE + "incident a2 node2 evacuate-failover noted 200\n"
    cluster = tables.read(NODES + both + "instance1 drbd 4096 10000 node2 node3\nsettings storm_minimum=9\n")
    dead = clusters.with_node(cluster, dataclasses.replace(cluster.node("u-node2"), offline=True))
    plan = rounds.plan(dead, at_work={}, unstarted={"a1": ["u-instance1"]})
    assert "failover instance1 node2 node3" in steps.of(plan.jobs)["move:instance1"]


def test_a_live_repair_takes_no_instance_that_a_migration_may_have_brought() -> None:
    repair = EVACUATE + "incident a2 node2 live-repair noted 200\n"
    cluster = tables.read(NODES + repair + DRBD)
    unfinished = clusters.with_instance(cluster, dataclasses.replace(cluster.instance("instance1"), moving="u-node2"))
    plan = rounds.plan(unfinished, at_work={})
    assert not [one for one in plan.refusals if one.subject == "instance1" and "a2" in one.reason]


def test_only_the_master_waits_for_its_role_to_move() -> None:
    cluster = tables.read(NODES + EVACUATE.replace("node1", "node2") + "instance1 sharedfile 4096 10000 node3\n")
    unfinished = dataclasses.replace(cluster.instance("instance1"), moving="u-node2")
    drained = dataclasses.replace(cluster.node("u-node2"), drained=True)
    cluster = clusters.with_node(clusters.with_instance(cluster, unfinished), drained)
    plan = rounds.plan(clusters.observed(cluster, silent=["u-node3"]), at_work={})
    assert not [one for one in plan.refusals if "is the master" in one.reason]
    offline = clusters.with_node(cluster, dataclasses.replace(drained, offline=True))
    assert rounds.plan(offline, at_work={}).completed == ()
