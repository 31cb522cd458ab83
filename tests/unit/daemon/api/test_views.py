from __future__ import annotations

import asyncio
import dataclasses
import time
from typing import TYPE_CHECKING, Any

import orjson
import pytest
from ansible_collections.roundsman.cluster.daemon.api import explanations, page, replica_views, snapshots, views
from ansible_collections.roundsman.cluster.daemon.api.fields import nodes
from ansible_collections.roundsman.cluster.daemon.cli import explanation, wording
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.disks import replicas
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.disks.drbd import Disk, Role
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.values import json_values
from ansible_collections.roundsman.cluster.plugins.plugin_utils.cluster import changes
from ansible_collections.roundsman.cluster.plugins.plugin_utils.cluster import cluster as clusters

from tests.unit import small_cluster
from tests.unit.daemon import twins

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from ansible_collections.roundsman.cluster.daemon import service

SAID = '{"status":"evacuate","details":{"big":123456789012345678901234567890,"z":1e-7,"a":0.1000000000000000000001}}'
# Seed 000, "/1/status".
SEED = {"id", "node", "original", "repair-status", "jobs", "tag"}


def shown(
    folder: Path, monkeypatch: pytest.MonkeyPatch, look: Callable[[service.Service], Any], *said: str, problem: str = ""
) -> bytes:
    async def scenario() -> bytes:
        lab = twins.lab(folder, pairs=[("node2", "node3"), ("node3", "node2")])
        running, twin = twins.assemble(lab, monkeypatch, outcomes={"migrate": "held", "replace_disks": "held"})
        for age, one in enumerate(reversed(said)):
            twins.report(lab, running, "node2", one, age=10.0 * (len(said) - age))
        if problem:
            twins.report(lab, running, "node2", problem=problem)
        await running.rounds.step()
        while await running.rounds.step():
            pass
        if running.queue.jobs:
            await twins.until_held(twin)
        told = orjson.dumps(look(running))
        await running.queue.stop()
        return told

    return asyncio.run(scenario())


def test_the_status_has_every_field_of_the_seed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told = orjson.loads(shown(tmp_path, monkeypatch, lambda one: views.status(one.configuration.current), SAID))
    (incident,) = told
    assert set(incident) >= SEED
    assert incident["repair-status"] == "pending"
    assert incident["tag"] == "maintd:repairready:" + incident["id"]
    assert incident["jobs"] == sorted(incident["jobs"]) != []
    assert incident["node_name"] == "node2"


def test_the_original_is_passed_through_value_exact(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told = shown(tmp_path, monkeypatch, lambda one: views.status(one.configuration.current), SAID)
    value = json_values.parse(told.decode())
    assert isinstance(value, list)
    assert isinstance(value[0], dict)
    assert value[0]["original"] == json_values.parse(SAID)
    assert SAID.encode() in told


def test_a_node_shows_its_role_health_and_what_runs_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def look(one: service.Service) -> list[dict[str, Any]]:
        return views.nodes(snapshots.Snapshot(one.configuration.current), one.intake)

    told = {node["name"]: node for node in orjson.loads(shown(tmp_path, monkeypatch, look, SAID))}
    assert list(told) == ["node1", "node2", "node3", "node4"]
    assert told["node1"]["role"] == "master"
    assert (told["node1"]["health"], told["node2"]["health"]) == (None, "evacuate")
    assert told["node2"]["primaries"] == ["instance1"]
    assert told["node2"]["secondaries"] == ["instance2"]
    assert told["node2"]["mfree"] == 131_072 - 2048 - 1024


def test_the_memory_of_an_instance_that_is_being_made_is_not_free_wherever_it_is_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def look(one: service.Service) -> Any:
        cluster = one.configuration.current
        unfinished = dataclasses.replace(cluster.instance("instance1"), admin_state="down", tags=(clusters.UNFINISHED,))
        changed = clusters.with_instance(cluster, unfinished)
        node = changed.node("node2")
        seen = snapshots.Snapshot(changed)
        return [views.node(changed, node, one.intake)["mfree"], nodes.FIELDS["mfree"].read(seen, node)]

    assert orjson.loads(shown(tmp_path, monkeypatch, look, SAID)) == [131_072 - 2048 - 1024] * 2


def test_a_problem_is_shown_instead_of_the_health(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def look(one: service.Service) -> Any:
        cluster = one.configuration.current
        return [
            views.node(cluster, cluster.node("node2"), one.intake),
            views.reports(cluster, one.intake, poll_problem=""),
        ]

    node, reports = orjson.loads(shown(tmp_path, monkeypatch, look, '{"status":"Ok"}', problem="not_json"))
    assert node["health"] == "not_json"
    assert reports["nodes"]["node2"]["problem"]["reason"] == "not_json"
    assert reports["nodes"]["node2"]["diagnosis"]["status"] == "Ok"
    assert reports["nodes"]["node3"] == {
        "uuid": reports["nodes"]["node3"]["uuid"],
        "health": None,
        "last_report": None,
        "diagnosis": None,
        "problem": None,
        "refused": None,
        "unreachable": None,
        "agent": None,
    }


def test_jobs_and_plans_name_their_objects(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def look(one: service.Service) -> Any:
        jobs = [views.job(job) for job in one.queue.jobs.values()]
        plan = views.plan(one.configuration.current, one.rounds.preview(), is_at_work=one.rounds.is_at_work)
        return [jobs, plan]

    jobs, plan = orjson.loads(shown(tmp_path, monkeypatch, look, SAID))
    migrate = next(job for job in jobs if job["opcodes"][0]["kind"] == "migrate")
    assert {migrate["names"][uuid] for uuid in migrate["opcodes"][0]["params"].values()} == {
        "instance1",
        "node2",
        "node3",
    }
    assert migrate["status"] == "running"
    assert migrate["depends"] == [[jobs[0]["id"], ["success"]]]
    assert plan["waits_for_round"] is True


def test_an_explanation_tells_the_incidents_and_jobs_of_that_node_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def look(one: service.Service) -> Any:
        return [
            explanations.explain(
                one.configuration.current, name, intake=one.intake, queue=one.queue, preview=one.rounds.preview()
            )
            for name in ("node2", "node3")
        ]

    ill, well = orjson.loads(shown(tmp_path, monkeypatch, look, SAID))
    assert [one["node_name"] for one in ill["incidents"]] == ["node2"]
    assert [one["id"] for one in ill["jobs"]] == ill["incidents"][0]["jobs"]
    assert well["incidents"] == well["jobs"] == well["planned"] == []


def test_an_explanation_has_the_job_that_is_changing_an_instance(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def look(one: service.Service) -> Any:
        cluster, queue = one.configuration.current, one.queue
        nodes = [
            explanations.explain(cluster, name, intake=one.intake, queue=queue, preview=one.rounds.preview())
            for name in ("node2", "node4")
        ]
        return [*nodes, replica_views.explain(cluster, "instance1", intake=one.intake, queue=queue)]

    node2, node4, held = orjson.loads(shown(tmp_path, monkeypatch, look, SAID))
    (job,) = held["at_work"]
    assert (job["subject"], job["what"]) == ("instance1", "migrate instance1 from node2 to node3")
    assert time.time() - 60 < job["since"] <= time.time()
    assert job in node2["at_work"]
    assert node4["at_work"] == []


def test_whatever_holds_maintenance_is_told() -> None:
    cluster = small_cluster.make()
    assert views.paused(cluster) == ""
    paused = dataclasses.replace(cluster.maintenance.settings, paused="new switch")
    assert views.paused(changes.apply(cluster, changes.SettingsStand(paused), now=1.0)) == "new switch"
    stands = changes.EpoStands(("n2", "n3"), ("i1",), "ops", returning=False)
    told = views.paused(changes.apply(cluster, stands, now=1.0))
    assert told.startswith("an emergency power off by ops stands, 2 nodes and 1 instance are to return")


def test_an_explanation_tells_what_an_emergency_power_off_is_to_return(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def look(one: service.Service) -> Any:
        cluster = one.configuration.current
        node, instance = cluster.node("node2").uuid, cluster.instance("instance1").uuid
        held = changes.apply(cluster, changes.EpoStands((node,), (instance,), "ops", returning=False), now=1.0)
        plan = one.rounds.preview()
        told = [
            explanations.explain(held, name, intake=one.intake, queue=one.queue, preview=plan)["epo"]
            for name in ("node2", "node3")
        ]
        return [*told, views.plan(held, plan, is_at_work=False)["held"], views.paused(held)]

    here, elsewhere, plan, paused = orjson.loads(shown(tmp_path, monkeypatch, look))
    assert here == {"held": paused, "returns": True, "instances": ["instance1"]}
    assert elsewhere == {"held": paused, "returns": False, "instances": []}
    assert plan == paused != ""


def test_an_explanation_of_a_silent_node_has_the_verdict_on_each_instance_and_a_step_by_hand(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def look(one: service.Service) -> Any:
        cluster, plan = one.configuration.current, one.rounds.preview()
        told = [explanations.explain(cluster, "node2", intake=one.intake, queue=one.queue, preview=plan)]
        monkeypatch.setattr(one.intake, "is_silent", lambda node: node == cluster.node("node2").uuid)
        told.append(explanations.explain(cluster, "node2", intake=one.intake, queue=one.queue, preview=plan))
        return [(entry["by_hand"], entry["failovers"]) for entry in told]

    answering, silent = orjson.loads(shown(tmp_path, monkeypatch, look))
    assert answering == [None, []]
    assert silent[0].startswith("node2 does not answer and is the primary of instance1")
    assert [(one["instance"], one["in_sync"]) for one in silent[1]] == [("instance1", False)]


@pytest.mark.parametrize("offline", [True, False])
def test_a_node_that_lived_since_it_was_known_to_be_off_is_not_called_off_and_has_its_remedy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, offline: bool
) -> None:
    """Its instances have failed over already."""
    now = time.time()

    def look(one: service.Service) -> Any:
        cluster, plan = one.configuration.current, one.rounds.preview()
        fields: dict[str, Any] = {"powered": False, "off_since": now - 600, "alive_at": now - 60, "offline": offline}
        node = dataclasses.replace(cluster.node("node2"), ndparams={"oob_program": "ipmi"}, **fields)
        known = clusters.with_node(cluster, node)
        for instance in known.primaries(node.uuid):
            moved = changes.InstanceNodes(instance.uuid, instance.secondary_nodes[0], (node.uuid,))
            known = changes.apply(known, moved, now=now)
        return explanations.explain(known, "node2", intake=one.intake, queue=one.queue, preview=plan)

    told = orjson.loads(shown(tmp_path, monkeypatch, look))
    assert (told["node"]["health"], told["node"]["lived_at"]) == ("unknown", now - 60)
    said = "\n".join(explanation.sentences(told, now=now))
    assert "it was known to be off, but showed 1 min ago that it lives" in said
    assert "its power is off" not in said
    assert "There is nothing for you to do" not in said
    assert ": second copies of instances that were started elsewhere may run on node2: power it off with" in said
    assert "`roundsman node power off node2 --force`" in said


def test_a_replica_in_sync_that_no_agent_saw_so_is_told_where_agents_are_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario() -> None:
        lab = twins.lab(tmp_path, pairs=[("node2", "node3")])
        running, _ = twins.assemble(lab, monkeypatch)
        without = running.configuration.current
        settings = dataclasses.replace(without.maintenance.settings, agent_port=1815)
        cluster = dataclasses.replace(without, maintenance=dataclasses.replace(without.maintenance, settings=settings))
        (fact,) = twins.replica_facts(cluster, cluster.node("node3")).replicas or ()
        for seen, named in (((), ["node3"]), ((("192.0.2.2", 3.0),), [])):
            facts = replicas.NodeFacts("", (dataclasses.replace(fact, seen=seen),))
            twins.report(lab, running, "node3", '{"status":"Ok"}', facts=facts)
            await running.intake.take_all()
            assert [one["node"] for one in replica_views.unmeasured(cluster, running.intake)] == named
            assert replica_views.unmeasured(without, running.intake) == []

    asyncio.run(scenario())


def test_disks_that_failed_under_a_replica_are_told_of_primary_and_secondary(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario() -> None:
        lab = twins.lab(tmp_path, pairs=[("node2", "node3")])
        running, _ = twins.assemble(lab, monkeypatch)
        cluster = running.configuration.current
        for name in ("node2", "node3"):
            twins.report(lab, running, name, '{"status":"Ok"}')
        await running.intake.take_all()
        seen = snapshots.Snapshot(cluster)
        assert replica_views.all_failed_disks(seen, running.intake) == []
        for name, disk in (("node2", Disk.DISKLESS), ("node3", Disk.FAILED)):
            facts = twins.replica_facts(cluster, cluster.node(name))
            (fact,) = facts.replicas or ()
            failed = replicas.NodeFacts("", (dataclasses.replace(fact, disk=disk),))
            twins.report(lab, running, name, '{"status":"Ok"}', facts=failed)
        await running.intake.take_all()
        primary, secondary = replica_views.all_failed_disks(seen, running.intake)
        assert (primary.node, secondary.node) == ("node2", "node3")
        assert "the disk of instance1 on node2 has failed (Diskless), and its writes reach only" in primary.text
        assert "the disk of instance1 on node3 has failed (Failed), and no write reaches it" in secondary.text
        assert primary.step.endswith("`roundsman instance repair-disks instance1`")
        explained = explanations.explain(
            cluster, "node2", intake=running.intake, queue=running.queue, preview=running.rounds.preview()
        )
        assert [disk["step"] for disk in explained["failed_disks"]] == [primary.step]
        await running.queue.stop()

    asyncio.run(scenario())


def test_what_a_node_that_has_booted_again_reports_shows_which_of_its_instances_are_down(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario() -> None:
        lab = twins.lab(tmp_path, pairs=[("node2", "node3")])
        running, _ = twins.assemble(lab, monkeypatch)
        cluster, shown_by = running.configuration.current, snapshots.Snapshots(lambda: running.configuration.current)
        node, instance = cluster.node("node2"), cluster.instance("instance1")

        async def told(facts: replicas.NodeFacts) -> list[Any]:
            twins.report(lab, running, "node2", '{"status":"Ok"}', facts=facts)
            await running.intake.take_all()
            cluster = running.configuration.current
            given: dict[str, Any] = {"intake": running.intake, "queue": running.queue}
            of_node = explanations.explain(cluster, "node2", **given, preview=running.rounds.preview())
            of_instance = replica_views.explain(cluster, "instance1", **given)
            downs = [
                one["subject"] for one in page.state(running, shown_by)["troubles"] if one["code"] == "instance-down"
            ]
            assert downs == of_node["down"]
            lines = [one["unlisted"] is not None for one in of_instance["replicas"]]
            return [of_node["down"], of_instance["is_down"], lines]

        writes = twins.replica_facts(cluster, node)
        assert await told(writes) == [[], False, [False]]
        assert await told(replicas.UNKNOWN) == [[], False, [False]], "what DRBD did not say is unknown"
        assert await told(replicas.NodeFacts("", ())) == [["instance1"], True, [True]]
        (fact,) = writes.replicas or ()
        secondary = replicas.NodeFacts("", (dataclasses.replace(fact, role=Role.SECONDARY),))
        assert await told(secondary) == [["instance1"], True, [False]]
        (down,) = page.state(running, shown_by)["troubles"]
        assert (down["nodes"], down["step"]) == (("node2",), "start it: `roundsman instance start instance1`")
        unread = replicas.NodeFacts("", (), unread={fact.resource: "it has 2 peers"})
        assert await told(unread) == [[], False, [False]], "it is up, and whether it is primary is unknown"
        explained = replica_views.explain(cluster, "instance1", intake=running.intake, queue=running.queue)
        (replica,) = explained["replicas"]
        assert (replica["fact"], replica["unread"]["reason"]) == (None, "it has 2 peers")
        last = f"last in sync {wording.age(replica['last_in_sync'], now=time.time())} ago"
        (line,) = (each for each in explanation.instance_sentences(explained, now=time.time()) if fact.resource in each)
        assert line.startswith(f"  node2: {fact.resource}: up, and it cannot be read on node2 (reported "), line
        assert line.endswith(f" ago): it has 2 peers; {last}."), line
        await running.configuration.commit(lambda _: [changes.InstanceState(instance.uuid, "down")])
        assert await told(secondary) == [[], False, [False]]
        await running.queue.stop()

    asyncio.run(scenario())
