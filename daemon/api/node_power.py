"""Power and health of nodes, by their BMCs: of one node, or of many in one job."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

import pydantic
from fastapi.responses import Response  # noqa: TC002 - FastAPI reads the annotations

from ...plugins.module_utils.domain import cluster as clusters
from ..jobs import values
from . import asking, at_work, bodies, submissions, views
from .answers import Json

if TYPE_CHECKING:
    from fastapi import APIRouter

    from ..service import Service

KINDS = frozenset({"power", "health"})
MOST = 100_000
Names = Annotated[list[str], pydantic.Field(min_length=1, max_length=MOST, description="Names or UUIDs of nodes.")]


class Power(bodies.JobBody):
    """A power command for a node; a trial reads the BMC and says what would change."""

    command: Literal["on", "off", "cycle", "status"]
    force: bool = pydantic.Field(default=False, description="Skip the checks that protect instances.")
    offline: bool = pydantic.Field(default=False, description="Once it is off, the node leaves service too.")
    power_delay: float = pydantic.Field(
        default=0.0, ge=0, le=3600, allow_inf_nan=False, description="Seconds between two times ten nodes, for `on`."
    )


class PowerOfMany(Power):
    """A power command for many nodes: all are commanded at once, and one node's trouble stops no other."""

    nodes: Names


class HealthOfMany(bodies.JobBody):
    """The nodes whose health is read."""

    nodes: Names


def add(routes: APIRouter, service: Service) -> None:
    """`/nodes/NAME/power` and `/nodes/NAME/health` of one node, `/power` and `/health` of many; a person's word."""
    _power(routes, service)
    _health(routes, service)
    _confirm(routes, service)


def _power(routes: APIRouter, service: Service) -> None:
    @routes.get("/nodes/{name}/power", response_model=dict[str, Any])
    async def power(name: str) -> Response:
        """What is on record, and the jobs that may change it: what the BMC says now is the command `status`."""
        cluster = service.configuration.current
        node = cluster.node(name)
        program = clusters.parameter(cluster, node, "oob_program")
        powered = None if program is None else node.powered
        told = {"node": node.name, "powered": powered, "oob_program": program, "jobs": _at_work(service, node.uuid)}
        return Json(told)

    @routes.put("/nodes/{name}/power", status_code=202, response_model=dict[str, Any])
    async def change(name: str, body: Power, asked: asking.Parameters) -> Response:
        return await commanded([name], body, asked)

    @routes.put("/power", status_code=202, response_model=dict[str, Any])
    async def change_many(body: PowerOfMany, asked: asking.Parameters) -> Response:
        return await commanded(body.nodes, body, asked)

    async def commanded(names: list[str], body: Power, asked: asking.Asked) -> Response:
        opcodes = submissions.power(
            service.configuration.current,
            names,
            body.command,
            force=body.force or asked.force,
            offline=body.offline,
            delay=body.power_delay,
            check=asked.dry_run,
        )
        return await _submitted(service, opcodes, f"node power {body.command}", priority=body.priority, asked=asked)


def _health(routes: APIRouter, service: Service) -> None:
    @routes.put("/nodes/{name}/health", status_code=202, response_model=dict[str, Any])
    async def health(name: str, asked: asking.Parameters, body: bodies.JobBody | None = None) -> Response:
        opcodes = submissions.health(service.configuration.current, [name])
        priority = body.priority if body else 0
        return await _submitted(service, opcodes, "node health", priority=priority, asked=asked)

    @routes.put("/health", status_code=202, response_model=dict[str, Any])
    async def health_of_many(body: HealthOfMany, asked: asking.Parameters) -> Response:
        opcodes = submissions.health(service.configuration.current, body.nodes)
        return await _submitted(service, opcodes, "node health", priority=body.priority, asked=asked)


def _confirm(routes: APIRouter, service: Service) -> None:
    @routes.put("/nodes/{name}/confirm-off", response_model=int)
    async def confirm_off(name: str, asked: asking.Parameters, *, undo: bool = False) -> Response:
        """A person states that a node has no power, which its BMC cannot say; `undo` takes that back."""
        node = service.configuration.current.node(name)
        opcode = values.Opcode("node_confirm_off", {"node": node.uuid, "undo": undo})
        reason = asked.because(f"node confirm-off{' --undo' if undo else ''}")
        return Json((await submissions.submit(service, [opcode], reason=reason, dry_run=asked.dry_run)).id)


async def _submitted(
    service: Service, opcodes: list[values.Opcode], text: str, *, priority: int, asked: asking.Asked
) -> Response:
    # A trial is a parameter of the power opcode, and to read the health changes nothing: the job itself is done.
    job = await submissions.submit(service, opcodes, priority=priority, reason=asked.because(text))
    return Json(views.job(job), status_code=202)


def _at_work(service: Service, node: str) -> list[int]:
    return [
        job.id
        for job in service.queue.jobs.values()
        if not job.is_final and any(opcode.kind in KINDS and at_work.is_about(opcode, node) for opcode in job.opcodes)
    ]
