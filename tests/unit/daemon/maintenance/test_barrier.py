"""What a controller that takes over waits for before it touches an instance, by real agents of a lab's nodes."""

from __future__ import annotations

import asyncio
import dataclasses
import math
import re
from typing import TYPE_CHECKING

import pytest
from ansible_collections.roundsman.cluster.plugins.module_utils import instance_lock, leader_record
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.agent.epochs import Epoch, Kept
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.power import power
from ansible_collections.roundsman.cluster.plugins.plugin_utils import controller_epoch
from ansible_collections.roundsman.cluster.plugins.plugin_utils.cluster import changes, membership

from tests.unit.daemon import twins
from tests.unit.daemon.maintenance.controllers import Bmcs, Controller, epoch_of, refusal, run, shorten, until

if TYPE_CHECKING:
    from pathlib import Path

    from ansible_collections.roundsman.cluster.daemon import service
    from ansible_collections.roundsman.cluster.daemon.maintenance.leadership import Leadership

    from tests.unit.daemon.maintenance import voters


@pytest.fixture(autouse=True)
def _short(monkeypatch: pytest.MonkeyPatch) -> None:
    shorten(monkeypatch)


@pytest.fixture
def running(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> service.Service:
    return twins.assemble(twins.lab(tmp_path, nodes=3, instances=1), monkeypatch)[0]


def test_a_controller_that_takes_over_touches_no_instance_before_each_of_its_nodes_has_answered(
    running: service.Service, tmp_path: Path
) -> None:
    async def scenario(nodes: voters.Voters, first: Controller) -> None:
        led = await first.start()
        second = first.copied(tmp_path / "copy")
        await led.end()
        instance = next(iter(running.configuration.current.instances.values()))
        secondary = running.configuration.current.node_name(instance.secondary_nodes[0])
        nodes.silent |= {secondary}

        for made in (await second.start(), await second.start()):
            told = await refusal(made, running)
            assert f"another controller led before {made.epoch}" in told
            assert f"{secondary} has not answered" in told
            assert f"`roundsman node power off {secondary}`" in told
        nodes.silent.clear()
        assert await refusal(made, running) == ""
        await made.step()

        nodes.silent |= {secondary}
        assert await refusal(await second.start(), running) == "", "it has answered this controller"

    run(running, scenario)


def test_the_barrier_waits_for_no_instance_that_an_import_has_removed_meanwhile(running: service.Service) -> None:
    async def scenario(_: voters.Voters, first: Controller) -> None:
        made = await first.start()
        made._barrier.waits = frozenset(running.configuration.current.nodes)
        await made.clear(["gone"], [])

    run(running, scenario)


def test_a_controller_that_takes_over_waits_for_nodes_though_its_first_offers_were_in_vain(
    running: service.Service, tmp_path: Path
) -> None:
    """Those that promised to follow it then do not show any more that another controller led."""

    async def scenario(nodes: voters.Voters, first: Controller) -> None:
        led = await first.start()
        await led.step()
        second = first.copied(tmp_path / "copy")
        await led.end()
        instance = next(iter(running.configuration.current.instances.values()))
        secondary = running.configuration.current.node_name(instance.secondary_nodes[0])
        names = {"node1", "node2", "node3"}
        for name in sorted(names - {secondary}):
            nodes.busy, before = names - {name}, epoch_of(nodes, name)
            starting = asyncio.create_task(second.start())
            await until(lambda name=name, before=before: epoch_of(nodes, name) != before)  # type: ignore[misc]
            assert not starting.done()
            starting.cancel()
        nodes.busy, nodes.silent = set(), {secondary}

        made = await second.start()

        assert f"{secondary} has not answered" in await refusal(made, running)

    run(running, scenario)


def test_a_node_that_has_voted_is_waited_for_though_no_agent_listens_on_it_any_more(
    running: service.Service, tmp_path: Path
) -> None:
    async def scenario(nodes: voters.Voters, first: Controller) -> None:
        led = await first.start()
        await led.step()
        second = first.copied(tmp_path / "copy")
        await led.end()
        instance = next(iter(running.configuration.current.instances.values()))
        secondary = running.configuration.current.node_name(instance.secondary_nodes[0])
        nodes.old |= {secondary}

        made = await second.start()
        for _ in range(2):
            assert f"{secondary} has not answered" in await refusal(made, running)
            await made.step()

    run(running, scenario)


def test_a_node_without_an_agent_is_not_waited_for(running: service.Service, tmp_path: Path) -> None:
    async def scenario(nodes: voters.Voters, first: Controller) -> None:
        instance = next(iter(running.configuration.current.instances.values()))
        nodes.old |= {running.configuration.current.node_name(instance.secondary_nodes[0])}
        led = await first.start()
        second = first.copied(tmp_path / "copy")
        await led.end()

        assert await refusal(await second.start(), running) == ""

    run(running, scenario)


def test_a_step_of_the_controller_before_is_waited_for(
    running: service.Service, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario(nodes: voters.Voters, first: Controller) -> None:
        led = await first.start()
        second = first.copied(tmp_path / "copy")
        await led.end()
        instance = next(iter(running.configuration.current.instances.values()))
        root = nodes.settings[running.configuration.current.node_name(instance.primary_node)].root
        monkeypatch.setenv(leader_record.VARIABLE, str(controller_epoch.load(first.where)))
        with instance_lock.held("another", root, opcode="8-0"):
            made = await second.start()
            assert await refusal(made, running) == ""
        third = second.copied(tmp_path / "third")
        monkeypatch.setenv(leader_record.VARIABLE, str(controller_epoch.load(second.where)))
        with instance_lock.held(instance.name, root, opcode="7-1"):
            await made.end()
            made = await third.start()
            assert re.search("still works on it: .*opcode 7-1", await refusal(made, running))
        assert await refusal(made, running) == ""

    run(running, scenario)


async def taken_over(
    nodes: voters.Voters, first: Controller, folder: Path, *, off: bool = True
) -> tuple[Controller, str]:
    """A copy of a controller that takes over; the name of a silent secondary, which the copy has as off."""
    running = first.running
    led = await first.start()
    second = first.copied(folder)
    await led.end()
    instance = next(iter(running.configuration.current.instances.values()))
    secondary = instance.secondary_nodes[0]
    if off:
        await running.configuration.commit(lambda _: [changes.NodePowered(secondary, powered=False)])
    name = running.configuration.current.node_name(secondary)
    nodes.silent |= {name}
    return second, name


def test_a_node_that_is_recorded_as_off_counts_as_off_once_its_bmc_has_read_off_in_this_epoch(
    running: service.Service, tmp_path: Path
) -> None:
    async def scenario(nodes: voters.Voters, first: Controller) -> None:
        second, name = await taken_over(nodes, first, tmp_path / "copy")
        second.bmcs = Bmcs(**{name: power.State.ON})
        made = await second.start()
        told = await refusal(made, running)
        assert f"{name} is recorded as off, but its BMC reads on" in told
        assert f"`roundsman node power off {name}`" in told
        assert f"`roundsman node confirm-off {name}`" in told

        del second.bmcs.states[name]
        assert f"{name} is recorded as off, but its BMC does not answer" in await refusal(made, running)

        second.bmcs.states[name] = power.State.OFF
        assert await refusal(made, running) == ""

        second.bmcs = Bmcs()
        assert await refusal(await second.start(), running) == "", "it has read off"

    run(running, scenario)


def test_a_node_that_is_powered_off_after_the_takeover_is_not_waited_for(
    running: service.Service, tmp_path: Path
) -> None:
    async def scenario(nodes: voters.Voters, first: Controller) -> None:
        second, name = await taken_over(nodes, first, tmp_path / "copy", off=False)
        second.bmcs = Bmcs(**{name: power.State.OFF})
        made = await second.start()
        assert "has not answered" in await refusal(made, running)
        assert second.bmcs.asked == [], "only a node that is known to be off is read"

        off = changes.NodePowered(running.configuration.current.node(name).uuid, powered=False)
        await running.configuration.commit(lambda _: [off])

        assert await refusal(made, running) == ""

    run(running, scenario)


@pytest.mark.parametrize("is_stated_before", [False, True])
def test_a_node_without_a_bmc_counts_as_off_once_a_person_states_it_in_this_epoch(
    running: service.Service, tmp_path: Path, *, is_stated_before: bool
) -> None:
    async def scenario(nodes: voters.Voters, first: Controller) -> None:
        second, name = await taken_over(nodes, first, tmp_path / "copy")
        node = running.configuration.current.node(name)
        bare = dataclasses.replace(node, ndparams={**node.ndparams, "oob_program": "!"})
        before = [changes.NodeOffConfirmed(node.uuid, at=5.0, by="ann")] if is_stated_before else []
        await running.configuration.commit(lambda _: [membership.NodeStands(bare), *before])
        made = await second.start()
        assert f"{name} is recorded as off, but it has no BMC" in await refusal(made, running)

        stated = changes.NodeOffConfirmed(node.uuid, at=6.0, by="bob")
        await running.configuration.commit(lambda _: [stated])

        assert await refusal(made, running) == ""
        assert await refusal(await second.start(), running) == "", "it was stated"

    run(running, scenario)


def test_a_node_that_is_recorded_as_off_and_answers_is_not_waited_for(running: service.Service, tmp_path: Path) -> None:
    async def scenario(nodes: voters.Voters, first: Controller) -> None:
        second, name = await taken_over(nodes, first, tmp_path / "copy")
        second.bmcs = Bmcs(**{name: power.State.ON})
        made = await second.start()
        nodes.silent -= {name}

        assert await refusal(made, running) == ""
        assert epoch_of(nodes, name) == made.epoch

    run(running, scenario)


def test_a_restart_waits_for_no_silent_node(running: service.Service) -> None:
    async def scenario(nodes: voters.Voters, first: Controller) -> None:
        nodes.silent |= {"node2"}
        await first.start()

        assert await refusal(await first.start(), running) == ""

    run(running, scenario)


async def stated_off(nodes: voters.Voters, first: Controller, folder: Path) -> tuple[Leadership, str]:
    """A copy of a controller that has taken over; the name of a secondary without a BMC that was stated off since."""
    second, name = await taken_over(nodes, first, folder)
    running = first.running
    node = running.configuration.current.node(name)
    bare = dataclasses.replace(node, ndparams={**node.ndparams, "oob_program": "!"})
    await running.configuration.commit(lambda _: [membership.NodeStands(bare)])
    made = await second.start()
    stated = changes.NodeOffConfirmed(node.uuid, at=6.0, by="bob")
    await running.configuration.commit(lambda _: [stated])
    return made, name


def others(running: service.Service, off: str) -> list[str]:
    """The nodes without this one, and those of the only instance last."""
    (instance,) = running.configuration.current.instances.values()
    its = {running.configuration.current.node_name(uuid) for uuid in instance.nodes}
    names = {node.name for node in running.configuration.current.nodes.values()}
    return [*sorted(names - its), *sorted(its - {off})]


def test_what_a_person_stated_of_a_node_is_kept_when_the_daemon_begins_an_epoch_above(
    running: service.Service, tmp_path: Path
) -> None:
    async def scenario(nodes: voters.Voters, first: Controller) -> None:
        made, name = await stated_off(nodes, first, tmp_path / "copy")
        assert await refusal(made, running) == ""
        master = running.configuration.current.cluster.master_node
        for number in (20, 30):
            nodes.follow(others(running, name)[0], Kept(Epoch(number, "liar"), master, 1))
            made._again_at = -math.inf

            await made.step()

            assert made.epoch is not None
            assert made.epoch.number == number + 1
            assert await refusal(made, running) == ""

    run(running, scenario)


def test_what_a_person_stated_is_asked_again_where_another_controller_may_have_led_in_between(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    running = twins.assemble(twins.lab(tmp_path, nodes=5, instances=1), monkeypatch)[0]

    async def scenario(nodes: voters.Voters, first: Controller) -> None:
        made, name = await stated_off(nodes, first, tmp_path / "copy")
        assert await refusal(made, running) == ""
        await made.step()
        led, silent, *_ = others(running, name)
        another = Kept(Epoch(20, "another"), running.configuration.current.cluster.master_node, 1)
        for each in (led, others(running, name)[2]):
            nodes.follow(each, another)
        nodes.silent |= {silent}

        await made.step()

        assert made.epoch is not None
        assert made.epoch.number == 21
        told = await refusal(made, running)
        assert f"{name} is recorded as off, but it has no BMC" in told

    run(running, scenario)


def test_a_node_that_has_answered_since_it_was_stated_off_is_waited_for(
    running: service.Service, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario(nodes: voters.Voters, first: Controller) -> None:
        (instance,) = running.configuration.current.instances.values()
        made, name = await stated_off(nodes, first, tmp_path / "copy")
        monkeypatch.setenv(leader_record.VARIABLE, str(controller_epoch.load(first.where)))
        with instance_lock.held(instance.name, nodes.settings[name].root, opcode="7-1"):
            nodes.silent -= {name}
            await made._offered([running.configuration.current.node(name)])
            assert re.search(f"{name} still works on it: .*opcode 7-1", await refusal(made, running))
            nodes.silent |= {name}
            again = changes.NodeOffConfirmed(running.configuration.current.node(name).uuid, at=7.0, by="bob")
            await running.configuration.commit(lambda _: [again])
            assert await refusal(made, running) == ""

    run(running, scenario)
