"""Questions over SSH: what is left of a run, and what does not count."""

from __future__ import annotations

import asyncio
import os
import subprocess
from typing import TYPE_CHECKING

import pytest
from ansible_collections.roundsman.cluster.daemon.maintenance.ssh_votes import SshVotes
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.agent import votes
from ansible_collections.roundsman.cluster.plugins.plugin_utils import run_group

from tests.unit.daemon import twins

if TYPE_CHECKING:
    from pathlib import Path

    from ansible_collections.roundsman.cluster.daemon.jobs import process


class Hanging:
    """The twin of `Processes` of which each run is a process that hangs."""

    def __init__(self) -> None:
        self.children: list[subprocess.Popen[bytes]] = []
        self.started = asyncio.Event()

    def start(self, run: Path, _: process.Spec) -> None:
        run.mkdir()
        environment = {**os.environ, run_group.RUN_VARIABLE: str(run)}
        self.children.append(subprocess.Popen(["sleep", "300"], env=environment, start_new_session=True))
        self.started.set()

    async def ended(self, _: Path) -> None:
        await asyncio.sleep(300)


def test_a_question_that_is_canceled_leaves_no_process_that_offers_an_epoch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    running = twins.assemble(twins.lab(tmp_path, nodes=2, instances=0), monkeypatch)[0]
    cluster = running.configuration.current

    async def scenario() -> int | None:
        hanging = Hanging()
        environment = {"ROUNDSMAN_ROOT": str(running.where.root)}
        ask = SshVotes(hanging, folder=running.where.lib, environment=environment)  # type: ignore[arg-type]  # a twin
        asking = asyncio.create_task(
            ask(cluster, list(cluster.nodes.values()), lambda uuid: votes.Question(uuid, "nonce"))
        )
        await hanging.started.wait()
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        (child,) = hanging.children
        try:
            return child.wait(5)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()
            return None

    assert asyncio.run(scenario()) == -9
    assert not (running.where.lib / "leader").exists()
