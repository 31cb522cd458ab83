from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from ansible_collections.roundsman.cluster.daemon.api import at_work
from ansible_collections.roundsman.cluster.daemon.jobs import values
from ansible_collections.roundsman.cluster.daemon.jobs.values import Status

from tests.unit import small_cluster
from tests.unit.daemon import twins

CLUSTER = small_cluster.make()
NODE = next(iter(CLUSTER.nodes.values()))


def opcode(kind: str, status: Status = Status.RUNNING, **params: Any) -> values.Opcode:
    return values.Opcode(kind, {"node": NODE.uuid, **params}, status=status, started=5.0)


def numbers(*opcodes: values.Opcode) -> list[int]:
    queue: Any = SimpleNamespace(jobs={7: twins.job(7, *opcodes)})
    return [entry["job"] for entry in at_work.on_node(NODE, queue)]


def test_a_node_is_held_by_a_step_that_changes_it_and_is_at_work() -> None:
    assert numbers(opcode("node_role")) == [7]
    assert numbers(opcode("power", node="", nodes=[NODE.uuid])) == [7]
    assert numbers(opcode("power", Status.SUCCESS), opcode("node_role", Status.QUEUED)) == [7], "between two steps"


def test_reading_waiting_ended_and_tried_steps_and_those_of_instances_hold_no_node() -> None:
    assert numbers(opcode("health")) == numbers(opcode("diagnose")) == []
    assert numbers(opcode("node_role", Status.WAITING)) == numbers(opcode("node_role", Status.SUCCESS)) == []
    assert numbers(opcode("outdate_replica", instance="i")) == []
    assert numbers(values.Opcode("node_role", {"node": NODE.uuid}, status=Status.RUNNING, dry_run=True)) == []
