"""Failover from a node that died: only what the reports show to be in sync is started, and the loss is stated."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.disks.drbd import Disk
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.values import errors
from ansible_collections.roundsman.cluster.plugins.module_utils.storage import drbd_node, programs, replica_facts

from . import interceptions, labs, states
from .test_dead_nodes import everyone_answers, runs, up

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

PAIR = (("node2", "node3"),)


def disk(one: labs.Running, node: str) -> Disk:
    """How the replica on a node is, as its DRBD says."""
    (fact,) = replica_facts.read(one.lab.node(node).root, hypervisor="fake").replicas or ()
    return fact.disk


def failovers(one: labs.Running) -> list[dict[str, Any]]:
    """The opcodes that fail instances over, in the order of their jobs."""
    jobs = sorted(one.get("/1/jobs"), key=lambda job: int(job["id"]))
    return [opcode for job in jobs for opcode in job["opcodes"] if opcode["kind"] == "failover"]


def ended(one: labs.Running, answer: Any) -> dict[str, Any]:
    """A job that was submitted, once it has ended."""
    assert answer.is_success, answer.text
    number = int(answer.json())

    def look(_: labs.Running) -> Any:
        found = next(job for job in one.get("/1/jobs") if job["id"] == number)
        return found if found["status"] in {"success", "error", "canceled"} else None

    found: dict[str, Any] = one.until(look, f"job {number} ends")
    return found


@pytest.mark.slow
def test_after_a_power_cut_the_instance_starts_elsewhere_with_the_possible_loss_stated(
    lab: Callable[..., labs.Running],
) -> None:
    one = up(lab)
    one.until(everyone_answers, "all agents answer")
    held = [instance.name for instance in one.cluster().primaries(one.cluster().node("node2").uuid)]
    assert held
    one.lab.node("node2").lose_power()
    one.until(states.reads("node2", "completed"), "its instances are elsewhere")

    done = failovers(one)
    assert len(done) == len(held)
    assert all(opcode["text"].startswith("possible loss: writes of the last ") for opcode in done)
    assert runs(one, "node2") == []
    assert one.cluster().primaries(one.cluster().node("node2").uuid) == []
    assert one.wrong() == []


@pytest.mark.slow
def test_what_a_playbook_asks_of_nodes_is_evidence_as_what_agents_report(lab: Callable[..., labs.Running]) -> None:
    one = lab(nodes=3, pairs=PAIR)
    one.look()
    one.diagnose()
    one.until(lambda _: len(list(one.where.reports.glob("*.json"))) == len(one.lab.nodes()), "all reports are accepted")
    one.lab.node("node2").lose_power()
    assert one.put("/2/nodes/node2/power", {"command": "off", "force": True}).is_success
    one.until(states.at_rest, "its power is on record")

    done = ended(one, one.put("/2/instances/instance1/failover"))

    assert done["status"] == "success", done
    assert done["opcodes"][0]["text"].startswith("possible loss: writes of the last ")
    assert runs(one, "node3") == ["instance1"]
    assert one.wrong() == []


@pytest.mark.slow
def test_a_stale_replica_is_outdated_stays_so_over_a_boot_and_is_not_started_after_a_power_cut(
    lab: Callable[..., labs.Running],
) -> None:
    one = lab(nodes=3, pairs=PAIR)
    labs.report_all(one)
    one.lab.node("node2").cut_link("node3", is_cut=True)
    labs.report_all(one)
    one.until(lambda _: one.cluster().instance("instance1").parted, "the parting is on record")
    one.until(lambda _: disk(one, "node3") is Disk.OUTDATED, "the secondary is outdated")
    one.until(states.at_rest, "its job ends")
    assert "instance1 is degraded since" in one.get("/1/explain/instance1")["parted"]["text"]

    one.lab.node("node3").reboot()
    runner = programs.runner_for(one.lab.node("node3").root, hypervisor="fake")
    booted = drbd_node.DrbdNode(runner, proc=one.lab.node("node3").root / drbd_node.PROC)
    booted.load()
    booted.adjust("instance1-disk0")
    assert disk(one, "node3") is Disk.OUTDATED
    with pytest.raises(errors.Failed):
        runner.run("drbdadm", "primary", "instance1-disk0")
    labs.report_all(one)

    one.lab.node("node2").lose_power()
    assert one.put("/2/nodes/node2/power", {"command": "off", "force": True}).is_success
    one.until(states.at_rest, "its power is on record")
    failed = ended(one, one.put("/2/instances/instance1/failover"))
    assert failed["status"] == "error"
    assert "the replica of instance1 on node3 cannot be started" in failed["opcodes"][0]["text"]
    assert "--ignore-consistency" in failed["opcodes"][0]["text"]
    assert runs(one, "node3") == []
    assert one.wrong() == []


@pytest.mark.slow
def test_what_was_written_without_the_secondary_is_lost_only_if_a_person_says_so(
    lab: Callable[..., labs.Running],
) -> None:
    one = lab(nodes=3, pairs=PAIR)
    labs.report_all(one)
    one.lab.node("node2").cut_link("node3", is_cut=True)
    # Only the primary reports, so that the secondary is not outdated yet: it calls itself up to date.
    labs.drop(one, "parted.json", labs.report(one, "node2", '{"status": "Ok"}'))
    one.until(lambda _: one.cluster().instance("instance1").parted, "the parting is on record")
    one.lab.node("node2").lose_power()
    assert one.put("/2/nodes/node2/power", {"command": "off", "force": True}).is_success
    one.until(states.at_rest, "its power is on record")
    assert disk(one, "node3") is Disk.UP_TO_DATE

    labs.drop(one, "dead.json", labs.report(one, "node3", '{"status": "Ok"}'))
    refused = ended(one, one.put("/2/instances/instance1/failover"))
    assert refused["status"] == "error"
    assert runs(one, "node3") == []

    done = ended(one, one.put("/2/instances/instance1/failover", {"ignore_consistency": True}))
    assert done["status"] == "success", done
    assert "(consistency was ignored)" in done["opcodes"][0]["text"]
    assert runs(one, "node3") == ["instance1"]
    assert "with ignore_consistency: the replica of instance1" in one.where.audit_log.read_text()
    assert one.wrong() == []


@pytest.mark.slow
def test_a_failover_from_a_dead_node_that_was_killed_after_the_promotion_may_be_retried(
    lab: Callable[..., labs.Running], tmp_path: Path
) -> None:
    one = lab(nodes=3, pairs=PAIR)
    labs.report_all(one)
    one.lab.node("node2").lose_power()
    assert one.put("/2/nodes/node2/power", {"command": "off", "force": True}).is_success
    one.until(states.at_rest, "its power is on record")
    words = ("instance_disks", '"active"')
    seen = interceptions.Interception(one, tmp_path / "killed", node="node3", words=words, stays=True)
    job = one.put("/2/instances/instance1/failover").json()
    seen.wait()
    before = generation(one, "node3")
    assert one.delete(f"/2/jobs/{job}").is_success
    killed = states.job_ended(one, job)
    assert (killed["status"], runs(one, "node3")) == ("canceled", [])
    labs.drop(one, "killed.json", labs.report(one, "node3", '{"status": "Ok"}'))
    assert before[0] != before[1] != 0, "the promotion left a generation of its own, and the old one in the bitmap"

    done = ended(one, one.put("/2/instances/instance1/failover"))

    assert done["status"] == "success", done
    assert runs(one, "node3") == ["instance1"]
    assert one.wrong() == []


def generation(one: labs.Running, node: str) -> tuple[int | None, int | None]:
    """The current and the bitmap generation of the replica on a node."""
    (fact,) = replica_facts.read(one.lab.node(node).root, hypervisor="fake").replicas or ()
    return fact.current, fact.bitmap
