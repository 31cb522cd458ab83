"""The cluster as a whole: what this API is, what the cluster is, its plan, and holding its maintenance."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

from fastapi.responses import Response  # noqa: TC002 - FastAPI reads the annotations

from ...plugins.module_utils.domain import changes, errors, instance_policy, parameter_rules
from ...plugins.module_utils.domain import cluster as clusters
from ..jobs import values
from . import asking, bodies, submissions, views
from .answers import Json

if TYPE_CHECKING:
    from fastapi import APIRouter

    from ..service import Service

API_VERSION = 2
FEATURES = ("node-migrate-reqv1", "node-evac-res1", "instance-create-reqv1")
"""What Ganeti's client asks for before it sends a body: a node's migration, its evacuation, and a new instance."""


STORED = ("vg_name", "file_storage_dir", "shared_file_storage_dir", "primary_ip_version", "default_iallocator")
"""Where disks are kept, and other fields that are told as they stand."""


REASON = parameter_rules.text("(?s:.*)", "a text that can be stored (valid UTF-8)")


class Pause(bodies.Body):
    """Why rounds are held; an empty text lets them go on."""

    reason: str


def add_top(routes: APIRouter) -> None:
    """What stands above `/2`."""

    @routes.get("/", response_model=None)
    async def top() -> Response:
        return Json(None)

    @routes.get("/version", response_model=int)
    async def version() -> Response:
        return Json(API_VERSION)

    @routes.get("/2", response_model=None)
    async def second() -> Response:
        return Json(None)


def add(routes: APIRouter, service: Service) -> None:
    """What is about the whole cluster."""

    @routes.get("/features", response_model=list[str])
    async def features() -> Response:
        return Json(list(FEATURES))

    @routes.get("/info", response_model=dict[str, Any])
    async def info() -> Response:
        return Json(_told(service.configuration.current))

    @routes.put("/redistribute-config", response_model=int)
    async def redistribute(asked: asking.Parameters) -> Response:
        opcodes = [values.Opcode("cluster_redist_conf", {})]
        reason = asked.because("redistribute-config")
        return Json((await submissions.submit(service, opcodes, reason=reason, dry_run=asked.dry_run)).id)

    @routes.put("/verify", status_code=202, response_model=dict[str, Any])
    async def verify(asked: asking.Parameters) -> Response:
        """A job that looks for what is wrong and mends nothing; its result is the findings."""
        reason = asked.because("cluster verify")
        differing = views.diagnose_differences(service.configuration.current, service.intake)
        opcodes = [values.Opcode("cluster_verify", {"differing": differing} if differing else {})]
        return Json(views.job(await submissions.submit(service, opcodes, reason=reason)), status_code=202)

    @routes.get("/plan", response_model=dict[str, Any])
    async def plan() -> Response:
        preview = service.rounds.preview()
        return Json(views.plan(service.configuration.current, preview, is_at_work=service.rounds.is_at_work))

    @routes.put("/pause", response_model=dict[str, str])
    async def pause(body: Pause) -> Response:
        REASON("reason", body.reason)
        if service.read_only.reason:
            return _released(service, body)

        def paused(cluster: clusters.Cluster) -> list[changes.Change]:
            return [changes.SettingsStand(dataclasses.replace(cluster.maintenance.settings, paused=body.reason))]

        await service.configuration.commit(paused)
        service.rounds.wake()
        return Json({"paused": body.reason})


def _released(service: Service, body: Pause) -> Response:
    """Let a read-only daemon work; a pause that a person set before stays."""
    if body.reason:
        raise errors.Refused(f"{service.read_only.reason}; {service.read_only.REMEDY}")
    service.read_only.release()
    return Json({"paused": service.configuration.current.maintenance.settings.paused})


def _told(cluster: clusters.Cluster) -> dict[str, Any]:
    own = cluster.cluster
    hypervisors = sorted({instance.hypervisor for instance in cluster.instances.values()})
    return {
        "name": own.cluster_name,
        "uuid": own.uuid,
        "master": cluster.node_name(own.master_node),
        "candidate_pool_size": own.candidate_pool_size,
        "enabled_hypervisors": hypervisors,
        "default_hypervisor": hypervisors[0] if hypervisors else None,
        "ndparams": dict(own.ndparams),
        "ipolicy": instance_policy.filled(own.ipolicy),
        **{name: getattr(own, name) for name in (*parameter_rules.LIMITS, *STORED)},
        "maintenance": dataclasses.asdict(cluster.maintenance.settings),
        "config_version": cluster.version,
        "tags": list(own.tags),
        "serial_no": cluster.serial_no,
        "ctime": own.ctime,
        "mtime": own.mtime,
    }
