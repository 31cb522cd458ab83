from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest
from ansible_collections.roundsman.cluster.plugins.plugin_utils.cluster import changes

from tests.unit.daemon import twins
from tests.unit.daemon.maintenance.test_replicas import Pair

from .running import Controller

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def controller(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Controller:
    return Controller(tmp_path, monkeypatch)


@pytest.fixture(name="pair")
def fixture_pair(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Pair:
    """Two nodes that report in sync, of which the primary is off."""

    async def scenario() -> Pair:
        pair = Pair(twins.lab(tmp_path, pairs=[("node2", "node3"), ("node3", "node4")]), monkeypatch)
        await pair.hear("node2")
        await pair.hear("node3")
        off = changes.NodePowered(pair.uuid("node2"), powered=False)
        await pair.service.configuration.commit(lambda _: [off])
        return pair

    return asyncio.run(scenario())
