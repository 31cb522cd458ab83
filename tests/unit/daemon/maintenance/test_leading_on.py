"""What a daemon does that leads: its questions while it serves, whom it may fence, the boots that its steps name."""

from __future__ import annotations

import asyncio
import dataclasses
import math
from typing import TYPE_CHECKING

import pytest
from ansible_collections.roundsman.cluster.daemon.maintenance import leadership
from ansible_collections.roundsman.cluster.daemon.maintenance.leadership import Statement
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.agent import epochs
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.agent.epochs import Epoch, Kept
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.values import errors
from ansible_collections.roundsman.cluster.plugins.plugin_utils import controller_epoch, voting
from ansible_collections.roundsman.cluster.plugins.plugin_utils.cluster import changes

from tests.unit.daemon import twins
from tests.unit.daemon.maintenance import voters
from tests.unit.daemon.maintenance.controllers import Controller, epoch_of, refusal, run, shorten, until

if TYPE_CHECKING:
    from pathlib import Path

    from ansible_collections.roundsman.cluster.daemon import service


LIMIT = 60.0
NOBODY_VOTES = Statement(no_voting=True)


@pytest.fixture(autouse=True)
def _short(monkeypatch: pytest.MonkeyPatch) -> None:
    shorten(monkeypatch)


@pytest.fixture
def running(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> service.Service:
    return twins.assemble(twins.lab(tmp_path, nodes=3, instances=1), monkeypatch)[0]


def test_a_leader_ends_when_most_nodes_follow_another_and_not_for_one_or_for_silence(running: service.Service) -> None:
    async def scenario(nodes: voters.Voters, first: Controller) -> None:
        made = await first.leading()
        later = Kept(Epoch(9, "another"), voters.ELSEWHERE, 1)

        nodes.silent |= {"node1", "node2"}
        await made.step()
        (failure,) = running.failures.listed()
        assert "only 1 of 3 nodes that vote answer this controller; node1, node2 did not answer" in failure["text"]
        nodes.silent.clear()
        await made.step()
        assert running.failures.listed() == []
        nodes.claims("node2", later, heard=20.0)
        await made.step()
        (failure,) = running.failures.listed()
        assert "1 nodes refuse what this controller orders" in failure["text"]
        assert "node2 follows epoch 9 (another)" in failure["text"]
        nodes.follow("node3", later)

        with pytest.raises(errors.NotLeading, match=r"follow epoch 9 \(another\).* this controller led in epoch 1"):
            await made.step()

    run(running, scenario)


def test_a_clone_of_the_machine_ends_once_most_nodes_know_a_later_version_of_the_other(
    running: service.Service,
) -> None:
    # A snapshot of the machine that was resumed beside it has its epoch, and its boot: nobody asks who leads.
    async def scenario(nodes: voters.Voters, first: Controller) -> None:
        made = await first.leading()
        before = boots(running)
        assert made.epoch is not None
        serial = running.configuration.current.serial_no
        newer = Kept(made.epoch, running.configuration.current.cluster.master_node, serial + 1)

        nodes.follow("node1", newer)
        await made.step()
        assert await made.isolation(()) == ""
        nodes.follow("node2", newer)
        twins.lab_of(running).node("node3").reboot()
        made._reached = (-math.inf, voting.Poll())

        assert "only 1 of 3 nodes that vote answer this controller" in await made.isolation(())
        with pytest.raises(errors.NotLeading, match=rf"version {serial + 1} .* has version {serial}: a clone"):
            await made.step()
        await made._confirm()
        assert named_boots(first) == before

    run(running, scenario)


def test_a_leader_begins_an_epoch_above_what_nodes_keep_of_a_controller_that_is_silent(
    running: service.Service,
) -> None:
    async def scenario(nodes: voters.Voters, first: Controller) -> None:
        made = await first.leading()
        before = made.epoch
        assert before is not None
        nodes.follow("node2", Kept(Epoch(9, "another"), running.configuration.current.cluster.master_node, 1))

        await made.step()

        assert made.epoch is not None
        assert made.epoch.number == 10
        assert first.orders() == made.epoch
        await made.step()
        kept = {name: nodes.follows(name) for name in ("node1", "node2", "node3")}
        assert {found.epoch for found in kept.values() if found is not None} == {made.epoch}
        assert all(before.id in found.goes_on for found in kept.values() if found is not None), "its plays go on"
        assert running.failures.listed() == []
        instance = next(iter(running.configuration.current.instances))
        assert await refusal(made, running) == ""
        assert instance

    run(running, scenario)


def test_a_leader_begins_no_epoch_while_another_controller_asks_the_nodes_that_follow_it(
    running: service.Service,
) -> None:
    async def scenario(nodes: voters.Voters, first: Controller) -> None:
        made = await first.leading()
        before = made.epoch
        master = running.configuration.current.cluster.master_node
        nodes.claims("node2", Kept(Epoch(9, "another"), master, 1), heard=20.0)

        await made.step()
        assert made.epoch == before
        assert "1 nodes refuse what this controller orders" in running.failures.listed()[0]["text"]

        nodes.claims("node2", Kept(Epoch(9, "another"), master, 1), heard=200.0)
        await made.step()
        assert made.epoch != before

    run(running, scenario)


def test_a_node_that_claims_more_each_time_does_not_use_up_epochs(running: service.Service) -> None:
    async def scenario(nodes: voters.Voters, first: Controller) -> None:
        made = await first.leading()
        seen = set()
        for number in range(10, 20):
            nodes.claims("node2", Kept(Epoch(number, "liar"), voters.ELSEWHERE, 1))
            await made.step()
            seen.add(made.epoch)
        assert len(seen) == 1, "another one after minutes only"
        assert "node2 follows epoch 19 (liar)" in running.failures.listed()[0]["text"]

    run(running, scenario)


def test_a_node_that_keeps_what_a_leader_offered_in_vain_obeys_it_still(running: service.Service) -> None:
    async def scenario(nodes: voters.Voters, first: Controller) -> None:
        made = await first.leading()
        before = made.epoch
        nodes.follow("node2", Kept(Epoch(9, "another"), running.configuration.current.cluster.master_node, 1))
        nodes.busy |= {"node1", "node3"}
        await made.step()
        assert epoch_of(nodes, "node2") != Epoch(9, "another")
        assert running.failures.listed() != []

        nodes.busy.clear()
        await made.step()

        assert made.epoch == before
        assert running.failures.listed() == []

    run(running, scenario)


def test_agents_that_take_no_question_from_here_are_named_with_the_command(running: service.Service) -> None:
    async def scenario(nodes: voters.Voters, first: Controller) -> None:
        made = await first.start()
        nodes.deaf |= {"node3"}
        await made.step()
        (failure,) = running.failures.listed()
        assert failure["text"] == "the agents of node3 take no question from this machine"
        assert "`ansible-playbook -i INVENTORY playbooks/node_agent.yml" in failure["remedy"]

        nodes.deaf.clear()
        await made.step()
        assert running.failures.listed() == []

    run(running, scenario)


def test_silent_nodes_are_fenced_only_while_half_of_the_nodes_that_vote_answer(running: service.Service) -> None:
    async def scenario(nodes: voters.Voters, first: Controller) -> None:
        made = await first.leading()
        node2 = running.configuration.current.node("node2").uuid
        nodes.silent |= {"node3"}
        assert await made.isolation(()) == ""
        nodes.asked.clear()
        assert await made.isolation(()) == ""
        assert sum(nodes.asked.values()) == 0, "they have answered just now"

        nodes.silent |= {"node2"}
        assert await made.isolation(()) == "", "these answers count for some seconds"
        made._reached = (-leadership.FRESH, made._reached[1])
        assert await made.isolation(()) == (
            "only 1 of 3 nodes that vote answer this controller; node2, node3 did not answer"
        )
        assert await made.isolation({node2}) == "", "a node whose BMC reads off does not vote"
        nodes.silent -= {"node2"}
        assert await made.isolation(()) == ""

    run(running, scenario)


def test_where_the_nodes_cannot_be_asked_no_node_is_fenced_and_the_rest_goes_on(running: service.Service) -> None:
    """Nodes that are known to be off are still failed over."""

    async def scenario(_: voters.Voters, first: Controller) -> None:
        made = await first.start()
        first.where.hmac_key.unlink()

        assert "No such file or directory" in await made.isolation(())

    run(running, scenario)


def test_a_controller_that_was_replaced_fences_nobody_and_asks_all_nodes_soon(running: service.Service) -> None:
    async def scenario(nodes: voters.Voters, first: Controller) -> None:
        made = await first.leading()
        for name in ("node2", "node3"):
            nodes.follow(name, Kept(Epoch(9, "another"), voters.ELSEWHERE, 1))
        nodes.silent |= {"node3"}
        made._awake.clear()

        assert await made.isolation(()) == (
            "only 1 of 3 nodes that vote answer this controller; node3 did not answer; another controller leads node2"
        )
        assert made._awake.is_set()

    run(running, scenario)


def test_a_controller_whose_nodes_cannot_vote_fences_as_before(running: service.Service) -> None:
    async def scenario(nodes: voters.Voters, first: Controller) -> None:
        nodes.old |= {"node1", "node2", "node3"}
        made = await first.start()
        assert await made.isolation(()) == ""

    run(running, scenario)


def test_a_dead_node_that_never_could_vote_keeps_nobody_from_fencing_it(running: service.Service) -> None:
    """Agents are upgraded after the controller: those of before say that they cannot vote, until their nodes die."""

    async def scenario(nodes: voters.Voters, first: Controller) -> None:
        nodes.old |= {"node1", "node2", "node3"}
        made = await first.leading()
        nodes.old -= {"node3"}
        nodes.silent |= {"node3"}

        assert await made.isolation(()) == ""

        nodes.old -= {"node1"}
        nodes.silent -= {"node3"}
        nodes.old |= {"node2", "node3"}
        made = await first.leading()
        nodes.old -= {"node2", "node3"}
        nodes.silent |= {"node2", "node3"}
        assert epoch_of(nodes, "node1") == made.epoch
        assert await made.isolation(()) == ""

    run(running, scenario)


def test_a_controller_that_began_without_votes_ends_when_most_nodes_follow_another(running: service.Service) -> None:
    async def scenario(nodes: voters.Voters, first: Controller) -> None:
        nodes.old |= {"node1", "node2", "node3"}
        made = await first.start()
        nodes.old.clear()
        for name in ("node1", "node2"):
            nodes.follow(name, Kept(Epoch(1, "another"), voters.ELSEWHERE, 1))

        with pytest.raises(errors.NotLeading, match="this controller led in epoch 1"):
            await made.step()

    run(running, scenario)


def test_a_refused_order_is_counted_and_the_nodes_are_asked_soon(
    running: service.Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leadership, "LEAST", 0.01)

    async def scenario(nodes: voters.Voters, first: Controller) -> None:
        made = await first.start()
        serving = asyncio.create_task(made.run())
        await until(lambda: nodes.asked["node1"] >= 2)
        made.note_refusal("instance_state: LVM is broken")
        assert made.refused == 0
        for name in ("node1", "node2"):
            nodes.follow(name, Kept(Epoch(9, "another"), voters.ELSEWHERE, 1))

        made.note_refusal("this node follows epoch 9 (another) and refuses epoch 1 (this): another controller")

        assert made.refused == 1
        assert "a node refused what this controller orders" in running.failures.listed()[0]["text"]
        with pytest.raises(errors.NotLeading):
            await asyncio.wait_for(serving, LIMIT)

    run(running, scenario)


def named_boots(controller: Controller) -> dict[str, str]:
    """The boots that the steps of a controller name, by the name of their node."""
    nodes = controller.running.configuration.current.nodes.values()
    orders = {node.name: controller_epoch.load(controller.where, node.uuid) for node in nodes}
    return {name: order.boot for name, order in orders.items() if order is not None and order.boot}


def boots(running: service.Service) -> dict[str, str]:
    """The boots in which the nodes of a lab are."""
    return {node.name: node.boot_id() for node in twins.lab_of(running).nodes()}


def test_steps_name_the_boots_for_which_more_than_half_promised_afterwards(running: service.Service) -> None:
    async def scenario(_: voters.Voters, first: Controller) -> None:
        made = await first.start()
        assert len(named_boots(first)) >= 2
        assert named_boots(first).items() <= boots(running).items()

        await made.step()
        assert named_boots(first) == boots(running)

    run(running, scenario)


def test_a_node_that_boots_gets_steps_again_once_half_of_the_nodes_obey_after_it_is_known(
    running: service.Service,
) -> None:
    async def scenario(nodes: voters.Voters, first: Controller) -> None:
        made = await first.leading()
        before = boots(running)
        twins.lab_of(running).node("node3").reboot()
        nodes.silent |= {"node1", "node2"}
        assert boots(running)["node3"] != before["node3"]

        await made.step()
        assert named_boots(first) == before, "nobody but the node itself says that this controller leads"

        nodes.silent -= {"node1"}
        await made.step()
        assert named_boots(first) == boots(running)

    run(running, scenario)


def test_a_controller_that_was_replaced_never_names_the_boot_after_a_fence(running: service.Service) -> None:
    async def scenario(nodes: voters.Voters, first: Controller) -> None:
        made = await first.leading()
        before = boots(running)
        for name in ("node1", "node2"):
            nodes.follow(name, Kept(Epoch(9, "another"), voters.ELSEWHERE, 1))
        twins.lab_of(running).node("node3").reboot()

        with pytest.raises(errors.NotLeading):
            await made.step()
        await made._confirm()

        assert boots(running)["node3"] in made._electorate.boots.values()
        assert named_boots(first) == before

    run(running, scenario)


def test_a_step_that_was_refused_for_its_boot_has_the_nodes_asked_soon(
    running: service.Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario(nodes: voters.Voters, first: Controller) -> None:
        made = await first.start()
        serving, asked = asyncio.create_task(made.run()), nodes.asked["node3"]
        await until(lambda: nodes.asked["node3"] > asked and named_boots(first) == boots(running))
        await asyncio.sleep(0.2)
        twins.lab_of(running).node("node3").reboot()

        made.note_refusal(f"instance_state: {epochs.OTHER_BOOT}, and refuses what was ordered before: nothing was done")

        await until(lambda: named_boots(first) == boots(running))
        assert made.refused == 0
        assert running.failures.listed() == []
        serving.cancel()

    run(running, scenario)


def test_before_an_opcode_begins_its_nodes_that_report_another_boot_are_asked(running: service.Service) -> None:
    async def scenario(_: voters.Voters, first: Controller) -> None:
        made = await first.leading()
        ((uuid, instance),) = running.configuration.current.instances.items()
        node = running.configuration.current.nodes[instance.primary_node]
        twins.lab_of(running).node(node.name).reboot()
        made._reported = lambda asked: boots(running)[node.name] if asked == node.uuid else ""

        await made.clear([uuid], [])

        assert named_boots(first) == boots(running)

    run(running, scenario)


def test_where_nobody_votes_only_the_boots_of_nodes_that_answer_are_named(running: service.Service) -> None:
    """A person who says so ends what is refused for a boot that no agent can tell."""

    async def scenario(nodes: voters.Voters, first: Controller) -> None:
        await (await first.start()).step()
        nodes.silent |= {"node1", "node2"}
        restarted = await first.start()
        assert named_boots(first) == boots(running)
        assert restarted.epoch is not None

        await first.start(NOBODY_VOTES)

        assert named_boots(first) == {"node3": boots(running)["node3"]}

    run(running, scenario)


def test_without_agents_no_boot_is_named(running: service.Service) -> None:
    async def scenario(_: voters.Voters, first: Controller) -> None:
        made = await first.leading()
        settings = dataclasses.replace(running.configuration.current.maintenance.settings, agent_port=0)
        await running.configuration.commit(lambda _: [changes.SettingsStand(settings)])

        await made.step()

        assert named_boots(first) == {}

    run(running, scenario)


def test_a_play_that_has_powered_a_node_on_has_it_asked_at_once(running: service.Service) -> None:
    async def scenario(nodes: voters.Voters, first: Controller) -> None:
        made = await first.leading()
        before, uuids = boots(running), sorted(running.configuration.current.nodes)
        assert await made.confirm_boots(uuids) == set()
        twins.lab_of(running).node("node3").reboot()
        back = running.configuration.current.node("node3").uuid

        nodes.silent |= {"node3"}
        assert await made.confirm_boots([back]) == {back}
        nodes.silent |= {"node1", "node2"}
        nodes.silent -= {"node3"}
        assert await made.confirm_boots([back]) == {back}
        assert named_boots(first) == before

        nodes.silent -= {"node1"}
        assert await made.confirm_boots([back]) == set()
        assert named_boots(first) == boots(running)

    run(running, scenario)


def test_what_a_play_by_hand_holds_has_its_nodes_asked_though_none_reports_another_boot(
    running: service.Service,
) -> None:
    async def scenario(_: voters.Voters, first: Controller) -> None:
        made = await first.leading()
        ((uuid, instance),) = running.configuration.current.instances.items()
        twins.lab_of(running).node(running.configuration.current.node_name(instance.primary_node)).reboot()

        await made.clear([uuid], [])
        assert named_boots(first) != boots(running)
        await made.clear([uuid], [], asks_all=True)
        assert named_boots(first) == boots(running)

    run(running, scenario)


def test_a_key_that_is_gone_keeps_no_play_from_its_locks(running: service.Service) -> None:
    async def scenario(_: voters.Voters, first: Controller) -> None:
        made = await first.leading()
        (uuid,) = running.configuration.current.instances
        first.where.hmac_key.rename(first.where.hmac_key.with_suffix(".away"))
        with pytest.raises(errors.RoundsmanError, match=f"{first.where.hmac_key} cannot be read"):
            await made.clear([uuid], [], asks_all=True)

    run(running, scenario)


def test_nodes_that_are_recorded_as_off_and_follow_another_controller_count_where_a_boot_is_confirmed(
    running: service.Service,
) -> None:
    async def scenario(nodes: voters.Voters, first: Controller) -> None:
        made = await first.leading()
        before, head = boots(running), running.configuration.current
        # An emergency power-off here; then another controller powered two nodes on, and fenced the third.
        offs = [changes.NodePowered(head.node(name).uuid, powered=False) for name in ("node1", "node2")]
        await running.configuration.commit(lambda _: offs)
        for name in ("node1", "node2"):
            nodes.follow(name, Kept(Epoch(9, "another"), voters.ELSEWHERE, 1))
        twins.lab_of(running).node("node3").reboot()
        back = head.node("node3").uuid

        assert await made.confirm_boots([back]) == {back}
        assert named_boots(first) == before

        nodes.silent |= {"node1", "node2"}
        assert await made.confirm_boots([back]) == set()

    run(running, scenario)
