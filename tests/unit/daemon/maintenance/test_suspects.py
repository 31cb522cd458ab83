"""Nodes that miss a question are asked quickly, beside the polls; time is virtual, and no node is real."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import time
from typing import TYPE_CHECKING, Any

import pytest
from ansible_collections.roundsman.cluster.daemon.maintenance import agents, ssh_greetings, suspects
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.disks import replicas
from ansible_collections.roundsman.cluster.plugins.plugin_utils import http_reads

from tests.unit.daemon import twins
from tests.unit.plugins.module_utils.oob import virtual

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from pathlib import Path

    from ansible_collections.roundsman.cluster.daemon import service
    from ansible_collections.roundsman.cluster.plugins.plugin_utils.cluster import cluster as clusters

CONNECT = agents.CONNECT_SECONDS


class Nodes:
    """A service whose nodes answer, are `dead` (no connection), `hang` (no answer) or are `slow` (seconds).

    Of those that are `unsigned` something answers that has not their key.
    """

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch, *, nodes: int = 4, **settings: Any) -> None:
        chosen: dict[str, Any] = {"agent_port": 1815, "dead_after": 5, **settings}
        self.service, _ = twins.assemble(twins.lab(folder, nodes=nodes, **chosen), monkeypatch)
        known = self.service.configuration.current.nodes.values()
        lab = twins.lab_of(self.service)
        self.said = {node.name: twins.envelope(lab, node, '{"status": "Ok"}') for node in known}
        self.dead: set[str] = set()
        self.unsigned: set[str] = set()
        self.hang: set[str] = set()
        self.slow: dict[str, float] = {}
        self.asked: list[tuple[float, str]] = []
        self.on_ask: Callable[[str], None] = lambda _name: None
        monkeypatch.setattr(agents, "_get", self._get)

        async def at_once(act: Callable[..., Any], *args: Any) -> Any:
            return act(*args)

        # A thread does not pass virtual time.
        monkeypatch.setattr(asyncio, "to_thread", at_once)

    async def _get(self, node: clusters.Node, _port: int, _subject: object) -> tuple[int, bytes]:
        self.asked.append((asyncio.get_running_loop().time(), node.name))
        self.on_ask(node.name)
        if node.name in self.dead:
            await asyncio.sleep(CONNECT)
            raise TimeoutError
        if node.name in self.hang:
            await asyncio.sleep(agents.ANSWER_SECONDS)
            raise http_reads.Unanswered("it accepts connections, and gives no answer")
        await asyncio.sleep(self.slow.get(node.name, 0.001))
        if node.name in self.unsigned:
            return 200, b"{}"
        return 200, self.said[node.name]

    @contextlib.asynccontextmanager
    async def at_work(self) -> AsyncIterator[None]:
        """Polls and quick questions at work, and nothing else of the daemon."""
        parts: service.Service = self.service
        work = [asyncio.ensure_future(part.run()) for part in (parts.suspects, parts.poll)]
        try:
            yield
        finally:
            for part in work:
                part.cancel()
            ended = await asyncio.gather(*work, return_exceptions=True)
            assert all(isinstance(end, asyncio.CancelledError) for end in ended), ended

    def uuid(self, name: str) -> str:
        return self.service.configuration.current.node(name).uuid

    def misses(self, name: str) -> int:
        seen = self.service.agents.seen.get(self.uuid(name))
        return seen.misses if seen is not None else 0

    async def until_missed(self, name: str, times: int) -> float:
        """Wait until a node has missed so many questions in a row; returns when that was."""
        while self.misses(name) < times:  # noqa: ASYNC110 - time is virtual, and nothing is patched in
            await asyncio.sleep(0.25)
        return asyncio.get_running_loop().time()

    def times(self, name: str) -> list[float]:
        """When a node was asked."""
        return [at for at, asked in self.asked if asked == name]


def test_a_node_that_misses_a_poll_is_asked_at_once_and_then_every_five_seconds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    nodes = Nodes(tmp_path, monkeypatch)
    nodes.dead.add("node3")

    async def scenario() -> float:
        async with nodes.at_work():
            return await nodes.until_missed("node3", 5) - nodes.times("node3")[0]

    assert virtual.run(scenario()) <= 5 * CONNECT + 1
    gaps = [later - earlier for earlier, later in itertools.pairwise(nodes.times("node3"))]
    assert all(gap == pytest.approx(CONNECT, abs=0.1) for gap in gaps), "dead_after counts these questions"


def test_a_node_that_answers_again_is_asked_by_the_polls_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    nodes = Nodes(tmp_path, monkeypatch)
    nodes.dead.add("node3")

    async def scenario() -> None:
        async with nodes.at_work():
            await nodes.until_missed("node3", 2)
            nodes.dead.clear()
            await asyncio.sleep(10)
            assert nodes.misses("node3") == 0
            assert nodes.service.agents.suspects == set()
            before = len(nodes.times("node3"))
            await asyncio.sleep(120)
            assert len(nodes.times("node3")) - before == 2

    virtual.run(scenario())


def test_a_node_whose_answers_prove_nothing_is_asked_on_until_it_signs_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    nodes = Nodes(tmp_path, monkeypatch)
    nodes.unsigned.add("node3")

    async def scenario() -> None:
        async with nodes.at_work():
            await asyncio.sleep(5.5 * suspects.EVERY)
            seen = nodes.service.agents.seen[nodes.uuid("node3")]
            assert (seen.misses, seen.unsigned) == (0, 7)
            silent, answering = nodes.service.suspects.silences()
            assert (silent[nodes.uuid("node3")].questions, answering) == (7, 4)
            assert nodes.service.dead.alive() == {nodes.uuid(name) for name in nodes.said}, "it may be a peer"
            nodes.unsigned.clear()
            await asyncio.sleep(2 * suspects.EVERY)
            assert nodes.service.agents.suspects == set()
            assert nodes.service.suspects.silences() == ({}, 4)

    virtual.run(scenario())


def test_a_poll_that_is_slow_delays_no_suspect_and_asks_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    nodes = Nodes(tmp_path, monkeypatch)

    async def scenario() -> None:
        async with nodes.at_work():
            await nodes.service.poll.has_polled.wait()
            nodes.dead.add("node3")
            await nodes.until_missed("node3", 1)
            nodes.slow["node4"] = 500.0
            began = asyncio.get_running_loop().time()
            await nodes.until_missed("node3", 30)
            assert asyncio.get_running_loop().time() - began < 30 * suspects.EVERY + 1
            times = nodes.times("node3")
            assert all(later - earlier > CONNECT - 0.1 for earlier, later in itertools.pairwise(times[1:]))

    virtual.run(scenario())


def test_a_node_that_is_known_to_answer_is_asked_while_there_are_suspects(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    nodes = Nodes(tmp_path, monkeypatch)
    nodes.dead.add("node3")
    master = nodes.service.configuration.current.node_name(nodes.service.configuration.current.cluster.master_node)
    nodes.slow[master] = 0.5  # It answers last.

    async def scenario() -> None:
        async with nodes.at_work():
            await nodes.until_missed("node3", 5)
            others = [name for at, name in nodes.asked if name != "node3"][4:]
            assert len(others) >= 4
            assert master not in others, "it is here: that it answers says nothing of the network"
            silent, answering = nodes.service.suspects.silences()
            assert (set(silent), answering) == ({nodes.uuid("node3")}, 3)

    virtual.run(scenario())


def test_while_nobody_answers_no_miss_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The controller's own network is cut, and comes back before the next poll."""
    nodes = Nodes(tmp_path, monkeypatch)

    async def scenario() -> None:
        async with nodes.at_work():
            await nodes.service.poll.has_polled.wait()
            nodes.dead.add("node3")
            await nodes.until_missed("node3", 3)
            nodes.dead |= {"node1", "node2", "node4"}
            await asyncio.sleep(300)
            silent, answering = nodes.service.suspects.silences()
            assert (len(silent), answering) == (4, 0)
            assert max(silence.misses for silence in silent.values()) <= 2
            nodes.dead = {"node3"}
            began = asyncio.get_running_loop().time()
            await nodes.until_missed("node3", 5)
            assert asyncio.get_running_loop().time() - began > 2 * suspects.EVERY
            assert nodes.service.suspects.silences()[1] > 0

    virtual.run(scenario())


def test_a_poll_that_asks_the_others_at_that_moment_stops_no_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    nodes = Nodes(tmp_path, monkeypatch, diagnose_interval=9.5)
    nodes.dead.add("node3")
    nodes.slow.update(dict.fromkeys(("node1", "node2", "node4"), 4.0))

    async def scenario() -> float:
        async with nodes.at_work():
            return await nodes.until_missed("node3", 10) - nodes.times("node3")[0]

    assert virtual.run(scenario()) <= 10 * CONNECT + 1


def test_another_node_that_dies_stops_no_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The node that was known to answer dies, too: the others that answer say that the network works."""
    nodes = Nodes(tmp_path, monkeypatch)

    async def scenario() -> None:
        async with nodes.at_work():
            await nodes.service.poll.has_polled.wait()
            nodes.dead |= {"node3"}
            await nodes.until_missed("node3", 2)
            nodes.dead |= {[name for _, name in nodes.asked if name != "node3"][-1]}
            began = asyncio.get_running_loop().time()
            await nodes.until_missed("node3", 5)
            assert asyncio.get_running_loop().time() - began <= 3 * suspects.EVERY + 1

    virtual.run(scenario())


def test_an_ssh_server_that_drops_packets_delays_no_question_and_is_never_asked_twice_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    nodes = Nodes(tmp_path, monkeypatch, dead_node_policy="fence")
    greeted: list[float] = []
    in_flight = 0

    async def drops(node: clusters.Node) -> bool:
        nonlocal in_flight
        in_flight += 1
        assert (node.name, in_flight) == ("node2", 1)
        greeted.append(asyncio.get_running_loop().time())
        await asyncio.sleep(ssh_greetings.SECONDS)
        in_flight -= 1
        return False

    monkeypatch.setattr(nodes.service.agents, "_greets", drops)

    async def scenario() -> None:
        async with nodes.at_work():
            nodes.dead.add("node2")
            began = await nodes.until_missed("node2", 1)
            assert await nodes.until_missed("node2", 5) - began == pytest.approx(4 * suspects.EVERY, abs=0.5)
            while nodes.service.agents.seen[nodes.uuid("node2")].ssh_misses < 5:  # noqa: ASYNC110 - as above
                await asyncio.sleep(0.5)
            assert asyncio.get_running_loop().time() - began < 4 * suspects.EVERY + ssh_greetings.SECONDS + 1
            asked = [at for at, name in nodes.asked if name == "node2" and at >= began]
            assert all(later - before >= suspects.EVERY for before, later in itertools.pairwise(asked))
            assert all(later - before >= ssh_greetings.SECONDS for before, later in itertools.pairwise(greeted))

    virtual.run(scenario())


def test_a_node_that_hangs_is_asked_again_once_its_question_is_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    nodes = Nodes(tmp_path, monkeypatch)
    nodes.hang.add("node3")

    async def scenario() -> None:
        async with nodes.at_work():
            await nodes.until_missed("node3", 5)
            assert len(nodes.times("node3")) == 5, "never two questions at once"

    virtual.run(scenario())


def test_a_peer_that_was_lost_is_asked_at_once_and_only_once_if_it_answers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    nodes = Nodes(tmp_path, monkeypatch)
    running = nodes.service
    cluster = running.configuration.current
    instance = next(iter(cluster.instances.values()))
    reporter, peer = cluster.nodes[instance.primary_node], cluster.node_name(instance.secondary_nodes[0])

    def hear(*, lost: tuple[str, ...] = ()) -> None:
        facts = twins.replica_facts(cluster, reporter, lost=lost)
        at = replicas.Moment(time.time())
        running.intake._heard.tracks[reporter.uuid] = replicas.followed(None, facts, at=at)
        running.suspects.wake()

    async def scenario() -> None:
        async with nodes.at_work():
            await running.poll.has_polled.wait()
            hear()
            await asyncio.sleep(1)
            assert len(nodes.times(peer)) == 1
            nodes.dead.add(peer)
            hear(lost=(instance.name,))
            assert await nodes.until_missed(peer, 5) - nodes.times(peer)[1] <= 5 * CONNECT + 1
            nodes.dead.clear()
            await asyncio.sleep(10)
            before = len(nodes.times(peer))
            hear(lost=(instance.name,))
            await asyncio.sleep(2)
            assert len(nodes.times(peer)) == before, "it answers, although its peer cannot reach it"
            hear()
            await asyncio.sleep(2)
            hear(lost=(instance.name,))
            await asyncio.sleep(2)
            assert len(nodes.times(peer)) == before + 1, "it was lost once more"

    virtual.run(scenario())


@pytest.mark.parametrize("settings", [{"dead_after": 0}, {"agent_port": 0}, {"diagnose_interval": 0.0}])
def test_nobody_is_asked_quickly_where_silence_means_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, settings: dict[str, Any]
) -> None:
    nodes = Nodes(tmp_path, monkeypatch, **settings)
    nodes.dead.add("node3")

    async def scenario() -> None:
        await nodes.service.agents.ask()
        task = asyncio.ensure_future(nodes.service.suspects.run())
        nodes.service.suspects.wake()
        await asyncio.sleep(30)
        task.cancel()
        assert len(nodes.times("node3")) == 1

    virtual.run(scenario())


def test_a_question_that_was_asked_by_a_process_that_was_suspended_counts_as_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    nodes = Nodes(tmp_path, monkeypatch)

    async def scenario() -> None:
        nodes.slow["node3"] = 3600.0

        async def hung_up(node: clusters.Node, *_: object) -> tuple[int, bytes]:
            await asyncio.sleep(3600)
            raise TimeoutError

        monkeypatch.setattr(agents, "_get", hung_up)
        await nodes.service.agents.ask()
        assert nodes.service.agents.seen == {}

    virtual.run(scenario())


def test_a_spool_that_cannot_be_written_is_reported_and_the_suspect_asked_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    nodes = Nodes(tmp_path, monkeypatch)

    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    async def scenario() -> None:
        async with nodes.at_work():
            await nodes.service.poll.has_polled.wait()
            monkeypatch.setattr(agents, "_write", fail)
            nodes.dead.add("node3")
            await nodes.until_missed("node3", 5)
            assert "No space left" in str(nodes.service.failures.listed())

    virtual.run(scenario())


def test_the_spool_gets_no_note_of_every_question_that_a_suspect_misses(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    nodes = Nodes(tmp_path, monkeypatch, nodes=4)
    written: list[str] = []
    monkeypatch.setattr(agents, "_write", lambda _folder, files: written.extend(files))
    nodes.dead.add("node3")

    async def scenario() -> None:
        async with nodes.at_work():
            await nodes.until_missed("node3", agents.NOTED)
            assert sum(name.endswith(".unreachable") for name in written) == 1
            await nodes.until_missed("node3", agents.NOTED + 2)
            assert sum(name.endswith(".unreachable") for name in written) == 2

    virtual.run(scenario())
