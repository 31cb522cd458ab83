"""The one place of this trace that calls the product and the tests' twins.

It calls: `twins.lab`, `twins.assemble`, `twins.report` (a service on a lab's folder whose opcodes a twin runs), the
service's `rounds.step` and `dead.step` with its queue's `stop`, `config.document` and `config.store` (a configuration
as a JSON document), `app.make_app` with its doors, and the programs' parsers in `programs.py` beside this file.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import httpx
import pytest
from ansible_collections.roundsman.cluster.daemon import app as apps
from ansible_collections.roundsman.cluster.daemon.api.asking import Door
from ansible_collections.roundsman.cluster.daemon.jobs import process
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.values import tree
from ansible_collections.roundsman.cluster.plugins.plugin_utils.config import document, store
from ansible_collections.roundsman.cluster.plugins.plugin_utils.silent_nodes import dead_nodes

from tests.golden.faces_parts import text
from tests.unit.daemon import twins

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
    from pathlib import Path

NOW = 1_900_000_000.0
"""The unix time at which every state is frozen (in March 2030)."""
ROOT, ADMINISTRATOR = "0", "4242424"
"""The uids of root on the controller and of an administrator without an account."""
DOORS = {"socket": Door.SOCKET, "remote": Door.REMOTE, "public": Door.PUBLIC}
SECONDS = 60.0
PAUSE = 0.01
"""Seconds between two looks at jobs."""


@dataclass(frozen=True)
class Answer:
    """A status, a content type, and the body as text."""

    status: int
    kind: str
    body: str
    allow: str = ""


class Clock:
    """The unix time of everything in a recording; each reading in ns is another, for files are named by it."""

    def __init__(self) -> None:
        self.now = NOW - 3600.0
        self._readings = 0

    def time(self) -> float:
        """In seconds."""
        return self.now

    def time_ns(self) -> int:
        """In ns."""
        self._readings += 1
        return int(self.now * 1e9) + self._readings


@contextlib.contextmanager
def frozen() -> Iterator[tuple[pytest.MonkeyPatch, Clock]]:
    """Without the machine's own time, time zone, environment and random UUIDs."""
    clock, numbers = Clock(), iter(range(1, 1 << 32))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TZ", "UTC")
        time.tzset()
        patch.setattr(time, "time", clock.time)
        patch.setattr(time, "time_ns", clock.time_ns)
        patch.setattr(uuid, "uuid4", lambda: uuid.UUID(int=next(numbers) << 96 | 4 << 76 | 8 << 60))
        yield patch, clock
    time.tzset()


class Daemon:
    """A whole service without processes and network, and what is asked of it."""

    def __init__(self, lab: Any, service: Any, twin: twins.Processes, patch: pytest.MonkeyPatch, clock: Clock) -> None:
        self._lab, self._service, self._twin, self._patch = lab, service, twin, patch
        self.clock = clock
        self.names = text.Names(str(lab.folder))
        self._apps = {name: apps.make_app(service, door=door) for name, door in DOORS.items()}
        self._clients: dict[tuple[str, str], httpx.AsyncClient] = {}

    @property
    def root(self) -> Path:
        """The controller's root folder."""
        root: Path = self._lab.controller
        return root

    async def ask(
        self, method: str, path: str, body: Any = None, *, door: str = "socket", uid: str = ROOT, content: bytes = b""
    ) -> Answer:
        """Make a request through a door, as a user of the controller or as `ann` of the remote API."""
        if (door, uid) not in self._clients:
            peer = ("192.0.2.7", 40000) if door == "public" else (uid, 4321)
            transport = httpx.ASGITransport(app=self._apps[door], client=peer, raise_app_exceptions=False)
            self._clients[door, uid] = httpx.AsyncClient(transport=transport, base_url="http://daemon")
        data = content or (b"" if body is None else json.dumps(body).encode())
        headers = {"Content-Type": "application/json"} if data else {}
        headers |= {"X-Roundsman-User": "ann"} if door == "remote" else {}
        found = await self._clients[door, uid].request(method, path, content=data or None, headers=headers)
        kind = found.headers.get("content-type", "")
        return Answer(found.status_code, kind, found.text, found.headers.get("allow", ""))

    async def value(self, path: str) -> Any:
        """What a resource answers at the local socket."""
        found = await self.ask("GET", path)
        assert found.status == 200, f"{path}: {found}"
        return json.loads(found.body)

    async def change(self, method: str, path: str, body: Any = None) -> Any:
        """Have something done that makes a state what it is."""
        found = await self.ask(method, path, body)
        assert found.status < 300, f"{method} {path}: {found}"
        return json.loads(found.body)

    def report(self, node: str, said: str = "", **options: Any) -> None:
        """Have a node report; `facts_lost` are the instances whose replicas there have lost their peer."""
        lost = options.pop("facts_lost", None)
        if lost is not None:
            cluster = self._service.configuration.current
            options["facts"] = twins.replica_facts(cluster, cluster.node(node), lost=lost)
        twins.report(self._lab, self._service, node, said, **options)

    def spool(self, name: str, content: str) -> None:
        """Put a file into the spool that is not a twin's report."""
        (self.root / "var/lib/roundsman/spool" / name).write_text(content)

    async def silence(self, node: str, *, misses: int, since: float) -> None:
        """Have a node miss polls while five others answer, and let the daemon judge that."""
        missed = {self._service.configuration.current.node(node).uuid: dead_nodes.Silence(misses, since)}
        self._patch.setattr(self._service.dead, "_silences", lambda: (missed, 5))
        answering = self._service.configuration.current.nodes.keys() - missed.keys()
        self._patch.setattr(self._service.agents, "answering", lambda: {*answering})
        await self._service.dead.step()

    def fail(self, kind: str) -> None:
        """Have runs of a kind of opcode end in an error from now on, so that they change nothing."""
        self._twin.outcomes[kind] = "error"

    async def rounds(self) -> None:
        """Let maintenance do what there is to do, without waiting for jobs."""
        while await self._service.rounds.step():
            pass

    async def reach(self, wanted: Mapping[int, str]) -> None:
        """Wait until jobs have these statuses, by their numbers."""
        end = time.monotonic() + SECONDS
        while (found := await self.statuses()) != dict(wanted):
            assert time.monotonic() < end, f"the jobs are {found}, not {wanted}"
            await asyncio.sleep(PAUSE)

    async def reach_running(self, number: int) -> None:
        """Wait until a job runs: it waits for the disk before."""
        end = time.monotonic() + SECONDS
        while (found := (await self.statuses())[number]) != "running":
            assert time.monotonic() < end, f"job {number} is {found}"
            await asyncio.sleep(PAUSE)

    async def settled(self, number: int) -> dict[str, Any]:
        """A job that has ended, waits for locks that others hold, or is held by a filter."""
        end = time.monotonic() + SECONDS
        while not await self._is_still(number):
            assert time.monotonic() < end, f"job {number} neither ends nor waits: {await self.statuses()}"
            await asyncio.sleep(PAUSE)
        found: dict[str, Any] = await self.value(f"/2/jobs/{number}")
        return found

    async def statuses(self) -> dict[int, str]:
        """The statuses of the jobs in the queue."""
        return {job["id"]: job["status"] for job in await self.value("/2/jobs?bulk=1")}

    async def _is_still(self, number: int) -> bool:
        status = (await self.value(f"/2/jobs/{number}"))["status"]
        if status == "waiting":
            owners = {entry["owner"] for row in await self.value("/2/locks") for entry in row["waiting"]}
            return any(str(number) in owner.split() for owner in owners)
        return status in {"success", "error", "canceled"} or number in self._service.queue._scheduler.held

    def routes(self) -> set[tuple[str, str]]:
        """The methods and path templates that there are behind any door, as the applications document them."""
        return {
            (method.upper(), path)
            for app in self._apps.values()
            for path, methods in app.openapi()["paths"].items()
            for method in methods
        }


@contextlib.asynccontextmanager
async def running(
    folder: Path,
    pairs: Sequence[tuple[str, str]],
    edit: Callable[[dict[str, Any]], None],
    *,
    outcomes: Mapping[str, str] | None = None,
) -> AsyncIterator[Daemon]:
    """A daemon on a new lab of six nodes in two groups, whose configuration was edited as a document before."""
    with frozen() as (patch, clock):
        lab = twins.lab(folder, nodes=6, pairs=pairs)
        where = tree.Tree(lab.controller)
        content = json.loads(document.dump(store.read(where.config)))
        edit(content)
        store.write(where.config, document.load(json.dumps(content).encode()))
        # Runs that are ended go on ending: a job that is canceled stays so.
        patch.setattr(process, "end_run", _never_ended)
        service, twin = twins.assemble(lab, patch, outcomes=outcomes)
        daemon = Daemon(lab, service, twin, patch, clock)
        daemon.names.learn(named(content))
        try:
            yield daemon
        finally:
            await service.queue.stop()


async def _never_ended(run: object) -> None:
    del run


def named(content: Mapping[str, Any]) -> dict[str, str]:
    """The names by UUID of what a configuration document has."""
    objects = {**content["nodegroups"], **content["nodes"], **content["instances"]}
    names = {uuid_: str(found["name"]) for uuid_, found in objects.items()}
    return {**names, str(content["cluster"]["uuid"]): "cluster"}
