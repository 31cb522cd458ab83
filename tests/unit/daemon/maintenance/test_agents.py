from __future__ import annotations

import asyncio
import json
import threading
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from ansible_collections.roundsman.cluster.daemon.api import explanations, views
from ansible_collections.roundsman.cluster.daemon.maintenance import agents
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.agent import collected, reports
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.values import errors
from ansible_collections.roundsman.cluster.plugins.plugin_utils.cluster import changes, membership, roles
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.daemon import twins
from tests.unit.daemon.maintenance import node_agents
from tests.unit.plugins.module_utils.monitoring import nodes

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from ansible_collections.roundsman.cluster.daemon import service

EVACUATE = '{"status": "evacuate", "details": {"disk": "sdb"}}'
NAMES = ("node1", "node2", "node3", "node4")


@pytest.fixture
def running(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> service.Service:
    return twins.assemble(twins.lab(tmp_path), monkeypatch)[0]


def uuid(running: service.Service, name: str) -> str:
    return running.configuration.current.node(name).uuid


def test_what_agents_have_signed_is_accepted_as_any_report(running: service.Service) -> None:
    async def scenario() -> None:
        lab = twins.lab_of(running)
        async with node_agents.answering(running) as answers:
            for name in NAMES:
                answers.diagnose(name, node_agents.ok(lab, running, name))
            answers.diagnose("node3", node_agents.ok(lab, running, "node3", EVACUATE))
            await running.poll.once()
        assert await running.intake.take_all()
        said = {one: found.status.value for one, found in running.intake.observed().items()}
        assert said == {uuid(running, name): "evacuate" if name == "node3" else "Ok" for name in NAMES}
        assert running.agents.silences() == ({}, 4)

    asyncio.run(scenario())


def test_the_report_of_a_real_agent_becomes_an_incident(running: service.Service) -> None:
    lab = twins.lab_of(running)
    lab.node("node1").say(EVACUATE)
    node = nodes.Node.of_lab(lab.node("node1").root)
    with nodes.running(node, host="127.88.0.1", diagnose_command="lab-diagnose") as agent:
        published = node.reports / "node/diagnose"
        while not published.exists():
            time.sleep(0.02)

        async def scenario() -> None:
            await node_agents.poll_agents(running, agent.port)
            await running.poll.once()
            await running.rounds.step()

        asyncio.run(scenario())
    (incident,) = running.configuration.current.maintenance.incidents
    assert (incident.node, incident.action.value) == (uuid(running, "node1"), "evacuate")
    assert set(running.agents.silences()[0]) == {uuid(running, name) for name in NAMES[1:]}


@pytest.mark.parametrize("address", ["192.0.2.1\0", "a" * 300, ".."])
def test_an_address_or_a_port_that_nothing_can_have_is_the_trouble_of_that_node(
    running: service.Service, address: str
) -> None:
    async def scenario() -> None:
        async with node_agents.answering(running) as answers:
            answers.diagnose("node1", node_agents.ok(twins.lab_of(running), running, "node1"))
            odd = replace(running.configuration.current.node("node2"), name="../node2/" + "x" * 300, primary_ip=address)
            await running.configuration.commit(lambda _: [membership.NodeStands(odd)])
            await running.poll.once()
            assert running.agents.seen[odd.uuid].misses == 1
            assert running.agents.seen[uuid(running, "node1")].misses == 0
        folder = running.where.spool
        assert all(path.parent == folder for path in folder.rglob("*") if path.is_file())

    asyncio.run(scenario())


def test_a_port_that_nothing_can_have_is_silence(running: service.Service) -> None:
    async def scenario() -> None:
        await node_agents.poll_agents(running, 99999999)
        await running.poll.once()
        assert {seen.misses for seen in running.agents.seen.values()} == {1}

    asyncio.run(scenario())


def test_silence_is_counted_and_is_no_health(running: service.Service) -> None:
    async def scenario() -> None:
        lab, quiet = twins.lab_of(running), uuid(running, "node2")
        async with node_agents.answering(running) as answers:
            for name in ("node1", "node3", "node4"):
                answers.diagnose(name, node_agents.ok(lab, running, name))
            await running.poll.once()
            first = running.agents.seen[quiet].since
            await running.poll.once()
            silences, answering = running.agents.silences()
            assert {node: one.misses for node, one in silences.items()} == {quiet: 2}
            assert silences[quiet].since == first > 0
            assert answering == 3
            await running.intake.take_all()
            told = explanations.explain(
                running.configuration.current,
                "node2",
                intake=running.intake,
                queue=running.queue,
                preview=running.rounds.preview(),
            )["node"]
            assert told["agent"]["misses"] == 2
            assert told["unreachable"] is not None
            assert told["health"] is None
            answers.diagnose("node2", node_agents.ok(lab, running, "node2"))
            await running.poll.once()
        assert running.agents.seen[quiet].misses == 0
        assert running.agents.silences()[0] == {}
        await running.intake.take_all()
        assert (
            views.node(running.configuration.current, running.configuration.current.node("node2"), running.intake)[
                "unreachable"
            ]
            is None
        )

    asyncio.run(scenario())


def test_a_node_that_accepts_connections_and_gives_no_answer_is_silent(running: service.Service) -> None:
    async def scenario() -> None:
        node = uuid(running, "node2")
        async with node_agents.answering(running):
            await running.poll.once()
            seen = running.agents.seen[node]
            assert (seen.misses, seen.text) == (1, "it hangs up without an answer")
        await running.poll.once()
        assert running.agents.seen[node].misses == 2

    asyncio.run(scenario())


def test_a_node_that_is_off_is_not_asked_any_more(running: service.Service) -> None:
    async def scenario() -> None:
        node = uuid(running, "node2")
        async with node_agents.answering(running) as answers:
            answers.diagnose("node2", b"", status=500)
            await running.poll.once()
            await running.configuration.commit(lambda _: [changes.NodePowered(node, powered=False)])
            await running.poll.once()
            cluster = running.configuration.current
            assert views.node(cluster, cluster.node("node2"), running.intake)["agent"] is None
            assert node not in running.agents.silences()[0]

    asyncio.run(scenario())


def test_the_same_bytes_are_no_news(running: service.Service) -> None:
    async def scenario() -> None:
        async with node_agents.answering(running) as answers:
            answers.diagnose("node1", node_agents.ok(twins.lab_of(running), running, "node1"))
            await running.poll.once()
            await running.intake.take_all()
            await running.poll.once()
            await running.intake.take_all()
        assert running.intake.rejections == {}
        assert running.agents.seen[uuid(running, "node1")].misses == 0

    asyncio.run(scenario())


def test_answers_that_come_while_others_are_written_share_a_write(
    running: service.Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    writes: list[int] = []
    get, write, all_have_answered = agents._get, agents._write, threading.Event()

    async def counted(*asked: Any) -> tuple[int, bytes]:
        answer = await get(*asked)
        heard.append(answer)
        if len(heard) == len(NAMES):
            all_have_answered.set()
        return answer

    heard: list[tuple[int, bytes]] = []

    def slow(spool: Path, files: Mapping[str, bytes]) -> None:
        assert all_have_answered.wait(twins.LIMIT)
        writes.append(len(files))
        write(spool, files)

    async def scenario() -> None:
        async with node_agents.answering(running) as answers:
            for name in NAMES:
                answers.diagnose(name, node_agents.ok(twins.lab_of(running), running, name))
            await running.poll.once()
        assert await running.intake.take_all()
        assert writes == [1, len(NAMES) - 1]
        assert len(running.intake.observed()) == len(NAMES)

    monkeypatch.setattr(agents, "_get", counted)
    monkeypatch.setattr(agents, "_write", slow)
    asyncio.run(scenario())


def test_a_report_that_could_not_be_written_is_taken_again(
    running: service.Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    async def scenario() -> None:
        async with node_agents.answering(running) as answers:
            answers.diagnose("node1", node_agents.ok(twins.lab_of(running), running, "node1"))
            with monkeypatch.context() as patched:
                patched.setattr(agents, "_write", full)
                with pytest.raises(OSError, match="No space"):
                    await running.poll.once()
            await running.poll.once()
            await running.intake.take_all()
        assert set(running.intake.observed()) == {uuid(running, "node1")}

    asyncio.run(scenario())


def test_an_agent_that_repeats_an_old_report_is_found_out(running: service.Service) -> None:
    async def scenario() -> None:
        async with node_agents.answering(running) as answers:
            node = running.configuration.current.node("node1")
            answers.diagnose("node1", twins.envelope(twins.lab_of(running), node, EVACUATE, age=1000))
            await running.poll.once()
            await running.poll.once()
            await running.intake.take_all()
            seen = running.agents.seen[node.uuid]
        assert (seen.misses, seen.unsigned, seen.answered) == (0, 2, 0.0), "a machine with its address can repeat it"
        assert running.intake.rejections["stale"] == 1
        assert running.intake.observed() == {}

    asyncio.run(scenario())


def test_an_answer_without_a_report_is_told_and_is_no_miss(running: service.Service) -> None:
    async def scenario() -> None:
        async with node_agents.answering(running) as answers:
            answers.diagnose("node1", b"Unable to produce a report for the requested resource", status=404)
            await running.poll.once()
        seen = running.agents.seen[uuid(running, "node1")]
        assert (seen.misses, seen.text) == (0, "it answers with status 404")
        assert not list(running.where.spool.glob("node1-*"))

    asyncio.run(scenario())


def test_an_endless_answer_is_cut_and_rejected(running: service.Service) -> None:
    async def scenario() -> None:
        async with node_agents.answering(running) as answers:
            answers.diagnose("node1", b"x" * (reports.LIMIT + 1000))
            await running.poll.once()
            await running.intake.take_all()
        assert running.intake.rejections == {"oversized": 1}

    asyncio.run(scenario())


def test_who_does_not_answer_in_time_is_a_miss(running: service.Service, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(agents, "ANSWER_SECONDS", 0.05)

    async def scenario() -> None:
        async with node_agents.answering(running) as answers:
            answers.held = asyncio.Event()
            await running.poll.once()
            answers.held.set()
        assert [one.misses for one in running.agents.seen.values()] == [1, 1, 1, 1]
        assert running.agents.silences()[1] == 0

    asyncio.run(scenario())


def test_only_so_many_are_asked_at_once(running: service.Service, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(agents, "AT_ONCE", 2)

    async def scenario() -> None:
        async with node_agents.answering(running) as answers:
            answers.held = asyncio.Event()
            asking = asyncio.get_running_loop().create_task(running.poll.once())
            await asyncio.wait_for(answers.two_at_once.wait(), twins.LIMIT)
            answers.held.set()
            await asking
        assert answers.most_at_once == 2
        assert answers.asked.total() == 4

    asyncio.run(scenario())


def test_nodes_that_are_not_reachable_are_not_asked_and_forgotten(running: service.Service) -> None:
    async def scenario() -> None:
        async with node_agents.answering(running) as answers:
            await running.poll.once()
            assert len(running.agents.seen) == 4
            gone, dark = (running.configuration.current.node(name) for name in ("node2", "node3"))
            await running.configuration.commit(
                lambda head: [*roles.change(head, gone, offline=True), changes.NodePowered(dark.uuid, powered=False)]
            )
            await running.poll.once()
            assert {one.split()[0] for one, times in answers.asked.items() if times == 1} == {"node2", "node3"}
        assert set(running.agents.seen) == {uuid(running, "node1"), uuid(running, "node4")}

    asyncio.run(scenario())


def test_without_a_port_a_playbook_asks_and_agents_are_forgotten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario() -> None:
        running, twin = twins.assemble(twins.lab(tmp_path), monkeypatch)
        async with node_agents.answering(running):
            await running.poll.once()
        assert twin.ran == []
        await node_agents.poll_agents(running, 0)
        await running.poll.once()
        assert [one.split()[0] for one in twin.ran] == ["diagnose"]
        assert running.agents.seen == {}

    asyncio.run(scenario())


def test_loads_are_asked_for_only_where_balancing_uses_them(running: service.Service) -> None:
    async def scenario() -> None:
        lab = twins.lab_of(running)
        async with node_agents.answering(running) as answers:
            for name in NAMES:
                answers.diagnose(name, node_agents.ok(lab, running, name))
                answers.load(name, node_agents.load(lab, running, name, 1.5))
            answers.load("node4", node_agents.load(lab, running, "node4", 1.5, key=b"another"))
            await running.poll.once()
            assert not [one for one in answers.asked if "cpu" in one]
            stands = replace(
                running.configuration.current.maintenance.settings, balance=True, balance_dynamic_load=True
            )
            await running.configuration.commit(lambda _: [changes.SettingsStand(stands)])
            await running.poll.once()
        assert running.agents.busy_cpus() == {uuid(running, name): 1.5 for name in NAMES[:3]}

    asyncio.run(scenario())


def test_a_node_cannot_claim_more_busy_cpus_than_it_has_on_record(running: service.Service) -> None:
    async def scenario() -> None:
        lab = twins.lab_of(running)
        total = running.configuration.current.node("node1").ctotal
        async with node_agents.answering(running, balance=True, balance_dynamic_load=True) as answers:
            for name, claim in (("node1", total + 8), ("node2", total)):
                answers.diagnose(name, node_agents.ok(lab, running, name))
                answers.load(name, node_agents.load(lab, running, name, claim))
            await running.poll.once()
        assert running.agents.busy_cpus() == {uuid(running, "node2"): total}
        seen = running.agents.seen[uuid(running, "node1")]
        assert (seen.load, f"ctotal on record is {total}" in seen.text) == (None, True)

    asyncio.run(scenario())


@pytest.mark.parametrize("step", [3600.0, -3600.0, 86400.0, -86400.0])
def test_a_step_of_the_clock_makes_no_load_older_or_younger(
    running: service.Service, monkeypatch: pytest.MonkeyPatch, step: float
) -> None:
    async def scenario() -> None:
        lab = twins.lab_of(running)
        async with node_agents.answering(running, balance=True, balance_dynamic_load=True) as answers:
            answers.diagnose("node1", node_agents.ok(lab, running, "node1"))
            answers.load("node1", node_agents.load(lab, running, "node1", 1.5))
            await running.poll.once()
        monkeypatch.setattr(running.agents, "_clock", lambda: time.time() + step)
        assert set(running.agents.busy_cpus()) == {uuid(running, "node1")}
        later = time.monotonic() + 86400
        monkeypatch.setattr(running.agents, "_monotonic", lambda: later)
        assert running.agents.busy_cpus() == {}

    asyncio.run(scenario())


def test_an_answer_that_is_not_http_is_told_and_is_no_silence(running: service.Service) -> None:
    async def scenario() -> None:
        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readuntil(b"\r\n\r\n")
            writer.write(b"SSH-2.0-OpenSSH_9.2p1\r\n")
            writer.close()

        async with await asyncio.start_server(serve, "0.0.0.0", 0) as server:
            await node_agents.poll_agents(running, server.sockets[0].getsockname()[1])
            await running.poll.once()
        assert {(one.misses, one.text) for one in running.agents.seen.values()} == {(0, "not an HTTP response")}

    asyncio.run(scenario())


def test_a_name_that_can_be_no_hosts_is_a_miss(running: service.Service) -> None:
    async def scenario() -> None:
        await node_agents.poll_agents(running, 1)
        node = running.configuration.current.node("node1")
        stands = membership.NodeStands(replace(node, primary_ip="", name="x" * 80))
        await running.configuration.commit(lambda _: [stands])
        await running.poll.once()
        assert running.agents.seen[node.uuid].misses == 1

    asyncio.run(scenario())


def test_an_agent_is_asked_over_ipv6(running: service.Service) -> None:
    async def scenario() -> None:
        hosts = []

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            hosts.append((await reader.readuntil(b"\r\n\r\n")).split(b"\r\n")[1])
            writer.write(b"HTTP/1.1 404 Not Found\r\n\r\n")
            writer.close()

        async with await asyncio.start_server(serve, "::1", 0) as server:
            port = server.sockets[0].getsockname()[1]
            await node_agents.poll_agents(running, port)
            six = [
                membership.NodeStands(replace(one, primary_ip="::1"))
                for one in running.configuration.current.nodes.values()
            ]
            await running.configuration.commit(lambda _: six)
            await running.poll.once()
        assert hosts == [b"Host: [::1]:%d" % port] * 4
        assert {seen.text for seen in running.agents.seen.values()} == {"it answers with status 404"}

    asyncio.run(scenario())


@given(
    st.none()
    | st.sampled_from(['{"cpu_total": NaN}', "[]", "{}", '{"cpu_total": true}', '{"cpu_total": -1}'])
    | st.text(max_size=20).map(json.dumps)
    | st.floats(allow_nan=False, allow_infinity=False).map(lambda number: f'{{"cpu_total": {number!r}}}')
)
def test_whatever_a_load_is_it_is_a_sane_number_or_refused(data: str | None) -> None:
    said = collected.Collected("u", 1, data, None if data is not None else collected.Problem("early", "one reading"))
    try:
        found = agents.cpus_of(said, recorded=4)
    except errors.Refused:
        return
    assert 0 <= found <= 4


def test_a_node_that_answers_and_is_diagnosed_every_ten_minutes_is_not_silent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`diagnose_interval` 600 is allowed; an agent publishes so often, signed at that time, and is asked so often."""
    lab = twins.lab(tmp_path, agent_port=1815, dead_after=5, diagnose_interval=600)
    running, _ = twins.assemble(lab, monkeypatch)

    async def scenario() -> None:
        node = running.configuration.current.node("node2")
        body = twins.envelope(lab, node, '{"status": "Ok"}')
        ago = running.agents._clock
        monkeypatch.setattr(running.agents, "_clock", lambda: ago() + 400.0)
        await running.agents.take(node, body)
        assert not running.agents.seen[node.uuid].is_silent, running.agents.seen[node.uuid].text

    asyncio.run(scenario())


def test_what_is_silent_for_a_fence_is_no_target_either(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Intake.is_silent still counts misses alone: `refuse_silent`, targets of rounds, confirm-off."""
    lab = twins.lab(tmp_path, agent_port=1815, dead_after=5)
    running, _ = twins.assemble(lab, monkeypatch)
    node = running.configuration.current.node("node3")
    running.agents.seen[node.uuid] = agents.Seen(unsigned=50, since=time.time() - 500.0)
    assert running.agents.seen[node.uuid].is_silent
    assert running.intake.is_silent(node.uuid)
