"""Instances: what they are, and how one is moved, started, stopped or given another secondary replica."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

import pydantic
from fastapi import Query
from fastapi.responses import Response  # noqa: TC002 - FastAPI reads the annotations

from ...plugins.module_utils.domain.values import errors
from ...plugins.plugin_utils.cluster import cluster as clusters
from ...plugins.plugin_utils.opcodes import contract
from ...plugins.plugin_utils.rounds import single_moves
from ..jobs import values
from . import asking, bodies, instance_disks, submissions
from .answers import Json, Listed
from .fields import definition
from .fields import instances as fields

if TYPE_CHECKING:
    from fastapi import APIRouter

    from ..service import Service
    from .snapshots import Snapshot, Snapshots


class Move(bodies.JobBody):
    """Where an instance goes; without `target_node` to its secondary replica, or where there is most room."""

    target_node: str | None = None
    iallocator: str | None = pydantic.Field(default=None, description="The daemon's planner chooses, whatever it says.")


class Migrate(Move):
    """A live migration."""

    mode: Literal["live"] = "live"
    allow_failover: bool = pydantic.Field(default=False, description="Fail over an instance that does not run.")


class Failover(Move):
    """Stop here, start there; the stop is confirmed first, or read back from the BMC."""

    ignore_consistency: bool = pydantic.Field(
        default=False,
        description="Fail over although the target's replica is not known to be in sync. Writes may be lost.",
    )
    max_loss: contract.Loss | None = pydantic.Field(
        default=None,
        description="Seconds of writes that may be lost where the source cannot be asked; without it "
        "failover_max_loss of its group or of the cluster.",
    )


class ReplaceDisks(bodies.JobBody):
    """A new secondary replica; without `remote_node` where there is most room.

    On another node it is in sync before the old one is removed. On the secondary itself the old one is removed first.
    """

    mode: Literal["replace_new_secondary"]
    remote_node: str | None = pydantic.Field(
        default=None,
        description="The node of the new replica. It may be the secondary itself: its replica is removed first, and a "
        "new one is created there.",
    )
    iallocator: str | None = pydantic.Field(default=None, description="The daemon's planner chooses, whatever it says.")
    disks: list[int] = pydantic.Field(default=[], description="Must be empty: all disks of an instance go together.")
    early_release: bool = False


class Startup(bodies.JobBody):
    """It starts on its primary."""

    discard: str | None = pydantic.Field(
        default=None,
        description="The node whose data are given up where they hinder the start, as after a split brain: what only "
        "it has is lost. The secondary is repaired after the start, the primary before it.",
    )


NoRemember = Annotated[Literal[0, False], Query(description="Refused: the new state is always on record.")]


def add(routes: APIRouter, service: Service, snapshots: Snapshots) -> None:
    """All resources below `/instances`."""
    _readable(routes, service, snapshots)
    _moves(routes, service, snapshots)
    _copies(routes, service, snapshots)
    _runs(routes, service, snapshots)


def _readable(routes: APIRouter, service: Service, snapshots: Snapshots) -> None:
    @routes.get("/instances", response_model=list[dict[str, Any]])
    async def listed(*, bulk: bool = False) -> Response:
        seen = snapshots.newest()
        parts = (seen.cluster.instances, seen.cluster.nodes)
        if bulk:
            return Listed(
                snapshots.serialised(
                    "instances", parts, lambda: [_told(seen, instance) for instance in _in_order(seen)]
                )
            )
        return Listed(
            snapshots.serialised("instance names", parts, lambda: [_named(instance) for instance in _in_order(seen)])
        )

    @routes.get("/instances/{name}", response_model=dict[str, Any])
    async def info(name: str) -> Response:
        seen = snapshots.newest()
        return Json(_told(seen, seen.instance(name)))

    @routes.get("/instances/{name}/info", response_model=int)
    async def query(name: str, asked: asking.Parameters) -> Response:
        params = {"instance": snapshots.newest().instance(name).uuid}
        opcode = values.Opcode("instance_query_data", params, dry_run=asked.dry_run)
        return Json((await submissions.submit_question(service, opcode, asked=asked, text="instance info")).id)


def _in_order(seen: Snapshot) -> list[clusters.Instance]:
    return sorted(seen.cluster.instances.values(), key=lambda instance: clusters.natural(instance.name))


def _named(instance: clusters.Instance) -> dict[str, str]:
    return {"id": instance.name, "uri": f"/2/instances/{instance.name}"}


def _told(seen: Snapshot, instance: clusters.Instance) -> dict[str, Any]:
    return definition.told(fields.FIELDS, fields.BULK, seen, instance)


def _moves(routes: APIRouter, service: Service, snapshots: Snapshots) -> None:
    async def submitted(name: str, kind: str, body: Move, asked: asking.Asked) -> int:
        seen = snapshots.newest()
        instance, observed = seen.instance(name), contract.observed(seen.cluster, service.intake)
        chosen = body.target_node
        target = seen.cluster.node(chosen).uuid if chosen else ""
        if kind == "failover":
            source, target = single_moves.failed_over(observed, instance, chosen=target)
        else:
            source, target = instance.primary_node, target or single_moves.target(observed, instance)
        if target == source:
            raise errors.Refused(f"{instance.name} is on {seen.cluster.node_name(target)} already")
        params: dict[str, Any] = {"instance": instance.uuid, "source": source, "target": target}
        reason = asked.because(f"instance {kind}")
        if isinstance(body, Migrate) and kind == "migrate" and not body.allow_failover:
            params["allow_failover"] = False
        if isinstance(body, Failover) and body.ignore_consistency:
            params["ignore_consistency"] = True
            reason += submissions.ignore_consistency(asked)
        if isinstance(body, Failover) and body.max_loss is not None:
            params["max_loss"] = body.max_loss
            reason += submissions.max_loss(asked, body.max_loss)
        job = await submissions.submit(
            service,
            [values.Opcode(kind, params)],
            priority=body.priority,
            reason=reason,
            dry_run=asked.dry_run,
        )
        return job.id

    @routes.put("/instances/{name}/migrate", response_model=int)
    async def migrate(name: str, asked: asking.Parameters, body: Migrate | None = None) -> Response:
        body = body or Migrate()
        instance = snapshots.newest().instance(name)
        if not instance.is_up and not body.allow_failover:
            raise errors.Refused(f"{instance.name} does not run: use failover, or allow_failover")
        return Json(await submitted(name, "migrate" if instance.is_up else "failover", body, asked))

    @routes.put("/instances/{name}/failover", response_model=int)
    async def failover(name: str, asked: asking.Parameters, body: Failover | None = None) -> Response:
        return Json(await submitted(name, "failover", body or Failover(), asked))


def _copies(routes: APIRouter, service: Service, snapshots: Snapshots) -> None:
    def _new_secondary(cluster: clusters.Cluster, instance: clusters.Instance, chosen: str | None) -> str:
        if not chosen:
            return single_moves.new_secondary(contract.observed(cluster, service.intake), instance)
        target = cluster.node(chosen).uuid
        if target not in instance.nodes:
            single_moves.refuse_new_secondary(cluster, instance, target=target)
        contract.refuse_unreachable(cluster, target)
        contract.refuse_silent(cluster, service.intake, target)
        return target

    @routes.post("/instances/{name}/replace-disks", response_model=int)
    async def replace(
        name: str,
        asked: asking.Parameters,
        body: ReplaceDisks | None = None,
        mode: str | None = None,
        remote_node: str | None = None,
    ) -> Response:
        # Ganeti's client still says it in the query, its server reads both.
        wanted = body or _by_query(mode, remote_node)
        seen = snapshots.newest()
        instance = seen.instance(name)
        if wanted.disks:
            raise errors.InvalidInput("disks: all disks of an instance go together: leave it empty")
        if len(instance.secondary_nodes) != 1:
            count = len(instance.secondary_nodes)
            raise errors.Refused(f"The instance has a strange layout, expected one secondary but found {count}")
        single_moves.refuse_adopted(instance)
        new = _new_secondary(seen.cluster, instance, wanted.remote_node)
        params = {"instance": instance.uuid, "old": instance.secondary_nodes[0], "new": new}
        job = await submissions.submit(
            service,
            [values.Opcode("replace_disks", params)],
            priority=wanted.priority,
            reason=asked.because("instance replace-disks"),
            dry_run=asked.dry_run,
        )
        return Json(job.id)


def _by_query(mode: str | None, remote_node: str | None) -> ReplaceDisks:
    if mode != "replace_new_secondary":
        raise errors.InvalidInput(f"mode: {mode!r} is not offered: use replace_new_secondary")
    return ReplaceDisks(mode="replace_new_secondary", remote_node=remote_node)


def _runs(routes: APIRouter, service: Service, snapshots: Snapshots) -> None:
    async def submitted(name: str, kind: str, body: bodies.JobBody | None, asked: asking.Asked) -> int:
        seen = snapshots.newest()
        opcodes = [values.Opcode(kind, {"instance": seen.instance(name).uuid})]
        reason = asked.because(f"instance {kind}")
        if isinstance(body, Startup) and body.discard:
            opcodes = _discarding(seen.cluster, seen.instance(name), body.discard)
            reason += submissions.discard(asked, body.discard)
        job = await submissions.submit(
            service,
            opcodes,
            priority=body.priority if body else 0,
            reason=reason,
            dry_run=asked.dry_run,
        )
        return job.id

    @routes.put("/instances/{name}/startup", response_model=int)
    async def startup(
        name: str, asked: asking.Parameters, body: Startup | None = None, no_remember: NoRemember = 0
    ) -> Response:
        del no_remember
        return Json(await submitted(name, "startup", body, asked))

    @routes.put("/instances/{name}/shutdown", response_model=int)
    async def shutdown(
        name: str, asked: asking.Parameters, body: bodies.JobBody | None = None, no_remember: NoRemember = 0
    ) -> Response:
        del no_remember
        return Json(await submitted(name, "shutdown", body, asked))


def _discarding(cluster: clusters.Cluster, instance: clusters.Instance, node: str) -> list[values.Opcode]:
    """The opcodes that start an instance though the data of a node are given up.

    The primary's own data are replaced before it starts. Those of its secondary are replaced once it runs, so that
    nothing which hinders the repair keeps the instance down; a node that is not contacted keeps them until it is back.
    """
    discard = instance_disks.replica_at(cluster, instance.name, node)
    if discard not in instance.nodes:
        raise errors.InvalidInput(
            f"discard: {node} is no node of {instance.name} any more; to remove the replica that was left there, run "
            f"`roundsman instance repair-disks {instance.name} --discard {node}`"
        )
    about = {"instance": instance.uuid}
    repair = values.Opcode("repair_disks", {**about, "discard": discard})
    if discard == instance.primary_node:
        return [repair, values.Opcode("startup", about)]
    start = values.Opcode("startup", {**about, "discard": discard})
    return [start, repair] if clusters.reachable(cluster, cluster.node(discard)) else [start]
