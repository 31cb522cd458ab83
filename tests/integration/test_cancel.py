"""Canceling an incident lets running work finish; canceling a running job ends it at once."""

from __future__ import annotations

from concurrent import futures
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from ansible_collections.roundsman.cluster.daemon.lab.simulator import fake

from . import fronts, labs, states

if TYPE_CHECKING:
    from collections.abc import Callable

EVACUATE = '{"status": "evacuate"}'


def _at_work(one: labs.Running) -> dict[str, Any]:
    """Break node2, and wait until an instance of it is on its way."""
    labs.drop(one, "r.json", labs.report(one, "node2", EVACUATE))
    found: dict[str, Any] = one.until(lambda _: states.running(one, "migrate"), "a migration runs")
    return found


def _members(run: Path) -> list[str]:
    """The processes whose environment names a run."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            environment = (entry / "environ").read_bytes() if entry.name.isdigit() else b""
        except OSError:
            continue
        if f"ROUNDSMAN_RUN={run}".encode() in environment.split(b"\0"):
            found.append(entry.name)
    return found


@pytest.mark.slow
def test_a_canceled_incident_lets_running_opcodes_finish_and_starts_nothing_new(
    lab: Callable[..., labs.Running],
) -> None:
    one = lab(nodes=3, instances=3, migration_seconds=1.5, settings={"moves_per_node": 1})
    job = _at_work(one)
    incident = one.incident("node2")
    assert incident is not None

    canceled = one.put(f"/2/incidents/{incident['id']}/cancel")
    one.until(states.at_rest, "what ran has finished")

    assert (canceled.status_code, canceled.json()["repair-status"]) == (200, "canceled")
    statuses = {step["kind"]: step["status"] for step in one.get(f"/2/jobs/{job['id']}")["opcodes"]}
    assert statuses == {"migrate": "success", "replace_disks": "canceled"}
    others = [one.get(f"/2/jobs/{other}") for other in incident["jobs"] if other != job["id"]]
    assert [(other["opcodes"][0]["kind"], other["status"]) for other in others] == [
        ("node_role", "success"),
        ("replace_disks", "canceled"),
        ("node_role", "canceled"),
    ]
    assert one.get("/1/plan")["jobs"] == []
    now = one.incident("node2")
    assert now is not None
    assert (now["repair-status"], len(one.get("/1/rounds"))) == ("canceled", 1)

    labs.drop(one, "ok.json", labs.report(one, "node2", '{"status": "Ok"}'))
    one.until(states.forgotten("node2"), "the canceled incident vanishes")
    assert one.cluster().node("node2").tags == ()
    assert one.wrong() == []


@pytest.mark.slow
def test_a_running_job_that_is_canceled_leaves_no_process_and_its_instance_is_looked_for(
    lab: Callable[..., labs.Running],
) -> None:
    one = lab(nodes=3, instances=3, migration_seconds=30, settings={"moves_per_node": 1})
    job = _at_work(one)
    index = [step["kind"] for step in job["opcodes"]].index("migrate")
    run = one.where.queue / str(job["id"]) / str(index)
    migrating = one.lab.node("node2").root / fake.MIGRATING / "instance2.json"
    one.until(lambda _: migrating.exists(), "the migration has begun")

    # The target does not answer when the instance is looked for: the replica that is known there is kept.
    one.lab.node("node3").cut(is_cut=True)
    told = states.command(one, "jobs", "cancel", str(job["id"]))
    incident = one.until(states.reads("node2", "failed"), "the incident fails")

    assert (told.returncode, told.stdout) == (0, f"Job {job['id']} is canceling.\n")
    assert _members(run) == []
    ended = one.get(f"/2/jobs/{job['id']}")["opcodes"][index]
    assert ended["status"] == "canceled"
    assert ended["text"].startswith("canceled while it ran")
    assert ended["text"].endswith("instance2 runs on node2; it may run on node3 too, which did not answer")
    assert incident["reason"] == f"job {job['id']}: {ended['text']}"
    one.until(states.at_rest, "nothing is left in the queue")
    assert one.cluster().node("node2").tags == (f"maintd:repairfailed:{incident['id']}",)
    cluster = one.cluster()
    assert cluster.instance("instance2").nodes == (cluster.node("node2").uuid, cluster.node("node3").uuid)
    one.lab.node("node3").cut(is_cut=False)
    assert one.wrong() == []


@pytest.mark.slow
def test_a_power_command_that_is_canceled_after_it_was_sent_is_read_back_and_recorded(
    lab: Callable[..., labs.Running],
) -> None:
    one = lab(nodes=4, instances=1)
    # It accepts, and goes on reading on: the play looks again until its deadline.
    one.lab.node("node4").set_faults(["stubborn"])
    job = one.put("/2/nodes/node4/power", {"command": "off"}).json()["id"]
    run = one.where.queue / str(job) / "0"
    one.until(lambda _: (run / "held").exists(), "the play has begun")
    # Then it is silent, and carries the command out after all.
    one.lab.node("node4").set_faults(["dead"])
    one.lab.node("node4").set_power(False)

    with futures.ThreadPoolExecutor(1) as beside:
        canceled = beside.submit(one.delete, f"/2/jobs/{job}")
        one.until(lambda _: (run / "lookup/held").exists(), "somebody looks at the node")
        assert one.cluster().node("node4").powered
        one.lab.node("node4").set_faults([])
        assert canceled.result().is_success

    ended = states.job_ended(one, job)
    assert ended["status"] == "canceled"
    assert ended["opcodes"][0]["text"].endswith("; node4 reads off at its BMC")
    assert not one.cluster().node("node4").powered


def test_a_finished_incident_is_canceled_through_the_remote_api(lab: Callable[..., labs.Running]) -> None:
    one = lab(nodes=3, instances=3)
    labs.drop(one, "r.json", labs.report(one, "node2", '{"status": "live-repair", "details": "fan 2"}'))
    one.until(one.ended("node2"), "the incident is completed")
    incident = one.incident("node2")
    assert incident is not None
    assert one.cluster().node("node2").tags == (incident["tag"],)
    with fronts.front(fronts.prepared(one.where.root)) as front:
        with front.client("rita") as reader:
            assert reader.put(f"/2/incidents/{incident['id']}/cancel").status_code == 403
        assert one.cluster().node("node2").tags == (incident["tag"],)
        with front.client("wim") as writer:
            canceled = writer.put(f"/2/incidents/{incident['id']}/cancel")
    assert (canceled.status_code, canceled.json()["repair-status"]) == (200, "canceled")
    assert one.cluster().node("node2").tags == ()
    labs.drop(one, "same.json", labs.report(one, "node2", '{"details": "fan 2", "status": "live-repair"}'))
    one.until(lambda _: not any(one.where.spool.glob("*.json")), "the same report is taken")
    again = one.incident("node2")
    assert again is not None
    assert (again["id"], again["repair-status"]) == (incident["id"], "canceled")
    labs.drop(one, "ok.json", labs.report(one, "node2", '{"status": "Ok"}'))
    one.until(states.forgotten("node2"), "the canceled incident is forgotten")
