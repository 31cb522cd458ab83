"""A crash between the commit of an opcode inside the daemon and its end: what is committed reads as success."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest
from ansible_collections.roundsman.cluster.daemon.jobs import book, values
from ansible_collections.roundsman.cluster.plugins.plugin_utils.cluster import tagging
from ansible_collections.roundsman.cluster.plugins.plugin_utils.config import store

from tests.unit.daemon import twins

if TYPE_CHECKING:
    from pathlib import Path

    from ansible_collections.roundsman.cluster.daemon import service

GROUP = "6f1c1e0c-0000-4000-8000-00000000000a"


class CrashError(Exception):
    """The daemon ends here."""


def crash(*_: object, **__: object) -> None:
    raise CrashError


async def prepared(running: service.Service, kind: str) -> values.Opcode:
    """The opcode, with what it removes in the configuration."""
    node = running.configuration.current.node("node4").uuid
    if kind == "group_remove":
        (job,) = await running.queue.submit(
            [twins.job(0, values.Opcode("group_add", {"uuid": GROUP, "fields": {"name": "g2"}}))]
        )
        await running.queue.wait(job.id, seconds=twins.LIMIT)
        return values.Opcode(kind, {"group": GROUP})
    if kind == "tags_del":
        await running.configuration.commit(lambda _: [tagging.Tagged("node", node, "x", present=True)])
        return values.Opcode(kind, {"of": "node", "object": node, "tags": ["x"]})
    return values.Opcode(kind, {"node": node})


@pytest.mark.parametrize("kind", ["group_remove", "node_remove", "tags_del"])
@pytest.mark.parametrize("moment", ["before the commit", "after the commit"])
def test_a_removal_reads_as_success_after_a_crash(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, moment: str
) -> None:
    lab = twins.lab(tmp_path, pairs=[("node2", "node3")])

    async def first() -> int:
        running, _ = twins.assemble(lab, monkeypatch)
        opcode = await prepared(running, kind)
        before = store.read(running.where.config)
        with monkeypatch.context() as patched:
            if moment == "after the commit":
                patched.setattr(book.Book, "end", crash)
            else:
                patched.setattr(running.configuration, "commit", crash)
            (job,) = await running.queue.submit([twins.job(0, opcode)])
            async with asyncio.timeout(twins.LIMIT):
                while not running.failures.listed():
                    await running.news.after(running.news.number, seconds=twins.LIMIT)
        assert (store.read(running.where.config) == before) is (moment == "before the commit")
        return job.id

    async def second(number: int) -> None:
        running, _ = twins.assemble(lab, monkeypatch)
        running.queue.resume()
        await twins.jobs_end(running)
        job = running.queue.jobs[number]
        assert (job.status, job.opcodes[0].status) == (values.Status.SUCCESS, values.Status.SUCCESS), job.text
        cluster = store.read(running.where.config)
        assert GROUP not in cluster.nodegroups
        nodes = {node.name for node in cluster.nodes.values()}
        assert ("node4" in nodes) is (kind != "node_remove")
        # The same again is somebody's mistake, and refused as before.
        (again,) = await running.queue.submit([twins.job(0, job.opcodes[0].__class__(kind, job.opcodes[0].params))])
        await running.queue.wait(again.id, seconds=twins.LIMIT)
        assert running.queue.jobs[again.id].status is values.Status.ERROR

    number = asyncio.run(first())
    asyncio.run(second(number))
