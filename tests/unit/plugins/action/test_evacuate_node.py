from __future__ import annotations

import asyncio
import dataclasses
import os
from typing import TYPE_CHECKING, Any

import pytest
from ansible_collections.roundsman.cluster.daemon.lab import orders
from ansible_collections.roundsman.cluster.plugins.action import evacuate_node
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.disks.drbd import Disk
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.values import errors
from ansible_collections.roundsman.cluster.plugins.plugin_utils import holding, log_output
from ansible_collections.roundsman.cluster.plugins.plugin_utils.cluster import cluster as clusters
from ansible_collections.roundsman.cluster.plugins.plugin_utils.disks import possible_loss
from ansible_collections.roundsman.cluster.plugins.plugin_utils.opcodes import room_now

from tests.unit import small_cluster
from tests.unit.daemon.maintenance.test_replicas import NAME

if TYPE_CHECKING:
    from pathlib import Path

    from tests.unit.daemon.maintenance.test_replicas import Pair

    from .running import Controller


def test_replicas_are_judged_again_once_the_locks_are_held(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    play = holding.find_play(str(pair.service.where.root), pid=1)
    options: dict[str, Any] = {"node": "node2", "failover": True, "ignore_consistency": False, "time_limit": 300.0}
    options["max_loss"] = -1
    waited: list[float] = []

    def hold(_play: holding.Play, _wants: Any, *, time_limit: float) -> None:
        waited.append(time_limit)
        if len(waited) == 2:
            asyncio.run(pair.hear("node3", lost=True, disk=Disk.OUTDATED))

    monkeypatch.setattr(holding, "hold", hold)
    cluster, _, plan = evacuate_node._planned(play, options)
    assert [job.opcodes[0].kind for job in plan.jobs] == ["failover", "replace_disks"]
    _, found, held = evacuate_node._held(play, options, cluster, plan)
    assert held == plan
    assert [answer.keeps_back for answer in found.values()] == [False]
    with pytest.raises(errors.Refused, match="changed while the locks were waited for"):
        evacuate_node._held(play, options, cluster, plan)
    assert NAME in {one.subject for one in evacuate_node._planned(play, options)[2].refusals}


def test_a_node_that_lived_since_it_was_known_to_be_off_is_not_passed_over_as_off() -> None:
    cluster = small_cluster.make()
    off = dataclasses.replace(cluster.node("n3"), powered=False, off_since=10.0)
    for node, known in ((off, ["n3"]), (dataclasses.replace(off, alive_at=20.0), [])):
        changed = clusters.with_node(cluster, node)
        assert evacuate_node._look(changed, changed.node_name("n2"), [], left_out={})["off"] == known


def two(*disks: clusters.Disk) -> clusters.Cluster:
    """On node2 run inst1, and web1 with these disks; both have their replica on node3."""
    cluster = dataclasses.replace(small_cluster.make(), maintenance=clusters.Maintenance())
    made = dataclasses.replace(cluster.instances["i1"], disks=(clusters.Disk(10, minor=1),))
    web1 = clusters.Instance("i2", "web1", "n2", ("n3",), disks=disks, memory=64)
    return clusters.with_instance(clusters.with_instance(cluster, made), web1)


def planned(cluster: clusters.Cluster) -> evacuate_node.Steps:
    plan = evacuate_node._plan(cluster, "node2", failover=True, proof={})
    return evacuate_node._steps(cluster, plan, {"ignore_consistency": True, "max_loss": -1}, judged={})


@pytest.mark.parametrize("is_dead", [False, True])
def test_an_instance_with_adopted_disks_leaves_its_node_with_the_others(is_dead: bool) -> None:
    cluster = two(clusters.Disk(10, name="r0"))
    if is_dead:
        cluster = clusters.with_node(cluster, dataclasses.replace(cluster.node("n2"), off_confirmed=5.0, off_since=5.0))
    found = planned(cluster)
    kinds = [(step["kind"], step["variables"]["instance"]["name"]) for step in found.steps]
    both = [("failover", "inst1"), ("failover", "web1")]
    assert kinds == [*both, ("replace_disks", "inst1")] if is_dead else [both[0], ("replace_disks", "inst1"), both[1]]
    assert found.refusals == ()


def test_an_instance_whose_failover_from_a_dead_node_is_refused_is_refused_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(_cluster: clusters.Cluster, instance: clusters.Instance, **_: object) -> None:
        if instance.name == "inst1":
            raise errors.Refused("no room there")

    cluster = two(clusters.Disk(10, minor=2))
    dead = dataclasses.replace(cluster.node("n2"), off_confirmed=5.0, off_since=5.0)
    monkeypatch.setattr(room_now, "refuse_without_memory", refuse)
    found = planned(clusters.with_node(cluster, dead))
    kinds = [(step["kind"], step["variables"]["instance"]["name"]) for step in found.steps]
    assert kinds == [("failover", "web1"), ("replace_disks", "web1")]
    (refusal,) = found.refusals
    assert refusal.reason.startswith("failover inst1: node2 -> ")


def test_a_step_that_is_refused_stops_only_its_own_instance(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_cluster: clusters.Cluster, instance: clusters.Instance, **_: object) -> None:
        if instance.name == "inst1":
            raise errors.Refused("no room there")

    steps = {
        "refuse_without_disk": "replace_disks inst1: node2 -> ",
        "refuse_without_memory": "failover inst1: node2 -> ",
    }
    for rule, step in steps.items():
        with monkeypatch.context() as patched:
            patched.setattr(room_now, rule, refuse)
            found = planned(two(clusters.Disk(10, minor=2)))
        left = [("failover", "inst1")] if rule == "refuse_without_disk" else []
        kinds = [(one["kind"], one["variables"]["instance"]["name"]) for one in found.steps]
        assert kinds == [*left, ("failover", "web1"), ("replace_disks", "web1")]
        (refusal,) = found.refusals
        assert (refusal.subject, refusal.reason.startswith(step)) == ("inst1", True)
        assert refusal.reason.endswith(" is refused: no room there")


def test_a_new_secondary_is_not_made_for_a_move_that_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise errors.Refused("node9 has no room")

    cluster = two(clusters.Disk(10, minor=2))
    cluster = clusters.with_node(cluster, dataclasses.replace(cluster.node("n3"), drained=True))
    assert [step["kind"] for step in planned(cluster).steps][:2] == ["replace_disks", "failover"]
    monkeypatch.setattr(room_now, "refuse_without_memory", refuse)
    found = planned(cluster)
    assert (found.steps, [one.subject for one in found.refusals]) == ((), ["inst1", "web1"])


def test_a_node_that_plays_leave_out_is_neither_evacuated_nor_asked(controller: Controller) -> None:
    left_out = {"roundsman_left_out": {"node2": "node2.yml is owned by uid 12345"}}
    options: dict[str, Any] = {"node": "node2", "is_check": True, "variables": left_out}
    assert controller.refusal("evacuate_node", **options) == (
        "node2 is left out of plays: node2.yml is owned by uid 12345"
    )
    began: dict[str, Any] = {"hostvars": {"node2": {}}}
    assert "node3 is left out of plays" in controller.refusal("evacuate_node", node="node2", variables=began)
    look = evacuate_node._look(small_cluster.make(), "node1", [], left_out={"node2": "no"})
    assert "n2" not in [node["uuid"] for node in look["nodes"]]
    assert "node2" in look["unasked"]


@pytest.mark.parametrize("is_ignored", [False, True])
def test_a_play_by_hand_states_the_loss_of_each_failover_as_data(tmp_path: Path, *, is_ignored: bool) -> None:
    play = holding.find_play(str(tmp_path), pid=os.getpid())
    play.where.lib.mkdir(parents=True)
    steps = planned(two(clusters.Disk(10, minor=2))).steps
    judged = {"i1": possible_loss.Answer(possible_loss.Verdict.GO, 12.5)}
    options: dict[str, Any] = {"node": "node2", "ignore_consistency": is_ignored, "max_loss": 60}
    evacuate_node._audit(play, options, steps, judged=judged)
    found = {stated.instance: stated for stated in orders.stated(play.where.audit_log.read_text())}
    assert sorted(found) == (["inst1", "web1"] if is_ignored else ["inst1"]), "of web1 nothing is known"
    stated = found["inst1"]
    assert (stated.source, stated.target, stated.by) == ("node2", "node3", log_output.user())
    assert (stated.seconds, stated.accepted, stated.is_ignored) == (12.5, 60, is_ignored)
