"""Parameters of the cluster, its groups and its nodes: what may be set without an editor."""

from __future__ import annotations

import dataclasses
import uuid
from typing import TYPE_CHECKING, Annotated, Any

from fastapi import Body
from fastapi.responses import Response  # noqa: TC002 - FastAPI reads the annotations

from ...plugins.module_utils.domain.values import errors, value_rules
from ...plugins.plugin_utils.cluster import cluster as clusters
from ...plugins.plugin_utils.opcodes import contract
from ...plugins.plugin_utils.settings import joining, parameters
from ..jobs import values
from . import asking, submissions
from .answers import Json

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from fastapi import APIRouter

    from ..service import Service

Fields = Annotated[dict[str, Any], Body(description="Parameters by name; `ndparams` may hold those of nodes.")]
ROLES = {("drained", True): "drained", ("drained", False): "undrained", ("offline", True): "offline"}
ROLES[("offline", False)] = "online"


def add(routes: APIRouter, service: Service) -> None:
    """The resources that change parameters; each answers the number of its job."""
    _cluster(routes, service)
    _groups(routes, service)
    _nodes(routes, service)


def _cluster(routes: APIRouter, service: Service) -> None:
    @routes.put("/modify", response_model=int)
    async def modify(body: Fields, asked: asking.Parameters) -> Response:
        fields = flat(body)
        parameters.cluster_modify(service.configuration.current, fields)
        return await _submitted(service, asked, "cluster modify", values.Opcode("cluster_modify", {"fields": fields}))


def _groups(routes: APIRouter, service: Service) -> None:
    @routes.post("/groups", response_model=int)
    async def add_group(body: Fields, asked: asking.Parameters) -> Response:
        fields = flat({("name" if name == "group_name" else name): value for name, value in body.items()})
        opcode = values.Opcode("group_add", {"uuid": str(uuid.uuid4()), "fields": fields})
        parameters.group_add(service.configuration.current, opcode.params["uuid"], fields)
        return await _submitted(service, asked, "group add", opcode)

    @routes.put("/groups/{name}/modify", response_model=int)
    async def modify(name: str, body: Fields, asked: asking.Parameters) -> Response:
        fields, cluster = flat(body), service.configuration.current
        parameters.group_modify(cluster, name, fields)
        opcode = values.Opcode("group_modify", {"group": cluster.group(name).uuid, "fields": fields})
        return await _submitted(service, asked, "group modify", opcode)

    @routes.put("/groups/{name}/rename", response_model=int)
    async def rename(name: str, new_name: Annotated[str, Body(embed=True)], asked: asking.Parameters) -> Response:
        cluster = service.configuration.current
        parameters.group_modify(cluster, name, {"name": new_name})
        opcode = values.Opcode("group_modify", {"group": cluster.group(name).uuid, "fields": {"name": new_name}})
        return await _submitted(service, asked, "group rename", opcode)

    @routes.delete("/groups/{name}", response_model=int)
    async def remove(name: str, asked: asking.Parameters) -> Response:
        cluster = service.configuration.current
        parameters.group_remove(cluster, name)
        opcode = values.Opcode("group_remove", {"group": cluster.group(name).uuid})
        return await _submitted(service, asked, "group remove", opcode)


def _nodes(routes: APIRouter, service: Service) -> None:
    @routes.post("/nodes", response_model=int)
    async def add_node(body: Fields, asked: asking.Parameters) -> Response:
        return await _submitted(service, asked, "node add", *_node_add(service.configuration.current, flat(body)))

    @routes.post("/nodes/{name}/modify", response_model=int)
    async def modify(name: str, body: Fields, asked: asking.Parameters) -> Response:
        opcodes = node_opcodes(service, name, flat(body), force=asked.force)
        return await _submitted(service, asked, "node modify", *opcodes)

    @routes.delete("/nodes/{name}", response_model=int)
    async def remove(name: str, asked: asking.Parameters) -> Response:
        cluster = service.configuration.current
        joining.remove(contract.observed(cluster, service.intake), name)
        opcode = values.Opcode("node_remove", {"node": cluster.node(name).uuid})
        return await _submitted(service, asked, "node remove", opcode)


def _node_add(cluster: clusters.Cluster, fields: dict[str, Any]) -> list[values.Opcode]:
    """A node that is added again is looked at before it is in service: it may still run what runs elsewhere now."""
    if not value_rules.flag("readd", fields.pop("readd", False)):
        new = str(uuid.uuid4())
        joining.add(cluster, new, fields)
        return [values.Opcode("node_add", {"uuid": new, "fields": fields})]
    node = cluster.node(str(fields.get("name", "")))
    joining.again(cluster, node.uuid, fields)
    added = values.Opcode("node_add", {"uuid": node.uuid, "fields": fields, "readd": True})
    return [added, *submissions.role(cluster, node.name, "online", force=True)]


def node_opcodes(service: Service, name: str, fields: dict[str, Any], *, force: bool) -> list[values.Opcode]:
    """The opcodes of a modification of a node: its role is an opcode of its own, as at `/role`.

    Raises:
        InvalidInput, Refused: nothing is given, or something of it is not accepted.
    """
    cluster = service.configuration.current
    fields.pop("auto_promote", None)  # another candidate is always promoted
    roles = [(role, fields.pop(role)) for role in ("drained", "offline") if role in fields]
    if len(roles) > 1 or any(not isinstance(wanted, bool) for _, wanted in roles):
        raise errors.InvalidInput("drained, offline: give one of them, as true or false")
    opcodes = [opcode for role in roles for opcode in submissions.role(cluster, name, ROLES[role], force=force)]
    if fields:
        parameters.node_modify(_after(cluster, name, roles), name, fields)
        opcode = values.Opcode("node_modify", {"node": cluster.node(name).uuid, "fields": fields})
        # To be back in service a node has its power on record first, to be without power it is offline first.
        opcodes = [opcode, *opcodes] if fields.get("powered") is True else [*opcodes, opcode]
    if not opcodes:
        raise errors.InvalidInput("Please pass at least one modification")
    return opcodes


def _after(cluster: clusters.Cluster, name: str, wanted: Iterable[tuple[str, bool]]) -> clusters.Cluster:
    """The cluster as these roles of a node leave it: the opcodes of one job see what those before them changed."""
    node, given = cluster.node(name), dict(wanted)
    drained, offline = given.get("drained", node.drained), given.get("offline", node.offline)
    return clusters.with_node(cluster, dataclasses.replace(node, drained=drained, offline=offline))


def flat(body: Mapping[str, Any]) -> dict[str, Any]:
    """The parameters of a body, those of its `ndparams` among them.

    Raises:
        InvalidInput: `ndparams` is no object.
    """
    fields = {name: value for name, value in body.items() if name != "ndparams"}
    inner = body.get("ndparams", {})
    if not isinstance(inner, dict):
        raise errors.InvalidInput("ndparams: is no object")
    return {**fields, **inner}


async def _submitted(service: Service, asked: asking.Asked, text: str, *opcodes: values.Opcode) -> Response:
    reason = asked.because(text)
    return Json((await submissions.submit(service, opcodes, reason=reason, dry_run=asked.dry_run)).id)
