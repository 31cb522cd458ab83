from __future__ import annotations

import asyncio
import dataclasses
import json
from typing import TYPE_CHECKING

from ansible_collections.roundsman.cluster.plugins.plugin_utils.cluster import changes, roles

from tests.unit.daemon import twins

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


def test_a_poll_asks_every_reachable_node_with_the_configured_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario() -> None:
        lab = twins.lab(tmp_path, diagnose_command="lab-diagnose")
        running, twin = twins.assemble(lab, monkeypatch)
        cluster = running.configuration.current
        offline, dark = cluster.node("node2"), cluster.node("node3")
        await running.configuration.commit(
            lambda head: [
                *roles.change(head, offline, offline=True),
                changes.NodePowered(dark.uuid, powered=False),
            ]
        )
        await running.poll.once()
        (spec,) = twin.specs.values()
        hosts = set(json.loads(spec.inventory)["all"]["hosts"])
        assert hosts == {"localhost", "node1", "node4"}
        assert spec.variables == {"diagnose_command": "lab-diagnose"}
        assert spec.playbook.name == "diagnose.yml"
        assert spec.playbook.exists()

    asyncio.run(scenario())


def test_polls_come_one_after_the_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario() -> None:
        lab = twins.lab(tmp_path, diagnose_interval=0.001)
        running, twin = twins.assemble(lab, monkeypatch, outcomes={"diagnose": "held"})
        work = asyncio.get_running_loop().create_task(running.poll.run())
        for _ in range(3):
            (run,) = await twins.until_held(twin)
            twin.finish(run)
        await twins.until_held(twin)
        work.cancel()
        assert len(twin.ran) == 4
        assert twin.most_at_once == 1

    asyncio.run(scenario())


def test_an_interval_of_zero_asks_nobody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario() -> None:
        lab = twins.lab(tmp_path, diagnose_interval=0.0)
        running, twin = twins.assemble(lab, monkeypatch)
        work = asyncio.get_running_loop().create_task(running.poll.run())
        for _ in range(5):
            await asyncio.sleep(0)
        work.cancel()
        assert twin.ran == []

    asyncio.run(scenario())


def test_a_poll_that_fails_says_so_until_one_succeeds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario() -> None:
        running, twin = twins.assemble(twins.lab(tmp_path), monkeypatch, outcomes={"diagnose": "error"})
        await running.poll.once()
        assert running.poll.problem
        twin.outcomes["diagnose"] = "success"
        await running.poll.once()
        assert not running.poll.problem

    asyncio.run(scenario())


def test_a_node_whose_host_variables_others_could_write_is_not_polled_and_the_reason_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario() -> None:
        lab = twins.lab(tmp_path)
        running, twin = twins.assemble(lab, monkeypatch)
        file = running.where.host_vars / "node2.json"
        file.chmod(0o666)
        await running.poll.once()
        (spec,) = twin.specs.values()
        assert set(json.loads(spec.inventory)["all"]["hosts"]) == {"localhost", "node1", "node3", "node4"}
        assert running.poll.problem.startswith(f"{file} has the mode 0666, so others than its owner can write it")

    asyncio.run(scenario())


def test_a_node_whose_address_would_be_an_option_of_ssh_is_not_polled_and_the_reason_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario() -> None:
        lab = twins.lab(tmp_path)
        running, twin = twins.assemble(lab, monkeypatch)
        current = running.configuration.current
        node = dataclasses.replace(current.node("node2"), primary_ip="-oProxyCommand=id")
        odd = dataclasses.replace(current, nodes={**current.nodes, node.uuid: node})
        monkeypatch.setattr(type(running.configuration), "current", odd)
        await running.poll.once()
        (spec,) = twin.specs.values()
        assert set(json.loads(spec.inventory)["all"]["hosts"]) == {"localhost", "node1", "node3", "node4"}
        assert "ssh would take its primary_ip '-oProxyCommand=id' for an option" in running.poll.problem

    asyncio.run(scenario())
