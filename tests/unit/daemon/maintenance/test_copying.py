"""Copies of the configuration on candidates, whose agents' own code answers on loopback."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pytest
from ansible_collections.roundsman.cluster.daemon.maintenance import copying
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.agent import copies, signing
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.agent.epochs import Epoch
from ansible_collections.roundsman.cluster.plugins.module_utils.monitoring import copying as agents
from ansible_collections.roundsman.cluster.plugins.plugin_utils import http_reads
from ansible_collections.roundsman.cluster.plugins.plugin_utils.cluster import changes
from ansible_collections.roundsman.cluster.plugins.plugin_utils.config import document

from tests.unit.daemon import twins
from tests.unit.daemon.maintenance import voters

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable
    from pathlib import Path

    from ansible_collections.roundsman.cluster.daemon import service

LIMIT = 60.0


@pytest.fixture(autouse=True)
def _short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(copying, "LEAST", 0.0)
    monkeypatch.setattr(copying, "SHARE", 0.0)
    monkeypatch.setattr(copying, "FIRST", 0.01)


@pytest.fixture
def running(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> service.Service:
    return twins.assemble(twins.lab(tmp_path, nodes=3, instances=1), monkeypatch)[0]


@dataclass
class Candidates:
    """The nodes by name; `statuses` are what is answered instead, `held` nodes answer once the event is set."""

    keepers: dict[str, agents.Keeper]
    roots: dict[str, Path]
    statuses: dict[str, int] = field(default_factory=dict)
    held: dict[str, asyncio.Event] = field(default_factory=dict)
    parts: list[str] = field(default_factory=list)

    def copy(self, name: str) -> bytes:
        return (self.roots[name] / agents.FILE).read_bytes()

    async def answer(self, name: str, data: bytes) -> tuple[int, bytes]:
        self.parts.append(name)
        if name in self.held:
            await self.held[name].wait()
        if name in self.statuses:
            return self.statuses[name], b""
        return 200, self.keepers[name].answer(data)


@contextlib.asynccontextmanager
async def answering(running: service.Service) -> AsyncIterator[Candidates]:
    settings = voters.node_settings_of(running)
    found = Candidates(
        {name: agents.Keeper(node) for name, node in settings.items()},
        {name: node.root for name, node in settings.items()},
    )
    async with voters.answering(running, found.answer, path=f"{copying.PATH} "):
        yield found


async def pause(running: service.Service, text: str) -> None:
    settings = running.configuration.current.maintenance.settings
    await running.configuration.commit(lambda _: [changes.SettingsStand(dataclasses.replace(settings, paused=text))])


class Scenario:
    def __init__(self, running: service.Service, candidates: Candidates, *names: str, epoch: Epoch | None) -> None:
        self.running, self.candidates = running, candidates
        self.changed = asyncio.Event()
        self.copying = copying.Copying(
            running.where, running.configuration, names=names, epoch=lambda: epoch, on_change=self.changed.set
        )

    async def change(self, text: str) -> None:
        await pause(self.running, text)
        self.copying.wake()

    async def until(self, is_so: Callable[[], bool]) -> None:
        end = time.monotonic() + LIMIT
        while not is_so():
            assert time.monotonic() < end, self.copying.listed()
            await asyncio.sleep(0.005)

    async def problem(self) -> str:
        """What is wrong with the first copy, once a person hears of it."""
        await self.until(lambda: self.copying.listed()[0]["problem"] is not None)
        return str(self.copying.listed()[0]["problem"])

    def are_newest(self) -> bool:
        return all(entry["is_newest"] for entry in self.copying.listed())


def play(
    running: service.Service,
    act: Callable[[Scenario], Awaitable[None]],
    *names: str,
    epoch: Epoch | None = Epoch(3, "id3"),  # noqa: B008 - a value
) -> None:
    async def scenario() -> None:
        async with answering(running) as candidates:
            made = Scenario(running, candidates, *names, epoch=epoch)
            work = asyncio.create_task(made.copying.run())
            try:
                await act(made)
            finally:
                work.cancel()
                await asyncio.gather(work, return_exceptions=True)

    asyncio.run(scenario())


def test_a_candidate_that_is_recorded_as_off_is_said_to_be_off(running: service.Service) -> None:
    async def act(scenario: Scenario) -> None:
        node2 = running.configuration.current.node("node2").uuid
        assert [entry["is_off"] for entry in scenario.copying.listed()] == [False, False, False]
        await running.configuration.commit(lambda _: [changes.NodePowered(node2, powered=False)])
        assert [entry["is_off"] for entry in scenario.copying.listed()] == [True, False, False]
        await running.configuration.commit(lambda _: [changes.NodePowered(node2, powered=True)])
        assert [entry["is_off"] for entry in scenario.copying.listed()] == [False, False, False]

    play(running, act, "node2", "node3", "node9")


def test_each_candidate_gets_the_configuration_and_each_change_of_it(running: service.Service) -> None:
    async def act(scenario: Scenario) -> None:
        await scenario.until(scenario.are_newest)
        await scenario.change("the switch")
        await scenario.until(scenario.are_newest)

        current, cluster_key = running.configuration.current, running.where.hmac_key.read_bytes()
        for name in ("node2", "node3"):
            text, stamp = copies.opened(scenario.candidates.copy(name), cluster_key=cluster_key)
            assert document.unseal(text) == current
            assert stamp.version == (3, current.serial_no)
        for entry in scenario.copying.listed():
            assert (entry["serial_no"], entry["problem"]) == (current.serial_no, None)
            assert time.time() - entry["confirmed"] < LIMIT

    play(running, act, "node2", "node3", "node2")


def test_without_candidates_and_to_the_master_nothing_is_sent(running: service.Service) -> None:
    async def act(scenario: Scenario) -> None:
        await scenario.change("the switch")
        await asyncio.wait_for(
            copying.Copying(running.where, running.configuration, names=(), epoch=lambda: None).run(), 9
        )
        await scenario.change("another")

    play(running, act, "node1")


def test_of_many_changes_only_the_newest_is_sent_and_one_at_a_time(running: service.Service) -> None:
    async def act(scenario: Scenario) -> None:
        scenario.candidates.held["node2"] = release = asyncio.Event()
        await scenario.until(lambda: scenario.candidates.parts == ["node2"])
        for number in range(20):
            await scenario.change(f"reason {number}")
        assert scenario.candidates.parts == ["node2"], "one copy is under way"
        release.set()
        await scenario.until(scenario.are_newest)
        assert len(scenario.candidates.parts) == 2

    play(running, act, "node2")


def test_a_candidate_that_hangs_delays_no_other(running: service.Service) -> None:
    async def act(scenario: Scenario) -> None:
        scenario.candidates.held["node2"] = asyncio.Event()
        await scenario.until(lambda: scenario.copying.listed()[1]["is_newest"])
        await scenario.change("the switch")
        await scenario.until(lambda: scenario.copying.listed()[1]["is_newest"])
        assert scenario.copying.listed()[0]["confirmed"] is None
        scenario.candidates.held["node2"].set()

    play(running, act, "node2", "node3")


@pytest.mark.parametrize(
    ("status", "text"),
    [
        (405, "the agent of node2 knows no copies: apply the role node_agent"),
        (403, "the agent of node2 takes none from this machine"),
        (503, "the agent of node2 answers with status 503"),
    ],
)
def test_what_does_not_arrive_is_said_after_some_tries_and_tried_again(
    running: service.Service, status: int, text: str
) -> None:
    async def act(scenario: Scenario) -> None:
        scenario.candidates.statuses["node2"] = status
        assert (await scenario.problem()).startswith(text)
        scenario.changed.clear()
        del scenario.candidates.statuses["node2"]
        await scenario.until(scenario.are_newest)
        assert scenario.copying.listed()[0]["problem"] is None
        assert scenario.changed.is_set()

    play(running, act, "node2")


def test_a_name_that_no_node_has_is_said(running: service.Service) -> None:
    async def act(scenario: Scenario) -> None:
        assert await scenario.problem() == ("there is no node node9: correct `configuration_copies` in roundsmand.json")

    play(running, act, "node9")


def test_a_copy_in_many_parts_arrives_though_the_agent_starts_again_in_between(
    running: service.Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(copies, "PART", 100)

    async def act(scenario: Scenario) -> None:
        keeper = scenario.candidates.keepers["node2"]
        answer = keeper.answer

        def once(data: bytes) -> bytes:
            if len(scenario.candidates.parts) == 5:
                keeper._coming = None
            return answer(data)

        monkeypatch.setattr(keeper, "answer", once)
        await scenario.until(scenario.are_newest)
        size = len(scenario.candidates.copy("node2"))
        assert len(scenario.candidates.parts) == 5 + -(-size // 100)

    play(running, act, "node2")


def test_a_candidate_that_wants_a_byte_more_each_time_is_a_trouble_and_no_work_without_end(
    running: service.Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(copying, "FIRST", LIMIT)

    async def act(scenario: Scenario) -> None:
        node = next(node for node in running.configuration.current.nodes.values() if node.name == "node2")
        key = signing.node_key(running.where.hmac_key.read_bytes(), node.uuid)

        def a_byte_more(data: bytes) -> bytes:
            asked = copies.part(data, key=key, node=node.uuid)
            return copies.sealed_received(
                copies.Received(node.uuid, asked.nonce, None, asked.offset + 1), key=key, now=0
            )

        monkeypatch.setattr(scenario.candidates.keepers["node2"], "answer", a_byte_more)
        await scenario.until(scenario.changed.is_set)
        assert len(scenario.candidates.parts) == 1

    play(running, act, "node2")


def test_a_configuration_that_was_damaged_on_the_disk_takes_no_place_of_a_good_copy(running: service.Service) -> None:
    async def act(scenario: Scenario) -> None:
        await scenario.until(scenario.are_newest)
        await pause(running, "the switch")
        content = bytearray(running.where.config.read_bytes())
        content[-5] ^= 1
        running.where.config.write_bytes(content)
        scenario.copying.wake()
        assert "checksum does not fit" in await scenario.problem()
        text, _ = copies.opened(scenario.candidates.copy("node2"), cluster_key=running.where.hmac_key.read_bytes())
        document.unseal(text)

    play(running, act, "node2")


def test_a_name_that_no_host_can_have_ends_no_daemon(running: service.Service, monkeypatch: pytest.MonkeyPatch) -> None:
    async def act(scenario: Scenario) -> None:
        def fail(*_: object, **__: object) -> object:
            raise UnicodeError("label too long")

        monkeypatch.setattr(http_reads, "post", fail)
        assert await scenario.problem() == "label too long"

    play(running, act, "node2")


def test_what_a_candidate_lacks_is_said_of_what_the_controller_has(running: service.Service) -> None:
    async def act(scenario: Scenario) -> None:
        await scenario.until(scenario.are_newest)
        lacks = scenario.copying.listed()[0]["lacks"]
        assert "var/lib/roundsman/hmac.key" in lacks
        assert set(lacks) == {name for name in copies.NEEDED if (running.where.root / name).exists()}

    play(running, act, "node2")


def test_making_copies_takes_at_most_its_share_of_a_processor(
    running: service.Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(copying, "SHARE", 1e6)

    async def act(scenario: Scenario) -> None:
        await scenario.until(scenario.are_newest)
        await scenario.change("the switch")
        await asyncio.sleep(0.2)
        assert not scenario.are_newest()
        assert len(scenario.candidates.parts) == 1

    play(running, act, "node2")
