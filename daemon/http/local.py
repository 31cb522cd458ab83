"""What a local administrator may do (unix socket): the write resources below `/2`."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import pydantic
from fastapi import APIRouter
from fastapi.responses import Response  # noqa: TC002 - FastAPI reads the annotations

from ...plugins.module_utils.domain import changes, errors, incidents, lifecycle, locks
from ...plugins.module_utils.domain import cluster as clusters
from ...plugins.plugin_utils import livelocks
from ..locks import table
from ..maintenance import views
from . import lock_table, submissions
from .answers import Json

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ..service import Service


class Hold(pydantic.BaseModel):
    """A play by hand asks for locks; they are its own for as long as its livelock is held."""

    model_config = pydantic.ConfigDict(extra="forbid")
    owner: str
    livelock: str
    wants: dict[str, locks.Mode]
    time_limit: float = pydantic.Field(default=300, gt=0, le=86400)


class Record(pydantic.BaseModel):
    """A play by hand hands over what became true."""

    model_config = pydantic.ConfigDict(extra="forbid")
    owner: str
    livelock: str
    change: dict[str, Any]


class Role(pydantic.BaseModel):
    """The wanted role of a node."""

    model_config = pydantic.ConfigDict(extra="forbid")
    role: Literal["drained", "undrained", "offline", "online"]
    force: bool = False


class Power(pydantic.BaseModel):
    """A power command for a node."""

    model_config = pydantic.ConfigDict(extra="forbid")
    command: Literal["on", "off", "cycle", "status"]
    force: bool = False


class Pause(pydantic.BaseModel):
    """Why rounds are held; an empty text lets them go on."""

    model_config = pydantic.ConfigDict(extra="forbid")
    reason: str


def router(service: Service) -> APIRouter:
    """All resources below `/2`."""
    routes = APIRouter(prefix="/2")
    _incidents(routes, service)
    _jobs(routes, service)
    _tags(routes, service)
    _nodes(routes, service)
    _plays(routes, service)
    lock_table.add(routes, service)
    return routes


async def _commit(service: Service, decide: Callable[[clusters.Cluster], Sequence[changes.Change]]) -> clusters.Cluster:
    after = await service.configuration.commit(decide)
    service.rounds.wake()
    return after


def _incidents(routes: APIRouter, service: Service) -> None:
    @routes.put("/incidents/{uuid}/cancel")
    async def cancel(uuid: str) -> Response:
        def canceled(cluster: clusters.Cluster) -> list[changes.Change]:
            return [changes.IncidentStands(incidents.cancel(cluster.incident(uuid), now=service.queue.now()))]

        known = service.configuration.current.incident(uuid)
        cluster = await _commit(service, canceled)
        return Json(views.incident(cluster, cluster.incident(known.uuid)))

    @routes.put("/incidents/{uuid}/acknowledge")
    async def acknowledge(uuid: str) -> Response:
        known = service.configuration.current.incident(uuid)
        await _commit(service, lambda cluster: lifecycle.acknowledge(cluster, known.uuid))
        return Json({"uuid": known.uuid, "acknowledged": True})

    @routes.put("/pause")
    async def pause(body: Pause) -> Response:
        def paused(cluster: clusters.Cluster) -> list[changes.Change]:
            return [changes.SettingsStand(dataclasses.replace(cluster.maintenance.settings, paused=body.reason))]

        await _commit(service, paused)
        return Json({"paused": body.reason})


def _jobs(routes: APIRouter, service: Service) -> None:
    def found(job: int) -> Any:
        if job not in service.queue.jobs:
            raise errors.NotFound(f"there is no job {job}")
        return service.queue.jobs[job]

    @routes.get("/jobs")
    async def jobs() -> Response:
        return Json([views.job(one) for one in service.queue.jobs.values()])

    @routes.get("/jobs/{job}")
    async def info(job: int) -> Response:
        return Json(views.job(found(job)))

    @routes.get("/jobs/{job}/wait")
    async def wait(job: int, timeout: pydantic.FiniteFloat = 30) -> Response:  # noqa: ASYNC109 - the client's own limit
        found(job)
        await service.queue.wait(job, seconds=min(timeout, 60))
        return Json(views.job(found(job)))

    @routes.delete("/jobs/{job}")
    async def cancel(job: int) -> Response:
        return Json(views.job(await service.queue.cancel(job, kill=True)))


def _tags(routes: APIRouter, service: Service) -> None:
    @routes.get("/tags/{kind}/{name}")
    async def listed(kind: str, name: str) -> Response:
        return Json(views.tags(service.configuration.current, kind, name))

    @routes.put("/tags/{kind}/{name}/{tag:path}")
    async def add(kind: str, name: str, tag: str) -> Response:
        changes.check_tag(tag)
        cluster = await _commit(service, lambda _: [changes.Tagged(kind, name, tag, present=True)])
        return Json(views.tags(cluster, kind, name))

    @routes.delete("/tags/{kind}/{name}/{tag:path}")
    async def remove(kind: str, name: str, tag: str) -> Response:
        if tag not in views.tags(service.configuration.current, kind, name):
            raise errors.NotFound(f"{kind} {name} has no tag {tag!r}")
        cluster = await _commit(service, lambda _: [changes.Tagged(kind, name, tag, present=False)])
        return Json(views.tags(cluster, kind, name))


def _nodes(routes: APIRouter, service: Service) -> None:
    @routes.put("/nodes/{name}/role")
    async def role(name: str, body: Role) -> Response:
        job = submissions.role(service, name, body.role, force=body.force)
        service.queue.add([job])
        return Json(views.job(service.queue.jobs[job.id]), status_code=202)

    @routes.put("/nodes/{name}/power")
    async def power(name: str, body: Power) -> Response:
        job = submissions.power(service, name, body.command, force=body.force)
        service.queue.add([job])
        return Json(views.job(service.queue.jobs[job.id]), status_code=202)


def _plays(routes: APIRouter, service: Service) -> None:
    @routes.post("/hold")
    async def hold(body: Hold) -> Response:
        owner = _owner(service, body)
        if not livelocks.is_alive(Path(owner.livelock)):
            raise errors.Refused(f"nobody holds the livelock {body.livelock}")
        await service.desk.acquire(owner, body.wants, purpose=body.owner, time_limit=body.time_limit)
        held = service.desk.table.locks_of(owner)
        return Json({lock: mode.value for lock, mode in held.items()})

    @routes.post("/record")
    async def record(body: Record) -> Response:
        owner = _owner(service, body)
        change = changes.decode(body.change)
        if changes.lock_of(change) not in service.desk.table.locks_of(owner):
            raise errors.Refused(f"{body.owner} does not hold {changes.lock_of(change)}: call hold first")
        await _commit(service, lambda _: [change])
        return Json({"recorded": True})


def _owner(service: Service, body: Hold | Record) -> table.Owner:
    if not re.fullmatch("[a-zA-Z0-9_-]{1,100}", body.livelock):
        raise errors.InvalidInput(f"{body.livelock!r} is not the name of a livelock")
    return table.Owner(body.owner, str(service.where.livelocks / body.livelock))
