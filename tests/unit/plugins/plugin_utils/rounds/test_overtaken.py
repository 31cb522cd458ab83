from __future__ import annotations

import dataclasses

import pytest
from ansible_collections.roundsman.cluster.plugins.module_utils.domain import cluster as clusters
from ansible_collections.roundsman.cluster.plugins.plugin_utils.rounds import overtaken, unfinished, work

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


@pytest.mark.parametrize("settings", ["settings storm_minimum=2 storm_fraction=0.1\n"])
def test_in_a_storm_nothing_is_taken_back_because_of_an_evacuation(settings: str) -> None:
    cluster = tables.read(TABLE + ASKS.replace("settings storm_minimum=99\n", settings))
    assert overtaken.reasons(cluster, [_job(MIGRATES)]) == {}


def test_an_instance_whose_migration_has_not_ended_goes_where_it_may_run() -> None:
    cluster = tables.read(TABLE + ASKS)
    moving = dataclasses.replace(cluster.instances["u-instance1"], moving="u-node2")
    assert overtaken.reasons(clusters.with_instance(cluster, moving), [_job(MIGRATES)]) == {}
