"""Silent nodes in a whole service whose opcodes are a twin's: what is asked, what is noted, and what moves when."""

from __future__ import annotations

import asyncio
import dataclasses
import time
from typing import TYPE_CHECKING, Any

import pytest
from ansible_collections.roundsman.cluster.daemon.api import views
from ansible_collections.roundsman.cluster.daemon.jobs import values
from ansible_collections.roundsman.cluster.daemon.maintenance import dead_nodes as silent_nodes
from ansible_collections.roundsman.cluster.plugins.module_utils.domain import (
    changes,
    dead_nodes,
    incidents,
    known_off,
    membership,
    power,
)
from ansible_collections.roundsman.cluster.plugins.module_utils.domain import cluster as clusters

from tests.unit.daemon import twins

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from ansible_collections.roundsman.cluster.daemon import service
    from ansible_collections.roundsman.cluster.daemon.lab import world


@pytest.fixture(name="lab")
def fixture_lab(tmp_path: Path) -> world.Lab:
    """Six nodes, six instances; a node is asked about after three misses."""
    return twins.lab(tmp_path, nodes=6, instances=6, dead_after=3, dead_node_policy="failover")


def outcome(name: str, state: power.State, command: power.Command, then: power.State) -> dict[str, Any]:
    """What a power command's play leaves for a node that reads a state, and then another once it is commanded."""
    if not command.fences:
        return power.judge(command, name=name, before=state, seconds=0.1).as_dict()
    sent = [power.Attempt(power.Answer.ACCEPTED)]
    told = power.judge(command, name=name, before=state, seen=[then, then], attempts=sent, seconds=0.1)
    return told.as_dict()


class Nodes:
    """A service with silent nodes; `silent` are their names, and how often they did not answer."""

    def __init__(self, lab: world.Lab, monkeypatch: pytest.MonkeyPatch, **outcomes: str) -> None:
        self.service, self.twin = twins.assemble(lab, monkeypatch, outcomes=outcomes)
        self.silent: dict[str, int] = {}
        self.answering = 5
        self.now = 1000.0
        monkeypatch.setattr(self.service.dead, "_silences", self._silences)
        self.stepped = 0.0
        self.since = 500.0
        monkeypatch.setattr(self.service.dead, "_clock", lambda: self.now + self.stepped)
        monkeypatch.setattr(self.service.dead, "_monotonic", lambda: self.now)
        for name in lab.settings()["nodes"]:
            twins.report(lab, self.service, name, '{"status":"Ok"}')

    def _silences(self) -> tuple[dict[str, dead_nodes.Silence], int]:
        found = {self.node(name).uuid: dead_nodes.Silence(misses, self.since) for name, misses in self.silent.items()}
        return found, self.answering

    def node(self, name: str) -> clusters.Node:
        return self.service.configuration.current.node(name)

    def bmc(self, name: str, state: power.State, then: power.State = power.State.OFF) -> None:
        """What the node's BMC reads, and then once it is commanded off."""

        def told(variables: dict[str, Any]) -> list[dict[str, Any]]:
            return [outcome(name, state, power.Command(variables["step"]["command"]), then)]

        self.twin.values["power"] = told

    @property
    def commands(self) -> list[str]:
        """The power commands, in their order."""
        jobs = (self.service.queue.jobs[number] for number in power_jobs(self))
        return [job.opcodes[0].params["command"] for job in jobs]

    async def settle(self) -> None:
        """Work until nothing more is to be done."""
        running: service.Service = self.service
        before = None
        while before is not running.configuration.current or running.queue.unfinished(running.queue.jobs):
            before = running.configuration.current
            await running.dead.step()
            await twins.settle(running)
            await running.dead.step()
            await twins.settle(running)

    def has_lived(self, name: str) -> bool:
        """Whether it has shown a sign of life since it was known to be off."""
        return self.node(name).alive_at > known_off.seen_off(self.node(name)) > 0

    def verdict(self, name: str) -> dead_nodes.Verdict:
        return self.service.dead.verdicts[self.node(name).uuid]

    def primaries(self, name: str) -> list[str]:
        return [one.name for one in self.service.configuration.current.primaries(self.node(name).uuid)]

    @property
    def kinds(self) -> list[str]:
        return [one.split()[0] for one in self.twin.ran]


def test_a_node_that_missed_a_few_polls_is_left_alone(lab: world.Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario() -> None:
        nodes = Nodes(lab, monkeypatch)
        nodes.silent["node3"] = 2
        await nodes.settle()
        assert nodes.twin.ran == []
        assert nodes.service.configuration.current.maintenance.incidents == ()

    asyncio.run(scenario())


def test_a_dead_node_is_emptied_by_failover_and_leaves_service_once_its_bmc_says_off(
    lab: world.Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario() -> None:
        nodes = Nodes(lab, monkeypatch)
        held = nodes.primaries("node3")
        assert held
        nodes.silent["node3"] = 3
        nodes.bmc("node3", power.State.OFF)
        await nodes.settle()
        assert nodes.kinds[:2] == ["power", "power"], "its BMC is asked before anything else"
        assert nodes.commands == ["status", "confirm_off"], "what it says is put to the test"
        assert nodes.primaries("node3") == []
        assert "migrate" not in nodes.kinds
        assert nodes.kinds.count("failover") == len(held)
        node = nodes.node("node3")
        assert (node.offline, node.powered) == (True, False)
        (one,) = nodes.service.configuration.current.maintenance.incidents
        assert one.repair_status.value == "completed"
        assert one.tag in node.tags

    asyncio.run(scenario())


@pytest.mark.parametrize("step", [3600.0, -3600.0, 86400.0, -86400.0])
def test_a_bmc_is_asked_again_after_five_minutes_whatever_the_clock_does(
    lab: world.Lab, monkeypatch: pytest.MonkeyPatch, step: float
) -> None:
    async def scenario() -> None:
        nodes = Nodes(lab, monkeypatch)
        nodes.silent["node3"] = 3
        nodes.bmc("node3", power.State.UNKNOWN)
        await nodes.settle()
        assert nodes.kinds == ["power"]
        nodes.stepped = step
        nodes.now += 290
        await nodes.settle()
        assert nodes.kinds == ["power"], "not before its time"
        nodes.now += 20
        await nodes.settle()
        assert nodes.kinds == ["power", "power"], "and then once"

    asyncio.run(scenario())


@pytest.mark.parametrize("state", [power.State.UNKNOWN, power.State.ON])
def test_nothing_is_started_while_the_bmc_does_not_say_off(
    lab: world.Lab, monkeypatch: pytest.MonkeyPatch, state: power.State
) -> None:
    async def scenario() -> None:
        nodes = Nodes(lab, monkeypatch)
        held = nodes.primaries("node3")
        nodes.silent["node3"] = 3
        nodes.bmc("node3", state)
        await nodes.settle()
        nodes.silent["node3"] = 50
        await nodes.settle()
        assert nodes.kinds == ["power"], "asked once, and not at every poll"
        assert nodes.primaries("node3") == held
        assert nodes.service.configuration.current.maintenance.incidents == ()
        assert nodes.verdict("node3").unblock

    asyncio.run(scenario())


def test_a_bmc_that_did_not_say_off_is_asked_again_later(lab: world.Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario() -> None:
        nodes = Nodes(lab, monkeypatch)
        nodes.silent["node3"] = 3
        nodes.bmc("node3", power.State.UNKNOWN)
        await nodes.settle()
        nodes.now += silent_nodes.ASKED_AGAIN + 1
        nodes.bmc("node3", power.State.OFF)
        await nodes.settle()
        assert nodes.primaries("node3") == []

    asyncio.run(scenario())


def test_what_the_bmc_said_before_this_silence_does_not_count(lab: world.Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario() -> None:
        nodes = Nodes(lab, monkeypatch)
        nodes.silent["node3"] = 3
        nodes.bmc("node3", power.State.OFF)
        await nodes.service.dead.step()
        await twins.jobs_end(nodes.service)
        nodes.since = 600.0  # It answered meanwhile, and fell silent again.
        await nodes.service.dead.step()
        assert nodes.service.configuration.current.maintenance.incidents == ()
        await nodes.service.queue.stop()

    asyncio.run(scenario())


def test_with_the_policy_fence_a_node_that_is_on_is_powered_off_first(
    lab: world.Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario() -> None:
        nodes = Nodes(lab, monkeypatch)
        settings = dataclasses.replace(
            nodes.service.configuration.current.maintenance.settings, dead_node_policy="fence"
        )
        await nodes.service.configuration.commit(lambda _: [changes.SettingsStand(settings)])
        nodes.silent["node3"] = 3
        nodes.bmc("node3", power.State.ON)
        await nodes.settle()
        assert nodes.kinds[:2] == ["power", "power"]
        assert nodes.commands == ["status", "fence"]
        assert nodes.primaries("node3") == []
        assert not nodes.node("node3").powered

    asyncio.run(scenario())


def test_a_node_that_is_not_powered_off_keeps_its_instances_and_is_not_fenced_at_every_poll(
    lab: world.Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario() -> None:
        nodes = Nodes(lab, monkeypatch, power="success error")
        settings = dataclasses.replace(
            nodes.service.configuration.current.maintenance.settings, dead_node_policy="fence"
        )
        await nodes.service.configuration.commit(lambda _: [changes.SettingsStand(settings)])
        held = nodes.primaries("node3")
        nodes.silent["node3"] = 3
        nodes.bmc("node3", power.State.ON, then=power.State.ON)
        await nodes.settle()
        await nodes.settle()
        assert nodes.kinds == ["power", "power"]
        assert nodes.primaries("node3") == held
        (refusal,) = nodes.service.rounds.preview().refusals
        assert "nobody has confirmed that it is off" in refusal.reason

    asyncio.run(scenario())


def test_a_node_that_answers_again_before_it_is_known_to_be_off_is_forgotten(
    lab: world.Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario() -> None:
        nodes = Nodes(lab, monkeypatch)
        nodes.silent["node3"] = 3
        nodes.bmc("node3", power.State.ON)
        await nodes.settle()
        nodes.silent.clear()
        await nodes.settle()
        assert nodes.service.dead.verdicts == {}
        assert nodes.service.configuration.current.maintenance.incidents == ()

    asyncio.run(scenario())


def test_what_a_person_confirms_moves_the_instances_of_a_node_whose_bmc_is_silent(
    lab: world.Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario() -> None:
        nodes = Nodes(lab, monkeypatch)
        nodes.silent["node3"] = 3
        nodes.bmc("node3", power.State.UNKNOWN)
        await nodes.settle()
        stated = changes.NodeOffConfirmed(nodes.node("node3").uuid, time.time())
        await nodes.service.configuration.commit(lambda _: [stated])
        nodes.silent.clear()
        await nodes.settle()
        assert nodes.primaries("node3") == []

    asyncio.run(scenario())


def test_while_maintenance_is_paused_silent_nodes_are_only_judged(
    lab: world.Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario() -> None:
        nodes = Nodes(lab, monkeypatch)
        settings = dataclasses.replace(nodes.service.configuration.current.maintenance.settings, paused="tea")
        await nodes.service.configuration.commit(lambda _: [changes.SettingsStand(settings)])
        nodes.silent["node3"] = 3
        await nodes.settle()
        assert nodes.twin.ran == []
        assert nodes.verdict("node3").step is dead_nodes.Step.ASK

    asyncio.run(scenario())


def test_a_pause_that_begins_between_two_silent_nodes_holds_the_second(
    lab: world.Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario() -> None:
        nodes = Nodes(lab, monkeypatch)
        submit = nodes.service.queue.submit

        async def submit_and_pause(jobs: Sequence[values.Job]) -> list[values.Job]:
            submitted = await submit(jobs)
            settings = dataclasses.replace(nodes.service.configuration.current.maintenance.settings, paused="tea")
            await nodes.service.configuration.commit(lambda _: [changes.SettingsStand(settings)])
            return submitted

        monkeypatch.setattr(nodes.service.queue, "submit", submit_and_pause)
        nodes.silent.update({"node2": 3, "node3": 3})
        await nodes.settle()
        assert len(power_jobs(nodes)) == 1

    asyncio.run(scenario())


def test_a_bmc_that_says_off_of_a_node_that_is_on_moves_nothing(
    lab: world.Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario() -> None:
        nodes = Nodes(lab, monkeypatch, power="success error")
        held = nodes.primaries("node3")
        nodes.silent["node3"] = 3
        nodes.bmc("node3", power.State.OFF, then=power.State.ON)
        await nodes.settle()
        await nodes.settle()
        assert nodes.commands == ["status", "confirm_off"], "once, and not at every poll"
        assert nodes.primaries("node3") == held
        assert nodes.service.configuration.current.maintenance.incidents == ()
        assert "says that it is on when it is commanded off" in nodes.verdict("node3").reason
        nodes.now += silent_nodes.ASKED_AGAIN + 1
        nodes.bmc("node3", power.State.OFF)
        await nodes.settle()
        assert nodes.commands[2:] == ["status", "confirm_off"], "what it said before is not remembered for ever"

    asyncio.run(scenario())


def test_a_node_that_is_recorded_as_off_is_commanded_off_before_anything_starts(
    lab: world.Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario() -> None:
        nodes = Nodes(lab, monkeypatch)
        nodes.silent["node3"] = 3
        nodes.bmc("node3", power.State.ON)
        await nodes.settle()
        assert nodes.commands == ["status"]
        stated = changes.NodePowered(nodes.node("node3").uuid, powered=False)
        await nodes.service.configuration.commit(lambda _: [stated])
        nodes.bmc("node3", power.State.OFF)
        await nodes.settle()
        assert nodes.commands == ["status", "confirm_off"]
        assert nodes.primaries("node3") == []

    asyncio.run(scenario())


def power_jobs(nodes: Nodes) -> list[int]:
    return [job.id for job in nodes.service.queue.jobs.values() if job.opcodes[0].kind == "power"]


def check_listed(nodes: Nodes) -> incidents.Incident:
    """The only incident: jobs that read or cut the power name it in their trails, and stand in its jobs."""
    (incident,) = nodes.service.configuration.current.maintenance.incidents
    for number in power_jobs(nodes):
        trail = [entry.text for entry in nodes.service.queue.jobs[number].reason]
        assert incident.uuid in trail
        assert number in views.incident(nodes.service.configuration.current, incident)["jobs"]
    return incident


def test_the_jobs_that_read_the_bmc_before_there_was_an_incident_stand_in_it(
    lab: world.Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario() -> None:
        nodes = Nodes(lab, monkeypatch)
        nodes.silent["node3"] = 3
        nodes.bmc("node3", power.State.UNKNOWN)
        await nodes.settle()
        nodes.now += silent_nodes.ASKED_AGAIN + 1
        nodes.bmc("node3", power.State.OFF)
        await nodes.settle()
        assert len(power_jobs(nodes)) == 3
        assert check_listed(nodes).repair_status.value == "completed"

    asyncio.run(scenario())


@pytest.mark.parametrize(("ends", "status"), [("success", "completed"), ("success error", "noted")])
def test_the_job_that_fences_stands_in_its_incident_and_does_not_fail_it(
    lab: world.Lab, monkeypatch: pytest.MonkeyPatch, ends: str, status: str
) -> None:
    async def scenario() -> None:
        nodes = Nodes(lab, monkeypatch, power=ends)
        settings = dataclasses.replace(
            nodes.service.configuration.current.maintenance.settings, dead_node_policy="fence"
        )
        await nodes.service.configuration.commit(lambda _: [changes.SettingsStand(settings)])
        nodes.silent["node3"] = 3
        nodes.bmc("node3", power.State.ON, then=power.State.OFF if status == "completed" else power.State.ON)
        await nodes.settle()
        assert len(power_jobs(nodes)) == 2
        assert check_listed(nodes).repair_status.value == status

    asyncio.run(scenario())


def test_a_bmc_that_cannot_be_read_fails_no_incident(lab: world.Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario() -> None:
        nodes = Nodes(lab, monkeypatch, power="error success")
        nodes.silent["node3"] = 3
        await nodes.settle()
        nodes.now += silent_nodes.ASKED_AGAIN + 1
        nodes.bmc("node3", power.State.OFF)
        await nodes.settle()
        assert len(power_jobs(nodes)) == 3
        assert check_listed(nodes).repair_status.value == "completed"

    asyncio.run(scenario())


def test_an_instance_whose_replica_is_not_known_to_be_in_sync_waits_and_the_others_of_the_node_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario() -> None:
        pairs = [("node3", "node1"), ("node3", "node2")]
        lab = twins.lab(tmp_path, nodes=6, pairs=pairs, dead_after=3, dead_node_policy="failover")
        nodes = Nodes(lab, monkeypatch)
        await nodes.service.intake.take_all()
        facts = twins.replica_facts(nodes.service.configuration.current, nodes.node("node3"), lost=["instance1"])
        twins.report(lab, nodes.service, "node3", '{"status":"Ok"}', facts=facts)
        await nodes.service.intake.take_all()
        nodes.silent["node3"] = 3
        nodes.bmc("node3", power.State.OFF)
        await nodes.settle()
        assert nodes.primaries("node3") == ["instance1"]
        assert nodes.kinds.count("failover") == 1
        (incident,) = nodes.service.configuration.current.maintenance.incidents
        assert incident.repair_status is incidents.RepairStatus.PENDING, "it waits, and has not failed"
        (refusal,) = [one for one in nodes.service.rounds.preview().refusals if one.subject == "instance1"]
        assert "node3 reported at" in refusal.reason
        assert "`roundsman instance failover instance1 --ignore-consistency`" in refusal.unblock
        (moved,) = [one for job in nodes.service.queue.jobs.values() for one in job.opcodes if one.kind == "failover"]
        loss = moved.result["possible_loss"]
        assert moved.text.startswith("possible loss: writes of the last ")
        assert 0 <= loss["seconds"] < 60
        assert not loss["ignored"]
        trails = [entry.text for job in nodes.service.queue.jobs.values() for entry in job.reason]
        assert any("possible loss: writes of the last" in text for text in trails), "the plan says it, too"

    asyncio.run(scenario())


class Doubted(Nodes):
    """Nodes of which node3 is known to be off and keeps instance1, because its target node1 is drained.

    The replica of instance2 on node3 is there for its primary node2 to report that node3 is connected.
    """

    @classmethod
    async def begin(cls, folder: Path, monkeypatch: pytest.MonkeyPatch, *, by_person: bool) -> Doubted:
        pairs = [("node3", "node1"), ("node2", "node3")]
        nodes = cls(twins.lab(folder, nodes=6, pairs=pairs, dead_after=3, dead_node_policy="failover"), monkeypatch)
        monkeypatch.setattr(nodes.service.dead, "_clock", time.time)
        await nodes.hear()
        lives = nodes.service.intake.lives
        lives.ask(nodes.node("node3").uuid, lives.now(), gap=1e9)
        await nodes.change("node1", drained=True)
        nodes.silent["node3"] = 3
        nodes.bmc("node3", power.State.UNKNOWN if by_person else power.State.OFF)
        await nodes.settle()
        if by_person:
            await nodes.state_off()
        assert (nodes.node("node3").powered, nodes.primaries("node3")) == (False, ["instance1"])
        return nodes

    async def change(self, name: str, **fields: Any) -> None:
        node = dataclasses.replace(self.node(name), **fields)
        await self.service.configuration.commit(lambda _: [membership.NodeStands(node)])

    async def hear(self, *names: str, lost: Sequence[str] = ()) -> None:
        """Have these nodes report, with these instances cut from their peers."""
        running: service.Service = self.service
        for name in names:
            facts = twins.replica_facts(running.configuration.current, self.node(name), lost=lost)
            twins.report(twins.lab_of(running), running, name, '{"status":"Ok"}', facts=facts)
        await running.intake.take_all()
        await running.replicas.step()

    async def revive(self) -> None:
        """The peers of node3 report that they are connected to it, long after it was known to be off."""
        await self.change("node3", off_since=self.node("node3").off_since - 1000)
        await self.hear("node1", "node2")
        assert self.has_lived("node3")

    async def state_off(self) -> None:
        stated = changes.NodeOffConfirmed(self.node("node3").uuid, time.time())
        await self.service.configuration.commit(lambda _: [stated])
        await self.settle()

    async def undrain(self) -> None:
        await self.change("node1", drained=False)
        await self.settle()


@pytest.mark.parametrize("by_person", [False, True], ids=["by its BMC", "by a person"])
def test_what_was_known_of_the_power_ends_with_a_peers_word_and_nothing_starts_it_anew_by_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, by_person: bool
) -> None:
    async def scenario() -> None:
        nodes = await Doubted.begin(tmp_path, monkeypatch, by_person=by_person)
        await nodes.revive()
        await nodes.hear("node1", lost=["instance1"])
        await nodes.undrain()
        nodes.now += silent_nodes.ASKED_AGAIN + 1
        await nodes.settle()
        assert nodes.primaries("node3") == ["instance1"]
        assert nodes.has_lived("node3"), "nobody confirmed it again"
        assert set(nodes.commands[-2:]) == {"status"}, "its BMC is only asked"
        verdict = nodes.verdict("node3")
        assert verdict.step is dead_nodes.Step.WAIT
        assert "it showed that it lives, after it was known to be off" in verdict.reason
        assert "`roundsman node confirm-off node3`" in verdict.unblock
        (refusal,) = nodes.service.rounds.preview().refusals
        assert "after it was known to be off" in refusal.reason
        assert "`roundsman node power off node3 --force`" in refusal.unblock

    asyncio.run(scenario())


@pytest.mark.parametrize("by_person", [False, True], ids=["by its BMC", "by a person"])
def test_a_node_that_lived_after_it_was_known_to_be_off_fails_over_once_it_is_confirmed_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, by_person: bool
) -> None:
    async def scenario() -> None:
        nodes = await Doubted.begin(tmp_path, monkeypatch, by_person=by_person)
        await nodes.revive()
        await nodes.undrain()
        assert nodes.primaries("node3") == ["instance1"]
        before = len(nodes.commands)
        if by_person:
            await nodes.state_off()
        else:
            # As `roundsman node power off node3 --force` records it.
            off = changes.NodePowered(nodes.node("node3").uuid, powered=False)
            await nodes.service.configuration.commit(lambda _: [off])
            await nodes.settle()
            assert nodes.commands[before:] == ["confirm_off"]
        assert nodes.primaries("node3") == []

    asyncio.run(scenario())


def test_with_the_policy_fence_a_node_that_came_back_is_powered_off_and_fails_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario() -> None:
        nodes = await Doubted.begin(tmp_path, monkeypatch, by_person=False)
        settings = nodes.service.configuration.current.maintenance.settings
        fence = changes.SettingsStand(dataclasses.replace(settings, dead_node_policy="fence"))
        await nodes.service.configuration.commit(lambda _: [fence])
        await nodes.revive()
        nodes.bmc("node3", power.State.ON)
        before = len(nodes.commands)
        await nodes.undrain()
        assert nodes.commands[before:] == ["status", "fence"]
        assert nodes.primaries("node3") == []

    asyncio.run(scenario())


def test_a_sign_of_life_that_comes_after_a_node_was_judged_is_not_overwritten(
    lab: world.Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario() -> None:
        nodes = Nodes(lab, monkeypatch)
        configuration = nodes.service.configuration
        nodes.silent["node3"] = 3
        nodes.bmc("node3", power.State.UNKNOWN)
        await nodes.settle()
        node = nodes.node("node3").uuid
        await configuration.commit(lambda _: [changes.NodeOffConfirmed(node, time.time())])
        commit = configuration.commit

        async def commit_after_a_sign_of_life(stated: Callable[[clusters.Cluster], list[changes.Change]]) -> None:
            await commit(lambda _: [changes.NodeLived(node)])
            await commit(stated)

        monkeypatch.setattr(configuration, "commit", commit_after_a_sign_of_life)
        await nodes.service.dead.step()
        assert nodes.has_lived("node3")
        assert configuration.current.maintenance.incidents == ()

    asyncio.run(scenario())


def test_a_statement_after_the_clock_was_ahead_ends_with_the_reports_of_the_node(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario() -> None:
        nodes = await Doubted.begin(tmp_path, monkeypatch, by_person=False)
        # It is on, and its BMC read on while the clock was two hours ahead; then the BMC falls silent.
        await nodes.change("node3", powered=True, off_since=0.0, alive_at=time.time() + 7200)
        nodes.bmc("node3", power.State.UNKNOWN)
        await nodes.state_off()
        assert known_off.is_stated_off(nodes.node("node3"))
        nodes.silent.clear()
        await nodes.hear("node3")
        await nodes.settle()
        assert not known_off.is_stated_off(nodes.node("node3"))
        assert not known_off.is_known_off(nodes.node("node3"))
        nodes.since, nodes.silent["node3"] = 900.0, 3
        await nodes.undrain()
        assert nodes.primaries("node3") == ["instance1"], "it reported, and its instances run on"

    asyncio.run(scenario())


async def recorded_off(folder: Path, monkeypatch: pytest.MonkeyPatch, **outcomes: str) -> Doubted:
    """Silent nodes of which node3 is recorded as off, by a BMC that is wrong, and keeps instance1 so far."""
    pairs = [("node3", "node1"), ("node2", "node3")]
    lab = twins.lab(folder, nodes=6, pairs=pairs, dead_after=3, dead_node_policy="failover")
    nodes = Doubted(lab, monkeypatch, **outcomes)
    monkeypatch.setattr(nodes.service.dead, "_clock", time.time)
    await nodes.hear()
    lives = nodes.service.intake.lives
    lives.ask(nodes.node("node3").uuid, lives.now(), gap=1e9)
    off = changes.NodePowered(nodes.node("node3").uuid, powered=False)
    await nodes.service.configuration.commit(lambda _: [off])
    nodes.silent["node3"] = 3
    nodes.bmc("node3", power.State.OFF)
    return nodes


@pytest.mark.parametrize("has_begun", [True, False], ids=["at its BMC", "waiting for a lock"])
def test_a_command_from_before_a_sign_of_life_confirms_nothing_after_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, has_begun: bool
) -> None:
    async def scenario() -> None:
        outcomes = {"power": "held"} if has_begun else {"replace_disks": "held"}
        nodes = await recorded_off(tmp_path, monkeypatch, **outcomes)
        if not has_begun:
            instance = nodes.service.configuration.current.instance("instance2").uuid
            params = {"instance": instance, "old": nodes.node("node3").uuid, "new": nodes.node("node1").uuid}
            await nodes.service.queue.submit([twins.job(0, values.Opcode("replace_disks", params))])
            await twins.until_held(nodes.twin)
        await nodes.service.dead.step()
        assert nodes.commands == ["confirm_off"]
        (run,) = await twins.until_held(nodes.twin)
        await nodes.revive()
        await nodes.hear("node1", lost=["instance1"])
        nodes.twin.outcomes = {}
        nodes.twin.finish(run)
        await nodes.settle()
        assert ("power" in nodes.kinds, nodes.has_lived("node3")) == (True, True)
        assert nodes.commands == ["confirm_off", "status"], "its BMC is only asked"
        assert nodes.primaries("node3") == ["instance1"]
        assert nodes.kinds.count("power") == (2 if has_begun else 1), "nothing is commanded once it has lived"

    asyncio.run(scenario())


def test_the_look_after_a_lost_power_command_confirms_nothing_of_a_node_that_has_lived(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario() -> None:
        nodes = await Doubted.begin(tmp_path, monkeypatch, by_person=False)
        await nodes.revive()
        await nodes.hear("node1", lost=["instance1"])
        await nodes.undrain()
        node = nodes.node("node3").uuid
        so_far = ["success"] * nodes.kinds.count("power")
        nodes.twin.outcomes["power"] = " ".join([*so_far, "lost", "success"])
        off = values.Opcode("power", {"node": node, "command": "off", "force": True})
        await nodes.service.queue.submit([twins.job(0, off)])
        await twins.settle(nodes.service)
        assert nodes.kinds[-1] == "find_power"
        await nodes.settle()
        assert nodes.has_lived("node3"), "its BMC was only read"
        assert nodes.primaries("node3") == ["instance1"]

    asyncio.run(scenario())


def test_a_bmc_that_reads_off_and_takes_no_off_is_asked_again(lab: world.Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario() -> None:
        nodes = Nodes(lab, monkeypatch)
        off, rejected = power.State.OFF, [power.Attempt(power.Answer.REJECTED)]

        def told(variables: dict[str, Any]) -> list[dict[str, Any]]:
            command = power.Command(variables["step"]["command"])
            failure = power.Failure(power.Reason.AUTH, "access denied") if command.fences else None
            values: dict[str, Any] = {"seen": [off] * 2, "attempts": rejected} if command.fences else {}
            return [power.judge(command, name="node3", before=off, seconds=0.1, failure=failure, **values).as_dict()]

        nodes.twin.values["power"] = told
        nodes.twin.outcomes["power"] = "success error success error"
        nodes.silent["node3"] = 3
        await nodes.settle()
        await nodes.service.dead.step()
        assert nodes.commands == ["status", "confirm_off"]
        assert "accepted no command to power off (auth)" in nodes.verdict("node3").reason
        nodes.now += silent_nodes.ASKED_AGAIN + 1
        await nodes.settle()
        assert nodes.commands == ["status", "confirm_off"] * 2, "it may have been repaired"
        assert nodes.primaries("node3")

    asyncio.run(scenario())


def known_by(part: object, node: str, name: str, seen: set[int]) -> list[str]:
    """The maps and sets of a part of the daemon, and of its own parts, that have a node (UUID) in them."""
    if id(part) in seen or not type(part).__module__.startswith(silent_nodes.__package__.rpartition(".")[0]):
        return []
    seen.add(id(part))
    found = []
    for field, value in vars(part).items():
        if isinstance(value, (dict, set)):
            found += [f"{name}.{field}"] if node in value else []
        else:
            found += known_by(value, node, f"{name}.{field}", seen)
    return found


def test_a_node_that_left_is_known_to_no_part_any_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lab = twins.lab(tmp_path, nodes=6, pairs=[("node3", "node1")], dead_after=3, dead_node_policy="fence")

    async def scenario() -> None:
        nodes = Nodes(lab, monkeypatch)
        uuid = nodes.node("node3").uuid
        nodes.silent["node3"] = 3
        nodes.bmc("node3", power.State.ON)
        await nodes.settle()
        assert "fence" in nodes.commands
        parts = {field.name: getattr(nodes.service, field.name) for field in dataclasses.fields(nodes.service)}

        def those_who_know() -> list[str]:
            # The last reports are the floor for replays: they stay, as their files do.
            seen = {id(nodes.service.configuration), id(nodes.service.intake._heard)}
            return [path for name, part in parts.items() for path in known_by(part, uuid, name, seen)]

        assert those_who_know()
        nodes.silent.clear()
        (instance,) = nodes.service.configuration.current.instances
        await nodes.service.configuration.commit(
            lambda _cluster: [membership.InstanceGone(instance), membership.NodeGone(uuid)]
        )
        await nodes.settle()
        await nodes.service.agents.ask()
        assert those_who_know() == []

    asyncio.run(scenario())
