"""Nodes: what they are, their roles, and how instances leave them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

import pydantic
from fastapi import Body
from fastapi.responses import Response  # noqa: TC002 - FastAPI reads the annotations

from ...plugins.module_utils.domain.values import errors
from ...plugins.plugin_utils.cluster import cluster as clusters
from ..jobs import values
from . import asking, bodies, submissions, views
from .answers import Json, Listed
from .fields import definition
from .fields import nodes as fields

if TYPE_CHECKING:
    from fastapi import APIRouter

    from ..service import Service
    from .snapshots import Snapshot, Snapshots

Role = Annotated[
    Literal["drained", "offline", "regular", "master-candidate", "undrained", "online"],
    Body(
        description="`regular` and `master-candidate` are back in service, from drained or offline; ours are "
        "`undrained`, which leaves an offline node alone, and `online`."
    ),
]


class Evacuate(bodies.JobBody):
    """Which instances leave; the daemon's planner chooses where to, whatever `iallocator` says."""

    mode: Literal["primary-only", "secondary-only", "all"] = "all"
    iallocator: str | None = None
    remote_node: str | None = pydantic.Field(default=None, description="Refused: the planner chooses.")
    early_release: bool = False


class Migrate(bodies.JobBody):
    """The primaries leave by live migration."""

    mode: Literal["live"] = "live"
    iallocator: str | None = None
    target_node: str | None = pydantic.Field(default=None, description="Refused: the planner chooses.")


def add(routes: APIRouter, service: Service, snapshots: Snapshots) -> None:
    """All resources below `/nodes`."""
    _readable(routes, service, snapshots)
    _role(routes, service)
    _moves(routes, service)
    _report_floor(routes, service)


def _readable(routes: APIRouter, service: Service, snapshots: Snapshots) -> None:
    @routes.get("/nodes", response_model=list[dict[str, Any]])
    async def listed(*, bulk: bool = False) -> Response:
        seen = snapshots.newest()
        if not bulk:
            return Json([{"id": node.name, "uri": f"/2/nodes/{node.name}"} for node in _in_order(seen)])
        parts = (seen.cluster.nodes, seen.cluster.instances, seen.cluster.nodegroups, seen.cluster.cluster)
        return Listed(snapshots.serialised("nodes", parts, lambda: [_told(seen, node) for node in _in_order(seen)]))

    @routes.get("/nodes/{name}", response_model=dict[str, Any])
    async def info(name: str) -> Response:
        seen = snapshots.newest()
        node = seen.cluster.node(name)
        # What Ganeti's fields tell comes last: `role` is a letter there, and a word at `/role`.
        return Json({**views.node(seen.cluster, node, service.intake), **_told(seen, node)})


def _in_order(seen: Snapshot) -> list[clusters.Node]:
    return sorted(seen.cluster.nodes.values(), key=lambda node: clusters.natural(node.name))


def _told(seen: Snapshot, node: clusters.Node) -> dict[str, Any]:
    return definition.told(fields.FIELDS, fields.BULK, seen, node)


def _role(routes: APIRouter, service: Service) -> None:
    @routes.get("/nodes/{name}/role", response_model=str)
    async def role(name: str) -> Response:
        cluster = service.configuration.current
        return Json(fields.ROLES[clusters.role(cluster, cluster.node(name))][1])

    @routes.put("/nodes/{name}/role", response_model=int)
    async def change(name: str, body: Role, asked: asking.Parameters) -> Response:
        opcodes = submissions.role(service.configuration.current, name, body, force=asked.force)
        reason = asked.because(f"node {body}")
        return Json((await submissions.submit(service, opcodes, reason=reason, dry_run=asked.dry_run)).id)


def _report_floor(routes: APIRouter, service: Service) -> None:
    @routes.put("/nodes/{name}/reset-report-floor", response_model=dict[str, Any])
    async def reset_report_floor(name: str) -> Response:
        """Let a node's reports count again after one that was dated ahead; those made before now do not."""
        node = service.configuration.current.node(name)
        ahead = await service.intake.reset_floor(node.uuid)
        return Json({"node": node.name, "seconds_ahead": ahead})


def _moves(routes: APIRouter, service: Service) -> None:
    async def submitted(node: str, kind: str, mode: str, *, priority: int, asked: asking.Asked) -> int:
        uuid = service.configuration.current.node(node).uuid
        job = await submissions.submit(
            service,
            [values.Opcode(kind, {"node": uuid, "mode": mode})],
            priority=priority,
            reason=asked.because(kind.replace("_", " ")),
            dry_run=asked.dry_run,
        )
        return job.id

    @routes.post("/nodes/{name}/evacuate", response_model=int)
    async def evacuate(name: str, asked: asking.Parameters, body: Evacuate | None = None) -> Response:
        body = body or Evacuate()
        if body.remote_node is not None:
            raise errors.InvalidInput("remote_node: the planner chooses where each instance goes")
        return Json(await submitted(name, "node_evacuate", body.mode, priority=body.priority, asked=asked))

    @routes.post("/nodes/{name}/migrate", response_model=int)
    async def migrate(name: str, asked: asking.Parameters, body: Migrate | None = None) -> Response:
        body = body or Migrate()
        if body.target_node is not None:
            raise errors.InvalidInput("target_node: the planner chooses where each instance goes")
        return Json(await submitted(name, "node_migrate", "primary-only", priority=body.priority, asked=asked))
