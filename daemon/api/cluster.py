"""The cluster as a whole: what this API is, what the cluster is, its plan, and holding its maintenance."""

from __future__ import annotations

import asyncio
import dataclasses
import time
from typing import TYPE_CHECKING, Any

import pydantic
from fastapi.responses import Response  # noqa: TC002 - FastAPI reads the annotations

from ...plugins.module_utils.domain.values import errors, value_rules
from ...plugins.plugin_utils import unsynced
from ...plugins.plugin_utils.cluster import changes
from ...plugins.plugin_utils.cluster import cluster as clusters
from ...plugins.plugin_utils.config import hosts
from ...plugins.plugin_utils.rounds import wording
from ...plugins.plugin_utils.settings import instance_policy, parameter_rules
from ..jobs import values
from ..maintenance import rewriting
from . import asking, auditing, bodies, replica_views, snapshots, submissions, views
from .answers import Json

if TYPE_CHECKING:
    from fastapi import APIRouter

    from ...plugins.module_utils.domain.values import tree
    from ..service import Service

API_VERSION = 2
FEATURES = ("node-migrate-reqv1", "node-evac-res1", "instance-create-reqv1")
"""What Ganeti's client asks for before it sends a body: a node's migration, its evacuation, and a new instance."""


STORED = ("vg_name", "file_storage_dir", "shared_file_storage_dir", "primary_ip_version", "default_iallocator")
"""Where disks are kept, and other fields that are told as they stand."""


LONGEST_PAUSE = 86400.0
"""Seconds that a pause may be for that ends by itself."""
PROBATION = 10.0
"""Seconds that the first poll and the first step of the rounds have, after a read-only daemon was resumed."""
REASON = value_rules.text("(?s:.*)", "a text that can be stored (valid UTF-8)")


class Pause(bodies.Body):
    """Why rounds are held, and for how many seconds (0: until a person ends it); an empty text lets them go on."""

    reason: str
    seconds: float = pydantic.Field(default=0, ge=0, le=LONGEST_PAUSE)


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
        """A job that looks for what is wrong and changes nothing; its result has the `findings`.

        It also has `looked_at`, the nodes on which everything that runs there was seen, and `not_looked_at`, by name
        why the others were not.
        """
        reason, cluster = asked.because("cluster verify"), service.configuration.current
        failed = replica_views.all_failed_disks(snapshots.Snapshot(cluster), service.intake)
        known = {
            "differing": views.diagnose_differences(cluster, service.intake),
            "failed_disks": [{"node": disk.node, "text": f"{disk.text}: {disk.step}"} for disk in failed],
            "unmeasured": replica_views.unmeasured(cluster, service.intake),
            "refused": _refused(cluster, service.where),
        }
        opcodes = [values.Opcode("cluster_verify", {name: value for name, value in known.items() if value})]
        return Json(views.job(await submissions.submit(service, opcodes, reason=reason)), status_code=202)

    @routes.get("/plan", response_model=dict[str, Any])
    async def plan() -> Response:
        preview = service.rounds.preview()
        return Json(views.plan(service.configuration.current, preview, is_at_work=service.rounds.is_at_work))

    @routes.put("/pause", response_model=dict[str, str])
    async def pause(body: Pause) -> Response:
        REASON("reason", body.reason)
        limit = f" for {body.seconds:g} s" if body.seconds else ""
        auditing.add_text(f"pause{limit}: {body.reason}" if body.reason else "resume")
        if service.read_only.reason:
            return await _resume_work(service, body)

        def paused(cluster: clusters.Cluster) -> list[changes.Change]:
            ends = time.time() + body.seconds if body.seconds else 0.0
            return [changes.SettingsStand(cluster.maintenance.settings.with_pause(body.reason, ends=ends))]

        await service.configuration.commit(paused)
        service.rounds.wake()
        return Json({"paused": wording.pause(service.configuration.current.maintenance.settings)})


async def _resume_work(service: Service, body: Pause) -> Response:
    """Let a read-only daemon work, after a failed disk once that has taken all state again; a person's pause stays.

    It answers after the first poll and the first step of the rounds, so that it reports no success where the daemon
    ends again at once.

    Raises:
        Refused: it is to be paused. Failed: the daemon ends again. StoreFailed, StateUnknown: the disk refuses it.
    """
    if body.reason:
        raise errors.Refused(f"{service.read_only.reason}; {service.read_only.remedy}")
    if unsynced.pending(service.where):
        await rewriting.write_again(service.where, configuration=service.configuration, desk=service.desk)
    service.read_only.release()
    begun = asyncio.gather(service.poll.has_polled.wait(), service.rounds.has_looked.wait())
    ending = asyncio.ensure_future(service.failures.until_defect())
    awaited: set[asyncio.Future[Any]] = {begun, ending}
    await asyncio.wait(awaited, timeout=PROBATION, return_when=asyncio.FIRST_COMPLETED)
    begun.cancel()
    ending.cancel()
    if ending.done() and not ending.cancelled() and (defect := ending.exception()) is not None:
        raise errors.Failed(f"roundsmand was resumed and ends again: {defect}; {service.read_only.remedy}")
    service.read_only.clear()
    return Json({"paused": service.configuration.current.maintenance.settings.paused})


def _refused(cluster: clusters.Cluster, where: tree.Tree) -> dict[str, str]:
    """By name why no run can have a node as its host."""
    problems = {node.name: hosts.problem(node, root=where.root) for node in cluster.nodes.values()}
    return {name: text for name, text in problems.items() if text}


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
