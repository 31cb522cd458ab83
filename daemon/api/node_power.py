"""Power and health of nodes, by their BMCs: of one node, or of many in one job."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

import pydantic
from fastapi import Query
from fastapi.responses import Response  # noqa: TC002 - FastAPI reads the annotations

from ...plugins.plugin_utils.cluster import changes
from ...plugins.plugin_utils.cluster import cluster as clusters
from ...plugins.plugin_utils.disks import replica_texts
from ...plugins.plugin_utils.opcodes import node_work
from ..jobs import values
from . import asking, at_work, auditing, bodies, replica_views, submissions, views
from .answers import Json

if TYPE_CHECKING:
    from fastapi import APIRouter

    from ..service import Service

KINDS = frozenset({"power", "health"})
MOST = 100_000
Since = Annotated[
    float,
    Query(ge=0, le=2**53, allow_inf_nan=False, description="Since when it is off (unix seconds); 0 is now."),
]
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
    @routes.get("/nodes/{name}/confirm-off", response_model=dict[str, Any])
    async def preview(name: str, who: asking.Requesting, *, since: Since = 0.0) -> Response:
        """What a failover from the node may lose once this user has stated that it is off; nothing is changed."""
        cluster = service.configuration.current
        node = cluster.node(name)
        stated = _stated(service, node, since=since, by=_known(who.user))
        return Json(replica_views.stated_off(cluster, node, stated, service.intake))

    @routes.put("/nodes/{name}/confirm-off", response_model=int)
    async def confirm_off(name: str, asked: asking.Parameters, *, undo: bool = False, since: Since = 0.0) -> Response:
        """A person states that a node has no power since then, which its BMC cannot say; `undo` takes that back."""
        node = service.configuration.current.node(name)
        params: dict[str, Any] = {"node": node.uuid, "undo": undo}
        if not undo:
            params |= {"by": _known(asked.user)} | ({"off_since": since} if since else {})
            when = f"since {replica_texts.clock(since)}" if since else "now"
            auditing.add_text(f"{node.name} is off {when} by the word of {asked.user}")
        if since and not undo:
            _stated(service, node, since=since, by=asked.user)
        reason = asked.because(f"node confirm-off{' --undo' if undo else ''}")
        opcode = values.Opcode("node_confirm_off", params)
        return Json((await submissions.submit(service, [opcode], reason=reason, dry_run=asked.dry_run)).id)


def _known(user: str) -> str:
    return "" if user == asking.UNKNOWN else user


def _stated(service: Service, node: clusters.Node, *, since: float, by: str) -> list[changes.Change]:
    """What the statement of a user changes.

    Raises:
        Refused: the node is not off, or was not since then.
    """
    opcode = node_work.NodeConfirmOff(node.uuid, off_since=since, by=by)
    return opcode.changes(service.configuration.current, service.intake, since=service.intake.now.wall)


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
