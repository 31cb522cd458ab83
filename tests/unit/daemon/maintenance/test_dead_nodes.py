"""Silent nodes in a whole service whose opcodes are a twin's: what is asked, what is noted, and what moves when."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import functools
import time
import uuid
from typing import TYPE_CHECKING, Any

import pytest
from ansible_collections.roundsman.cluster.daemon.api import views
from ansible_collections.roundsman.cluster.daemon.jobs import submission, values
from ansible_collections.roundsman.cluster.daemon.locks import holders
from ansible_collections.roundsman.cluster.daemon.maintenance import agents, booting
from ansible_collections.roundsman.cluster.daemon.maintenance import dead_nodes as silent_nodes
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.agent import collected, signing
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.power import power
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.values import errors
from ansible_collections.roundsman.cluster.plugins.plugin_utils import peer_reports
from ansible_collections.roundsman.cluster.plugins.plugin_utils.cluster import (
    changes,
    incidents,
    known_off,
    locks,
    membership,
)
from ansible_collections.roundsman.cluster.plugins.plugin_utils.cluster import cluster as clusters
from ansible_collections.roundsman.cluster.plugins.plugin_utils.silent_nodes import dead_nodes

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
    """A service with silent nodes; `silent` are their names, and how often they did not answer.

    All but `dead` have reported that they are fine.
    """

    def __init__(self, lab: world.Lab, monkeypatch: pytest.MonkeyPatch, *, dead: str = "", **outcomes: str) -> None:
        self.service, self.twin = twins.assemble(lab, monkeypatch, outcomes=outcomes)
        self.silent: dict[str, int] = {}
        self.answering = 5
        self.now = 1000.0
        monkeypatch.setattr(self.service.dead, "_silences", self._silences)
        monkeypatch.setattr(self.service.agents, "answering", self._answering)
        monkeypatch.setattr(self.service.agents, "forget_node", self._begin_another_silence)
        self.reads: dict[str, power.State] = {}
        monkeypatch.setattr(self.service.readings, "_clock", lambda: self.now)
        self.stepped = 0.0
        monkeypatch.setattr(self.service.dead, "_clock", lambda: self.now + self.stepped)
        monkeypatch.setattr(self.service.dead, "_monotonic", lambda: self.now)
        for name in lab.settings()["nodes"]:
            if name == dead:
                continue
            twins.report(lab, self.service, name, '{"status":"Ok"}')
        self.since = time.time()

    async def hear(self, *names: str, lost: Sequence[str] = ()) -> None:
        """Have these nodes report, with these instances cut from their peers."""
        running: service.Service = self.service
        for name in names:
            facts = twins.replica_facts(running.configuration.current, self.node(name), lost=lost)
            twins.report(twins.lab_of(running), running, name, '{"status":"Ok"}', facts=facts)
        await running.intake.take_all()

    async def lose(self, name: str) -> None:
        """Have the peers of a node report that they lost it."""
        cluster = self.service.configuration.current
        shared = [one for one in cluster.instances.values() if self.node(name).uuid in one.nodes]
        peers = {cluster.node_name(uuid) for one in shared for uuid in one.nodes} - {name}
        await self.hear(*sorted(peers), lost=[one.name for one in shared])

    def _silences(self) -> tuple[dict[str, dead_nodes.Silence], int]:
        found = {
            self.node(name).uuid: dead_nodes.Silence(misses, self.since, misses) for name, misses in self.silent.items()
        }
        return found, self.answering

    def _begin_another_silence(self, _uuid: str) -> None:
        self.since += 1

    def _answering(self) -> set[str]:
        return {uuid for uuid, node in self.service.configuration.current.nodes.items() if node.name not in self.silent}

    def node(self, name: str) -> clusters.Node:
        return self.service.configuration.current.node(name)

    def bmc(self, name: str, state: power.State, then: power.State = power.State.OFF) -> None:
        """What the node's BMC reads, and then once it is commanded off."""

        def told(variables: dict[str, Any]) -> list[dict[str, Any]]:
            return [outcome(name, state, power.Command(variables["step"]["command"]), then)]

        self.reads[name] = state
        self.twin.values["power"] = told

    async def step(self) -> None:
        """Look at the silent nodes, have the BMCs answer that are to be read, and look again."""
        await self.service.dead.step()
        for watch in self.service.readings._watched.values():
            watch.take(self.reads.get(watch.target.name, power.State.UNKNOWN), at=self.now)
        await self.service.dead.step()

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
            await self.step()
            await twins.settle(running)
            await self.step()
            await twins.settle(running)

    async def change_settings(self, **fields: Any) -> None:
        settings = dataclasses.replace(self.service.configuration.current.maintenance.settings, **fields)
        await self.service.configuration.commit(lambda _: [changes.SettingsStand(settings)])

    def has_lived(self, name: str) -> bool:
        """Whether it has shown a sign of life since it was known to be off."""
        return self.node(name).alive_at > known_off.seen_off(self.node(name)) > 0

    def verdict(self, name: str) -> dead_nodes.Verdict:
        return self.service.dead.verdicts[self.node(name).uuid]

    def shown(self, name: str) -> dict[str, Any]:
        """The node as its user is shown it; a poll has missed it."""
        running: service.Service = self.service
        node = self.node(name)
        running.intake.seen[node.uuid] = agents.Seen(misses=self.silent.get(name, 0), since=self.since)
        return views.node(running.configuration.current, node, running.intake)

    def primaries(self, name: str) -> list[str]:
        return [one.name for one in self.service.configuration.current.primaries(self.node(name).uuid)]

    @property
    def kinds(self) -> list[str]:
        return [one.split()[0] for one in self.twin.ran]


def statuses(nodes: Nodes) -> list[str]:
    known = nodes.service.configuration.current.maintenance.incidents
    return [incident.repair_status.value for incident in known]


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
        assert nodes.commands == ["confirm_off"], "what its BMC says is put to the test"
        assert nodes.primaries("node3") == []
        assert "migrate" not in nodes.kinds
        assert nodes.kinds.count("failover") == len(held)
        node = nodes.node("node3")
        assert (node.offline, node.powered) == (True, False)
        (one,) = nodes.service.configuration.current.maintenance.incidents
        assert one.repair_status.value == "completed"
        assert one.tag in node.tags

    asyncio.run(scenario())


def test_a_node_that_dies_while_another_one_is_evacuated_waits_for_none_of_its_resyncs(
    lab: world.Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario() -> None:
        nodes = Nodes(lab, monkeypatch, replace_disks="held")
        running = nodes.service
        twins.report(lab, running, "node2", '{"status":"evacuate"}')
        while await running.rounds.step():
            pass
        await twins.until_held(nodes.twin)
        resyncs = set(running.queue.unfinished(running.queue.jobs))
        nodes.silent["node5"] = 3
        nodes.bmc("node5", power.State.OFF)
        busy = {str(nodes.twin.specs[run].variables["step"]["instance"]["uuid"]) for run in nodes.twin.held()}
        held = [
            one.name
            for one in running.configuration.current.primaries(nodes.node("node5").uuid)
            if one.uuid not in busy
        ]
        assert held
        for _ in range(100):
            await nodes.step()
            await running.rounds.step()
            await asyncio.sleep(0.01)
            if not set(held) & set(nodes.primaries("node5")):
                break
        assert not set(held) & set(nodes.primaries("node5")), "they run elsewhere"
        assert resyncs & set(running.queue.unfinished(running.queue.jobs)), "and the resyncs have not ended"

    asyncio.run(scenario())


@pytest.mark.parametrize("step", [3600.0, -3600.0, 86400.0, -86400.0])
def test_a_bmc_that_did_not_read_off_is_commanded_again_after_five_minutes_whatever_the_clock_does(
    lab: world.Lab, monkeypatch: pytest.MonkeyPatch, step: float
) -> None:
    async def scenario() -> None:
        nodes = Nodes(lab, monkeypatch, power="error")
        nodes.silent["node3"] = 3
        nodes.bmc("node3", power.State.OFF, then=power.State.ON)
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
        assert nodes.kinds == []
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
        nodes.now += 10
        nodes.bmc("node3", power.State.OFF)
        await nodes.settle()
        assert nodes.primaries("node3") == []

    asyncio.run(scenario())


def test_what_the_bmc_said_before_this_silence_does_not_count(lab: world.Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario() -> None:
        nodes = Nodes(lab, monkeypatch)
        nodes.silent["node3"] = 3
        nodes.bmc("node3", power.State.OFF)
        await nodes.step()
        await twins.jobs_end(nodes.service)
        nodes.since = 600.0  # It answered meanwhile, and fell silent again.
        await nodes.service.dead.step()
        assert nodes.verdict("node3").step is not dead_nodes.Step.FAIL_OVER
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
        await nodes.lose("node3")
        nodes.bmc("node3", power.State.ON)
        await nodes.settle()
        assert nodes.kinds[:1] == ["power"]
        assert nodes.commands == ["fence"]
        assert nodes.primaries("node3") == []
        assert not nodes.node("node3").powered

    asyncio.run(scenario())


def fencing(folder: Path) -> world.Lab:
    """Six nodes in a ring: node1 is the primary of instance1, node2 has its replica; the policy is fence."""
    pairs = [(f"node{one}", f"node{one % 6 + 1}") for one in range(1, 7)]
    return twins.lab(folder, nodes=6, pairs=pairs, dead_after=3, dead_node_policy="fence")


def test_a_silent_node_to_which_replication_lives_is_deaf_and_is_not_fenced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario() -> None:
        nodes = Nodes(fencing(tmp_path), monkeypatch)
        nodes.silent["node3"] = 3
        nodes.since = time.time() - 60
        nodes.bmc("node3", power.State.ON)
        await nodes.hear("node4", lost=["instance3"])
        await nodes.settle()
        assert nodes.commands == []
        verdict, shown = nodes.verdict("node3"), nodes.shown("node3")
        assert "node2 alone reports at " in verdict.reason
        assert shown["deaf"].startswith("node2 alone reports at ")
        assert "its agent or its management link repaired" in verdict.unblock

        nodes.silent.clear()
        await nodes.settle()
        assert nodes.shown("node3")["deaf"] is None

    asyncio.run(scenario())


def test_what_a_peer_reports_is_judged_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario() -> None:
        nodes = Nodes(fencing(tmp_path), monkeypatch)
        nodes.service.dead._awake.clear()
        await nodes.hear("node4")
        assert nodes.service.dead._awake.is_set()

    asyncio.run(scenario())


def test_a_bmc_that_says_off_of_a_node_to_which_replication_lives_powers_nothing_off(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario() -> None:
        nodes = Nodes(fencing(tmp_path), monkeypatch)
        await nodes.service.intake.take_all()
        nodes.silent["node3"] = 3
        nodes.since = time.time() - 60
        nodes.bmc("node3", power.State.OFF)
        await nodes.settle()
        assert nodes.commands == []
        assert "its BMC says that it is off: it may run its instances" in nodes.verdict("node3").reason
        await nodes.lose("node3")
        await nodes.settle()
        assert nodes.commands == ["confirm_off"]

    asyncio.run(scenario())


def test_where_nobodys_reports_count_the_fault_may_be_here_and_nobody_is_fenced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario() -> None:
        nodes = Nodes(fencing(tmp_path), monkeypatch)
        nodes.silent["node3"] = 3
        nodes.since = time.time() - 60
        nodes.bmc("node3", power.State.ON)
        # The controller's clock was set wrong: all reports are refused.
        monkeypatch.setattr(nodes.service.intake, "is_current", lambda _node: False)
        await nodes.settle()
        nodes.now += peer_reports.MUTE_AFTER + 1
        await nodes.settle()
        assert nodes.commands == [], nodes.verdict("node3").reason

    asyncio.run(scenario())


def refuse_reports(nodes: Nodes, monkeypatch: pytest.MonkeyPatch, *names: str) -> None:
    """Have no report of these nodes count from now on."""
    mute, is_current = {nodes.node(name).uuid for name in names}, nodes.service.intake.is_current
    monkeypatch.setattr(nodes.service.intake, "is_current", lambda node: node not in mute and is_current(node))


def test_a_peer_whose_reports_are_refused_for_long_lets_no_node_that_is_on_be_fenced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario() -> None:
        nodes = Nodes(fencing(tmp_path), monkeypatch)
        nodes.silent["node3"] = 3
        nodes.since = time.time() - 60
        nodes.bmc("node3", power.State.ON)
        await nodes.lose("node3")
        refuse_reports(nodes, monkeypatch, "node4")
        await nodes.settle()
        nodes.now += peer_reports.MUTE_AFTER + 1
        await nodes.settle()
        assert nodes.commands == []
        assert "node4 has not reported since node3 fell silent" in nodes.verdict("node3").reason
        assert "the next report of node4" in nodes.verdict("node3").unblock

    asyncio.run(scenario())


def test_a_peer_without_reports_for_ten_minutes_of_a_silence_keeps_no_off_from_being_confirmed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario() -> None:
        pairs = [("node3", name) for name in ("node2", "node4", "node5")] + [("node4", "node6")]
        nodes = Nodes(twins.lab(tmp_path, nodes=6, pairs=pairs, dead_after=3, dead_node_policy="fence"), monkeypatch)
        await nodes.service.intake.take_all()
        refuse_reports(nodes, monkeypatch, "node5")
        # Another silence is older, and does not count.
        nodes.silent["node6"] = 2
        nodes.since = time.time() - 60
        await nodes.settle()
        nodes.now += peer_reports.MUTE_AFTER + 1
        await nodes.settle()
        nodes.silent = {"node3": 3}
        nodes.bmc("node3", power.State.OFF)
        await nodes.hear("node4", lost=["instance1", "instance2", "instance3"])
        await nodes.settle()
        nodes.now += peer_reports.MUTE_AFTER
        await nodes.settle()
        assert nodes.commands == [], "of node5 nothing is known"
        nodes.now += 1
        await nodes.settle()
        assert nodes.commands == ["confirm_off"]

    asyncio.run(scenario())


async def waiting_fence(nodes: Nodes) -> tuple[Path, int]:
    """Have node3 fenced while a failover from it is at work; returns the run of that, and the job of the fence."""
    moved = nodes.service.configuration.current.instance("instance3")
    params = {"instance": moved.uuid, "source": moved.primary_node, "target": moved.secondary_nodes[0]}
    await nodes.service.queue.submit([twins.job(0, values.Opcode("failover", params))])
    (run,) = await twins.until_held(nodes.twin)
    nodes.silent["node3"] = 3
    nodes.since = time.time() - 60
    nodes.service.dead._reads[moved.primary_node] = silent_nodes.Read(
        dead_nodes.Reading(power.State.ON), nodes.now, nodes.since, 0.0
    )
    await nodes.lose("node3")
    await nodes.service.dead.step()
    (fence,) = power_jobs(nodes)
    assert not nodes.service.queue.jobs[fence].is_final
    return run, fence


def test_a_fence_that_waits_for_a_lock_is_canceled_once_a_peer_is_connected(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario() -> None:
        nodes = Nodes(fencing(tmp_path), monkeypatch, failover="held")
        run, fence = await waiting_fence(nodes)

        await nodes.hear("node2")
        await nodes.service.dead.step()
        assert nodes.service.queue.jobs[fence].status is values.Status.CANCELED
        nodes.twin.finish(run)
        await nodes.settle()
        assert "power" not in nodes.kinds
        await nodes.lose("node3")
        await nodes.settle()
        assert nodes.commands == ["fence", "fence"], "a peer that lost it later has it fenced at once"

    asyncio.run(scenario())


def test_a_command_whose_incident_cannot_be_written_is_not_given_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def full(*_: object) -> None:
        raise errors.StoreFailed("No space left on device")

    async def scenario() -> None:
        nodes = await recorded_off(tmp_path, monkeypatch, power="held")
        with monkeypatch.context() as patched:
            patched.setattr(nodes.service.dead, "_list", full)
            for _ in range(3):
                with contextlib.suppress(errors.StoreFailed):
                    await nodes.service.dead.step()
        assert nodes.commands == ["confirm_off"]

    asyncio.run(scenario())


def test_nodes_are_judged_again_as_soon_as_maintenance_is_held(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario() -> None:
        nodes = Nodes(fencing(tmp_path), monkeypatch)
        nodes.service.dead._awake.clear()
        off = changes.EpoStands((), (), by="ops", returning=False)
        await nodes.service.configuration.commit(lambda _: [off])
        assert nodes.service.dead._awake.is_set(), "a fence that waits for a lock is taken back"

    asyncio.run(scenario())


def test_a_fence_that_waits_for_a_lock_is_canceled_by_a_pause(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario() -> None:
        nodes = Nodes(fencing(tmp_path), monkeypatch, failover="held")
        run, fence = await waiting_fence(nodes)

        await nodes.change_settings(paused="a person works on the switch")
        await nodes.service.dead.step()
        nodes.twin.finish(run)
        await twins.jobs_end(nodes.service)
        assert "power" not in nodes.kinds
        assert nodes.service.queue.jobs[fence].status is values.Status.CANCELED

    asyncio.run(scenario())


def test_a_command_of_the_daemon_before_that_has_not_ended_is_not_given_again(
    lab: world.Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario() -> None:
        before = Nodes(lab, monkeypatch, power="held")
        params = {"node": before.node("node3").uuid, "command": "confirm_off"}
        trail = (values.Reason(submission.ROUNDS, "node3 does not answer", 1),)
        job = dataclasses.replace(twins.job(0, values.Opcode("power", params)), reason=trail)
        await before.service.queue.submit([job])
        await twins.until_held(before.twin)
        await before.service.queue.stop()

        nodes = Nodes(lab, monkeypatch, power="held")
        nodes.silent["node3"] = 3
        nodes.bmc("node3", power.State.OFF)
        await nodes.step()
        assert nodes.verdict("node3").step is dead_nodes.Step.CONFIRM
        assert nodes.commands == ["confirm_off"]

    asyncio.run(scenario())


@pytest.mark.parametrize("misses", [0, 1])
def test_a_daemon_that_ends_while_it_confirms_an_off_leaves_a_node_that_is_known_to_be_dead(
    lab: world.Lab, monkeypatch: pytest.MonkeyPatch, misses: int
) -> None:
    async def scenario() -> None:
        before = Nodes(lab, monkeypatch, power="held")
        await before.hear()
        before.now = time.time() + 1  # after the last report of the node
        assert before.primaries("node3")
        before.silent["node3"] = 3
        before.bmc("node3", power.State.OFF)
        await before.step()
        (run,) = await twins.until_held(before.twin)
        # It is killed; the process of the opcode lives on, and ends well.
        await before.service.queue.stop()
        before.twin.finish(run)

        nodes = Nodes(lab, monkeypatch, dead="node3")
        nodes.silent = {"node3": misses} if misses else {}
        nodes.bmc("node3", power.State.OFF)
        nodes.service.queue.resume()
        await nodes.settle()
        assert known_off.is_known_off(nodes.node("node3"))
        assert nodes.primaries("node3") == []

    asyncio.run(scenario())


def test_a_dead_node_whose_off_was_only_read_by_the_daemon_before_is_commanded_off(
    lab: world.Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario() -> None:
        nodes = Nodes(lab, monkeypatch)
        node = nodes.node("node3")
        dead = incidents.note(dead_nodes.report(node), node=node.uuid, uuid=str(uuid.uuid4()), now=nodes.now)
        read = changes.NodePowered(node.uuid, powered=False, confirms=False, commanded=False)
        await nodes.service.configuration.commit(lambda _: [changes.IncidentStands(dead), read])
        assert not known_off.is_known_off(nodes.node("node3"))
        nodes.bmc("node3", power.State.OFF)
        await nodes.settle()
        assert nodes.commands == ["confirm_off"]
        assert known_off.is_known_off(nodes.node("node3"))
        assert nodes.primaries("node3") == []

    asyncio.run(scenario())


def test_a_node_that_is_not_powered_off_keeps_its_instances_and_is_not_fenced_at_every_poll(
    lab: world.Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario() -> None:
        nodes = Nodes(lab, monkeypatch, power="error")
        settings = dataclasses.replace(
            nodes.service.configuration.current.maintenance.settings, dead_node_policy="fence"
        )
        await nodes.service.configuration.commit(lambda _: [changes.SettingsStand(settings)])
        held = nodes.primaries("node3")
        nodes.silent["node3"] = 3
        await nodes.lose("node3")
        nodes.bmc("node3", power.State.ON, then=power.State.ON)
        await nodes.settle()
        await nodes.settle()
        assert nodes.kinds == ["power"]
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


@pytest.mark.parametrize("misses", [0, 1, 3])
def test_what_a_person_confirms_moves_the_instances_of_a_node_whose_bmc_is_silent(
    lab: world.Lab, monkeypatch: pytest.MonkeyPatch, misses: int
) -> None:
    """Also before it has missed enough questions: from then on it is asked no more. So it is after a restart."""

    async def scenario() -> None:
        nodes = Nodes(lab, monkeypatch)
        if misses:
            nodes.silent["node3"] = misses
        nodes.bmc("node3", power.State.UNKNOWN)
        await nodes.settle()
        stated = changes.NodeOffConfirmed(nodes.node("node3").uuid, time.time())
        await nodes.service.configuration.commit(lambda _: [stated])
        nodes.silent.clear()
        await nodes.settle()
        assert nodes.primaries("node3") == []
        assert known_off.is_stated_off(nodes.node("node3")), "no BMC took an off"

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
        nodes.reads.update({"node2": power.State.OFF, "node3": power.State.OFF})
        await nodes.settle()
        assert len(power_jobs(nodes)) == 1

    asyncio.run(scenario())


def test_a_node_that_answers_while_another_is_commanded_is_left_alone(
    lab: world.Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario() -> None:
        nodes = Nodes(lab, monkeypatch)
        submit = nodes.service.queue.submit

        async def submit_and_answer(jobs: Sequence[values.Job]) -> list[values.Job]:
            submitted = await submit(jobs)
            (commanded,) = [name for name in nodes.silent if name in str(jobs[0].names)]
            nodes.silent = {commanded: 3}
            nodes.service.dead.observed(nodes.service.configuration.current)
            return submitted

        monkeypatch.setattr(nodes.service.queue, "submit", submit_and_answer)
        nodes.silent.update({"node2": 3, "node3": 3})
        nodes.reads.update({"node2": power.State.OFF, "node3": power.State.OFF})
        await nodes.step()
        assert nodes.commands == ["confirm_off"]
        await twins.jobs_end(nodes.service)

    asyncio.run(scenario())


def test_a_bmc_that_says_off_of_a_node_that_is_on_moves_nothing(
    lab: world.Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario() -> None:
        nodes = Nodes(lab, monkeypatch, power="error")
        held = nodes.primaries("node3")
        nodes.silent["node3"] = 3
        nodes.bmc("node3", power.State.OFF, then=power.State.ON)
        await nodes.settle()
        await nodes.settle()
        assert nodes.commands == ["confirm_off"], "once, and not at every poll"
        assert nodes.primaries("node3") == held
        assert statuses(nodes) == ["noted"]
        assert "says that it is on when it is commanded off" in nodes.verdict("node3").reason
        nodes.now += silent_nodes.COMMANDED_AGAIN + 1
        nodes.bmc("node3", power.State.OFF)
        await nodes.settle()
        assert nodes.commands[1:] == ["confirm_off"], "what it said before is not remembered for ever"

    asyncio.run(scenario())


def test_a_node_that_is_recorded_as_off_is_commanded_off_before_anything_starts(
    lab: world.Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario() -> None:
        nodes = Nodes(lab, monkeypatch)
        nodes.silent["node3"] = 3
        nodes.bmc("node3", power.State.ON)
        await nodes.settle()
        assert nodes.commands == []
        stated = changes.NodePowered(nodes.node("node3").uuid, powered=False)
        await nodes.service.configuration.commit(lambda _: [stated])
        nodes.bmc("node3", power.State.OFF)
        await nodes.settle()
        assert nodes.commands == ["confirm_off"]
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


def test_all_jobs_at_the_bmc_of_a_dead_node_stand_in_its_incident(
    lab: world.Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario() -> None:
        nodes = Nodes(lab, monkeypatch, power="error success")
        nodes.silent["node3"] = 3
        nodes.bmc("node3", power.State.OFF, then=power.State.UNKNOWN)
        await nodes.settle()
        assert statuses(nodes) == ["noted"]
        nodes.now += silent_nodes.COMMANDED_AGAIN + 1
        nodes.bmc("node3", power.State.OFF)
        await nodes.settle()
        assert len(power_jobs(nodes)) == 2
        assert check_listed(nodes).repair_status.value == "completed"

    asyncio.run(scenario())


@pytest.mark.parametrize(("ends", "status"), [("success", "completed"), ("error", "noted")])
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
        await nodes.lose("node3")
        nodes.bmc("node3", power.State.ON, then=power.State.OFF if status == "completed" else power.State.ON)
        await nodes.settle()
        assert len(power_jobs(nodes)) == 1
        assert check_listed(nodes).repair_status.value == status

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

    asyncio.run(scenario())


async def bring_back(nodes: Nodes, name: str) -> None:
    """As a person does it: power, service and its agent's answer; a round gives it an instance again."""
    uuid = nodes.node(name).uuid
    stated: list[changes.Change] = [
        changes.NodePowered(uuid, powered=True),
        changes.NodeRole(uuid, drained=False, offline=False, master_candidate=False),
    ]
    await nodes.service.configuration.commit(lambda _: stated)
    nodes.silent.clear()
    await nodes.hear(name)
    await nodes.settle()


def test_a_node_that_came_back_and_dies_again_is_failed_over_though_nobody_acknowledged_its_first_death(
    lab: world.Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario() -> None:
        nodes = Nodes(lab, monkeypatch)
        (moved, *_) = nodes.primaries("node3")
        nodes.silent["node3"] = 3
        nodes.bmc("node3", power.State.OFF)
        await nodes.settle()
        await bring_back(nodes, "node3")
        (first,) = nodes.service.configuration.current.maintenance.incidents
        assert (first.repair_status.value, first.tag in nodes.node("node3").tags) == ("completed", True)
        instance = nodes.service.configuration.current.instance(moved)
        back = changes.InstanceNodes(instance.uuid, nodes.node("node3").uuid, (instance.primary_node,))
        await nodes.service.configuration.commit(lambda _: [back])
        assert nodes.primaries("node3") == [moved]

        await nodes.hear("node3", *(node.name for node in nodes.service.configuration.current.nodes.values()))
        nodes.silent["node3"] = 3
        await nodes.settle()
        assert nodes.primaries("node3") == []
        again = nodes.service.configuration.current.maintenance.incidents
        assert [one.repair_status.value for one in again] == ["completed", "completed"]
        assert {one.tag for one in again} <= set(nodes.node("node3").tags)

    asyncio.run(scenario())


def test_the_incident_of_a_dead_node_whose_replicas_have_no_other_place_ends_once_it_is_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario() -> None:
        pairs = [("node2", "node3")]
        nodes = Nodes(twins.lab(tmp_path, nodes=3, pairs=pairs, dead_after=3, dead_node_policy="failover"), monkeypatch)
        drained = dataclasses.replace(nodes.node("node1"), drained=True)
        await nodes.service.configuration.commit(lambda _: [membership.NodeStands(drained)])
        await nodes.service.intake.take_all()
        nodes.now = time.time()
        nodes.silent["node2"] = 3
        nodes.bmc("node2", power.State.OFF)
        await nodes.settle()
        assert nodes.primaries("node3") == ["instance1"]
        (waiting,) = nodes.service.configuration.current.maintenance.incidents
        assert waiting.repair_status is incidents.RepairStatus.PENDING, "its replica has no other place"

        nodes.bmc("node2", power.State.ON)
        await nodes.service.configuration.commit(
            lambda _: [changes.NodePowered(nodes.node("node2").uuid, powered=True)]
        )
        await nodes.settle()
        assert nodes.node("node2").powered, "what was read before it was powered on says nothing of now"
        assert nodes.service.configuration.current.maintenance.incidents == (waiting,), "it has not answered yet"
        nodes.silent.clear()
        await nodes.settle()
        assert nodes.service.configuration.current.maintenance.incidents == (waiting,), "its answer was not signed"
        await nodes.hear("node2")
        await nodes.settle()
        (ended,) = nodes.service.configuration.current.maintenance.incidents
        assert ended.repair_status is incidents.RepairStatus.COMPLETED
        assert ended.tag in nodes.node("node2").tags
        assert nodes.service.rounds.preview().refusals == ()

    asyncio.run(scenario())


class Doubted(Nodes):
    """Nodes of which node3 is known to be off and keeps instance1, because its target node1 is drained."""

    @classmethod
    async def begin(cls, folder: Path, monkeypatch: pytest.MonkeyPatch, *, by_person: bool) -> Doubted:
        pairs = [("node3", "node1"), ("node2", "node3")]
        nodes = cls(twins.lab(folder, nodes=6, pairs=pairs, dead_after=3, dead_node_policy="failover"), monkeypatch)
        monkeypatch.setattr(nodes.service.dead, "_clock", time.time)
        await nodes.hear()
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
        await super().hear(*names, lost=lost)
        await self.service.replicas.step()

    async def revive(self) -> None:
        """A connection to node3 shows that it lives, long after it was known to be off."""
        await self.change("node3", off_since=self.node("node3").off_since - 1000)
        await self.service.configuration.commit(lambda _: [changes.NodeLived(self.node("node3").uuid)])
        assert self.has_lived("node3")

    async def state_off(self) -> None:
        stated = changes.NodeOffConfirmed(self.node("node3").uuid, time.time())
        await self.service.configuration.commit(lambda _: [stated])
        await self.settle()

    async def undrain(self) -> None:
        await self.change("node1", drained=False)
        await self.settle()


@pytest.mark.parametrize("by_person", [False, True], ids=["by its BMC", "by a person"])
def test_what_was_known_of_the_power_ends_with_a_sign_of_life_and_nothing_starts_it_anew_by_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, by_person: bool
) -> None:
    async def scenario() -> None:
        nodes = await Doubted.begin(tmp_path, monkeypatch, by_person=by_person)
        before = nodes.commands
        await nodes.revive()
        await nodes.hear("node1", lost=["instance1"])
        await nodes.undrain()
        nodes.now += silent_nodes.COMMANDED_AGAIN + 1
        await nodes.settle()
        assert nodes.primaries("node3") == ["instance1"]
        assert nodes.has_lived("node3"), "nobody confirmed it again"
        assert nodes.commands == before, "its BMC is only read"
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


@pytest.mark.parametrize("status", [values.Status.SUCCESS, values.Status.ERROR])
def test_with_the_policy_fence_a_node_that_a_job_has_powered_on_is_not_fenced_while_it_may_boot(
    lab: world.Lab, monkeypatch: pytest.MonkeyPatch, status: values.Status
) -> None:
    async def scenario() -> None:
        nodes = Nodes(lab, monkeypatch)
        await nodes.change_settings(dead_node_policy="fence")
        both = (nodes.node("node3").uuid, nodes.node("node4").uuid)
        on = values.Opcode("power", {"nodes": both, "command": "on"}, status=status)
        on = dataclasses.replace(on, started=nodes.now - 30, ended=nodes.now)
        nodes.service.queue.jobs[900] = values.Job(900, (on,))
        nodes.silent["node3"] = 3
        await nodes.lose("node3")
        nodes.bmc("node3", power.State.ON)
        await nodes.settle()
        assert "fence" not in nodes.commands
        (verdict,) = nodes.service.dead.verdicts.values()
        assert "to boot before it is fenced" in verdict.reason

    asyncio.run(scenario())


def _stated(stated: list[changes.Change], _cluster: clusters.Cluster) -> list[changes.Change]:
    return stated


@pytest.mark.parametrize("was_recorded_off", [True, False])
def test_with_the_policy_fence_a_node_that_an_emergency_return_has_powered_on_may_boot_though_the_hold_was_lifted(
    lab: world.Lab, monkeypatch: pytest.MonkeyPatch, *, was_recorded_off: bool
) -> None:
    async def scenario() -> None:
        nodes = Nodes(lab, monkeypatch)
        await nodes.change_settings(dead_node_policy="fence")
        node = nodes.node("node3").uuid
        stands = changes.EpoStands((node,), (), "alice", returning=True, lost=not was_recorded_off)
        off: list[changes.Change] = [changes.NodePowered(node, powered=False)] if was_recorded_off else []
        steps: list[list[changes.Change]] = [
            [*off, stands],
            [changes.NodePowered(node, powered=True)],
            [changes.EpoGone()],
        ]
        # As `roundsman cluster epo --on --ignore-failures --wait 20` does it.
        for step in steps:
            await nodes.service.configuration.commit(functools.partial(_stated, step))
        nodes.now = time.time()
        nodes.silent["node3"] = 3
        await nodes.lose("node3")
        nodes.bmc("node3", power.State.ON)
        await nodes.settle()
        assert "fence" not in nodes.commands
        assert "to boot before it is fenced" in nodes.verdict("node3").reason
        # What a BMC reads of a node that is recorded as on is no new on.
        read = changes.NodePowered(node, powered=True, confirms=False, commanded=False)
        at = nodes.node("node3").powered_on_at
        await nodes.service.configuration.commit(lambda _: [read])
        assert nodes.node("node3").powered_on_at == at
        stepped = dataclasses.replace(nodes.node("node3"), powered_on_at=at - booting.BOOT - 1)
        await nodes.service.configuration.commit(lambda _: [membership.NodeStands(stepped)])
        await nodes.settle()
        assert "fence" in nodes.commands

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
        await nodes.lose("node3")
        nodes.bmc("node3", power.State.ON)
        before = len(nodes.commands)
        await nodes.undrain()
        assert nodes.commands[before:] == ["fence"]
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
        nodes = await recorded_off(tmp_path, monkeypatch, power="held")
        person, lock = holders.Owner("a person"), f"node/{nodes.node('node3').uuid}"
        if not has_begun:
            await nodes.service.desk.acquire(person, {lock: locks.Mode.EXCLUSIVE})
        await nodes.service.dead.step()
        assert nodes.commands == ["confirm_off"]
        runs = await twins.until_held(nodes.twin) if has_begun else []
        await nodes.revive()
        await nodes.hear("node1", lost=["instance1"])
        nodes.twin.outcomes = {}
        for run in runs:
            nodes.twin.finish(run)
        nodes.service.desk.release(person)
        await nodes.settle()
        assert nodes.has_lived("node3")
        assert nodes.commands == ["confirm_off"], "its BMC is only read"
        assert nodes.primaries("node3") == ["instance1"]
        assert nodes.kinds.count("power") == (1 if has_begun else 0), "nothing is commanded once it has lived"

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
        nodes.twin.outcomes["power"] = "error"
        nodes.reads["node3"] = off
        nodes.silent["node3"] = 3
        await nodes.settle()
        await nodes.service.dead.step()
        assert nodes.commands == ["confirm_off"]
        assert "accepted no command to power off (auth)" in nodes.verdict("node3").reason
        nodes.now += silent_nodes.COMMANDED_AGAIN + 1
        await nodes.settle()
        assert nodes.commands == ["confirm_off"] * 2, "it may have been repaired"
        assert nodes.primaries("node3")

    asyncio.run(scenario())


async def cut(nodes: Nodes) -> float:
    """Cut the power of node3: it misses a question, reads off at once, and is dead later; returns when it read off."""
    nodes.silent["node3"] = 1
    nodes.bmc("node3", power.State.OFF)
    await nodes.step()
    first = nodes.now
    for _ in range(5):
        nodes.now += 5
        await nodes.step()
    nodes.silent["node3"] = 3
    await nodes.settle()
    assert nodes.commands == ["confirm_off"]
    return first


def test_a_node_is_off_since_it_was_commanded_off_and_not_since_its_bmc_read_off_first(
    lab: world.Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Until it gets a command a BMC may read off whatever the real state: the node may have gone on writing."""

    async def scenario() -> None:
        nodes = Nodes(lab, monkeypatch)
        monkeypatch.setattr(nodes.service.configuration, "_clock", lambda: nodes.now)
        first = await cut(nodes)
        assert nodes.node("node3").off_since == nodes.now == first + 25
        dated = nodes.service.configuration.current
        nodes.now += 5
        await nodes.step()
        assert nodes.service.configuration.current is dated, "it is dated once"

    asyncio.run(scenario())


def test_a_clock_that_was_set_back_after_the_off_was_recorded_makes_it_no_longer_than_it_was(
    lab: world.Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario() -> None:
        nodes = Nodes(lab, monkeypatch)
        nodes.now = 100_000.0
        monkeypatch.setattr(nodes.service.configuration, "_clock", lambda: nodes.now + 3600)
        first = await cut(nodes)
        assert nodes.node("node3").off_since == first + 25 + 3600, "by the clock as it was then"

    asyncio.run(scenario())


def test_a_node_that_read_on_and_was_fenced_is_off_since_then(lab: world.Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario() -> None:
        nodes = Nodes(lab, monkeypatch)
        monkeypatch.setattr(nodes.service.configuration, "_clock", lambda: nodes.now)
        await nodes.change_settings(dead_node_policy="fence")
        nodes.silent["node3"] = 1
        nodes.bmc("node3", power.State.ON)
        await nodes.step()
        nodes.now += 25
        await nodes.lose("node3")
        nodes.silent["node3"] = 3
        await nodes.settle()
        assert nodes.commands == ["fence"]
        assert nodes.node("node3").off_since == nodes.now

    asyncio.run(scenario())


def watched(nodes: Nodes) -> set[str]:
    return {watch.target.name for watch in nodes.service.readings._watched.values()}


def test_the_bmcs_of_suspects_are_read_save_while_nothing_may_be_done(
    lab: world.Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario() -> None:
        nodes = Nodes(lab, monkeypatch)
        nodes.service.agents.suspects.add(nodes.node("node2").uuid)  # a peer has lost it
        nodes.silent.update({"node1": 1, "node3": 1})
        await nodes.step()
        assert nodes.service.configuration.current.cluster.master_node == nodes.node("node1").uuid
        assert watched(nodes) == {"node2", "node3"}
        for setting, nothing in (({"paused": "tea"}, {"paused": ""}), ({"dead_after": 0}, {"dead_after": 3})):
            await nodes.change_settings(**setting)
            await nodes.step()
            assert watched(nodes) == set(), setting
            await nodes.change_settings(**nothing)
            await nodes.step()
            assert watched(nodes) == {"node2", "node3"}
        assert nodes.twin.ran == []

    asyncio.run(scenario())


def test_a_storm_stops_fencing_and_not_reading(lab: world.Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario() -> None:
        nodes = Nodes(lab, monkeypatch)
        await nodes.change_settings(dead_node_policy="fence")
        names = {"node2", "node3", "node4"}
        nodes.silent.update(dict.fromkeys(names, 3))
        nodes.reads.update(dict.fromkeys(names, power.State.ON))
        instances = nodes.service.configuration.current.instances.values()
        await nodes.hear("node1", "node5", "node6", lost=[instance.name for instance in instances])
        await nodes.settle()
        assert watched(nodes) == names
        assert nodes.commands == []
        assert "storm" in nodes.verdict("node3").reason

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
        await nodes.lose("node3")
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
        nodes.service.intake.follow_offs()
        assert those_who_know() == []

    asyncio.run(scenario())


def dated_answer(nodes: Nodes, name: str, *, ahead: float = 0.0) -> bytes:
    lab, node, now = twins.lab_of(nodes.service), nodes.node(name), time.time() + ahead
    key = (lab.node(name).root / "var/lib/roundsman/node.key").read_bytes()
    text = collected.message(
        collected.DIAGNOSE, node_uuid=node.uuid, timestamp_ns=int(now * 1e9), data='{"status":"Ok"}', problem=None
    )
    return signing.sign(text, key=key, now=int(now)).encode()


@pytest.mark.parametrize("wrong", [("node4",), ("node2", "node4")])
def test_a_node_whose_peer_answers_and_whose_reports_do_not_count_is_not_fenced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wrong: tuple[str, ...]
) -> None:
    """node3 lives, its management link is cut; node4 replicates with it, and its clock is 400 s ahead."""

    async def scenario() -> None:
        nodes = Nodes(fencing(tmp_path), monkeypatch)
        known = nodes.service.agents
        monkeypatch.setattr(nodes.service.dead, "_silences", known.silences)
        monkeypatch.setattr(known, "answering", lambda: agents.Agents.answering(known))
        nodes.since = time.time() - 60
        await nodes.lose("node3")
        is_current = nodes.service.intake.is_current
        uuids = {nodes.node(name).uuid for name in wrong}
        monkeypatch.setattr(nodes.service.intake, "is_current", lambda node: node not in uuids and is_current(node))
        for name in ("node1", "node2", "node4", "node5", "node6"):
            for _ in range(3):
                await known.take(nodes.node(name), dated_answer(nodes, name, ahead=400.0 if name in wrong else 0.0))
        known.seen[nodes.node("node3").uuid] = agents.Seen(misses=3, since=nodes.since, text="gone", ssh_misses=3)
        nodes.silent["node3"] = 3
        nodes.bmc("node3", power.State.ON)
        await nodes.settle()
        assert nodes.commands == [], nodes.verdict("node3").reason

    asyncio.run(scenario())
