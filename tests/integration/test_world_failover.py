"""Failovers in a world that can go wrong: look, fence, act, record. The nodes' journals say what was done."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

import pytest
from ansible_collections.roundsman.cluster.daemon.lab.simulator import fake, simulated_world

from . import interceptions, labs, states

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

pytestmark = pytest.mark.slow
NAME = "instance2"
SOURCE, TARGET = "node2", "node3"
LIES = """#!{python} -I
import subprocess, sys
said = sys.stdin.buffer.read()
if b"instance_info" in said:
    sys.stdout.write({answer!r})
else:
    sys.exit(subprocess.run([{python!r}, *sys.argv[1:]], input=said).returncode)
"""


def failover(one: labs.Running, **body: Any) -> dict[str, Any]:
    return states.job_ended(one, one.put(f"/2/instances/{NAME}/failover", body).json())


def events(one: labs.Running, node: str) -> list[str]:
    """What happened to the instance on a node after it was first started."""
    found = [entry["event"] for entry in one.lab.node(node).journal() if entry.get("instance") == NAME]
    return [event for event in found if event in {"started", "stopped", "received", "handed over"}]


def running_on(one: labs.Running) -> list[str]:
    """The nodes on which the instance runs in truth."""
    return [node.name for node in one.lab.nodes() if NAME in fake.Driver(node.root, opcode="test").running()]


def primary(one: labs.Running) -> str:
    """The primary of the instance on record."""
    cluster = one.cluster()
    return cluster.node_name(cluster.instance(NAME).primary_node)


def counters(one: labs.Running) -> dict[str, int]:
    """How far the instance's writes have come on each replica."""
    return simulated_world.replicas(one.lab.folder / "nodes", NAME)


def test_a_pair_whose_link_is_cut_is_not_failed_over_and_its_instance_not_stopped(
    lab: Callable[..., labs.Running],
) -> None:
    one = lab(nodes=3, instances=3)
    one.lab.node(SOURCE).cut_link(TARGET, is_cut=True)

    ended = failover(one)

    assert ended["status"] == "error"
    assert f"{NAME} was not failed over, and not stopped: the replicas of {NAME} are not in sync" in ended["text"]
    assert (events(one, SOURCE), events(one, TARGET)) == (["started"], [])
    assert (running_on(one), primary(one)) == ([SOURCE], SOURCE)

    one.lab.node(SOURCE).cut_link(TARGET, is_cut=False)
    assert failover(one)["status"] == "success"
    assert (running_on(one), primary(one)) == ([TARGET], TARGET)
    assert one.wrong() == []


def test_whoever_ignores_consistency_loses_what_the_target_does_not_have(lab: Callable[..., labs.Running]) -> None:
    one = lab(nodes=3, instances=3)
    one.lab.node(SOURCE).cut_link(TARGET, is_cut=True)

    ended = failover(one, ignore_consistency=True)

    assert ended["status"] == "success", ended["text"]
    assert (running_on(one), primary(one)) == ([TARGET], TARGET)
    assert (events(one, SOURCE), events(one, TARGET)) == (["started", "stopped"], ["started"])
    assert "ignore_consistency by " in one.where.audit_log.read_text()


@pytest.mark.parametrize("is_ignored", [False, True])
def test_a_replica_that_has_lost_its_disk_is_never_a_target(lab: Callable[..., labs.Running], is_ignored: bool) -> None:
    one = lab(nodes=3, instances=3)
    one.lab.node(TARGET).lose_disk(NAME, is_lost=True)

    ended = failover(one, ignore_consistency=is_ignored)

    assert ended["status"] == "error"
    assert f"on {TARGET} cannot be" in ended["text"]
    assert (events(one, SOURCE), running_on(one), primary(one)) == (["started"], [SOURCE], SOURCE)


def test_a_target_that_does_not_answer_is_noticed_before_the_stop(lab: Callable[..., labs.Running]) -> None:
    one = lab(nodes=3, instances=3)
    one.lab.node(TARGET).silence(is_silent=True)

    ended = failover(one)

    assert ended["status"] == "error"
    assert f"not stopped: {TARGET} does not answer" in ended["text"]
    assert (events(one, SOURCE), running_on(one), primary(one)) == (["started"], [SOURCE], SOURCE)


def test_a_pair_that_parts_between_stop_and_demotion_is_started_again_where_it_was(
    lab: Callable[..., labs.Running], tmp_path: Path
) -> None:
    one = lab(nodes=3, instances=3)
    root = one.lab.node(SOURCE).root
    cut = interceptions.on_node(root, f"cut_link({TARGET!r}, is_cut=True)")
    stop = ("instance_state", '"stopped"')
    seen = interceptions.Interception(one, tmp_path / "stop", node=SOURCE, words=stop, command=cut)

    ended = failover(one)
    seen.wait()

    assert ended["status"] == "error"
    assert f"{NAME} was not failed over to {TARGET}: the replicas of {NAME} are not in sync" in ended["text"]
    assert f"It was started again on {SOURCE}" in ended["text"]
    assert (events(one, SOURCE), events(one, TARGET)) == (["started", "stopped", "started"], [])
    assert (running_on(one), primary(one)) == ([SOURCE], SOURCE)


def test_a_target_that_dies_between_stop_and_demotion_leaves_the_instance_where_it_was(
    lab: Callable[..., labs.Running], tmp_path: Path
) -> None:
    one = lab(nodes=3, instances=3)
    silence = interceptions.on_node(one.lab.node(TARGET).root, "lose_power()")
    stop = ("instance_state", '"stopped"')
    interceptions.Interception(one, tmp_path / "stop", node=SOURCE, words=stop, command=silence)

    ended = failover(one)

    assert ended["status"] == "error"
    assert f"It was started again on {SOURCE}" in ended["text"]
    assert (events(one, SOURCE), running_on(one), primary(one)) == (["started", "stopped", "started"], [SOURCE], SOURCE)


def test_by_hand_an_instance_that_is_not_in_sync_stops_no_other(lab: Callable[..., labs.Running]) -> None:
    one = lab(nodes=4, instances=2, pairs=[("node2", "node3"), ("node2", "node4")])
    one.lab.node("node2").cut_link("node3", is_cut=True)

    done = one.play("evacuate.yml", "-e", "node=node2", "-e", "failover=true")

    assert done.returncode != 0
    assert "instance1 was not failed over, and not stopped" in done.stdout
    assert [fake.Driver(one.lab.node(name).root, opcode="test").running() for name in ("node2", "node4")] == [
        ["instance1"],
        ["instance2"],
    ]


@pytest.mark.parametrize(
    ("node", "words", "found"),
    [
        (SOURCE, ("instance_state", '"stopped"'), SOURCE),
        (SOURCE, ("instance_disks", '"standby"'), SOURCE),
        (TARGET, ("instance_disks", '"active"'), TARGET),
    ],
    ids=["stopped", "demoted", "promoted"],
)
def test_a_failover_that_is_killed_is_recorded_where_its_newest_replica_is(
    lab: Callable[..., labs.Running], tmp_path: Path, node: str, words: tuple[str, ...], found: str
) -> None:
    one = lab(nodes=3, instances=3)
    seen = interceptions.Interception(one, tmp_path / "killed", node=node, words=words, stays=True)
    job = one.put(f"/2/instances/{NAME}/failover", {}).json()
    seen.wait()
    newest = counters(one)

    assert one.delete(f"/2/jobs/{job}").is_success
    ended = states.job_ended(one, job)

    assert ended["status"] == "canceled"
    assert (running_on(one), primary(one)) == ([], found)
    remedy = f"it is down, although it should run: start it with `roundsman instance start {NAME}`"
    assert remedy in ended["opcodes"][0]["text"]
    assert remedy in states.command(one, "explain", NAME).stdout
    assert states.job_ended(one, one.put(f"/2/instances/{NAME}/startup").json())["status"] == "success"
    assert running_on(one) == [found]
    assert min(counters(one).values()) >= max(newest.values())
    assert one.wrong() == []


@pytest.mark.parametrize("is_reported", [False, True], ids=["unnoticed", "on record"])
def test_a_source_that_dies_in_a_slow_stop_after_its_link_was_cut_loses_no_more_than_is_stated(
    lab: Callable[..., labs.Running], tmp_path: Path, is_reported: bool
) -> None:
    one = lab(nodes=3, instances=3)
    one.lab.node(SOURCE).slow_stop(NAME, 120.0)
    cut = interceptions.on_node(one.lab.node(SOURCE).root, f"cut_link({TARGET!r}, is_cut=True)")
    look = ("instance_disks", '"info"')
    seen = interceptions.Interception(one, tmp_path / "look", node=SOURCE, words=look, command=cut)
    job = one.put(f"/2/instances/{NAME}/failover", {}).json()
    seen.wait()
    if is_reported:
        labs.drop(one, "parted.json", labs.report(one, SOURCE, '{"status": "Ok"}'))
        one.until(lambda _: one.cluster().instance(NAME).parted, "the parting is on record")
    one.until(lambda _: counters(one)[SOURCE] > counters(one)[TARGET] + 20, "the source writes on alone")
    one.lab.node(SOURCE).lose_power()

    ended = states.job_ended(one, job)

    if is_reported:
        assert ended["status"] == "error"
        assert "not known to be in sync: node2 reported at " in ended["text"]
        assert " that the pair is not in sync" in ended["text"]
        assert (running_on(one), primary(one)) == ([], SOURCE)
    else:
        assert ended["status"] == "success", ended["text"]
        assert "possible loss: writes of the last " in ended["opcodes"][0]["text"]
        assert running_on(one) == [TARGET]
    assert one.wrong() == []


def test_a_secondary_that_says_it_runs_is_not_recorded_while_its_primary_is_silent(
    lab: Callable[..., labs.Running], tmp_path: Path
) -> None:
    one = lab(nodes=3, instances=3)
    told = {"changed": False, "states": {NAME: "running"}, "running": [NAME], "replicas": [], "interrupted": None}
    lies = tmp_path / "lies"
    lies.write_text(LIES.format(python=sys.executable, answer=json.dumps(told)))
    lies.chmod(0o755)
    stop = ("instance_state", '"stopped"')
    seen = interceptions.Interception(one, tmp_path / "stop", node=SOURCE, words=stop, stays=True)
    job = one.put(f"/2/instances/{NAME}/failover", {}).json()
    seen.wait()
    one.run_modules_with(lies, node=TARGET)
    one.lab.node(SOURCE).cut(is_cut=True)

    assert one.delete(f"/2/jobs/{job}").is_success
    ended = states.job_ended(one, job)

    assert primary(one) == SOURCE
    text = ended["opcodes"][0]["text"]
    assert f"{NAME} runs on {TARGET}" in text, text
    assert "its primary on record was not changed" in text
