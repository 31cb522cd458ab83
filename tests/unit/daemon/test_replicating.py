from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from ansible_collections.roundsman.cluster.daemon.jobs import values
from ansible_collections.roundsman.cluster.plugins.plugin_utils import replication

from tests.unit.daemon import twins
from tests.unit.plugins.plugin_utils.test_replication import Twin

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


def test_every_committed_version_job_and_result_leaves_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    replica = Twin()
    monkeypatch.setattr(replication, "NoReplica", lambda: replica)
    running, _ = twins.assemble(twins.lab(tmp_path), monkeypatch)

    async def act() -> None:
        node = running.configuration.current.node("node2").uuid
        power = values.Opcode("power", {"node": node, "command": "on"})
        tag = values.Opcode("tags_set", {"of": "node", "object": node, "tags": ["one"]})
        first, second = await running.queue.submit([twins.job(0, power), twins.job(0, tag)])
        for one in (first, second):
            await running.queue.wait(one.id, seconds=twins.LIMIT)
        lib = running.where.lib
        kept = ["config.data", "queue/1/0/result.json", "queue/1/job.json", "queue/2/job.json"]
        assert sorted(replica.files) == kept
        assert replica.files == {path: (lib / path).read_bytes() for path in kept}

        running.queue.archive(2)
        assert "queue/2/job.json" not in replica.files
        assert replica.files["queue/archive/0/2/job.json"] == (lib / "queue/archive/0/2/job.json").read_bytes()

    asyncio.run(act())
