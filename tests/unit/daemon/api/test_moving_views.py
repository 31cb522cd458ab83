"""What the daemon shows of a migration that has not ended."""

from __future__ import annotations

import asyncio
import dataclasses
from typing import TYPE_CHECKING, Any

import orjson
import pytest
from ansible_collections.roundsman.cluster.daemon.api import explanations, page, replica_views, snapshots, views
from ansible_collections.roundsman.cluster.daemon.jobs import values
from ansible_collections.roundsman.cluster.plugins.plugin_utils.cluster import changes, membership

from tests.unit.daemon import twins

if TYPE_CHECKING:
    from pathlib import Path

NODES = ("node2", "node3", "node4")


@pytest.mark.parametrize("is_silent", [False, True])
@pytest.mark.parametrize(("off", "command"), [("", "start"), ("node2", "failover"), ("node3", "start")])
def test_a_migration_that_has_not_ended_is_shown_everywhere_with_the_command_that_ends_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, off: str, command: str, *, is_silent: bool
) -> None:
    async def scenario() -> None:
        lab = twins.lab(tmp_path, pairs=[("node2", "node3")])
        running, _ = twins.assemble(lab, monkeypatch)
        shown_by = snapshots.Snapshots(lambda: running.configuration.current)
        instance = running.configuration.current.instance("instance1")

        def shown() -> list[Any]:
            cluster = running.configuration.current
            given: dict[str, Any] = {"intake": running.intake, "queue": running.queue}
            preview = running.rounds.preview()
            found = [explanations.explain(cluster, name, **given, preview=preview)["moving"] for name in NODES]
            listed = orjson.loads(orjson.dumps(views.instances(shown_by, running.intake)))
            return [
                [one for one in page.state(running, shown_by)["troubles"] if one["subject"] == "instance1"],
                *found,
                replica_views.explain(cluster, "instance1", **given)["moving"],
                next(one["moving"] for one in listed if one["name"] == "instance1"),
            ]

        assert shown() == [[], [], [], [], None, None]
        target = running.configuration.current.node("node3").uuid
        await running.configuration.commit(lambda _: [changes.InstanceMoving(instance.uuid, target)])
        if off and is_silent:
            assert "`roundsman instance start instance1`" in shown()[-1]["step"]
            running.intake._heard.unreachable[off] = {"time": 1.0, "text": "no route to host"}
        elif off:
            node = dataclasses.replace(running.configuration.current.node(off), offline=True)
            await running.configuration.commit(lambda _: [membership.NodeStands(node)])
        ((told,), (of_source,), (of_target,), of_other, of_instance, listed) = shown()
        assert of_other == []
        assert of_source == of_target == {"instance": "instance1", **of_instance}
        assert told == {
            "code": "migration-unfinished",
            "subject": "instance1",
            "nodes": ("node2", "node3"),
            "text": of_instance["text"],
            "step": of_instance["step"],
        }
        assert of_instance == listed
        assert of_instance["node"] == "node3"
        assert f"`roundsman instance {command} instance1`" in told["step"]
        await running.queue.stop()

    asyncio.run(scenario())


@pytest.mark.parametrize(("node", "command"), [("node2", "failover"), ("node3", "start")])
def test_the_preview_of_a_statement_lists_what_a_migration_may_have_taken_to_the_node_or_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, node: str, command: str
) -> None:
    async def scenario() -> None:
        lab = twins.lab(tmp_path, pairs=[("node2", "node3")], instances=1)
        running, _ = twins.assemble(lab, monkeypatch)
        cluster = running.configuration.current
        moving = changes.InstanceMoving(cluster.instance("instance1").uuid, cluster.node("node3").uuid)
        await running.configuration.commit(lambda _: [moving])
        cluster = running.configuration.current
        stated = [changes.NodeOffConfirmed(cluster.node(node).uuid, 1000.0, "anna")]
        told = replica_views.stated_off(cluster, cluster.node(node), stated, running.intake)
        (entry,) = told["instances"]
        assert (entry["instance"], entry["loss"], entry["seconds"]) == ("instance1", None, None)
        assert entry["reason"].endswith("has not ended, so it may run on node3")
        assert f"`roundsman instance {command} instance1`" in entry["unblock"]
        await running.queue.stop()

    asyncio.run(scenario())


def test_refusals_and_the_verification_name_the_command_that_succeeds_while_the_primary_is_silent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario() -> list[str]:
        lab = twins.lab(tmp_path, pairs=[("node2", "node3")])
        running, twin = twins.assemble(lab, monkeypatch)
        cluster = running.configuration.current
        uuid, source, target = (
            cluster.instance("instance1").uuid,
            cluster.node("node2").uuid,
            cluster.node("node3").uuid,
        )
        await running.configuration.commit(lambda _: [changes.InstanceMoving(uuid, target)])
        running.intake._heard.unreachable["node2"] = {"time": 1.0, "text": "no route to host"}
        opcodes = [
            values.Opcode("shutdown", {"instance": uuid}),
            values.Opcode("node_role", {"node": target, "offline": True}),
            values.Opcode("node_remove", {"node": source}),
            values.Opcode("power", {"nodes": [target], "command": "off"}),
            values.Opcode("cluster_verify", {}),
        ]
        await running.queue.submit([twins.job(0, opcode) for opcode in opcodes])
        await twins.jobs_end(running)
        steps = {int(run.parent.name): str(spec.variables["step"]) for run, spec in twin.specs.items()}
        shown = [job.text + steps.get(job.id, "") for job in running.queue.jobs.values()]
        await running.queue.stop()
        return shown

    texts = asyncio.run(scenario())
    assert len(texts) == 5
    assert [text for text in texts if "`roundsman instance failover instance1`" not in text] == []
