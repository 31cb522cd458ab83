"""The disks of an instance that stays where it is: Ganeti's resources, and `verify-disks` and `repair-disks`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import pydantic
from fastapi.responses import Response  # noqa: TC002 - FastAPI reads the annotations

from ...plugins.module_utils.domain.values import errors
from ...plugins.plugin_utils.cluster import left_replicas
from ...plugins.plugin_utils.opcodes import left_replica
from ..jobs import values
from . import asking, bodies, os_playbooks, submissions
from .answers import Json

if TYPE_CHECKING:
    from fastapi import APIRouter

    from ...plugins.plugin_utils.cluster import cluster as clusters
    from ..service import Service


class Repair(bodies.JobBody):
    """Its DRBD disks are repaired as far as that is without doubt."""

    discard: str | None = pydantic.Field(
        default=None,
        description="After a split brain: the node whose writes since are lost. Without it nothing is discarded. "
        "Of a node that is no node of the instance any more: the replica that was left there is removed.",
    )


class Recreate(bodies.JobBody):
    """All disks are made anew where they are."""

    disks: list[Any] = pydantic.Field(default=[], max_length=0, description="Empty: all of them.")
    nodes: list[str] = pydantic.Field(default=[], max_length=0, description="Empty: where they are.")


class Reinstall(bodies.JobBody):
    """A playbook installs an operating system on the disks of an instance that is down."""

    os: str | None = pydantic.Field(default=None, description="A playbook in `etc/roundsman/os`, without its `.yml`.")
    os_playbook: str | None = pydantic.Field(default=None, description="A path; for root on the controller only.")
    start: bool = True


def add(routes: APIRouter, service: Service) -> None:
    """The resources below `/instances/NAME` for its disks."""

    async def submitted(opcodes: list[values.Opcode], text: str, asked: asking.Asked, priority: int) -> Response:
        reason = asked.because(f"instance {text}")
        job = await submissions.submit(service, opcodes, priority=priority, reason=reason, dry_run=asked.dry_run)
        return Json(job.id)

    @routes.put("/instances/{name}/repair-disks", response_model=int)
    async def repair(name: str, asked: asking.Parameters, body: Repair | None = None) -> Response:
        params: dict[str, Any] = {"instance": _uuid(service, name)}
        reason = asked.because("instance repair-disks")
        kind = "repair_disks"
        if body and body.discard:
            node = replica_at(service.configuration.current, name, body.discard)
            left = left_replicas.left_behind(service.configuration.current, params["instance"], node)
            left_replica.refuse_discard(service.configuration.current, left)
            reason += submissions.discard(asked, body.discard)
            if left is None:
                params["discard"] = node
            else:
                kind, params = "remove_replica", {**params, "node": node, "discard": True}
        opcode = values.Opcode(kind, params)
        priority = body.priority if body else 0
        job = await submissions.submit(service, [opcode], priority=priority, reason=reason, dry_run=asked.dry_run)
        return Json(job.id)

    @routes.put("/instances/{name}/{verb}-disks", response_model=int)
    async def change(
        name: str,
        verb: Literal["activate", "deactivate", "verify"],
        asked: asking.Parameters,
        body: bodies.JobBody | None = None,
    ) -> Response:
        opcode = values.Opcode(f"{verb}_disks", {"instance": _uuid(service, name)})
        return await submitted([opcode], f"{verb}-disks", asked, body.priority if body else 0)

    @routes.post("/instances/{name}/recreate-disks", response_model=int)
    async def recreate(name: str, asked: asking.Parameters, body: Recreate | None = None) -> Response:
        opcode = values.Opcode("recreate_disks", {"instance": _uuid(service, name)})
        return await submitted([opcode], "recreate-disks", asked, body.priority if body else 0)

    @routes.post("/instances/{name}/reinstall", response_model=int)
    async def reinstall(name: str, asked: asking.Parameters, body: Reinstall) -> Response:
        uuid = _uuid(service, name)
        playbook = os_playbooks.chosen(service, name=body.os or "", path=body.os_playbook or "")
        if not playbook:
            raise errors.InvalidInput("os: say which playbook installs the operating system")
        steps = [("reinstall", {"instance": uuid, "os_playbook": playbook})]
        steps += [("startup", {"instance": uuid})] if body.start else []
        return await submitted([values.Opcode(*step) for step in steps], "reinstall", asked, body.priority)


def _uuid(service: Service, name: str) -> str:
    return service.configuration.current.instance(name).uuid


def replica_at(cluster: clusters.Cluster, name: str, node: str) -> str:
    """The UUID of a node that has a replica of the instance, or one that was left behind there.

    Raises:
        InvalidInput: it has none. NotFound: there is no such instance or node.
    """
    instance, found = cluster.instance(name), cluster.node(node).uuid
    if found not in instance.nodes and left_replicas.left_behind(cluster, instance.uuid, found) is None:
        names = " or ".join(cluster.node_name(uuid) for uuid in instance.nodes)
        raise errors.InvalidInput(f"discard: {node} has no replica of {name}; use {names}")
    return found
