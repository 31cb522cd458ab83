from __future__ import annotations

import dataclasses
import logging
from typing import TYPE_CHECKING

import pytest
from ansible_collections.roundsman.cluster.daemon.jobs import settling, task_log, values
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.power import power
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.values import errors
from ansible_collections.roundsman.cluster.plugins.plugin_utils import log_output, run_records
from ansible_collections.roundsman.cluster.plugins.plugin_utils.cluster import changes, recording
from ansible_collections.roundsman.cluster.plugins.plugin_utils.opcodes import instance_looks

from tests.unit.daemon import twins
from tests.unit.daemon.jobs import daemons

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from ansible_collections.roundsman.cluster.daemon import service


def powered(running: service.Service) -> bool:
    return running.configuration.current.node("node2").powered


def outcome(command: str, *, sent: bool) -> dict[str, object]:
    before = power.State.ON
    told = power.judge(
        power.Command(command),
        name="node2",
        before=before,
        attempts=[power.Attempt(power.Answer.ACCEPTED)] * sent,
        seconds=0.1,
    )
    return told.as_dict()


def log_of(running: service.Service) -> list[str]:
    return [
        text
        for _serial, _time, kind, text in task_log.opcode_entries(running.where.queue / "1", 0)
        if kind == "message"
    ]


@pytest.mark.parametrize("outcomes", ["lost success", "lost lost success", "dead error success"])
def test_a_look_that_breaks_off_is_repeated(daemon: daemons.Daemon, outcomes: str) -> None:
    async def act(running: service.Service, twin: twins.Processes) -> None:
        await running.queue.submit([twins.job(1, daemons.move(running))])
        await twins.jobs_end(running)
        times = len(outcomes.split())
        assert twin.ran == ["migrate 1/0", *["find_instance 0/lookup"] * times]
        assert running.queue.jobs[1].text.endswith("it is lost, and not repeated; instance1 runs on node1")
        assert len(log_of(running)) == times - 1

    daemon.run(act, outcomes={"migrate": "lost", "find_instance": outcomes})


def test_what_a_look_has_recorded_is_committed_though_its_daemon_ended_and_it_is_not_seen_again(
    daemon: daemons.Daemon,
) -> None:
    async def begin(running: service.Service, twin: twins.Processes) -> None:
        move = daemons.move(running)
        await running.queue.submit([twins.job(1, move)])
        (look,) = await twins.until_held(twin)
        seen = changes.InstanceNodes(move.params["instance"], move.params["target"], (move.params["source"],))
        run_records.append(look, recording.encode(seen))
        run_records.conclude(look, {"status": "success", "text": ""})
        await running.queue.stop()

    daemon.run(begin, outcomes={"migrate": "lost", "find_instance": "held"})

    async def act(running: service.Service, twin: twins.Processes) -> None:
        assert daemons.primary(running) == "node1"
        running.queue.resume()
        await twins.jobs_end(running)
        assert daemons.primary(running) == "node2"

    daemon.run(act, outcomes={"find_instance": "lost"})


def test_after_the_last_try_it_is_said_aloud_that_nobody_could_look(
    daemon: daemons.Daemon, caplog: pytest.LogCaptureFixture
) -> None:
    async def act(running: service.Service, twin: twins.Processes) -> None:
        await running.queue.submit([twins.job(1, daemons.move(running))])
        with caplog.at_level(logging.WARNING, logger=settling.__name__):
            await twins.jobs_end(running)
        assert len(twin.ran) == 1 + settling.TRIES
        told = "that instance1 runs on node1 is what was known before, and may be wrong"
        assert running.queue.jobs[1].text.endswith(told)
        (line,) = [one.getMessage() for one in caplog.records if one.name == settling.__name__]
        assert line.startswith("job 1: nobody could look (3 tries: ")
        assert line.endswith(told)
        assert [one.partition(": ")[0] for one in log_of(running)] == [
            f"the look at what is true broke off, try {count} of 3" for count in (1, 2, 3)
        ]
        assert running.desk.table.held == {}

    daemon.run(act, outcomes={"migrate": "lost", "find_instance": "lost"})


def test_the_log_of_a_look_goes_on_where_the_one_before_broke_off(daemon: daemons.Daemon) -> None:
    async def act(running: service.Service, twin: twins.Processes) -> None:
        await running.queue.submit([twins.job(1, daemons.move(running))])
        (run,) = await twins.until_held(twin)
        task_log.note(run, "first")
        twin.finish(run, "lost")
        await twins.jobs_end(running)
        serials = [entry[0] for entry in task_log.opcode_entries(running.where.queue / "1", 0)]
        assert serials == sorted(set(serials))
        assert len(serials) == 1 + 2

    daemon.run(act, outcomes={"migrate": "held", "find_instance": "lost lost success"})


@pytest.mark.parametrize("outcome", ["lost", "error"])
def test_after_a_lost_power_command_the_bmc_is_read_and_what_it_says_is_recorded(
    daemon: daemons.Daemon, outcome: str
) -> None:
    async def act(running: service.Service, twin: twins.Processes) -> None:
        assert powered(running)
        await running.queue.submit([twins.job(1, daemons.power(running, "off"))])
        await twins.jobs_end(running)
        assert twin.ran == ["power 1/0", "find_power 0/lookup"], "no command is sent again"
        assert daemons.reads(running, 1) == ["error"]
        assert running.queue.jobs[1].text.endswith("; node2 is off")
        assert not powered(running)

    daemon.run(act, outcomes={"power": outcome})


def test_a_play_that_failed_with_a_value_has_looked_itself(daemon: daemons.Daemon) -> None:
    async def act(running: service.Service, twin: twins.Processes) -> None:
        twin.values["power"] = [outcome("off", sent=True)]
        await running.queue.submit([twins.job(1, daemons.power(running, "off"))])
        await twins.jobs_end(running)
        assert twin.ran == ["power 1/0"]
        assert running.queue.jobs[1].opcodes[0].result is None, "what is said of each node is in no list of jobs"
        assert settling.value(running.where.queue / "1/0") == [outcome("off", sent=True)]
        assert powered(running), "what is not confirmed leaves the record as it is"

    daemon.run(act, outcomes={"power": "error"})


@pytest.mark.parametrize("told", ["error", "success"])
def test_a_play_whose_record_is_unknown_has_failed_and_is_looked_after_though_it_left_a_value(
    daemon: daemons.Daemon, told: str
) -> None:
    async def act(running: service.Service, twin: twins.Processes) -> None:
        twin.values["power"] = [outcome("off", sent=True)]
        await running.queue.submit([twins.job(1, daemons.power(running, "off"))])
        (run,) = await twins.until_held(twin)
        (run / run_records.UNKNOWN).touch()
        twin.finish(run, told)
        await twins.jobs_end(running)
        assert twin.ran == ["power 1/0", "find_power 0/lookup"]
        assert running.queue.jobs[1].status is values.Status.ERROR
        assert "what the run recorded last is unknown" in running.queue.jobs[1].text
        assert not powered(running), "its BMC was asked"

    daemon.run(act, outcomes={"power": "held"})


def test_after_a_lost_command_for_several_nodes_each_is_looked_at(daemon: daemons.Daemon) -> None:
    async def act(running: service.Service, twin: twins.Processes) -> None:
        cluster = running.configuration.current
        nodes = [cluster.node(name).uuid for name in ("node2", "node3")]
        await running.queue.submit([twins.job(1, values.Opcode("power", {"nodes": nodes, "command": "off"}))])
        await twins.jobs_end(running)
        assert twin.ran == ["power 1/0", "find_power 0/lookup"]
        assert running.queue.jobs[1].text.endswith("; node2 is off, node3 is off")

    daemon.run(act, outcomes={"power": "lost"})


def test_power_is_in_the_audit_log_with_the_job_that_asked(
    daemon: daemons.Daemon, caplog: pytest.LogCaptureFixture
) -> None:
    async def act(running: service.Service, twin: twins.Processes) -> None:
        twin.values["power"] = [outcome("off", sent=True), outcome("off", sent=False)]
        await running.queue.submit([twins.job(1, daemons.power(running, "off"))])
        with caplog.at_level(logging.INFO, logger=log_output.AUDIT):
            await twins.jobs_end(running)
        assert [one.getMessage() for one in caplog.records if one.name == log_output.AUDIT] == [
            "job 1: node2 is recorded as powered off, was on",
            "job 1: power off node2: on → unknown, not confirmed: the BMC did not answer",
        ]

    daemon.run(act)


def test_after_a_lost_reading_of_the_power_nothing_is_looked_at(daemon: daemons.Daemon) -> None:
    async def act(running: service.Service, twin: twins.Processes) -> None:
        await running.queue.submit([twins.job(1, daemons.power(running, "status"))])
        await twins.jobs_end(running)
        assert twin.ran == ["power 1/0"]

    daemon.run(act, outcomes={"power": "lost"})


def test_a_canceled_power_command_is_read_back_too(daemon: daemons.Daemon) -> None:
    async def act(running: service.Service, twin: twins.Processes) -> None:
        await running.queue.submit([twins.job(1, daemons.power(running, "off"))])
        await twins.until_held(twin)
        await daemons.cancel(running, 1)
        assert daemons.reads(running, 1) == ["canceled"]
        assert not powered(running)

    daemon.run(act, outcomes={"power": "held"})


def test_a_look_that_does_not_fit_the_cluster_any_more_ends_with_the_reason(daemon: daemons.Daemon) -> None:
    def refuse(*_: object) -> Sequence[values.Opcode]:
        raise errors.Refused("that node is not asked")

    async def act(running: service.Service, twin: twins.Processes) -> None:
        daemon.monkeypatch.setattr(instance_looks.FindInstance, "variables", refuse)
        await running.queue.submit([twins.job(1, daemons.move(running))])
        await twins.jobs_end(running)
        assert "it is lost, and not repeated; nobody could look (3 tries: that node is not asked)" in (
            running.queue.jobs[1].text
        )

    daemon.run(act, outcomes={"migrate": "lost"})


def test_an_instance_is_looked_for_only_where_somebody_may_look(daemon: daemons.Daemon) -> None:
    async def act(running: service.Service, twin: twins.Processes) -> None:
        cluster = running.configuration.current
        one = cluster.instance("instance1")
        look = instance_looks.opcode(cluster, one.uuid)
        assert look.hosts(cluster) == list(one.nodes)
        node = cluster.nodes[one.primary_node]
        for dark in (dataclasses.replace(node, offline=True), dataclasses.replace(node, powered=False)):
            changed = dataclasses.replace(cluster, nodes={**cluster.nodes, dark.uuid: dark})
            assert look.hosts(changed) == list(one.secondary_nodes)
            assert look.variables(changed)["unasked"] == [dark.name]

    daemon.run(act)


def test_a_node_that_lived_since_it_was_known_to_be_off_is_not_passed_over_as_off(daemon: daemons.Daemon) -> None:
    async def act(running: service.Service, twin: twins.Processes) -> None:
        cluster = running.configuration.current
        one = cluster.instance("instance1")
        look = instance_looks.opcode(cluster, one.uuid)
        off = dataclasses.replace(cluster.nodes[one.primary_node], powered=False, off_since=10.0)
        for node, known in ((off, [off.uuid]), (dataclasses.replace(off, alive_at=20.0), [])):
            changed = dataclasses.replace(cluster, nodes={**cluster.nodes, node.uuid: node})
            assert look.variables(changed)["known_off"] == known

    daemon.run(act)


def test_the_power_of_a_node_without_a_bmc_is_not_looked_at(daemon: daemons.Daemon) -> None:
    async def act(running: service.Service, twin: twins.Processes) -> None:
        cluster = running.configuration.current
        assert settling.power_look(cluster, [cluster.node("node2").uuid]) is not None
        assert settling.power_look(cluster, ["no such node"]) is None
        node = dataclasses.replace(cluster.node("node2"), ndparams={"oob_program": "!"})
        assert settling.power_look(dataclasses.replace(cluster, nodes={node.uuid: node}), [node.uuid]) is None

    daemon.run(act)


def test_what_a_look_records_about_something_that_is_gone_is_told(daemon: daemons.Daemon) -> None:
    async def act(running: service.Service, twin: twins.Processes) -> None:
        gone = [changes.NodePowered("no such node", powered=False)]
        daemon.monkeypatch.setattr(twin, "_recorded", lambda _spec: gone)
        await running.queue.submit([twins.job(1, daemons.power(running, "off"))])
        await twins.jobs_end(running)
        assert "no such node" in running.queue.jobs[1].text
        assert powered(running)

    daemon.run(act, outcomes={"power": "lost"})


def test_a_damaged_job_that_held_a_node_alone_has_its_power_read(daemon: daemons.Daemon) -> None:
    found: list[Path] = []

    async def first(running: service.Service, twin: twins.Processes) -> None:
        await running.queue.submit([twins.job(1, daemons.power(running, "off"))])
        found.extend(await twins.until_held(twin))
        await running.queue.stop()

    async def second(running: service.Service, twin: twins.Processes) -> None:
        twin.powered[running.configuration.current.node("node2").uuid] = False
        running.queue.resume()
        await twins.jobs_end(running)
        assert twin.ran == ["find_power 0/lookup"]
        assert running.queue.jobs[1].text.endswith("; node2 is off")
        assert not powered(running)
        assert running.desk.table.held == {}

    daemon.run(first, outcomes={"power": "held"})
    job = found[0].parent / "job.json"
    job.write_bytes(job.read_bytes()[:100])
    daemon.run(second)
