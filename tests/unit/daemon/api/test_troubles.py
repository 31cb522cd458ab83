from __future__ import annotations

import asyncio
import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ansible_collections.roundsman.cluster.daemon.api import snapshots, troubles
from ansible_collections.roundsman.cluster.daemon.jobs import values
from ansible_collections.roundsman.cluster.daemon.maintenance import agents
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.disks import replicas
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.disks.drbd import Disk
from ansible_collections.roundsman.cluster.plugins.plugin_utils import http_reads
from ansible_collections.roundsman.cluster.plugins.plugin_utils.cluster import changes, membership
from ansible_collections.roundsman.cluster.plugins.plugin_utils.silent_nodes import dead_nodes

from tests.unit.daemon import twins

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    import pytest
    from ansible_collections.roundsman.cluster.daemon import service

SAID = '{"status":"evacuate","details":"psu 2"}'


def found(
    running: service.Service,
    *,
    verdicts: Mapping[str, dead_nodes.Verdict] = {},
    copies: Sequence[Mapping[str, Any]] = (),
) -> list[troubles.Trouble]:
    seen = snapshots.Snapshot(running.configuration.current)
    return troubles.found(seen, running.intake, running.queue, verdicts=verdicts, copies=copies)


async def commit(running: service.Service, *stated: changes.Change) -> None:
    await running.configuration.commit(lambda _: list(stated))


def codes(running: service.Service) -> list[tuple[str, str]]:
    return [(trouble.code, trouble.subject) for trouble in found(running)]


def played(
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    scene: Callable[[Any, service.Service], Awaitable[None]],
    **options: Any,
) -> None:
    async def scenario() -> None:
        lab = twins.lab(folder, pairs=[("node2", "node3"), ("node4", "node3")])
        running, _ = twins.assemble(lab, monkeypatch, **options)
        try:
            await scene(lab, running)
        finally:
            await running.queue.stop()

    asyncio.run(scenario())


async def fail_disk(lab: Any, running: service.Service, name: str) -> None:
    cluster = running.configuration.current
    facts = twins.replica_facts(cluster, cluster.node(name)).replicas or ()
    failed = tuple(dataclasses.replace(fact, disk=Disk.DISKLESS) for fact in facts)
    twins.report(lab, running, name, '{"status":"Ok"}', facts=replicas.NodeFacts("", failed))
    await running.intake.take_all()


def test_a_cluster_in_order_has_none_and_the_most_urgent_comes_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scene(lab: Any, running: service.Service) -> None:
        assert codes(running) == []
        await fail_disk(lab, running, "node2")
        assert codes(running) == [("disk-failed", "instance1")]
        twins.report(lab, running, "node4", '{"status":"Ok"}', facts=replicas.NodeFacts("", ()))
        await running.intake.take_all()
        parted = replicas.Parted(1.0, 0.5, running.configuration.current.node("node2").uuid, ())
        instance = running.configuration.current.instance("instance1")
        await commit(running, changes.InstanceParted(instance.uuid, parted))
        assert codes(running) == [
            ("instance-down", "instance2"),
            ("disk-failed", "instance1"),
            ("degraded", "instance1"),
        ]
        assert found(running)[0].nodes == ("node4",)
        assert found(running)[2].nodes == ("node2", "node3")

    played(tmp_path, monkeypatch, scene)


def test_what_a_job_is_at_work_on_is_no_trouble(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def scene(lab: Any, running: service.Service) -> None:
        await fail_disk(lab, running, "node2")
        uuid = running.configuration.current.instance("instance1").uuid
        begun = values.Opcode("repair_disks", {"instance": uuid}, status=values.Status.RUNNING, started=5.0)
        running.queue.jobs[7] = dataclasses.replace(twins.job(7, begun), names={uuid: "instance1"})
        assert codes(running) == []
        del running.queue.jobs[7]

    played(tmp_path, monkeypatch, scene)


def test_a_job_that_has_not_begun_hides_no_trouble_and_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scene(lab: Any, running: service.Service) -> None:
        await fail_disk(lab, running, "node2")
        twins.report(lab, running, "node4", '{"status":"Ok"}', facts=replicas.NodeFacts("", ()))
        await running.intake.take_all()
        names = {entry.uuid: entry.name for entry in running.configuration.current.instances.values()}
        known = codes(running)
        assert known == [("instance-down", "instance2"), ("disk-failed", "instance1")]
        for status in (values.Status.QUEUED, values.Status.WAITING):
            opcodes = [values.Opcode("startup", {"instance": uuid}, status=status) for uuid in names]
            running.queue.jobs[7] = dataclasses.replace(twins.job(7, *opcodes), names=names)
            assert codes(running) == known, "a filter may hold it for ever"
            for trouble in found(running):
                assert trouble.step.startswith("job 7 is about it and has not begun: see what it waits for with ")
        begun = dataclasses.replace(opcodes[0], status=values.Status.RUNNING)
        running.queue.jobs[7] = dataclasses.replace(twins.job(7, begun), names=names)
        assert codes(running) == []
        del running.queue.jobs[7]

    played(tmp_path, monkeypatch, scene)


def test_a_silent_node_says_by_which_setting_nothing_is_done_about_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scene(_lab: Any, running: service.Service) -> None:
        running.intake._heard.unreachable["node2"] = {"time": 1.0, "text": "no route to host"}
        (silent,) = found(running)
        assert (silent.code, silent.nodes) == ("node-silent", ("node2",))
        assert silent.text.endswith("nothing about it, because `dead_after` is 0")
        assert silent.step.startswith("restore its network link; if it stays silent, power it off with `roundsman node")
        running.intake._heard.unreachable["node2"]["text"] = http_reads._ended(TimeoutError(), seconds=10.0)
        assert found(running)[0].step.startswith(
            "see on its console what hangs there; if it stays silent, power it off"
        )
        for policy, told in (("none", "because `dead_node_policy` is none"), ("fence", "the primary of instance1")):
            settings = running.configuration.current.maintenance.settings
            settings = dataclasses.replace(settings, dead_after=3, dead_node_policy=policy)
            await commit(running, changes.SettingsStand(settings))
            assert found(running)[0].text.endswith(told)
        uuid = running.configuration.current.node("node2").uuid
        verdict = dead_nodes.Verdict(dead_nodes.Step.WAIT, "its BMC does not answer", "power it off on site")
        (judged,) = found(running, verdicts={uuid: verdict})
        assert (judged.text, judged.step) == ("its BMC does not answer", "power it off on site")

    played(tmp_path, monkeypatch, scene)


def test_rejected_reports_are_a_trouble_with_their_node_reason_and_remedy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scene(lab: Any, running: service.Service) -> None:
        spool = running.where.spool
        (spool / "node2-17.json").write_bytes(b"{}")
        await running.intake.take_all()
        (rejected,) = found(running)
        assert (rejected.code, rejected.subject, rejected.nodes) == ("reports-rejected", "node2", ("node2",))
        assert rejected.text.startswith("the reports of node2 have been rejected (unsigned) since 2")
        (spool / "node2-17.json").write_bytes(b"no JSON")
        await running.intake.take_all()
        (rejected,) = found(running)
        assert "(malformed)" in rejected.text
        assert rejected.step.startswith("the newest is in ")
        other = twins.envelope(lab, running.configuration.current.node("node3"), '{"status": "Ok"}')
        (spool / "node2-18.json").write_bytes(other.replace(b"Ok", b"No"))
        await running.intake.take_all()
        (rejected,) = found(running)
        assert "have been rejected (forged) since " in rejected.text
        assert "`ansible-playbook -i INVENTORY playbooks/node_agent.yml --limit node2`" in rejected.step
        later = {"time": running.intake.now.wall + 60.0, "text": "no route to host"}
        running.intake._heard.unreachable["node2"] = later
        assert codes(running) == [("node-silent", "node2")], "it has fallen silent since"
        twins.report(lab, running, "node2", '{"status":"Ok"}')
        await running.intake.take_all()
        assert codes(running) == []
        twins.report(lab, running, "node2", '{"status":"Ok"}', age=-86400.0)
        await running.intake.take_all()
        (rejected,) = found(running)
        assert rejected.text.startswith("the newest report of node2 was rejected (future) at 2")
        assert rejected.step.startswith("set the clocks of node2 and of the controller right")

    played(tmp_path, monkeypatch, scene)


def test_reports_that_do_not_come_while_a_job_is_at_work_on_their_node_are_no_work_for_a_person(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scene(_lab: Any, running: service.Service) -> None:
        (running.where.spool / "node2-17.json").write_bytes(b"{}")
        await running.intake.take_all()
        node = running.configuration.current.node("node2").uuid
        power = values.Opcode("power", {"nodes": [node], "on": False}, status=values.Status.RUNNING, started=5.0)
        running.queue.jobs[7] = twins.job(7, power)
        (rejected,) = found(running)
        assert (rejected.code, rejected.step) == ("reports-rejected", "wait, job 7 is at it: `roundsman jobs watch 7`")
        del running.queue.jobs[7]

    played(tmp_path, monkeypatch, scene)


def test_a_report_whose_age_a_step_of_the_clock_took_is_not_said_to_be_old(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scene(lab: Any, running: service.Service) -> None:
        twins.report(lab, running, "node2", '{"status":"Ok"}')
        await running.intake.take_all()
        running.intake._heard.follow_clock(now=running.intake.now.wall - 10_000.0)
        running.intake._began -= running.intake.age_limit
        (unknown,) = [trouble for trouble in found(running) if trouble.subject == "node2"]
        assert unknown.code == "no-report"
        assert unknown.text == "the clock was set back since the last report of node2 came, so its age is not known"

    played(tmp_path, monkeypatch, scene)


def test_a_controller_that_was_off_blames_no_node_for_what_it_could_not_hear(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scene(lab: Any, running: service.Service) -> None:
        twins.report(lab, running, "node2", '{"status":"Ok"}')
        await running.intake.take_all()
        limit, now = running.intake.age_limit, running.intake._clock()
        monkeypatch.setattr(running.intake, "_clock", lambda: now + 10 * limit)
        assert [trouble for trouble in found(running) if trouble.code == "no-report"] == []
        running.intake._began -= limit
        assert ("no-report", "node2") in [(trouble.code, trouble.subject) for trouble in found(running)]

    played(tmp_path, monkeypatch, scene)


def test_what_answers_for_a_node_without_its_signature_is_not_mended_by_its_network_link(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scene(_lab: Any, running: service.Service) -> None:
        uuid = running.configuration.current.node("node2").uuid
        running.intake.seen[uuid] = agents.Seen(unsigned=3, since=5.0, text="it answers with status 404")
        (silent,) = found(running)
        assert (silent.code, silent.subject) == ("no-report", "node2")
        assert silent.text == (
            "node2 answers without a report that counts since 1970-01-01 00:00:05 UTC: it answers with status 404"
        )
        assert "power" not in silent.step
        assert "journalctl -u roundsman-agent" in silent.step
        verdict = dead_nodes.Verdict(dead_nodes.Step.WAIT, "its BMC does not answer", "power it off on site")
        assert found(running, verdicts={uuid: verdict})[0].code == "node-silent", "a verdict comes first"

    played(tmp_path, monkeypatch, scene)


def test_a_node_without_a_report_is_a_trouble_once_its_report_is_overdue(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scene(lab: Any, running: service.Service) -> None:
        now, limit = running.intake.now.wall, running.intake.age_limit
        running.intake._began -= limit
        node = running.configuration.current.node("node4")
        await commit(running, membership.NodeStands(node))
        for ctime, told in ((now - limit + 30, []), (now - limit - 1, [("no-report", "node4")])):
            cluster = running.configuration.current
            aged = dataclasses.replace(cluster.nodes[node.uuid], ctime=ctime)
            seen = dataclasses.replace(cluster, nodes={**cluster.nodes, node.uuid: aged})
            late = [
                trouble
                for trouble in troubles.found(
                    snapshots.Snapshot(seen), running.intake, running.queue, verdicts={}, copies=()
                )
                if trouble.subject == "node4"
            ]
            assert [(trouble.code, trouble.subject) for trouble in late] == told
        (trouble,) = late
        assert trouble.text.startswith("node4 has not reported since it was added (")
        assert "playbooks/diagnose.yml --limit node4 --check" in trouble.step
        twins.report(lab, running, "node4", '{"status":"Ok"}')
        await running.intake.take_all()
        assert codes(running) == []
        running.intake._clock = lambda: now + limit + 60
        late_text = next(trouble.text for trouble in found(running) if trouble.subject == "node4")
        assert late_text.startswith("the last report of node4 came at ")

    played(tmp_path, monkeypatch, scene)


def test_a_node_that_is_off_with_instances_that_should_run_is_a_trouble_and_an_empty_one_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scene(_lab: Any, running: service.Service) -> None:
        for name, told in (("node2", [("node-off", "node2")]), ("node3", [])):
            node = running.configuration.current.node(name)
            off = dataclasses.replace(node, powered=False, off_since=5.0)
            await commit(running, membership.NodeStands(off))
            assert codes(running) == told
            await commit(running, membership.NodeStands(node))

    played(tmp_path, monkeypatch, scene)


def test_the_step_for_a_node_that_a_job_is_at_work_on_is_to_wait_for_the_job(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scene(_lab: Any, running: service.Service) -> None:
        cluster = running.configuration.current
        running.intake._heard.unreachable["node2"] = {"time": 1.0, "text": "no route to host"}
        node, instance = cluster.node("node2").uuid, cluster.instance("instance1").uuid
        for opcode in (
            values.Opcode("power", {"nodes": [node], "on": False}),
            values.Opcode("failover", {"instance": instance}),
        ):
            (silent,) = found(running)
            assert "power it off with" in silent.step
            begun = dataclasses.replace(opcode, status=values.Status.RUNNING, started=5.0)
            running.queue.jobs[7] = dataclasses.replace(twins.job(7, begun), names={instance: "instance1"})
            (silent,) = found(running)
            assert (silent.code, silent.step) == ("node-silent", "wait, job 7 is at it: `roundsman jobs watch 7`")
            del running.queue.jobs[7]

    played(tmp_path, monkeypatch, scene)


def test_a_failed_incident_is_a_trouble_until_it_is_acknowledged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scene(lab: Any, running: service.Service) -> None:
        twins.report(lab, running, "node2", SAID)
        await twins.settle(running)
        (incident,) = running.configuration.current.maintenance.incidents
        assert incident.repair_status.value == "failed"
        (failed,) = found(running)
        assert (failed.code, failed.subject) == ("incident-failed", "node2")
        assert failed.step.endswith(f"`roundsman incident ack {incident.uuid[:8]}`")
        node = running.configuration.current.node("node2")
        await commit(running, membership.NodeStands(dataclasses.replace(node, tags=())))
        assert codes(running) == []

    played(tmp_path, monkeypatch, scene, outcomes={"migrate": "error"})


def test_a_copy_that_is_not_the_newest_is_a_trouble_of_no_node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def scene(_lab: Any, running: service.Service) -> None:
        fine = {
            "node": "node2",
            "serial_no": 41,
            "problem": None,
            "is_off": False,
            "lacks": ["etc/roundsman/bmc.json"],
        }
        copies = [fine, {**fine, "problem": "it hangs up"}, {**fine, "serial_no": None, "problem": "no answer"}]
        assert [(old.code, old.subject, old.nodes, old.text) for old in found(running, copies=copies)] == [
            ("copy-old", "node2", (), "version 41 is the last copy of the configuration on node2: it hangs up"),
            ("copy-old", "node2", (), "no copy of the configuration is known to be on node2: no answer"),
        ]

    played(tmp_path, monkeypatch, scene)


def test_a_candidate_that_is_off_is_a_trouble_only_where_no_other_one_gets_copies(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scene(_lab: Any, running: service.Service) -> None:
        off = {"node": "node2", "serial_no": 41, "problem": "no answer", "is_off": True, "lacks": []}
        fine = {**off, "node": "node3", "problem": None, "is_off": False}
        assert found(running, copies=[off, fine]) == []

        for other in ({**fine, "problem": "it hangs up"}, {**fine, "serial_no": None}, {**fine, "is_off": True}):
            old = found(running, copies=[off, other])[0]
            assert (old.code, old.subject, old.nodes) == ("copy-old", "node2", ())
            assert old.text == "version 41 is the last copy of the configuration on node2, which is off"
            assert old.step == (
                "power it on with `roundsman node power on node2`, or name another node in `configuration_copies` in "
                "roundsmand.json"
            )

    played(tmp_path, monkeypatch, scene)


def test_who_takes_a_node_out_is_told_that_it_keeps_its_copy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def scene(_lab: Any, running: service.Service) -> None:
        (old,) = found(
            running,
            copies=[{"node": "node2", "serial_no": 41, "problem": "no answer", "is_off": False, "lacks": []}],
        )
        assert old.step.endswith(
            "take it out of `configuration_copies` in roundsmand.json and remove "
            "/var/lib/roundsman/configuration.copy there"
        )

    played(tmp_path, monkeypatch, scene)


def test_the_documentation_lists_every_code() -> None:
    text = (Path(__file__).parents[4] / "docs/operating.md").read_text()
    listed = [line.split("`")[1] for line in text.splitlines() if line.startswith("| `")]
    assert [code.value for code in troubles.Code] == [name for name in listed if name in troubles.URGENCY]
