"""What is served on the unix sockets: Ganeti's remote API, version 2, and ours beside it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fastapi import APIRouter, Depends

from . import (
    adoption,
    asking,
    by_hand,
    cluster,
    config,
    filters,
    groups,
    incidents,
    instance_disks,
    instance_making,
    instances,
    job_log,
    jobs,
    lock_table,
    modify,
    node_power,
    nodes,
    permissions,
    plans,
    queries,
    queue,
    tags,
    waiting,
)
from .snapshots import Snapshots

if TYPE_CHECKING:
    from ..service import Service


def top() -> APIRouter:
    """The resources above `/2`."""
    routes = APIRouter()
    cluster.add_top(routes)
    return routes


def router(service: Service, *, door: asking.Door) -> APIRouter:
    """All resources below `/2`; those of plays by hand and of the whole configuration only on the local socket."""
    checks = [Depends(asking.refuse_ignored_trial), Depends(permissions.check(service.where))]
    routes = APIRouter(prefix="/2", dependencies=checks)
    snapshots = Snapshots(lambda: service.configuration.current)
    cluster.add(routes, service)
    nodes.add(routes, service, snapshots)
    node_power.add(routes, service)
    instances.add(routes, service, snapshots)
    instance_making.add(routes, service)
    instance_disks.add(routes, service)
    groups.add(routes, snapshots)
    tags.add(routes, service)
    waits = waiting.Waits()
    jobs.add(routes, service, waits=waits)
    job_log.add(routes, service, waits=waits)
    queries.add(routes, service, snapshots)
    filters.add(routes, service)
    queue.add(routes, service)
    incidents.add(routes, service)
    lock_table.add(routes, service)
    modify.add(routes, service)
    plans.add(routes, service)
    if door is asking.Door.SOCKET:
        config.add(routes, service)
        by_hand.add(routes, service)
        adoption.add(routes, service)
    return routes
