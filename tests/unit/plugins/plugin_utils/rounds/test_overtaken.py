from __future__ import annotations

import dataclasses

import pytest
from ansible_collections.roundsman.cluster.plugins.plugin_utils.cluster import cluster as clusters
from ansible_collections.roundsman.cluster.plugins.plugin_utils.cluster import incidents
from ansible_collections.roundsman.cluster.plugins.plugin_utils.rounds import overtaken, rounds, unfinished, work
from ansible_collections.roundsman.cluster.plugins.plugin_utils.silent_nodes import dead_nodes

from . import tables

TABLE = (
    "node1 9 9\nnode2 9 9\nnode3 9 9\nnode4 9 9 unpowered\n"
    "instance1 drbd 1 1 node1 node2\ninstance2 drbd 1 1 node4 node2\nincident a1 node1 evacuate pending 1\n"
)
ASKS = "incident b1 node2 evacuate noted 2\nsettings storm_minimum=99\n"


def _step(kind: str, instance: str, old: str, new: str) -> work.Opcode:
    names = ("old", "new") if kind == "replace_disks" else ("source", "target")
    return work.Opcode(kind, {"instance": f"u-{instance}", names[0]: f"u-{old}", names[1]: f"u-{new}"})


def _job(*opcodes: work.Opcode, number: int = 7, is_running: bool = False) -> unfinished.Job:
    return unfinished.Job(number, opcodes, incident="a1", is_running=is_running)


MIGRATES = _step("migrate", "instance1", "node1", "node2")


def test_what_would_go_to_a_node_that_is_to_be_evacuated_is_overtaken() -> None:
    assert overtaken.reasons(tables.read(TABLE), [_job(MIGRATES)]) == {}
    cluster = tables.read(TABLE + ASKS)
    assert overtaken.reasons(cluster, [_job(MIGRATES)]) == {7: "node2 is to be evacuated"}
    by_hand = dataclasses.replace(_job(MIGRATES), incident=None)
    assert overtaken.reasons(cluster, [by_hand]) == {}, "what a person submitted stays"


def test_a_step_that_runs_is_not_overtaken_but_one_after_it_is() -> None:
    cluster = tables.read(TABLE + ASKS)
    assert overtaken.reasons(cluster, [_job(MIGRATES, is_running=True)]) == {}
    first = _step("replace_disks", "instance1", "node2", "node3")
    after = [_step("migrate", "instance1", "node1", "node3"), _step("replace_disks", "instance1", "node1", "node2")]
    assert overtaken.reasons(cluster, [_job(first, *after, is_running=True)]) == {7: "node2 is to be evacuated"}


def test_what_reads_from_a_node_that_is_off_is_overtaken_unless_a_job_before_it_fails_over() -> None:
    cluster = tables.read(TABLE)
    copies = _step("replace_disks", "instance2", "node2", "node3")
    assert overtaken.reasons(cluster, [_job(copies)]) == {7: "node4 is not reachable"}
    failover = _step("failover", "instance2", "node4", "node2")
    later = _step("replace_disks", "instance2", "node4", "node3")
    assert overtaken.reasons(cluster, [_job(failover), _job(later, number=8)]) == {}
    assert overtaken.reasons(cluster, [_job(_step("migrate", "instance1", "node1", "node4"))]) == {
        7: "node4 is not reachable"
    }


def test_a_failover_off_a_dead_node_is_done_before_its_target_is_evacuated() -> None:
    failover = _job(_step("failover", "instance2", "node4", "node2"))
    assert overtaken.reasons(tables.read(TABLE + ASKS), [failover]) == {}
    both_off = tables.read((TABLE + ASKS).replace("node2 9 9", "node2 9 9 unpowered"))
    assert overtaken.reasons(both_off, [failover]) == {7: "node2 is not reachable"}


HELD = ["paused=rest", "storm_minimum=2 storm_fraction=0.1", "storm_minimum=99 capacity_reserve=99"]


@pytest.mark.parametrize("held", HELD)
def test_an_evacuation_that_is_held_takes_nothing_back_however_often_its_node_asks(held: str) -> None:
    noted = "incident b1 node2 evacuate noted 2\nsettings "
    assert overtaken.reasons(tables.read(TABLE + noted + held), [_job(MIGRATES)]) == {}
    assert overtaken.reasons(tables.read(TABLE + noted + "storm_minimum=99"), [_job(MIGRATES)])


def test_while_the_queue_is_drained_only_a_death_takes_anything_back() -> None:
    assert overtaken.reasons(tables.read(TABLE + ASKS), [_job(MIGRATES)], is_drained=True) == {}
    cluster = tables.read(TABLE)
    died = incidents.note(dead_nodes.report(cluster.node("node2")), node="u-node2", uuid="d1", now=2.0)
    told = overtaken.reasons(_with_incident(cluster, died), [_job(MIGRATES)], is_drained=True)
    assert told == {7: "node2 is to be evacuated"}


@pytest.mark.parametrize("reserve", [70, 76, 77, 79, 80])
@pytest.mark.parametrize(("first", "second"), [(2, 3), (3, 2)])
def test_an_evacuation_takes_back_only_what_the_room_allows_that_those_before_it_leave(
    reserve: int, first: int, second: int
) -> None:
    cluster = tables.read(
        "".join(f"node{number} 4096 99999\n" for number in range(1, 8))
        + "instance1 drbd 128 1024 node1 node7\ninstance2 drbd 1024 1024 node2 node4\n"
        "instance3 drbd 1024 1024 node3 node5\nincident a1 node1 evacuate pending 1\n"
        f"incident b1 node{first} evacuate noted 2\nincident c1 node{second} evacuate noted 3\n"
        f"settings storm_minimum=99 capacity_reserve={reserve}\n"
    )
    copies = _step("replace_disks", "instance1", "node1", "node3")
    job = _job(_step("migrate", "instance1", "node1", "node7"), copies)
    plan = rounds.plan(cluster, at_work={"a1": True}, jobs=[job])
    is_held = any(refusal.subject == "node3" and "capacity" in refusal.reason for refusal in plan.refusals)
    assert overtaken.reasons(cluster, [job]) == ({} if is_held else {7: "node3 is to be evacuated"})
    assert is_held is (reserve > (79 if first == 3 else 76))


def test_the_death_of_a_target_takes_back_what_would_go_there_before_its_power_is_known() -> None:
    cluster = tables.read(TABLE)
    died = incidents.note(dead_nodes.report(cluster.node("node2")), node="u-node2", uuid="d1", now=2.0)
    cluster = _with_incident(cluster, died)
    assert overtaken.reasons(cluster, [_job(MIGRATES)]) == {7: "node2 is to be evacuated"}
    back = _with_incident(cluster, dataclasses.replace(died, returned_at=3.0))
    assert overtaken.reasons(back, [_job(MIGRATES)]) == {}


def test_a_start_is_overtaken_once_the_primary_is_off() -> None:
    cluster = tables.read(TABLE)
    start = work.Opcode("startup", {"instance": "u-instance2"})
    assert overtaken.reasons(cluster, [_job(start)]) == {7: "node4 is not reachable"}
    assert overtaken.reasons(cluster, [_job(start, is_running=True)]) == {}
    assert overtaken.reasons(cluster, [_job(work.Opcode("startup", {"instance": "u-instance1"}))]) == {}
    elsewhere = _job(_step("failover", "instance2", "node4", "node2"))
    assert overtaken.reasons(cluster, [elsewhere, _job(start, number=8)]) == {}


def test_a_failover_is_overtaken_once_its_node_is_not_known_to_be_off_any_more() -> None:
    cluster = tables.read(TABLE)
    died = incidents.note(dead_nodes.report(cluster.node("node4")), node="u-node4", uuid="a1", now=2.0)
    cluster = _with_incident(cluster, died)
    failover = _step("failover", "instance2", "node4", "node2")
    copies = _step("replace_disks", "instance1", "node2", "node3")
    assert overtaken.reasons(cluster, [_job(failover)]) == {}
    for changed in ({"powered": True}, {"alive_at": 9.0}):
        node = dataclasses.replace(cluster.node("node4"), **changed)
        booting = clusters.with_node(cluster, node)
        jobs = [_job(failover), _job(copies, number=8)]
        assert overtaken.reasons(booting, jobs) == {7: "node4 is not known to be off any more"}
        moving = dataclasses.replace(booting.instances["u-instance2"], moving="u-node2")
        assert set(overtaken.reasons(clusters.with_instance(booting, moving), jobs)) == {7}
        assert overtaken.reasons(booting, [_job(failover, is_running=True)]) == {}
        back = _with_incident(booting, dataclasses.replace(died, returned_at=9.0))
        assert overtaken.reasons(back, [_job(failover)]) == {}, "a node that answers is asked by the play"


def _with_incident(cluster: clusters.Cluster, stands: incidents.Incident) -> clusters.Cluster:
    known = (*(each for each in cluster.maintenance.incidents if each.uuid != stands.uuid), stands)
    return dataclasses.replace(cluster, maintenance=dataclasses.replace(cluster.maintenance, incidents=known))


def test_an_instance_whose_migration_has_not_ended_goes_where_it_may_run() -> None:
    cluster = tables.read(TABLE + ASKS)
    moving = dataclasses.replace(cluster.instances["u-instance1"], moving="u-node2")
    assert overtaken.reasons(clusters.with_instance(cluster, moving), [_job(MIGRATES)]) == {}
