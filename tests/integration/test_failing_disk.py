"""A disk whose n-th fsync fails, through a script of writes: what was acknowledged is there after a restart.

The daemon is a whole service in this process, without the processes of opcodes. After the failure, and the end of the
daemon that follows an unknown state, the next one is assembled on the same folder.
"""

from __future__ import annotations

import asyncio
import errno
import itertools
import os
import shutil
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import httpx
import pytest
from ansible_collections.roundsman.cluster.daemon import app as apps
from ansible_collections.roundsman.cluster.daemon.api.asking import Door
from ansible_collections.roundsman.cluster.daemon.maintenance import rewriting
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.values import tree
from ansible_collections.roundsman.cluster.plugins.plugin_utils import durable_files, unsynced
from ansible_collections.roundsman.cluster.plugins.plugin_utils.config import store

from tests.unit.daemon import twins
from tests.unit.daemon.api.reached import livelock

if TYPE_CHECKING:
    from pathlib import Path

    from ansible_collections.roundsman.cluster.daemon import service
    from ansible_collections.roundsman.cluster.daemon.lab import world
    from fastapi import FastAPI

MOST = 40
"""The script makes at least so many fsyncs that can fail."""
TAGS = ("one", "two", "three", "four")


class Disk:
    """`os.fsync`: the n-th call from now on fails with an error; which inodes were synchronised, and which failed."""

    def __init__(self, number: int = 0, code: int = 0) -> None:
        self.number, self.code = number, code
        self.calls = 0
        self.kept: set[int] = set()
        self.lost: set[int] = set()

    def __call__(self, descriptor: int) -> None:
        self.calls += 1
        inode = os.fstat(descriptor).st_ino
        if self.calls == self.number:
            self.lost.add(inode)
            raise OSError(self.code, os.strerror(self.code))
        # Of an inode that failed before, the kernel has nothing left to write: it reports success.
        if inode not in self.lost:
            self.kept.add(inode)


class Current:
    """The service that is at work: the resources are made once, for to make them takes longer than all else here."""

    def __init__(self) -> None:
        self.running: service.Service | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self.__dict__["running"], name)


@dataclass
class Told:
    """What the daemon said of each write: acknowledged, refused, or unknown."""

    acknowledged: set[str] = field(default_factory=set)
    refused: set[str] = field(default_factory=set)
    unknown: set[str] = field(default_factory=set)

    def sort(self, name: str, answer: httpx.Response) -> None:
        if answer.is_success:
            self.acknowledged.add(name)
        elif answer.status_code == 507:
            assert "kept" in answer.json()["detail"] or "no job was submitted" in answer.json()["detail"]
            self.refused.add(name)
        else:
            assert answer.status_code == 500, answer.text
            assert "unknown" in answer.json()["detail"], answer.text
            self.unknown.add(name)


async def write(running: service.Service, app: FastAPI, told: Told) -> None:
    """The script: tags by jobs, maintenance, a hold and a record, the queue; whatever is answered, the next follows."""
    transport = httpx.ASGITransport(app=app, client=(str(os.geteuid()), 1))
    async with httpx.AsyncClient(transport=transport, base_url="http://daemon", timeout=60) as client:

        async def put(name: str, path: str, body: Any = None, *, method: str = "PUT") -> httpx.Response:
            answer = await client.request(method, path, json=body)
            told.sort(name, answer)
            return answer

        for tag in TAGS:
            answer = await put(f"job {tag}", f"/2/nodes/node2/tags?tag={tag}")
            if answer.is_success:
                await job_ends(running, answer.json())
        await put("pause", "/2/pause", {"reason": "why"})
        await put("drain", "/2/queue/drained", {"drained": True})
        play = {"owner": "play-1", "livelock": "play-1"}
        node = running.configuration.current.node("node2").uuid
        held = await put("hold", "/2/hold", {**play, "wants": {f"node/{node}": "exclusive"}}, method="POST")
        change = {"change": "node_powered", "node": node, "powered": False}
        if held.is_success:
            await put("record", "/2/record", {**play, "changes": [change]}, method="POST")


async def job_ends(running: service.Service, number: int) -> None:
    """Wait until a job has ended, or the daemon would."""
    ended = asyncio.create_task(running.queue.wait(number, seconds=twins.LIMIT))
    defect = asyncio.create_task(running.failures.until_defect())
    await asyncio.wait([ended, defect], return_when=asyncio.FIRST_COMPLETED)
    for task in (ended, defect):
        task.cancel()
    await asyncio.gather(ended, defect, return_exceptions=True)


def run(lab: world.Lab, resources: tuple[Current, FastAPI], disk: Disk, monkeypatch: pytest.MonkeyPatch) -> Told:
    """A daemon that writes what the script wants; returns what it said."""
    current, app = resources
    where, told = tree.Tree(lab.controller), Told()
    monkeypatch.setattr(durable_files, "_DISK", durable_files.Disk())

    async def story() -> None:
        running, _ = twins.assemble(lab, monkeypatch)
        current.running = running
        durable_files.on_unknown(lambda error: unsynced.note(where, error))
        loop = asyncio.get_running_loop()
        durable_files.on_unknown(lambda error: apps.end_later(loop, running, error))
        running.queue.resume()
        monkeypatch.setattr(os, "fsync", disk)
        with livelock(where, "play-1"):
            await write(running, app, told)
        await running.queue.stop()

    asyncio.run(story())
    monkeypatch.undo()
    return told


def restarted(lab: world.Lab, disk: Disk, monkeypatch: pytest.MonkeyPatch) -> service.Service:
    """The next daemon, before it serves."""
    monkeypatch.setattr(durable_files, "_DISK", durable_files.Disk())
    monkeypatch.setattr(os, "fsync", disk)

    async def story() -> service.Service:
        running, _ = twins.assemble(lab, monkeypatch)
        await rewriting.at_start(
            running.where, configuration=running.configuration, desk=running.desk, read_only=running.read_only
        )
        return running

    return asyncio.run(story())


def there(running: service.Service) -> set[str]:
    """What of the script is true in the next daemon."""
    cluster = running.configuration.current
    assert store.read(running.where.config) == cluster
    tagged = {opcode.params["tags"][0] for job in running.queue.jobs.values() for opcode in job.opcodes}
    found = {f"job {tag}" for tag in tagged}
    ended = {job.opcodes[0].params["tags"][0] for job in running.queue.jobs.values() if job.is_final}
    assert ended <= set(cluster.node("node2").tags), "a job that has ended has left no tag"
    found |= {"pause"} if cluster.maintenance.settings.paused == "why" else set()
    found |= {"drain"} if running.queue.drained else set()
    return found | ({"record"} if not cluster.node("node2").powered else set())


@pytest.fixture(scope="module")
def resources(tmp_path_factory: pytest.TempPathFactory) -> tuple[Current, FastAPI]:
    current: Any = Current()
    with pytest.MonkeyPatch.context() as patched:
        current.running, _ = twins.assemble(twins.lab(tmp_path_factory.mktemp("resources")), patched)
    return current, apps.make_app(current, door=Door.SOCKET)


@pytest.fixture
def original(tmp_path: Path) -> world.Lab:
    return twins.lab(tmp_path / "original")


@pytest.mark.parametrize("code", [errno.EIO, errno.ENOSPC, errno.EDQUOT], ids=errno.errorcode.get)
def test_whichever_fsync_fails_what_is_acknowledged_is_kept_and_what_is_refused_is_not(
    original: world.Lab, resources: tuple[Current, FastAPI], tmp_path: Path, code: int
) -> None:
    outcomes: set[str] = set()
    for number in itertools.count(1):
        folder = tmp_path / "trial"
        shutil.copytree(original.folder, folder, symlinks=True)
        lab, disk = type(original)(folder), Disk(number, code)
        where = tree.Tree(lab.controller)
        with pytest.MonkeyPatch.context() as patched:
            told = run(lab, resources, disk, patched)
        after = Disk()
        after.lost = disk.lost
        is_unknown = bool(unsynced.pending(where))
        with pytest.MonkeyPatch.context() as patched:
            running = restarted(lab, after, patched)
        found = there(running)
        told.acknowledged.discard("hold")
        context = f"fsync {number}: {told}, there: {found}"
        assert told.acknowledged <= found, context
        assert not told.refused & found, context
        assert found <= told.acknowledged | told.unknown, context
        assert is_unknown or not told.unknown, context
        if is_unknown:
            for path in (where.config, where.locks, *where.queue.glob("*/job.json")):
                assert path.stat().st_ino in after.kept, f"{path} was not written again: {context}"
            assert not unsynced.pending(where)
        outcomes |= {"unknown"} if is_unknown else {"refused"} if told.refused else {"kept"}
        shutil.rmtree(folder)
        if disk.calls < number:
            break
    assert number > MOST
    assert outcomes >= ({"unknown"} if code == errno.EIO else {"unknown", "refused", "kept"})
