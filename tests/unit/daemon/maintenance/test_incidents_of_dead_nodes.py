"""Incidents of dead nodes that do not complete while an instance is down, nor fail for one that is at work."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from ansible_collections.roundsman.cluster.daemon.jobs import values
from ansible_collections.roundsman.cluster.plugins.module_utils.domain import changes, dead_nodes, incidents, recording
from ansible_collections.roundsman.cluster.plugins.plugin_utils import replica_evidence, run_records

from tests.unit.daemon import twins

if TYPE_CHECKING:
    from pathlib import Path

    import pytest
    from ansible_collections.roundsman.cluster.daemon import service
    from ansible_collections.roundsman.cluster.plugins.module_utils.domain import cluster as clusters


async def dies(running: service.Service, name: str) -> clusters.Node:
    node = running.configuration.current.node(name)
    await running.configuration.commit(lambda _: [changes.NodePowered(node.uuid, powered=False)])
    dead = incidents.note(dead_nodes.report(node), node=node.uuid, uuid="dead-1", now=running.intake.now.wall)
    await running.configuration.commit(lambda _: [changes.IncidentStands(dead)])
    return node


def incident(running: service.Service) -> incidents.Incident:
    (found,) = running.configuration.current.maintenance.incidents
    return found


def test_a_failover_that_failed_after_its_record_is_told_though_a_persons_own_failover_was_moot(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A person sees the instance down and queues `instance failover` while the round's is at work."""
    lab = twins.lab(tmp_path, nodes=5, instances=2, pairs=[("node2", "node3"), ("node2", "node4")])

    async def scenario() -> None:
        running, twin = twins.assemble(lab, monkeypatch, outcomes={"failover": "held"})
        await dies(running, "node2")
        await running.rounds.step()
        bad, good = await twins.until_held(twin, 2)
        step = twin.specs[bad].variables["step"]
        params = {
            "instance": step["instance"]["uuid"],
            "source": step["source"]["uuid"],
            "target": step["target"]["uuid"],
        }
        (mine,) = await running.queue.submit([twins.job(0, values.Opcode("failover", params))])
        # It is recorded at its target, and its guest does not start there.
        moved = changes.InstanceNodes(params["instance"], params["target"], tuple(step["secondaries"]))
        run_records.append(bad, recording.encode(moved))
        twin.finish(bad, "error", text="the guest does not start")
        await running.queue.wait(mine.id, seconds=twins.LIMIT)
        job = running.queue.jobs[mine.id]
        assert (job.status, "has left" in job.opcodes[0].text) == (values.Status.SUCCESS, True)
        assert job.opcodes[0].started == 0.0, "it did nothing"
        twin.finish(good)
        twin.outcomes["failover"] = "success"
        await twins.settle(running)
        assert not [one for one in twin.ran if one.startswith("startup")], "nobody has started it"
        found = incident(running)
        assert found.repair_status.value == "failed", (found.repair_status.value, found.reason)
        assert "the guest does not start" in found.reason

    asyncio.run(scenario())


def test_a_failover_that_failed_is_told_while_another_waits_for_a_person(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab = twins.lab(tmp_path, nodes=5, instances=2, pairs=[("node2", "node3"), ("node2", "node4")])

    async def scenario() -> None:
        running, twin = twins.assemble(lab, monkeypatch, outcomes={"failover": "held"})
        await dies(running, "node2")
        await running.rounds.step()
        bad, asks = await twins.until_held(twin, 2)
        twin.finish(bad, "error", text="the guest does not start")
        cluster = running.configuration.current
        other = cluster.instance(twin.specs[asks].variables["step"]["instance"]["uuid"])
        waits = {
            "reason": "it may lack writes",
            "unblock": "--max-loss",
            "basis": replica_evidence.basis(cluster, other),
        }
        twin.values["failover"] = {"waits": waits}
        twin.finish(asks, "error")
        del twin.values["failover"]
        twin.outcomes["failover"] = "success"
        await twins.settle(running)
        assert len([one for one in twin.ran if one.startswith("failover")]) == 2
        found = incident(running)
        assert found.repair_status.value == "failed", (found.repair_status.value, found.reason)

    asyncio.run(scenario())


def test_a_replica_that_another_job_moves_right_now_is_not_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab = twins.lab(tmp_path, nodes=5, instances=3, pairs=[("node2", "node3"), ("node2", "node4"), ("node3", "node2")])

    async def scenario() -> None:
        running, twin = twins.assemble(
            lab, monkeypatch, outcomes={"failover": "error success", "replace_disks": "held", "reboot": "held"}
        )
        cluster = running.configuration.current
        third = cluster.instance("instance3")
        # A person's own copy of the third, which will be lost with the controller, say.
        params = {"instance": third.uuid, "old": cluster.node("node2").uuid, "new": cluster.node("node5").uuid}
        await running.queue.submit([twins.job(0, values.Opcode("replace_disks", params))])
        (mine,) = await twins.until_held(twin, 1)
        await dies(running, "node2")
        twin.outcomes["replace_disks"] = "success"
        for _ in range(40):
            if not await running.rounds.step():
                open_jobs = [
                    one for one in running.queue.unfinished(running.queue.jobs) if str(one) != mine.parent.name
                ]
                if not open_jobs:
                    break
                for number in open_jobs:
                    await running.queue.wait(number, seconds=twins.LIMIT)
        before = incident(running).repair_status.value
        twin.finish(mine, "error", text="node5 has no room")
        await twins.settle(running)
        assert before != "failed", incident(running).reason
        moved = running.configuration.current.instance(third.uuid)
        assert cluster.node("node2").uuid not in moved.nodes, "its new secondary was planned after that job"

    asyncio.run(scenario())
