"""Controllers of a cluster in which no agent votes: an epoch by record, and questions over SSH in doubt."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from ansible_collections.roundsman.cluster.daemon.maintenance.leadership import Statement
from ansible_collections.roundsman.cluster.daemon.maintenance.leading import Step
from ansible_collections.roundsman.cluster.plugins.module_utils import instance_lock, leader_record
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.agent.epochs import Epoch, Kept
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.values import errors, tree
from ansible_collections.roundsman.cluster.plugins.plugin_utils import controller_epoch
from ansible_collections.roundsman.cluster.plugins.plugin_utils.cluster import changes

from tests.unit.daemon import twins
from tests.unit.daemon.maintenance import controllers, voters
from tests.unit.daemon.maintenance.controllers import Controller, epoch_of, primary_of, refusal

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path
    from typing import Any

    from ansible_collections.roundsman.cluster.daemon import service
    from ansible_collections.roundsman.cluster.daemon.maintenance.leadership import Leadership

NOBODY_VOTES = Statement(no_voting=True)
NODES = ("node1", "node2", "node3")


@pytest.fixture(autouse=True)
def _short(monkeypatch: pytest.MonkeyPatch) -> None:
    controllers.shorten(monkeypatch)


@pytest.fixture
def running(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> service.Service:
    return twins.assemble(twins.lab(tmp_path, nodes=3, instances=1), monkeypatch)[0]


def run(running: service.Service, scenario: Callable[[voters.Voters, Controller], Awaitable[Any]]) -> None:
    """Run a scenario with nodes that are reached over SSH only."""

    async def inner(nodes: voters.Voters, first: Controller) -> None:
        settings = replace(running.configuration.current.maintenance.settings, agent_port=0)
        await running.configuration.commit(lambda _: [changes.SettingsStand(settings)])
        first.over_ssh = nodes.over_ssh
        await scenario(nodes, first)

    controllers.run(running, inner)


def do_step(nodes: voters.Voters, controller: Controller, name: str, *, told: Leadership | None = None) -> str:
    """Have a node do a step of a controller; why it refused, which the daemon learns from the opcode, or ''."""
    root = nodes.settings[name].root
    try:
        leader_record.require(root, controller_epoch.load(controller.where, nodes.settings[name].node))
    except errors.NotFollowed as refused:
        if told is not None:
            told.note_refusal(str(refused))
        return str(refused)
    return ""


def restored(first: Controller, folder: Path) -> Controller:
    """A controller of the same cluster without an epoch: restored from an export."""
    second = first.copied(folder)
    second.where.epoch.unlink(missing_ok=True)
    return second


def test_the_first_start_begins_an_epoch_by_record_and_asks_nobody(running: service.Service) -> None:
    async def scenario(nodes: voters.Voters, first: Controller) -> None:
        made = await first.start()

        assert made.epoch is not None
        assert (made.epoch.number, first.orders()) == (1, made.epoch)
        await made.step()
        assert sum(nodes.asked.values()) + sum(nodes.reached.values()) == 0
        assert await refusal(made, running) == ""
        assert running.failures.listed() == []
        assert do_step(nodes, first, "node1") == ""
        assert epoch_of(nodes, "node1") == made.epoch

    run(running, scenario)


def test_a_restart_goes_on_in_its_epoch_after_a_reboot_too(running: service.Service) -> None:
    """An epoch above is not begun without the nodes: one that was replaced would be above its successor."""

    async def scenario(nodes: voters.Voters, first: Controller) -> None:
        before = (await first.start()).epoch

        assert (await first.start()).epoch == before == first.orders()
        first.boot(uptime=60)
        assert (await first.start()).epoch == before == first.orders()
        assert sum(nodes.reached.values()) == 0

    run(running, scenario)


def test_a_copy_ends_and_leads_above_all_once_a_person_says_that_no_other_controller_works(
    running: service.Service, tmp_path: Path
) -> None:
    async def scenario(nodes: voters.Voters, first: Controller) -> None:
        led = await first.start()
        second = first.copied(tmp_path / "copy")
        with pytest.raises(errors.NotLeading, match=r"copy of another controller.*`roundsmand --no-voting") as refused:
            await second.start()
        assert str(led.epoch) in str(refused.value)
        assert (await second.preview())[0] is Step.END
        for name in NODES:
            nodes.follow(name, Kept(Epoch(4, "another"), voters.ELSEWHERE, 1))
        step, lines = await second.preview(NOBODY_VOTES)
        assert (step, lines[0]) == (
            Step.BEGIN,
            "it would offer epoch 5 to the 3 nodes that answer, and lead once that is written",
        )
        assert epoch_of(nodes, "node1") == Epoch(4, "another")

        made = await second.start(NOBODY_VOTES)

        assert made.epoch is not None
        assert (made.epoch.number, second.orders()) == (5, made.epoch)
        assert {epoch_of(nodes, name) for name in NODES} == {made.epoch}
        assert await refusal(made, running) == ""
        assert "refuses epoch 1" in do_step(nodes, first, "node2", told=led)
        with pytest.raises(errors.NotLeading, match=r"3 nodes follow epoch 5 .* 0 follow this one.*--no-voting"):
            await led.step()

    run(running, scenario)


def test_a_controller_that_was_restored_without_its_epoch_is_refused_and_ends(
    running: service.Service, tmp_path: Path
) -> None:
    async def scenario(nodes: voters.Voters, first: Controller) -> None:
        led = await first.start()
        for name in ("node1", "node2"):
            assert do_step(nodes, first, name) == ""
        second = restored(first, tmp_path / "restored")
        made = await second.start()
        assert made.epoch != led.epoch
        assert "and refuses epoch 1" in do_step(nodes, second, "node1", told=made)

        with pytest.raises(errors.NotLeading, match=r"2 nodes follow epoch 1 .* 0 follow this one"):
            await made.step()
        assert (await second.start(NOBODY_VOTES)).epoch == epoch_of(nodes, "node3")
        assert "and refuses epoch 1" in do_step(nodes, first, "node3")

    run(running, scenario)


def test_one_node_that_follows_another_does_not_end_a_controller_that_more_follow(running: service.Service) -> None:
    async def scenario(nodes: voters.Voters, first: Controller) -> None:
        made = await first.start()
        for name in ("node1", "node2"):
            assert do_step(nodes, first, name) == ""
        nodes.follow("node3", Kept(Epoch(9, "another"), voters.ELSEWHERE, 1))
        assert "refuses epoch 1" in do_step(nodes, first, "node3", told=made)

        await made.step()
        await made.step()

        assert nodes.reached["node3"] == 2, "it is asked again as long as one refuses"
        (failing,) = running.failures.listed()
        assert "node3 follows epoch 9 (another)" in str(failing)
        (nodes.settings["node3"].root / leader_record.FILE).unlink()
        await made.step()
        await made.step()
        assert running.failures.listed() == []
        assert nodes.reached["node3"] == 3

    run(running, scenario)


def test_a_takeover_waits_for_nodes_that_did_not_answer_and_for_steps_at_work(
    running: service.Service, tmp_path: Path
) -> None:
    async def scenario(nodes: voters.Voters, first: Controller) -> None:
        await first.start()
        second = first.copied(tmp_path / "copy")
        (instance,) = running.configuration.current.instances.values()
        primary = primary_of(running)
        nodes.silent |= {primary}
        made = await second.start(NOBODY_VOTES)

        assert f"{primary} has not answered" in await refusal(made, running)
        nodes.silent.clear()
        with instance_lock.held(instance.name, nodes.settings[primary].root, opcode="of the first"):
            assert "still works on it" in await refusal(made, running)
        assert await refusal(made, running) == ""

    run(running, scenario)


def test_a_newer_configuration_is_noticed_before_a_person_says_that_it_is_lost(
    running: service.Service, tmp_path: Path
) -> None:
    async def scenario(nodes: voters.Voters, first: Controller) -> None:
        second = restored(first, tmp_path / "restored")
        master, serial = running.configuration.current.cluster.master_node, running.configuration.current.serial_no
        for name in ("node1", "node2"):
            nodes.follow(name, Kept(Epoch(5, "lost"), master, serial + 1))

        with pytest.raises(errors.NotLeading, match=r"had a newer configuration.*`--restored`"):
            await second.start(NOBODY_VOTES)

        made = await second.start(Statement(no_voting=True, is_restored=True))
        assert made.epoch is not None
        assert made.epoch.number == 6

    run(running, scenario)


def test_where_agents_vote_later_a_restart_begins_an_epoch_by_votes(running: service.Service) -> None:
    async def scenario(nodes: voters.Voters, first: Controller) -> None:
        nodes.old |= set(NODES)
        before = (await first.start()).epoch
        assert before is not None
        nodes.old.clear()

        after = (await first.start()).epoch

        assert after is not None
        assert after.number == before.number + 1
        assert after in {epoch_of(nodes, name) for name in NODES}

    controllers.run(running, scenario)


def test_a_folder_is_known_as_a_copy_where_it_was_moved(running: service.Service, tmp_path: Path) -> None:
    async def scenario(_: voters.Voters, first: Controller) -> None:
        await first.start()
        moved = Controller(running, tree.Tree(tmp_path / "moved"), first.monkeypatch)
        first.where.root.rename(moved.where.root)

        with pytest.raises(errors.NotLeading, match="copy of another controller"):
            await moved.start()
        moved.where.root.rename(first.where.root)

    run(running, scenario)
