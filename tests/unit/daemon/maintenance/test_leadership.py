"""How a daemon begins to lead, goes on, waits or ends, by the answers of real agents' processes of a lab's nodes."""

from __future__ import annotations

import asyncio
import dataclasses
import logging
import re
import shutil
from typing import TYPE_CHECKING, Any

import pytest
from ansible_collections.roundsman.cluster.daemon.maintenance import leadership
from ansible_collections.roundsman.cluster.daemon.maintenance.leadership import Leadership, Statement
from ansible_collections.roundsman.cluster.daemon.maintenance.leading import Step
from ansible_collections.roundsman.cluster.plugins.module_utils import instance_lock, leader_record
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.agent import epochs
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.agent.epochs import Epoch, Kept
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.power import power
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.values import errors, tree
from ansible_collections.roundsman.cluster.plugins.plugin_utils import controller_epoch, log_output
from ansible_collections.roundsman.cluster.plugins.plugin_utils.cluster import changes, membership
from ansible_collections.roundsman.cluster.plugins.plugin_utils.config import store

from tests.unit.daemon import twins
from tests.unit.daemon.maintenance import voters

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
    from pathlib import Path

    from ansible_collections.roundsman.cluster.daemon import service

LIMIT = 60.0
VOTES = Statement()
NOBODY_VOTES = Statement(no_voting=True)


@pytest.fixture(autouse=True)
def _short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leadership, "DEADLINE", 0.5)
    monkeypatch.setattr(leadership, "ROUND_SECONDS", 0.5)
    monkeypatch.setattr(leadership, "RETRY", 0.05)
    monkeypatch.setattr(leadership, "BARRIER_SECONDS", 0.2)
    monkeypatch.setattr(leadership, "LEAST", 0.05)


@pytest.fixture
def running(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> service.Service:
    return twins.assemble(twins.lab(tmp_path, nodes=3, instances=1), monkeypatch)[0]


class Controller:
    """A controller in a folder; `start` is a start of its daemon."""

    def __init__(self, running: service.Service, where: tree.Tree, monkeypatch: pytest.MonkeyPatch) -> None:
        self.monkeypatch = monkeypatch
        self.running = running
        self.where = where
        self.is_at_work = False
        self.waits: list[str] = []
        self.bmcs = Bmcs()

    def copied(self, folder: Path) -> Controller:
        """The same controller's state in another folder."""
        shutil.copytree(self.where.root, folder)
        return Controller(self.running, tree.Tree(folder), self.monkeypatch)

    async def start(self, statement: Statement = VOTES) -> Leadership:
        made = Leadership(
            self.where,
            self.running.configuration,
            is_at_work=lambda: self.is_at_work,
            failures=self.running.failures,
            read_power=self.bmcs,
        )
        async with asyncio.timeout(LIMIT):
            await made.begin(statement, on_wait=self.waits.append)
        return made

    async def preview(self, statement: Statement = VOTES) -> tuple[Step, list[str]]:
        """What a start would do, and say."""
        made = Leadership(self.where, self.running.configuration, is_at_work=lambda: self.is_at_work)
        async with asyncio.timeout(LIMIT):
            return await made.preview(statement)

    def boot(self, *, uptime: float = 0.0) -> None:
        """Have the controller have booted since it led, so many seconds ago."""
        self.monkeypatch.setattr(leadership, "_uptime", lambda: uptime)
        record = controller_epoch.read(self.where)
        assert record is not None
        controller_epoch._write(self.where, dataclasses.replace(record, boot="before"))

    def orders(self) -> Epoch | None:
        """The epoch that the steps of this controller name."""
        order = controller_epoch.load(self.where)
        return order.epoch if order is not None else None


def run(running: service.Service, scenario: Callable[[voters.Voters, Controller], Awaitable[Any]]) -> None:
    async def inner() -> None:
        async with voters.voting(running) as nodes:
            with pytest.MonkeyPatch.context() as patched:
                await scenario(nodes, Controller(running, running.where, patched))

    asyncio.run(inner())


async def wait_of(controller: Controller, *, until_follows: tuple[voters.Voters, str] | None = None) -> None:
    """Start a controller, which has to wait, and is stopped then, or once a node has promised."""
    starting = asyncio.create_task(controller.start())

    def is_over() -> bool:
        if until_follows is None:
            return bool(controller.waits)
        nodes, name = until_follows
        return nodes.follows(name) is not None

    await until(lambda: is_over() or starting.done())
    assert not starting.done()
    starting.cancel()


async def until(is_so: Callable[[], bool]) -> None:
    async with asyncio.timeout(LIMIT):
        while not is_so():  # noqa: ASYNC110 - counted in other tasks
            await asyncio.sleep(0.01)


def epoch_of(nodes: voters.Voters, name: str) -> Epoch | None:
    """The epoch that a node follows."""
    kept = nodes.follows(name)
    return kept.epoch if kept is not None else None


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

        made = await first.start()
        await made.step()

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
        nodes.follow("node3", Kept(Epoch(6, "another"), "", 1))

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
def test_nodes_whose_agents_cannot_vote_leave_everything_as_it_was(running: service.Service, is_old: bool) -> None:
    async def scenario(nodes: voters.Voters, first: Controller) -> None:
        nodes.old |= {"node1", "node2", "node3"}
        if not is_old:
            settings = running.configuration.current.maintenance.settings
            stands = changes.SettingsStand(_with_port(settings, 1))
            await running.configuration.commit(lambda _: [stands])

        made = await first.start()

        assert made.epoch is None
        assert not first.where.epoch.exists()
        await made.step()
        assert running.failures.listed() == []

    run(running, scenario)


def test_without_agents_nobody_is_asked(running: service.Service) -> None:
    async def scenario(nodes: voters.Voters, first: Controller) -> None:
        settings = running.configuration.current.maintenance.settings
        await running.configuration.commit(lambda _: [changes.SettingsStand(_with_port(settings, 0))])

        made = await first.start()

        assert (made.epoch, sum(nodes.asked.values())) == (None, 0)
        assert not first.where.epoch.exists()

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
        made = await first.start()
        await made.step()
        nodes.old |= {"node1", "node2"}
        nodes.follow("node3", Kept(Epoch(9, "another"), "", 1))

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
        made = await first.start()
        await made.step()
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
        nodes.claims("node2", Kept(Epoch(epochs.HIGHEST, "bad"), "", 1))

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


def test_a_leader_ends_when_most_nodes_follow_another_and_not_for_one_or_for_silence(running: service.Service) -> None:
    async def scenario(nodes: voters.Voters, first: Controller) -> None:
        made = await first.start()
        await made.step()
        later = Kept(Epoch(9, "another"), "", 1)

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


def test_a_leader_begins_an_epoch_above_what_nodes_keep_of_a_controller_that_is_silent(
    running: service.Service,
) -> None:
    async def scenario(nodes: voters.Voters, first: Controller) -> None:
        made = await first.start()
        await made.step()
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
        made = await first.start()
        await made.step()
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
        made = await first.start()
        await made.step()
        seen = set()
        for number in range(10, 20):
            nodes.claims("node2", Kept(Epoch(number, "liar"), "", 1))
            await made.step()
            seen.add(made.epoch)
        assert len(seen) == 1, "another one after minutes only"
        assert "node2 follows epoch 19 (liar)" in running.failures.listed()[0]["text"]

    run(running, scenario)


def test_a_node_that_keeps_what_a_leader_offered_in_vain_obeys_it_still(running: service.Service) -> None:
    async def scenario(nodes: voters.Voters, first: Controller) -> None:
        made = await first.start()
        await made.step()
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
        made = await first.start()
        await made.step()
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
        made = await first.start()
        await made.step()
        for name in ("node2", "node3"):
            nodes.follow(name, Kept(Epoch(9, "another"), "", 1))
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
        made = await first.start()
        await made.step()
        nodes.old -= {"node3"}
        nodes.silent |= {"node3"}

        assert await made.isolation(()) == ""

        nodes.old -= {"node1"}
        nodes.silent -= {"node3"}
        nodes.old |= {"node2", "node3"}
        made = await first.start()
        await made.step()
        nodes.old -= {"node2", "node3"}
        nodes.silent |= {"node2", "node3"}
        assert epoch_of(nodes, "node1") == made.epoch
        assert await made.isolation(()) == ""

    run(running, scenario)


def test_a_controller_without_an_epoch_ends_when_most_nodes_follow_one(running: service.Service) -> None:
    async def scenario(nodes: voters.Voters, first: Controller) -> None:
        nodes.old |= {"node1", "node2", "node3"}
        made = await first.start()
        nodes.old.clear()
        for name in ("node1", "node2"):
            nodes.follow(name, Kept(Epoch(1, "another"), "", 1))

        with pytest.raises(errors.NotLeading, match="this controller had no epoch"):
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
            nodes.follow(name, Kept(Epoch(9, "another"), "", 1))

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
        made = await first.start()
        await made.step()
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
        made = await first.start()
        await made.step()
        before = boots(running)
        for name in ("node1", "node2"):
            nodes.follow(name, Kept(Epoch(9, "another"), "", 1))
        twins.lab_of(running).node("node3").reboot()

        with pytest.raises(errors.NotLeading):
            await made.step()
        await made._confirm()

        assert boots(running)["node3"] in made._boots.values()
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
        made = await first.start()
        await made.step()
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
        made = await first.start()
        await made.step()
        settings = dataclasses.replace(running.configuration.current.maintenance.settings, agent_port=0)
        await running.configuration.commit(lambda _: [changes.SettingsStand(settings)])

        await made.step()

        assert named_boots(first) == {}

    run(running, scenario)


async def refusal(made: Leadership, running: service.Service) -> str:
    """Why the only instance must not be touched, or ''."""
    (instance,) = running.configuration.current.instances
    try:
        await asyncio.wait_for(made.clear([instance], []), LIMIT)
    except errors.Refused as refused:
        return str(refused)
    return ""


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
        made._waits = frozenset(running.configuration.current.nodes)
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


class Bmcs:
    """The BMCs of the nodes, as `Reader` reads them: what each says, by name; one that is not there does not answer."""

    def __init__(self, **states: power.State) -> None:
        self.states = states
        self.asked: list[str] = []

    async def __call__(self, drivers: Mapping[str, str]) -> AsyncIterator[power.Outcome]:
        self.asked += drivers
        for name in drivers.keys() & self.states.keys():
            state = self.states[name]
            yield power.Outcome(name, power.Command.STATUS, state, state, False, True, 1, 0.0)
        if drivers.keys() - self.states.keys():
            raise errors.Failed("no answer")


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
