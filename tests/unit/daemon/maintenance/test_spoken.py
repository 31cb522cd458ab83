"""Which nodes have reported since something was known of them: across restarts, kinds of reports and set clocks."""

from __future__ import annotations

import asyncio
import uuid
from typing import TYPE_CHECKING

import pytest
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.agent import diagnosis
from ansible_collections.roundsman.cluster.plugins.plugin_utils.cluster import changes, incidents
from ansible_collections.roundsman.cluster.plugins.plugin_utils.silent_nodes import dead_nodes

from tests.unit.daemon import twins

if TYPE_CHECKING:
    from pathlib import Path

    from ansible_collections.roundsman.cluster.daemon import service
    from ansible_collections.roundsman.cluster.daemon.lab import world

OK = '{"status":"Ok"}'
REPAIR = '{"status":"live-repair","command":"lab-repair"}'


@pytest.fixture
def lab(tmp_path: Path) -> world.Lab:
    return twins.lab(tmp_path, pairs=[("node2", "node3"), ("node3", "node2"), ("node2", "node4")])


async def stated_off(running: service.Service) -> str:
    """A person states that node2 is off, which has reported before; returns its UUID."""
    node = running.configuration.current.node("node2").uuid
    stated = changes.NodeOffConfirmed(node, running.intake.now.wall, by="alice")
    await running.configuration.commit(lambda _: [stated])
    return node


async def noted(running: service.Service, report: diagnosis.Diagnosis) -> str:
    """An incident of node2 for a report; returns its UUID."""
    node = running.configuration.current.node("node2").uuid
    made = incidents.note(report, node=node, uuid=str(uuid.uuid4()), now=running.intake.now.wall)
    await running.configuration.commit(lambda _: [changes.IncidentStands(made)])
    return made.uuid


def test_a_report_that_a_daemon_accepted_and_did_not_act_on_takes_a_statement_back_after_the_restart(
    lab: world.Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def before() -> str:
        running, _ = twins.assemble(lab, monkeypatch)
        twins.report(lab, running, "node2", OK)
        await twins.settle(running)
        node = await stated_off(running)
        await twins.settle(running)
        twins.report(lab, running, "node2", OK)
        await running.intake.take_all()
        return node

    node = asyncio.run(before())

    async def after() -> None:
        running, _ = twins.assemble(lab, monkeypatch)
        await twins.settle(running)
        assert not running.configuration.current.nodes[node].off_confirmed

    asyncio.run(after())


def test_a_report_that_is_taken_in_before_anybody_looked_at_the_statement_takes_it_back(
    lab: world.Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario() -> None:
        running, _ = twins.assemble(lab, monkeypatch)
        twins.report(lab, running, "node2", OK)
        await twins.settle(running)
        node = await stated_off(running)
        twins.report(lab, running, "node2", OK)
        await twins.settle(running)
        assert not running.configuration.current.nodes[node].off_confirmed

    asyncio.run(scenario())


@pytest.mark.parametrize("has_another", [False, True])
def test_what_a_node_reported_since_another_incident_does_not_end_that_of_its_death(
    lab: world.Lab, monkeypatch: pytest.MonkeyPatch, *, has_another: bool
) -> None:
    async def scenario() -> None:
        running, _ = twins.assemble(lab, monkeypatch)
        twins.report(lab, running, "node2", OK)
        await twins.settle(running)
        if has_another:
            await noted(running, diagnosis.parse(REPAIR))
            for _ in range(2):
                twins.report(lab, running, "node2", REPAIR)
                await running.rounds.step()
        death = await noted(running, dead_nodes.report(running.configuration.current.node("node2")))
        for _ in range(2):
            await running.rounds.step()
        (found,) = (one for one in running.configuration.current.maintenance.incidents if one.uuid == death)
        assert not found.returned_at, "it has not reported since"

    asyncio.run(scenario())


@pytest.mark.parametrize("kinds", [(OK, ""), ("", OK)], ids=["a problem", "a diagnosis"])
def test_a_report_of_another_kind_counts_too_after_the_clock_was_set_back(
    lab: world.Lab, monkeypatch: pytest.MonkeyPatch, kinds: tuple[str, str]
) -> None:
    async def scenario() -> None:
        running, _ = twins.assemble(lab, monkeypatch)
        clock, ahead = running.intake._clock, [200.0]
        monkeypatch.setattr(running.intake, "_clock", lambda: clock() + ahead[0])
        before, after = ({} if said else {"problem": "timeout"} for said in kinds)
        twins.report(lab, running, "node2", kinds[0], **before)
        await twins.settle(running)
        node = await stated_off(running)
        await twins.settle(running)
        ahead[0] = 0.0
        twins.report(lab, running, "node2", kinds[1], **after)
        await twins.settle(running)
        assert not running.configuration.current.nodes[node].off_confirmed

    asyncio.run(scenario())


def test_asking_what_a_round_would_do_forgets_nothing(lab: world.Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario() -> None:
        running, _ = twins.assemble(lab, monkeypatch)
        clock, ahead = running.intake._clock, [200.0]
        monkeypatch.setattr(running.intake, "_clock", lambda: clock() + ahead[0])
        twins.report(lab, running, "node2", OK)
        await twins.settle(running)
        before = running.configuration.current
        node = await stated_off(running)
        await twins.settle(running)
        ahead[0] = 0.0
        with monkeypatch.context() as beside:
            # Asked beside a commit: what is current has no statement yet.
            beside.setattr(running.configuration, "_current", before)
            running.rounds.preview()
        twins.report(lab, running, "node2", OK)
        await twins.settle(running)
        assert not running.configuration.current.nodes[node].off_confirmed

    asyncio.run(scenario())
