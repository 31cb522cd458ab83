"""Instances made, changed and removed, as Ganeti's remote API has it, and the console of one."""

from __future__ import annotations

import asyncio
import secrets
import uuid
from typing import TYPE_CHECKING, Annotated, Any, Literal

import pydantic
from fastapi import Query
from fastapi.responses import Response  # noqa: TC002 - FastAPI reads the annotations

from ...plugins.module_utils.domain.values import errors
from ...plugins.plugin_utils import placing
from ...plugins.plugin_utils.config import hosts
from ...plugins.plugin_utils.opcodes import contract
from ...plugins.plugin_utils.settings import all_problems, instance_making
from ..jobs import values
from . import asking, bodies, os_playbooks, submissions
from .answers import Json

if TYPE_CHECKING:
    from collections.abc import Mapping

    from fastapi import APIRouter

    from ...plugins.plugin_utils.cluster import cluster as clusters
    from ...plugins.plugin_utils.placement.allocation import allocator
    from ..service import Service

BACKEND = {"memory": "memory", "maxmem": "memory", "vcpus": "vcpus", "auto_balance": "auto_balance"}
BACKEND["spindle_use"] = "spindle_use"
"""What Ganeti calls the backend's parameters, and our fields; there is one memory here."""
AUTO = ("auto", "generate")
ALIKE = ("disk_template", "memory", "vcpus", "hypervisor")


class Create(bodies.JobBody):
    """A new instance; sizes in MiB. Without nodes an allocator chooses them."""

    version: Literal[1] = pydantic.Field(default=1, alias="__version__")
    mode: Literal["create"] = "create"
    name: str = ""
    instance_name: str = ""
    disk_template: str
    disks: list[dict[str, Any]] = pydantic.Field(default=[], description="Objects with a `size`.")
    nics: list[dict[str, Any]] = pydantic.Field(default=[], description="Objects with `network`, `mac`, `link`.")
    beparams: dict[str, Any] = pydantic.Field(default={})
    hvparams: dict[str, Any] = pydantic.Field(default={})
    hypervisor: str | None = None
    pnode: str | None = None
    snode: str | None = None
    iallocator: str | None = pydantic.Field(default=None, description="A program in `etc/roundsman/iallocators`.")
    group_name: str | None = None
    tags: list[str] = pydantic.Field(default=[])
    start: bool = True
    os: str | None = pydantic.Field(default=None, description="A playbook in `etc/roundsman/os`, without its `.yml`.")
    os_type: str | None = None
    os_playbook: str | None = pydantic.Field(default=None, description="A path; for root on the controller only.")
    no_install: bool = False
    ip_check: Literal[False] = False
    name_check: Literal[False] = False
    wait_for_sync: bool = True


class Modify(bodies.JobBody):
    """Other parameters; an hvparam that is `default` is as if never given."""

    beparams: dict[str, Any] = pydantic.Field(default={})
    hvparams: dict[str, Any] = pydantic.Field(default={})


class Remove(bodies.JobBody):
    """What Ganeti's clients say."""

    ignore_failures: bool = False
    shutdown_timeout: float | None = pydantic.Field(default=None, description="The hypervisor's parameter decides.")


Ignore = Annotated[bool, Query(description="Leave what is on nodes that are not contacted, its primary among them.")]


def add(routes: APIRouter, service: Service) -> None:
    """The resources that make, change and remove instances."""
    _make(routes, service)
    _change(routes, service)

    @routes.get("/instances/{name}/console", response_model=dict[str, Any])
    async def console(name: str) -> Response:
        return Json(_console(service, name))


def _make(routes: APIRouter, service: Service) -> None:
    @routes.post("/instances", response_model=int)
    async def create(body: Create, asked: asking.Parameters) -> Response:
        cluster = service.configuration.current
        problems = all_problems.Problems()
        with problems.noting():
            _refuse_simulated(service, body.hypervisor)
        fields, playbook = _read(service, body, problems)
        known = next((known for known in cluster.instances.values() if known.name == fields.get("name")), None)
        if known is not None and known.is_unfinished:
            problems.refuse()
            _refuse_unlike(known, instance_making.draft(cluster, known.uuid, _without_macs(fields)))
            opcodes, named = [_rest(known.uuid, playbook)], known.uuid
        else:
            named = str(uuid.uuid4())
            nodes = await asyncio.to_thread(_placed, service, body, {"uuid": named, "fields": fields}, problems)
            reserve = values.Opcode("instance_reserve", {"instance": named, "nodes": nodes, "fields": fields})
            opcodes = [reserve] if asked.dry_run else [reserve, _rest(named, playbook)]
        if body.start and not asked.dry_run:
            opcodes.append(values.Opcode("startup", {"instance": named}))
        job = await submissions.submit(
            service,
            opcodes,
            priority=body.priority,
            reason=asked.because("instance add"),
            dry_run=asked.dry_run,
            names={named: fields["name"]},
        )
        return Json(job.id)


def _read(service: Service, body: Create, problems: all_problems.Problems) -> tuple[dict[str, Any], str]:
    """The fields of a new instance, and the playbook that installs it; what is refused of them is noted."""
    fields, playbook = dict[str, Any](), ""
    os, path = ("", "") if body.no_install else (body.os or body.os_type or "", body.os_playbook or "")
    with problems.noting():
        playbook = os_playbooks.chosen(service, name=os, path=path)
    with problems.noting():
        fields = _fields(service.configuration.current, body)
    return fields, playbook


def _placed(service: Service, body: Create, wanted: Mapping[str, Any], problems: all_problems.Problems) -> list[str]:
    """The nodes of a new instance.

    Raises:
        Refused: it has none, or anything was refused before; the text says all of it.
    """
    cluster, found = service.configuration.current, list[str]()
    draft: clusters.Instance | None = None
    ways: tuple[placing.Wish, allocator.Allocator] | None = None
    if wanted["fields"]:
        with problems.noting():
            draft = instance_making.draft(cluster, wanted["uuid"], wanted["fields"])
    with problems.noting():
        ways = _ways(service, body)
    if draft is not None and ways is not None:
        wish, by = ways
        with problems.noting():
            found = placing.place(contract.observed(cluster, service.intake), draft, wish, by=by)
    problems.refuse()
    return found


def _refuse_simulated(service: Service, hypervisor: str | None) -> None:
    """Refuse the simulated hypervisor where the controller is not that of a lab: on real nodes it would write files."""
    if hypervisor == instance_making.SIMULATED and not service.where.lab_file.is_file():
        raise errors.Refused(f"hypervisor: {instance_making.SIMULATED} is for labs, and this cluster is none: use kvm")


def _change(routes: APIRouter, service: Service) -> None:
    @routes.put("/instances/{name}/modify", response_model=int)
    async def modify(name: str, body: Modify, asked: asking.Parameters) -> Response:
        cluster = service.configuration.current
        instance, fields = cluster.instance(name), _backend(body.beparams)
        if body.hvparams:
            fields["hvparams"] = {key: None if text == "default" else text for key, text in body.hvparams.items()}
        if not fields:
            raise errors.InvalidInput("Please pass at least one modification")
        instance_making.modify(cluster, instance.uuid, fields)
        opcodes = [values.Opcode("instance_modify", {"instance": instance.uuid, "fields": fields})]
        reason = asked.because("instance modify")
        job = await submissions.submit(service, opcodes, priority=body.priority, reason=reason, dry_run=asked.dry_run)
        return Json(job.id)

    @routes.delete("/instances/{name}", response_model=int)
    async def remove(
        name: str, asked: asking.Parameters, body: Remove | None = None, *, ignore_failures: Ignore = False
    ) -> Response:
        body = body or Remove()
        instance = service.configuration.current.instance(name)
        params: dict[str, Any] = {"instance": instance.uuid}
        if ignore_failures or body.ignore_failures:
            params["ignore_failures"] = True
        job = await submissions.submit(
            service,
            [values.Opcode("instance_remove", params)],
            priority=body.priority,
            reason=asked.because("instance remove"),
            dry_run=asked.dry_run,
        )
        return Json(job.id)


def _fields(cluster: clusters.Cluster, body: Create) -> dict[str, Any]:
    """The fields of a new instance, each of its interfaces with an address."""
    sizes = [disk.get("size") if set(disk) == {"size"} else disk for disk in body.disks]
    fields: dict[str, Any] = {
        "name": body.name or body.instance_name,
        "disk_template": body.disk_template,
        "disks": sizes,
        "nics": [
            {**nic, "mac": nic["mac"] if nic.get("mac") and nic["mac"] not in AUTO else _mac()} for nic in body.nics
        ],
        "hypervisor": body.hypervisor or instance_making.usual_hypervisor(cluster),
        "hvparams": body.hvparams,
        "tags": body.tags,
        **_backend(body.beparams),
    }
    return fields


def _backend(given: dict[str, Any]) -> dict[str, Any]:
    unknown = sorted(set(given) - {*BACKEND, "minmem"})
    if unknown:
        raise errors.InvalidInput(f"beparams: there is no {unknown[0]!r}: use one of {', '.join(BACKEND)}")
    return {BACKEND[name]: value for name, value in given.items() if name in BACKEND}


def _mac() -> str:
    return "52:54:00:" + ":".join(f"{byte:02x}" for byte in secrets.token_bytes(3))


def _without_macs(fields: dict[str, Any]) -> dict[str, Any]:
    return {**fields, "nics": []}


def _refuse_unlike(known: clusters.Instance, asked: clusters.Instance) -> None:
    """What is tried again is the same instance as the one that is unfinished."""
    differ = [name for name in ALIKE if getattr(known, name) != getattr(asked, name)]
    if [disk.size for disk in known.disks] != [disk.size for disk in asked.disks]:
        differ.append("disks")
    if differ:
        raise errors.Refused(
            f"{known.name} is there, unfinished, with another {', '.join(differ)}: ask for the same again, or remove "
            f"it first with `roundsman instance remove {known.name}`"
        )


def _ways(service: Service, body: Create) -> tuple[placing.Wish, allocator.Allocator]:
    """Where an instance is asked to go, and what chooses the rest."""
    cluster = service.configuration.current
    if body.snode and not body.pnode:
        raise errors.InvalidInput("snode: name the pnode, too")
    nodes = tuple(cluster.node(name).uuid for name in (body.pnode, body.snode) if name)
    group = cluster.group(body.group_name).name if body.group_name else ""
    return placing.Wish(group, nodes), placing.chosen(cluster, body.iallocator or "", where=service.where)


def _rest(instance: str, playbook: str) -> values.Opcode:
    return values.Opcode("instance_create", {"instance": instance, **({"os_playbook": playbook} if playbook else {})})


def _console(service: Service, name: str) -> dict[str, Any]:
    """How its console is reached, as Ganeti tells it."""
    cluster = service.configuration.current
    instance = cluster.instance(name)
    if not instance.is_up:
        raise errors.Refused(f"{instance.name} does not run: start it with `roundsman instance start {instance.name}`")
    node = cluster.node(instance.primary_node)
    told: dict[str, Any] = {"instance": instance.name, "kind": "ssh", "message": None, "display": None}
    connection = hosts.connection(node, root=service.where.root)
    user = connection.get("ansible_user")
    virsh = ["virsh", "--connect", "qemu:///system", "console", instance.name]
    told |= {
        "host": connection.get("ansible_host") or node.primary_ip or node.name,
        "port": int(connection["ansible_port"]) if "ansible_port" in connection else None,
        "user": user,
        "command": virsh if user in {None, "root"} else ["sudo", *virsh],
    }
    if instance.hypervisor == instance_making.SIMULATED:
        told |= {"kind": "msg", "message": f"{instance.name} is simulated: it has no console"}
    return told
