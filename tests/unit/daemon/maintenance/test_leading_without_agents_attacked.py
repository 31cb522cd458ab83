"""Faults and attacks on controllers of a cluster in which no agent votes."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest
from ansible_collections.roundsman.cluster.daemon.maintenance.leading import Step
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.agent.epochs import HIGHEST, Epoch, Kept
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.values import errors

from tests.unit.daemon import twins
from tests.unit.daemon.maintenance import controllers, voters
from tests.unit.daemon.maintenance.controllers import epoch_of, primary_of, refusal
from tests.unit.daemon.maintenance.test_leading_without_agents import NOBODY_VOTES, NODES, do_step, run

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path
    from typing import Any

    from ansible_collections.roundsman.cluster.daemon import service
    from ansible_collections.roundsman.cluster.daemon.maintenance.electorate import OverSsh
    from ansible_collections.roundsman.cluster.daemon.maintenance.leadership import Statement
    from ansible_collections.roundsman.cluster.plugins.module_utils.domain.agent import votes
    from ansible_collections.roundsman.cluster.plugins.plugin_utils import voting
    from ansible_collections.roundsman.cluster.plugins.plugin_utils.cluster import cluster as clusters

    from tests.unit.daemon.maintenance.controllers import Controller


@pytest.fixture(autouse=True)
def _short(monkeypatch: pytest.MonkeyPatch) -> None:
    controllers.shorten(monkeypatch)


@pytest.fixture
def running(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> service.Service:
    return twins.assemble(twins.lab(tmp_path, nodes=3, instances=1), monkeypatch)[0]


def without(names: set[str], over_ssh: OverSsh) -> OverSsh:
    """Questions over SSH that these nodes do not get."""

    async def ask(
        cluster: clusters.Cluster, nodes: Sequence[clusters.Node], question: Callable[[str], votes.Question]
    ) -> voting.Poll:
        return await over_ssh(cluster, [node for node in nodes if node.name not in names], question)

    return ask


async def stop_while_it_offers(controller: Controller, statement: Statement) -> None:
    """Start a controller that is stopped while it offers its epoch: what it offers reaches no node."""
    over_ssh = controller.over_ssh
    assert over_ssh is not None

    async def ask(
        cluster: clusters.Cluster, nodes: Sequence[clusters.Node], question: Callable[[str], votes.Question]
    ) -> Any:
        if any(question(node.uuid).offer is not None for node in nodes):
            raise asyncio.CancelledError
        return await over_ssh(cluster, nodes, question)

    controller.over_ssh = ask
    with pytest.raises(asyncio.CancelledError):
        await controller.start(statement)
    controller.over_ssh = over_ssh


@pytest.mark.parametrize("dead", [set[str](), {"node3"}], ids=["all refuse", "one is dead"])
def test_a_takeover_waits_for_nodes_also_where_a_port_of_agents_is_set_that_no_node_has(
    running: service.Service, tmp_path: Path, dead: set[str]
) -> None:
    async def scenario(nodes: voters.Voters, first: Controller) -> None:
        nodes.old |= set(NODES)
        first.over_ssh = nodes.over_ssh
        led = await first.start()
        second = first.copied(tmp_path / "copy")
        nodes.follow("node2", Kept(Epoch(7, "another"), voters.ELSEWHERE, 1))
        nodes.silent |= dead
        primary = primary_of(running)
        second.over_ssh = without({primary}, nodes.over_ssh)
        with pytest.raises(errors.NotLeading, match="copy of another controller"):
            await second.start()

        made = await second.start(NOBODY_VOTES)

        assert made.epoch is not None
        assert made.epoch.number == 8
        for _ in range(2):
            assert f"{primary} has not answered" in await refusal(made, running)
            await made.step()
        made._electorate._over_ssh = nodes.over_ssh
        nodes.silent.clear()
        assert await refusal(made, running) == ""
        assert epoch_of(nodes, primary) == made.epoch
        assert "refuses" in do_step(nodes, first, primary, told=led)

    controllers.run(running, scenario)


def test_a_reboot_goes_on_where_a_port_of_agents_is_set_and_a_node_is_dead(running: service.Service) -> None:
    async def scenario(nodes: voters.Voters, first: Controller) -> None:
        nodes.old |= set(NODES)
        before = (await first.start()).epoch
        nodes.silent |= {"node3"}
        first.boot(uptime=60)

        assert (await first.start()).epoch == before
        assert first.waits == []

    controllers.run(running, scenario)


def test_a_copy_that_was_stopped_while_it_offered_an_epoch_does_not_lead_without_a_statement(
    running: service.Service, tmp_path: Path
) -> None:
    async def scenario(nodes: voters.Voters, first: Controller) -> None:
        led = await first.start()
        second = first.copied(tmp_path / "copy")
        await stop_while_it_offers(second, NOBODY_VOTES)

        with pytest.raises(errors.NotLeading, match=r"epoch 2 \(.*\) was offered.*`roundsmand --no-voting"):
            await second.start()

        assert (await second.preview())[0] is Step.END
        assert do_step(nodes, first, "node1") == ""
        assert epoch_of(nodes, "node1") == led.epoch
        made = await second.start(NOBODY_VOTES)
        assert made.epoch is not None
        assert made.epoch.number == 3
        assert (await second.start()).epoch == made.epoch

    run(running, scenario)


def test_the_only_controller_that_was_stopped_while_it_offered_an_epoch_says_what_helps(
    running: service.Service,
) -> None:
    async def scenario(nodes: voters.Voters, first: Controller) -> None:
        await first.start()
        await stop_while_it_offers(first, NOBODY_VOTES)

        with pytest.raises(errors.NotLeading, match="`roundsmand --no-voting"):
            await first.start()

        made = await first.start(NOBODY_VOTES)
        assert {epoch_of(nodes, name) for name in NODES} == {made.epoch}

    run(running, scenario)


def test_the_only_node_that_answers_does_not_use_up_the_numbers(running: service.Service) -> None:
    async def scenario(nodes: voters.Voters, first: Controller) -> None:
        await first.start()
        nodes.follow("node3", Kept(Epoch(HIGHEST - 1, "liar"), voters.ELSEWHERE, 1))
        nodes.silent |= {"node1", "node2"}

        made = await first.start(NOBODY_VOTES)

        assert made.epoch is not None
        assert made.epoch.number == 2

    run(running, scenario)


def test_a_master_that_was_replaced_while_it_was_off_does_nothing_when_it_is_back(running: service.Service) -> None:
    """Its own node follows it still: another one has not been there yet."""

    async def scenario(nodes: voters.Voters, first: Controller) -> None:
        await first.start()
        assert do_step(nodes, first, "node1") == ""
        nodes.follow("node2", Kept(Epoch(2, "successor"), voters.ELSEWHERE, 1))
        nodes.silent |= {"node3"}
        first.boot(uptime=60)

        made = await first.start()

        assert "have not been asked yet" in await refusal(made, running)
        with pytest.raises(errors.NotLeading, match=r"1 nodes follow epoch 2 .* 1 follow this one"):
            await made.step()
        assert "have not been asked yet" in await refusal(made, running)

    run(running, scenario)


def test_after_a_boot_nodes_are_asked_once_and_then_no_more(running: service.Service) -> None:
    async def scenario(nodes: voters.Voters, first: Controller) -> None:
        await first.start()
        assert do_step(nodes, first, "node1") == ""
        first.boot(uptime=60)
        nodes.silent |= {"node2"}
        made = await first.start()
        assert sum(nodes.reached.values()) == 0

        await made.step()
        await made.step()

        assert nodes.reached["node1"] == 1
        assert await refusal(made, running) == ""
        assert running.failures.listed() == []
        await (await first.start()).step()
        assert nodes.reached["node1"] == 1, "the next start in this boot knows that they were asked"

    run(running, scenario)


def test_after_a_boot_in_which_no_node_is_reached_opcodes_are_not_held_for_ever(running: service.Service) -> None:
    async def scenario(nodes: voters.Voters, first: Controller) -> None:
        await first.start()
        first.boot(uptime=60)
        nodes.silent |= set(NODES)
        made = await first.start()

        await made.step()

        assert await refusal(made, running) == ""
        nodes.silent.clear()
        await (await first.start()).step()
        assert nodes.reached["node1"] == 2, "the next start asks them: none has answered"

    run(running, scenario)


def test_a_node_that_was_off_at_a_takeover_and_follows_a_later_epoch_is_reported_with_what_helps(
    running: service.Service, tmp_path: Path
) -> None:
    """No step reaches it that it could refuse: the barrier holds them."""

    async def scenario(nodes: voters.Voters, first: Controller) -> None:
        await first.start()
        second = first.copied(tmp_path / "copy")
        primary = primary_of(running)
        nodes.silent |= {primary}
        nodes.follow(primary, Kept(Epoch(9, "another"), voters.ELSEWHERE, 1))
        made = await second.start(NOBODY_VOTES)
        nodes.silent.clear()

        assert "still follows epoch 9" in await refusal(made, running)
        await made.step()

        (failing,) = running.failures.listed()
        assert f"{primary} follows epoch 9 (another)" in str(failing)
        assert "--no-voting" in str(failing)
        again = await second.start(NOBODY_VOTES)
        assert await refusal(again, running) == ""

    run(running, scenario)
