"""The step at which a migration was killed x the node that died: what its instance's start and failover do."""

from __future__ import annotations

import dataclasses

import pytest
from ansible_collections.roundsman.cluster.plugins.plugin_utils.cluster import cluster as clusters
from ansible_collections.roundsman.cluster.plugins.plugin_utils.disks import failovers, unfinished_moves
from ansible_collections.roundsman.cluster.plugins.plugin_utils.disks.unfinished_moves import Step

from tests.unit import small_cluster

END = "virsh destroy web1"


def node(name: str, guest: str) -> failovers.Node:
    """A node that has the guest in this state; '' has none, `silent` does not answer, `broken` has no hypervisor."""
    if guest == "silent":
        return failovers.Node(name, answers=False, why="timed out", replicas=None)
    if guest == "broken":
        return failovers.Node(name, why="its hypervisor does not answer (x)", replicas=None)
    return failovers.Node(name, guest=guest)


@pytest.mark.parametrize(
    ("primary", "other", "step"),
    [
        # Killed before the guest left: it is where it was, whatever became of the other node.
        ("running", "", Step.STAYS),
        ("running", "silent", Step.STAYS),
        ("running", "broken", Step.STAYS),
        # Killed after it arrived.
        ("", "running", Step.MOVED),
        # The primary died: nothing is started there.
        ("silent", "running", Step.REFUSE),
        ("silent", "", Step.REFUSE),
        ("silent", "silent", Step.REFUSE),
        ("broken", "running", Step.REFUSE),
        # The other node died after it arrived: that node counts as the one that has the last writes.
        ("", "silent", Step.FAIL_OVER),
        ("", "broken", Step.FAIL_OVER),
        # The guest ended in the hand-over.
        ("", "", Step.NOWHERE),
        ("crashed", "", Step.NOWHERE),
        # Killed in the hand-over.
        ("paused in migration", "", Step.NOWHERE),
        ("paused in migration", "running", Step.REFUSE),
        ("paused in migration", "silent", Step.REFUSE),
        ("paused in migration", "broken", Step.REFUSE),
        ("crashed", "silent", Step.REFUSE),
        ("running", "in migration", Step.REFUSE),
        ("", "paused", Step.REFUSE),
        ("running", "running", Step.REFUSE),
    ],
)
def test_an_instance_of_which_a_migration_has_not_ended_is_started_where_it_is_and_nowhere_twice(
    primary: str, other: str, step: Step
) -> None:
    answer = unfinished_moves.judge("web1", node("node2", primary), node("node3", other), end=END)
    assert answer.step is step
    assert bool(answer.objection) is (step is Step.REFUSE)


@pytest.mark.parametrize("other", ["", "silent", "broken"])
def test_an_instance_whose_migration_goes_on_is_not_where_it_was(other: str) -> None:
    answer = unfinished_moves.judge("web1", node("node2", "running"), node("node3", other), end=END, goes_on=True)
    assert answer.step is Step.REFUSE
    assert "the migration of web1 from node2 to node3 goes on, or how it ended is not known: retry" in answer.objection


@pytest.mark.parametrize(
    ("primary", "other", "where"),
    [
        ("paused in migration", "silent", "node2"),
        ("crashed", "broken", "node2"),
        ("", "paused", "node3"),
        ("running", "in migration", "node3"),
        ("paused in migration", "running", "node2"),
        ("running", "running", "the node whose guest has the older data"),
    ],
)
def test_a_refusal_names_the_command_that_ends_the_guest_and_where_it_is_run(
    primary: str, other: str, where: str
) -> None:
    answer = unfinished_moves.judge("web1", node("node2", primary), node("node3", other), end=END)
    assert f"run `{END}` on {where}" in answer.objection.replace("Run", "run")


@pytest.mark.parametrize("source", ["", "silent"])
@pytest.mark.parametrize(
    ("guest", "is_unfinished", "adopts"),
    [("running", True, True), ("running", False, False), ("paused", True, False), ("", True, False)],
)
def test_a_failover_records_what_an_unfinished_migration_took_to_the_target_and_never_starts_it(
    source: str, guest: str, is_unfinished: bool, adopts: bool
) -> None:
    asked = failovers.Failover(
        "web1", True, node("node2", source), node("node3", guest), is_unfinished=is_unfinished, is_off=True
    )
    assert failovers.adopts(asked) is adopts
    if guest:
        assert bool(failovers.objection(asked)) is not adopts, "what runs there for another reason is refused"
        assert failovers.waits(asked) == {}


@pytest.mark.parametrize(
    ("off", "command"),
    [("", "start"), ("n3", "start"), ("n2", "failover"), ("n2 n3", "start")],
)
def test_what_ends_a_migration_is_named_by_the_nodes_that_may_be_contacted(off: str, command: str) -> None:
    cluster = small_cluster.make()
    for uuid in off.split():
        cluster = clusters.with_node(cluster, dataclasses.replace(cluster.nodes[uuid], offline=True))
    instance = dataclasses.replace(cluster.instances["i1"], moving="n3")
    text = unfinished_moves.text(cluster, instance)
    assert text.startswith("a migration of inst1 from node2 to node3 has not ended, so it may run on node3: ")
    assert f"`roundsman instance {command} inst1`" in text
    assert ("bring node2 back" in text) is (off == "n2 n3")
    assert unfinished_moves.text(cluster, cluster.instances["i1"]) == ""


@pytest.mark.parametrize(("other", "is_named"), [("running", True), ("", True), ("silent", False), ("broken", False)])
def test_where_the_primary_is_silent_the_failover_is_named_if_the_other_node_answers(
    other: str, is_named: bool
) -> None:
    answer = unfinished_moves.judge("web1", node("node2", "silent"), node("node3", other), end=END)
    assert ("run `roundsman instance failover web1`, which needs node2 to be off" in answer.objection) is is_named
