"""How a daemon begins to lead, goes on, waits or ends, by the answers of real agents' processes of a lab's nodes."""

from __future__ import annotations

import asyncio
import logging
import shutil
from typing import TYPE_CHECKING, Any

import pytest
from ansible_collections.roundsman.cluster.daemon.maintenance.leadership import Leadership, Statement
from ansible_collections.roundsman.cluster.daemon.maintenance.leading import Step
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.agent import epochs
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.agent.epochs import Epoch, Kept
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.values import errors, tree
from ansible_collections.roundsman.cluster.plugins.plugin_utils import controller_epoch, log_output
from ansible_collections.roundsman.cluster.plugins.plugin_utils.cluster import changes
from ansible_collections.roundsman.cluster.plugins.plugin_utils.config import store

from tests.unit.daemon import twins
from tests.unit.daemon.maintenance import voters
from tests.unit.daemon.maintenance.controllers import Controller, epoch_of, run, shorten, until, wait_of

if TYPE_CHECKING:
    from pathlib import Path

    from ansible_collections.roundsman.cluster.daemon import service


NOBODY_VOTES = Statement(no_voting=True)


@pytest.fixture(autouse=True)
def _short(monkeypatch: pytest.MonkeyPatch) -> None:
    shorten(monkeypatch)


@pytest.fixture
def running(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> service.Service:
    return twins.assemble(twins.lab(tmp_path, nodes=3, instances=1), monkeypatch)[0]


def test_the_first_start_begins_an_epoch_that_the_nodes_follow(running: service.Service) -> None:
    async def scenario(nodes: voters.Voters, first: Controller) -> None:
        made = await first.start()
        assert made.epoch is not None
        assert made.epoch.number == 1
        assert first.orders() == made.epoch
        followed = [nodes.follows(name) for name in ("node1", "node2", "node3")]
        assert sum(kept is not None and kept.epoch == made.epoch for kept in followed) >= 2

        await made.step()

        for kept in (nodes.follows(name) for name in ("node1", "node2", "node3")):
            assert kept is not None
            assert (kept.epoch, kept.serial) == (made.epoch, running.configuration.current.serial_no)

    run(running, scenario)


def test_a_restart_begins_an_epoch_above(running: service.Service) -> None:
    async def scenario(_: voters.Voters, first: Controller) -> None:
        before = (await first.start()).epoch
        after = (await first.start()).epoch

        assert before is not None
        assert after is not None
        assert (after.number, first.orders()) == (before.number + 1, after)
        assert after.id != before.id

    run(running, scenario)


def test_a_restart_whose_opcodes_still_run_goes_on_in_its_epoch(running: service.Service) -> None:
    async def scenario(nodes: voters.Voters, first: Controller) -> None:
        before = (await first.start()).epoch
        first.is_at_work = True

        assert (await first.start()).epoch == before == first.orders()
        nodes.silent |= {"node1", "node2", "node3"}
        assert (await first.start()).epoch == before == first.orders()

    run(running, scenario)


def test_runs_of_before_may_go_on_where_an_epoch_above_has_to_be_begun(running: service.Service) -> None:
    async def scenario(nodes: voters.Voters, first: Controller) -> None:
        before = (await first.start()).epoch
        assert before is not None
        first.is_at_work = True
        for name in ("node2", "node3"):
            nodes.follow(name, Kept(Epoch(9, "another"), running.configuration.current.cluster.master_node, 1))

        made = await first.leading()

        assert made.epoch is not None
        assert made.epoch.number == 10
        kept = nodes.follows("node1")
        assert kept is not None
        assert kept.goes_on == {before.id}

    run(running, scenario)


def test_a_copy_ends_while_the_controller_leads_and_leads_once_that_has_ended(
    running: service.Service, tmp_path: Path
) -> None:
    async def scenario(nodes: voters.Voters, first: Controller) -> None:
        led = await first.start()
        second = first.copied(tmp_path / "copy")
        with pytest.raises(errors.NotLeading, match=r"leads in epoch 1 \(.*\) [01] s ago.*stopped") as refused:
            await second.start()
        assert str(led.epoch) in str(refused.value)
        with pytest.raises(errors.StoreFailed, match="written on another machine"):
            second.orders()

        await led.step()
        await led.end()
        after = (await second.start()).epoch

        assert after is not None
        assert after.number == 2
        with pytest.raises(errors.NotLeading, match=r"node[123]+ heard of the controller"):
            await first.start()
        assert nodes.follows("node1") is not None

    run(running, scenario)


def test_a_copy_leads_once_the_nodes_have_not_heard_of_the_controller_for_long(
    running: service.Service, tmp_path: Path
) -> None:
    async def scenario(nodes: voters.Voters, first: Controller) -> None:
        await first.start()
        second = first.copied(tmp_path / "copy")
        for name in ("node1", "node2", "node3"):
            nodes.restart_agent(name)

        after = (await second.start()).epoch

        assert after is not None
        assert after.number == 2

    run(running, scenario)


def test_a_clone_of_the_machine_is_known_by_what_nodes_have_heard_since_it_booted(running: service.Service) -> None:
    async def scenario(nodes: voters.Voters, first: Controller) -> None:
        await first.start()

        first.boot(uptime=60)
        with pytest.raises(errors.NotLeading, match="heard of the controller that leads in epoch 1"):
            await first.start()
        first.boot(uptime=0)
        made = await first.start()

        assert made.epoch is not None
        assert made.epoch.number == 2
        first.boot(uptime=60)
        for name in ("node1", "node2", "node3"):
            nodes.restart_agent(name)
        assert (await first.start()).epoch is not None, "nobody has heard of it since this boot"

    run(running, scenario)


def test_a_start_waits_while_most_nodes_are_silent_and_says_what_ends_the_wait(running: service.Service) -> None:
    async def scenario(nodes: voters.Voters, first: Controller) -> None:
        nodes.silent |= {"node1", "node2"}
        starting = asyncio.create_task(first.start())
        await until(lambda: nodes.asked["node3"] >= 3)
        assert len(first.waits) == 1
        assert "node1, node2 did not answer" in first.waits[0]
        assert "`roundsmand --no-voting --yes-do-it`" in first.waits[0]
        assert first.orders() is None

        nodes.silent.clear()

        assert (await starting).epoch is not None

    run(running, scenario)


def test_a_person_ends_the_wait_with_a_statement(running: service.Service) -> None:
    async def scenario(nodes: voters.Voters, first: Controller) -> None:
        nodes.silent |= {"node1", "node2"}
        nodes.follow("node3", Kept(Epoch(6, "another"), voters.ELSEWHERE, 1))

        made = await first.start(NOBODY_VOTES)

        assert made.epoch is not None
        assert made.epoch.number == 7
        assert epoch_of(nodes, "node3") == made.epoch

    run(running, scenario)


def test_a_restart_goes_on_while_most_nodes_are_silent_and_one_after_a_reboot_waits(running: service.Service) -> None:
    async def scenario(nodes: voters.Voters, first: Controller) -> None:
        before = (await first.start()).epoch
        nodes.silent |= {"node1", "node2"}

        assert (await first.start()).epoch == before

        first.boot()
        await wait_of(first)

    run(running, scenario)


def test_a_restart_does_not_go_on_below_what_it_has_offered(running: service.Service) -> None:
    """The nodes that promised to follow that refuse what the epoch before orders."""

    async def scenario(nodes: voters.Voters, first: Controller) -> None:
        led = await first.start()
        await led.step()
        nodes.busy = {"node2", "node3"}
        starting = asyncio.create_task(first.start())
        await until(lambda: epoch_of(nodes, "node1") != led.epoch)
        starting.cancel()
        nodes.silent = {"node1", "node2", "node3"}

        await wait_of(first)

        nodes.busy, nodes.silent = set(), set()
        made = await first.start()
        assert made.epoch is not None
        assert led.epoch is not None
        assert made.epoch.number > led.epoch.number + 1

    run(running, scenario)


@pytest.mark.parametrize("is_old", [True, False])
def test_where_no_agent_can_vote_an_epoch_is_begun_by_record(running: service.Service, is_old: bool) -> None:
    async def scenario(nodes: voters.Voters, first: Controller) -> None:
        nodes.old |= {"node1", "node2", "node3"}
        if not is_old:
            settings = running.configuration.current.maintenance.settings
            stands = changes.SettingsStand(_with_port(settings, 1))
            await running.configuration.commit(lambda _: [stands])

        made = await first.start()

        assert made.epoch is not None
        assert (made.epoch.number, first.orders()) == (1, made.epoch)
        await made.step()
        assert running.failures.listed() == []

    run(running, scenario)


def test_without_agents_nobody_is_asked(running: service.Service) -> None:
    async def scenario(nodes: voters.Voters, first: Controller) -> None:
        settings = running.configuration.current.maintenance.settings
        await running.configuration.commit(lambda _: [changes.SettingsStand(_with_port(settings, 0))])

        made = await first.start()

        assert (made.epoch, sum(nodes.asked.values())) == (first.orders(), 0)

    run(running, scenario)


def _with_port(settings: Any, port: int) -> Any:
    return type(settings)(**{**vars(settings), "agent_port": port})


def test_nodes_that_cannot_vote_yet_are_not_counted(running: service.Service) -> None:
    async def scenario(nodes: voters.Voters, first: Controller) -> None:
        nodes.old |= {"node1", "node2"}

        made = await first.start()

        assert made.epoch is not None
        assert epoch_of(nodes, "node3") == made.epoch

    run(running, scenario)


def test_a_node_that_has_voted_counts_as_silent_when_no_agent_listens_on_it(running: service.Service) -> None:
    """A firewall that rejects makes a node that is up look so, and must not make a majority of the others."""

    async def scenario(nodes: voters.Voters, first: Controller) -> None:
        made = await first.leading()
        nodes.old |= {"node1", "node2"}
        nodes.follow("node3", Kept(Epoch(9, "another"), voters.ELSEWHERE, 1))

        await made.step()

        await wait_of(first)
        assert first.waits[0].startswith("0 of 3 nodes")
        nodes.old |= {"node3"}
        first.waits.clear()
        first.boot()
        await wait_of(first)

    run(running, scenario)


def test_a_controller_that_ended_between_the_promises_and_its_own_record_is_not_locked_out(
    running: service.Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario(nodes: voters.Voters, first: Controller) -> None:
        def fails(*_: object, **__: object) -> None:
            raise errors.StoreFailed("killed")

        with monkeypatch.context() as patched:
            patched.setattr(controller_epoch, "write", fails)
            with pytest.raises(errors.StoreFailed):
                await first.start()
        assert first.orders() is None, "no step names an epoch of which this controller does not know who follows it"

        made = await first.start()

        assert made.epoch is not None
        assert made.epoch.number == 2

    run(running, scenario)


def test_an_older_configuration_leads_once_a_person_says_that_none_is_newer(running: service.Service) -> None:
    async def scenario(nodes: voters.Voters, first: Controller) -> None:
        master = running.configuration.current.cluster.master_node
        for name in ("node1", "node2"):
            nodes.follow(name, Kept(Epoch(5, "lost"), master, running.configuration.current.serial_no + 1))
        with pytest.raises(errors.NotLeading, match=r"had a newer configuration.*`--restored`"):
            await first.start()
        with pytest.raises(errors.NotLeading, match=r"had a newer configuration.*`--restored`"):
            await first.start(NOBODY_VOTES)

        made = await first.start(Statement(is_restored=True))
        await made.step()

        assert made.epoch is not None
        assert made.epoch.number == 6
        assert (await first.start()).epoch is not None, "said once, it is known to the nodes"

    run(running, scenario)


def test_the_versions_of_a_restored_configuration_go_on_above_the_one_that_is_lost(running: service.Service) -> None:
    async def scenario(nodes: voters.Voters, first: Controller) -> None:
        master = running.configuration.current.cluster.master_node
        nodes.follow("node1", Kept(Epoch(3, "lost"), master, 500))

        made = await first.start(Statement(is_restored=True))

        assert running.configuration.current.serial_no == 501
        assert store.read(first.where.config).serial_no == 501
        await made.step()
        kept = nodes.follows("node1")
        assert kept is not None
        assert (kept.epoch, kept.serial) == (made.epoch, 501)

        await first.start(Statement(is_restored=True))
        assert running.configuration.current.serial_no == 501, "nothing newer is lost"

    run(running, scenario)


def test_a_restored_start_is_previewed_and_audited(running: service.Service, caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(nodes: voters.Voters, first: Controller) -> None:
        caplog.set_level(logging.INFO)
        cluster, restored = running.configuration.current, Statement(is_restored=True)
        followed = Kept(Epoch(5, "lost"), cluster.cluster.master_node, cluster.serial_no + 3)
        nodes.follow("node2", followed)
        lost = (
            f"the configuration here is version {cluster.serial_no}, and node2 had version {followed.serial} of the "
            "master node1 in epoch 5 (lost): what was changed since counts as lost"
        )

        step, (line,) = await first.preview()
        assert step is Step.END
        assert line.startswith("it would end with exit status 11: node2 had a newer configuration from its master")
        assert line.endswith("a start that says so: `--restored`")
        step, lines = await first.preview(restored)
        assert step is Step.BEGIN
        offer = (
            "it would offer epoch 6 to the 3 nodes that answer, and lead once more than half of the 3 that vote have"
        )
        takeover = "another controller led before: no instance is touched before each of its nodes follows this one"
        assert lines == [f"{offer} promised", lost, takeover]
        assert not first.where.epoch.exists()
        assert [nodes.follows(name) for name in ("node1", "node2", "node3")] == [None, followed, None]
        assert audited(caplog) == []

        made = await first.start(restored)

        (line,) = audited(caplog)
        assert line.startswith(f"daemon {log_output.account()}: started with --restored, and leads in {made.epoch}; ")
        assert line.endswith(lost)
        await first.start()
        assert len(audited(caplog)) == 1, "a start without a statement is none"

    run(running, scenario)


def test_what_is_lost_by_a_restored_start_is_in_the_audit_log_however_late_its_node_answers(
    running: service.Service, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario(nodes: voters.Voters, first: Controller) -> None:
        caplog.set_level(logging.INFO)
        cluster, at_once = running.configuration.current, nodes.answer
        nodes.follow("node2", Kept(Epoch(5, "lost"), cluster.cluster.master_node, cluster.serial_no + 3))

        async def late(name: str, data: bytes) -> tuple[int, bytes]:
            await asyncio.sleep(0.2 if name == "node2" else 0.0)
            return await at_once(name, data)

        nodes.answer = late  # type: ignore[method-assign]
        await first.start(Statement(is_restored=True))

        (line,) = audited(caplog)
        assert "node2 had version" in line

    run(running, scenario)


def test_a_start_that_nobody_votes_for_is_previewed_and_audited(
    running: service.Service, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario(nodes: voters.Voters, first: Controller) -> None:
        caplog.set_level(logging.INFO)
        await first.start()
        first.boot()
        nodes.silent |= {"node1", "node2", "node3"}
        step, (line,) = await first.preview()
        assert step is Step.WAIT
        assert line.startswith("it would wait: 0 of 3 nodes that vote have this one for their master")

        step, lines = await first.preview(NOBODY_VOTES)
        assert step is Step.BEGIN
        assert lines[0] == "it would offer epoch 2 to the 0 nodes that answer, and lead once that is written"

        made = await first.start(NOBODY_VOTES)
        (line,) = audited(caplog)
        assert line == f"daemon {log_output.account()}: started with --no-voting, and leads in {made.epoch}"

    run(running, scenario)


def test_another_node_takes_the_master_role_over_once_the_old_controller_has_ended(
    running: service.Service, tmp_path: Path
) -> None:
    async def scenario(nodes: voters.Voters, first: Controller) -> None:
        node2 = running.configuration.current.node("node2").uuid
        moves = Statement(master=node2)
        made = await first.leading()
        moved = Controller(running, tree.Tree(tmp_path / "elsewhere"), first.monkeypatch)
        shutil.copytree(first.where.root, moved.where.root)
        moved.where.epoch.unlink()
        with pytest.raises(errors.NotLeading, match=r"heard of the controller that leads in epoch 1.*--confirm-off"):
            await moved.start(moves)
        assert not moved.where.epoch.exists()

        await made.end()
        assert (await moved.preview(moves))[0] is Step.BEGIN
        assert (await moved.start(moves)).epoch is not None

        followed = [nodes.follows(name) for name in ("node1", "node2", "node3")]
        assert sum(kept is not None and kept.master == node2 for kept in followed) >= 2
        record = controller_epoch.read(moved.where)
        assert record is not None
        assert record.order is not None
        assert (record.order.epoch.number, record.order.master) == (2, node2)
        assert record.waits | made_known(nodes, record.order.epoch) >= set(running.configuration.current.nodes)
        with pytest.raises(errors.NotLeading, match="others have node2"):
            await first.start()

    run(running, scenario)


def made_known(nodes: voters.Voters, epoch: Epoch) -> set[str]:
    """The nodes (UUIDs) that follow this epoch, and so need not be waited for."""
    return {found.node for name, found in nodes.settings.items() if epoch_of(nodes, name) == epoch}


def test_an_old_master_that_is_off_does_not_vote(running: service.Service, tmp_path: Path) -> None:
    async def scenario(nodes: voters.Voters, first: Controller) -> None:
        await (await first.start()).step()
        moved = first.copied(tmp_path / "elsewhere")
        node2 = running.configuration.current.node("node2").uuid
        nodes.silent |= {"node1", "node3"}
        assert (await moved.preview(Statement(master=node2, is_master_off=True)))[0] is Step.WAIT
        nodes.silent -= {"node3"}

        made = await moved.start(Statement(master=node2, is_master_off=True))

        assert made.epoch is not None
        assert made.epoch.number == 2

    run(running, scenario)


def audited(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.name == log_output.AUDIT]


def test_without_the_promises_of_more_than_half_nobody_leads(running: service.Service) -> None:
    async def scenario(nodes: voters.Voters, first: Controller) -> None:
        nodes.busy = {"node1", "node2", "node3"}

        await wait_of(first)

        assert "0 of 3 nodes that vote promised to follow epoch 1" in first.waits[0]
        assert first.orders() is None

    run(running, scenario)


def test_of_two_that_start_together_one_leads(running: service.Service, tmp_path: Path) -> None:
    async def scenario(nodes: voters.Voters, first: Controller) -> None:
        second = first.copied(tmp_path / "copy")

        ended = await asyncio.gather(first.start(), second.start(), return_exceptions=True)

        assert sorted(type(each).__name__ for each in ended) == ["Leadership", "NotLeading"]
        (leads,) = (each.epoch for each in ended if isinstance(each, Leadership))
        followed = [kept for kept in map(nodes.follows, ("node1", "node2", "node3")) if kept is not None]
        assert sum(kept.epoch == leads for kept in followed) >= 2

    run(running, scenario)


def test_a_controller_whose_offers_are_lost_again_and_again_does_not_take_them_for_those_of_another(
    running: service.Service,
) -> None:
    async def scenario(nodes: voters.Voters, first: Controller) -> None:
        names = {"node1", "node2", "node3"}
        for name in sorted(names):
            nodes.busy = names - {name}
            await wait_of(first, until_follows=(nodes, name))
        nodes.busy = set()

        made = await first.start()

        assert made.epoch is not None
        assert first.orders() == made.epoch

    run(running, scenario)


def test_a_node_that_claims_the_highest_number_does_not_use_it_up(running: service.Service) -> None:
    async def scenario(nodes: voters.Voters, first: Controller) -> None:
        nodes.claims("node2", Kept(Epoch(epochs.HIGHEST, "bad"), voters.ELSEWHERE, 1))

        made = await first.start()

        assert made.epoch is not None
        assert made.epoch.number == 1
        await made.step()
        (failure,) = running.failures.listed()
        assert f"node2 follows epoch {epochs.HIGHEST} (bad)" in failure["text"]

    run(running, scenario)


def test_where_most_nodes_claim_the_highest_number_a_person_has_to_look(running: service.Service) -> None:
    async def scenario(nodes: voters.Voters, first: Controller) -> None:
        master = running.configuration.current.cluster.master_node
        for name in ("node1", "node2", "node3"):
            nodes.claims(name, Kept(Epoch(epochs.HIGHEST, "bad"), master, 1))

        with pytest.raises(errors.NotLeading, match="there is none above it"):
            await first.start()

    run(running, scenario)


def test_an_answer_that_the_node_has_not_signed_is_none(running: service.Service) -> None:
    async def scenario(nodes: voters.Voters, first: Controller) -> None:
        other = nodes.key("node3")
        nodes.forged["node1"] = lambda _, given: given.replace(b"follows", b"follow ")
        nodes.forged["node2"] = lambda _, given: given[: len(given) // 2] if other else b""
        await wait_of(first)
        assert "1 of 3 nodes" in first.waits[0]

    run(running, scenario)


def test_after_an_emergency_power_off_nobody_votes_and_the_master_begins_an_epoch(running: service.Service) -> None:
    async def scenario(_: voters.Voters, first: Controller) -> None:
        await first.start()
        head = running.configuration.current
        offs = [changes.NodePowered(uuid, powered=False, confirms=True) for uuid in head.nodes]
        await running.configuration.commit(lambda _: offs)

        made = await first.start()

        assert made.epoch is not None
        assert made.epoch.number == 2

    run(running, scenario)
