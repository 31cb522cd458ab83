"""The tags of the cluster, of groups, nodes and instances."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from fastapi import Body, Query
from fastapi.responses import Response  # noqa: TC002 - FastAPI reads the annotations

from ...plugins.module_utils.domain.values import errors
from ...plugins.plugin_utils.cluster import tagging
from ..jobs import values
from . import asking, submissions
from .answers import Json

if TYPE_CHECKING:
    from fastapi import APIRouter

    from ..service import Service

PATHS = {"group": "/groups/{name}/tags", "node": "/nodes/{name}/tags", "instance": "/instances/{name}/tags"}
Tags = Annotated[list[str], Query(alias="tag", max_length=1000, description="A tag; may be given again.")]
Beside = Annotated[list[str] | None, Body(max_length=1000, description="The same tags, as Ganeti's client sends them.")]


def add(routes: APIRouter, service: Service) -> None:
    """Read, give and take tags; the last two are jobs."""
    for kind, path in PATHS.items():
        _of_named(routes, service, kind, path=path)

    @routes.get("/tags", response_model=list[str])
    async def listed() -> Response:
        return Json(list(service.configuration.current.cluster.tags))

    @routes.put("/tags", response_model=int)
    async def give(asked: asking.Parameters, tag: Tags = [], body: Beside = None) -> Response:  # noqa: B006 - FastAPI copies it
        return Json(await _submit(service, "tags_set", "cluster", "", tags=_stated(tag, body), asked=asked))

    @routes.delete("/tags", response_model=int)
    async def take(asked: asking.Parameters, tag: Tags = []) -> Response:  # noqa: B006 - FastAPI copies it
        return Json(await _submit(service, "tags_del", "cluster", "", tags=_stated(tag, None), asked=asked))


def _of_named(routes: APIRouter, service: Service, kind: str, *, path: str) -> None:
    def uuid_of(name: str) -> str:
        return tagging.tag_owner(service.configuration.current, kind, name).uuid

    @routes.get(path, response_model=list[str], name=f"{kind}_tags")
    async def listed(name: str) -> Response:
        return Json(list(tagging.tag_owner(service.configuration.current, kind, name).tags))

    @routes.put(path, response_model=int, name=f"{kind}_tags_add")
    async def give(name: str, asked: asking.Parameters, tag: Tags = [], body: Beside = None) -> Response:  # noqa: B006 - FastAPI copies it
        return Json(await _submit(service, "tags_set", kind, uuid_of(name), tags=_stated(tag, body), asked=asked))

    @routes.delete(path, response_model=int, name=f"{kind}_tags_remove")
    async def take(name: str, asked: asking.Parameters, tag: Tags = []) -> Response:  # noqa: B006 - FastAPI copies it
        return Json(await _submit(service, "tags_del", kind, uuid_of(name), tags=_stated(tag, None), asked=asked))


def _stated(tags: list[str], body: list[str] | None) -> list[str]:
    if tags and body and sorted(tags) != sorted(body):
        raise errors.InvalidInput("the tags of the body are not those of the query: name them once")
    stated = list(dict.fromkeys(tags or body or []))
    if not stated:
        raise errors.InvalidInput("no tag is named: add ?tag=TAG")
    for tag in stated:
        tagging.check_tag(tag)
    return stated


async def _submit(service: Service, opcode: str, kind: str, uuid: str, *, tags: list[str], asked: asking.Asked) -> int:
    params = {"of": kind, "object": uuid, "tags": tags}
    verb = "add" if opcode == "tags_set" else "remove"
    job = await submissions.submit(
        service,
        [values.Opcode(opcode, params)],
        reason=asked.because(f"{kind} tags {verb} {' '.join(tags)}"),
        dry_run=asked.dry_run,
    )
    return job.id
