"""What anyone on the network may read (port 1816): GET only, JSON, and the page."""

from __future__ import annotations

import asyncio
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

import orjson
import pydantic  # noqa: TC002 - FastAPI reads the annotations
from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse, Response

from ...plugins.module_utils.domain.values import errors
from ...plugins.plugin_utils import report_originals
from . import asking, explanations, page, replica_views, views, waiting
from .answers import Json, Shared, SharedByName
from .snapshots import Snapshots

if TYPE_CHECKING:
    from ..service import Service

ROUNDS_SHOWN = 20


def router(service: Service, *, is_local: bool = False) -> APIRouter:
    """The resources below `/1` and `/ui`, and `/`, which is Ganeti's where local administrators ask."""
    routes = APIRouter()
    if not is_local:
        _versions(routes)
    _health(routes, service)
    _maintenance(routes, service)
    snapshots = Snapshots(lambda: service.configuration.current)
    _objects(routes, service, snapshots)
    waits = waiting.Waits()
    _explanations(routes, service, snapshots, waits)
    _page(routes, service, snapshots, waits)
    return routes


def _versions(routes: APIRouter) -> None:
    @routes.get("/")
    async def versions() -> Response:
        return Json([1])


def _health(routes: APIRouter, service: Service) -> None:
    @routes.get("/1/health")
    async def health() -> Response:
        # Of the daemon's own parts, for monitoring; the health of nodes is not in it.
        failures = service.failures.listed()
        status = HTTPStatus.SERVICE_UNAVAILABLE if failures else HTTPStatus.OK
        word = "failing" if failures else "healthy"
        epoch = service.leadership.epoch
        leads = {
            "epoch": None if epoch is None else {"number": epoch.number, "id": epoch.id},
            "refused": service.leadership.refused,
        }
        copies = service.copying.listed()
        content = {"status": word, "failures": failures, "leadership": leads, "copies": copies}
        return Json(content, status_code=status)


def _maintenance(routes: APIRouter, service: Service) -> None:
    shown_status = Shared(lambda: views.status(service.configuration.current))

    @routes.get("/1/status")
    async def status() -> Response:
        return await shown_status.get()

    @routes.get("/1/incidents/{uuid}/original")
    async def original(uuid: str) -> Response:
        """The whole JSON object as the node wrote it, however large."""
        incident = service.configuration.current.incident(uuid)
        text = incident.original
        if incident.digest:
            text = await asyncio.to_thread(report_originals.read, service.where.report_originals, incident.digest)
        return Response(text, media_type="application/json")

    @routes.get("/1/rounds")
    async def rounds() -> Response:
        number = service.configuration.current.maintenance.round
        return Json(service.history.last(ROUNDS_SHOWN, up_to=number))

    @routes.get("/1/rounds/{number}")
    async def one_round(number: int) -> Response:
        """One round, with the names of the objects in it."""
        if number > service.configuration.current.maintenance.round:
            raise errors.NotFound(f"there has been no round {number} yet")
        return Json(service.history.one(number))

    shown_plan = Shared(
        lambda: views.plan(
            service.configuration.current, service.rounds.preview(), is_at_work=service.rounds.is_at_work
        )
    )
    shown_reports = Shared(
        lambda: views.reports(service.configuration.current, service.intake, poll_problem=service.poll.problem)
    )

    @routes.get("/1/plan")
    async def plan() -> Response:
        return await shown_plan.get()

    @routes.get("/1/reports")
    async def reports() -> Response:
        return await shown_reports.get()


def _objects(routes: APIRouter, service: Service, snapshots: Snapshots) -> None:
    shown_nodes = Shared(lambda: views.nodes(snapshots.newest(), service.intake))
    shown_instances = Shared(lambda: views.instances(snapshots, service.intake))
    shown_jobs = Shared(lambda: [views.public_job(job) for job in service.queue.jobs.values()])

    @routes.get("/1/nodes")
    async def nodes() -> Response:
        return await shown_nodes.get()

    @routes.get("/1/instances")
    async def instances() -> Response:
        return await shown_instances.get()

    @routes.get("/1/jobs")
    async def jobs() -> Response:
        return await shown_jobs.get()


def _explanations(routes: APIRouter, service: Service, snapshots: Snapshots, waits: waiting.Waits) -> None:
    def explained(uuid: str) -> Any:
        cluster = service.configuration.current
        intake, queue, failing = service.intake, service.queue, service.failures.listed()
        if uuid not in cluster.nodes:
            return replica_views.explain(cluster, uuid, intake=intake, queue=queue, failing=failing)
        preview, silent = service.rounds.preview(), service.dead.verdicts
        return explanations.explain(
            cluster, uuid, intake=intake, queue=queue, preview=preview, silent=silent, failing=failing
        )

    shown = SharedByName(explained)

    @routes.get("/1/explain/{node}")
    async def explain(request: Request, who: asking.Requesting, node: str) -> Response:
        """Why a node is as it is; of an instance, by its name, what is known of its replicas."""
        uuid = snapshots.newest().find(node).uuid

        async def text() -> orjson.Fragment:
            return orjson.Fragment(await shown.get(uuid))

        return await waits.answer(request, who, text())


def _page(routes: APIRouter, service: Service, snapshots: Snapshots, waits: waiting.Waits) -> None:
    shown = Shared(lambda: page.state(service, snapshots))

    @routes.get("/1/page")
    async def page_state() -> Response:
        return await shown.get()

    @routes.get("/1/news")
    async def news(
        request: Request, who: asking.Requesting, after: int = -1, seconds: pydantic.FiniteFloat = 30
    ) -> Response:
        async def number() -> dict[str, int]:
            return {"number": await service.news.after(after, seconds=min(max(seconds, 0), 60))}

        return await waits.answer(request, who, number())

    @routes.get("/ui", response_class=HTMLResponse)
    async def ui() -> Response:
        return page.answer(service)
