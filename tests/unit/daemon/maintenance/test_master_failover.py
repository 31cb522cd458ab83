"""Which node becomes the master, and what a failover does where no node votes."""

from __future__ import annotations

import asyncio
import dataclasses
import re
from typing import TYPE_CHECKING, Any

import pytest
from ansible_collections.roundsman.cluster.daemon.maintenance import electorate, master_failover
from ansible_collections.roundsman.cluster.daemon.maintenance.leading import Step
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.agent.epochs import Epoch, Kept
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.values import errors
from ansible_collections.roundsman.cluster.plugins.plugin_utils.cluster import changes, known_off, membership
from ansible_collections.roundsman.cluster.plugins.plugin_utils.config import store

from tests.unit.daemon import twins
from tests.unit.daemon.maintenance import voters

if TYPE_CHECKING:
    from pathlib import Path

    from ansible_collections.roundsman.cluster.daemon import service


@pytest.fixture
def running(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> service.Service:
    monkeypatch.setattr(electorate, "DEADLINE", 0.5)
    return twins.assemble(twins.lab(tmp_path, nodes=3, instances=1), monkeypatch)[0]


@pytest.mark.parametrize(
    ("name", "fields", "text"),
    [
        ("node1", {}, "node1 is the master already"),
        ("node2", {"offline": True}, "node2 is offline: choose another node"),
        ("node2", {"drained": True, "master_capable": False}, "node2 is drained and not master_capable: choose"),
        ("node2", {"primary_ip": "192.0.2.77"}, "this machine is not node2: run the command there"),
        ("node9", {}, "node9"),
    ],
)
def test_a_node_that_cannot_be_the_master_here_is_refused(
    running: service.Service, name: str, fields: dict[str, Any], text: str
) -> None:
    cluster = running.configuration.current
    node = dataclasses.replace(cluster.node("node2"), **fields)
    changed = changes.apply_all(cluster, [membership.NodeStands(node)], now=1.0)

    with pytest.raises((errors.Refused, errors.NotFound), match=text):
        master_failover.candidate(changed, name)


def test_without_votes_a_person_states_that_the_old_master_is_off(running: service.Service) -> None:
    async def run(*, is_stated_off: bool, dry_run: bool = False) -> tuple[Step, list[str]]:
        return await master_failover.run(
            running.where, "node2", is_restored=False, is_stated_off=is_stated_off, dry_run=dry_run
        )

    before = store.read(running.where.config)
    with pytest.raises(errors.Refused, match=r"no node votes.*`roundsman cluster master-failover NODE --confirm-off`"):
        asyncio.run(run(is_stated_off=False))
    asyncio.run(run(is_stated_off=True, dry_run=True))
    assert store.read(running.where.config) == before

    step, lines = asyncio.run(run(is_stated_off=True))

    assert step is Step.BEGIN
    assert re.fullmatch(r"node2 is the master now in epoch 1 \(.*\), instead of node1", lines[-1])
    after = store.read(running.where.config)
    assert after.node_name(after.cluster.master_node) == "node2"
    assert after.serial_no == before.serial_no + 1


def test_with_votes_the_nodes_follow_the_new_master_before_the_configuration_names_it(
    running: service.Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario() -> None:
        async with voters.voting(running) as nodes:
            before = store.read(running.where.config)

            def full(*_: object) -> None:
                raise errors.StoreFailed("No space left on device")

            async def run() -> tuple[Step, list[str]]:
                return await master_failover.run(
                    running.where, "node2", is_restored=False, is_stated_off=False, dry_run=False
                )

            with monkeypatch.context() as patched:
                patched.setattr(store, "write", full)
                with pytest.raises(errors.StoreFailed, match=r"No space.*the nodes follow node2 already.*again"):
                    await run()
            followed = [nodes.follows(name) for name in nodes.settings]
            node2 = before.node("node2").uuid
            assert sum(kept is not None and kept.master == node2 for kept in followed) >= 2
            assert store.read(running.where.config) == before

            step, lines = await run()

            assert step is Step.BEGIN
            assert lines[-1].startswith("node2 is the master now in epoch 2 (")
            assert store.read(running.where.config).cluster.master_node == node2

    asyncio.run(scenario())


def test_the_new_master_goes_on_above_the_version_that_a_person_states_as_lost(running: service.Service) -> None:
    async def scenario() -> None:
        async with voters.voting(running) as nodes:
            node1 = running.configuration.current.cluster.master_node
            for name in nodes.settings:
                nodes.follow(name, Kept(Epoch(3, "lost"), node1, 500))

            step, _ = await master_failover.run(
                running.where, "node2", is_restored=True, is_stated_off=False, dry_run=False
            )

            assert step is Step.BEGIN
            after = store.read(running.where.config)
            assert (after.node_name(after.cluster.master_node), after.serial_no) == ("node2", 502)

    asyncio.run(scenario())


def test_an_agent_that_takes_no_question_from_here_is_named_with_the_remedy(
    running: service.Service, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        async with voters.voting(running) as nodes:

            async def refuse(name: str, data: bytes) -> tuple[int, bytes]:
                assert name in nodes.settings
                assert data
                return 403, b""

            nodes.answer = refuse  # type: ignore[method-assign]
            step, (line,) = await master_failover.run(
                running.where, "node2", is_restored=False, is_stated_off=False, dry_run=True
            )
            assert step is Step.WAIT
            assert line.startswith("it would wait: 0 of 3 nodes that vote have this one for their master")

    asyncio.run(scenario())
    assert "the agents of 3 nodes (node1, node2, node3) take no question who leads from this machine" in caplog.text


def test_nodes_that_refuse_connections_are_no_reason_to_move_the_role_to_the_one_that_is_left(
    running: service.Service,
) -> None:
    """The new machine does not know who has voted: node2 sees nobody through a firewall that rejects."""

    async def scenario() -> None:
        async with voters.voting(running) as nodes:
            node1 = running.configuration.current.node("node1").uuid
            for name in nodes.settings:
                nodes.follow(name, Kept(Epoch(5, "of-node1"), node1, 1))
            nodes.old |= {"node1", "node3"}

            step, lines = await master_failover.run(
                running.where, "node2", is_restored=True, is_stated_off=False, dry_run=False
            )

            assert step is Step.WAIT, lines
            assert "1 of 3 nodes that vote" in lines[0]
            assert "node1, node3 did not answer" in lines[0]
            assert nodes.follows("node2") == Kept(Epoch(5, "of-node1"), node1, 1)

    asyncio.run(scenario())


def test_a_node_that_is_on_record_as_off_is_on_once_it_is_the_master(running: service.Service) -> None:
    async def scenario() -> None:
        cluster = running.configuration.current
        off = dataclasses.replace(cluster.node("node2"), powered=False, off_since=5.0, off_confirmed=6.0)
        await running.configuration.commit(lambda _: [membership.NodeStands(off)])
        async with voters.voting(running) as nodes:
            step, _ = await master_failover.run(
                running.where, "node2", is_restored=False, is_stated_off=False, dry_run=False
            )
            assert step is Step.BEGIN
            after = store.read(running.where.config)
            assert not known_off.is_off(after.node("node2"))
            assert nodes.follows("node1") is not None

    asyncio.run(scenario())
