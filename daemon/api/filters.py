"""The filters of the job queue: rules that let jobs start, hold them, cancel them or limit them."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Annotated, Any, Self

import orjson
import pydantic
from fastapi.responses import Response  # noqa: TC002 - FastAPI reads the annotations

from ...plugins.module_utils.domain.values import errors
from ...plugins.plugin_utils.cluster import changes, job_filters
from . import bodies
from .answers import Json

if TYPE_CHECKING:
    from fastapi import APIRouter

    from ..service import Service

Uuid = Annotated[str, pydantic.Field(pattern=r"^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$")]


class Rule(bodies.Body):
    """A rule; `reason` is the trail of why it stands, entries of source, text and time in ns."""

    priority: int = pydantic.Field(default=0, ge=0, lt=2**31)
    predicates: list[Any] = pydantic.Field(default=[], max_length=100)
    action: Any = "CONTINUE"
    reason: list[tuple[str, str, int]] = pydantic.Field(default=[], max_length=100)

    @pydantic.model_validator(mode="after")
    def _can_be_kept(self) -> Self:
        try:
            orjson.dumps([self.predicates, self.reason])
        except TypeError as error:
            raise ValueError(str(error)) from error
        return self


def add(routes: APIRouter, service: Service) -> None:
    """The rules, each by its UUID; a new one holds at once, without a job."""

    def known(name: str) -> job_filters.Filter:
        found = service.configuration.current.filters.get(name)
        if found is None:
            raise errors.NotFound(f"there is no filter {name!r}")
        return found

    @routes.get("/filters", response_model=list[dict[str, Any]])
    async def listed(*, bulk: bool = False) -> Response:
        found = job_filters.ordered(service.configuration.current.filters)
        return Json(
            [
                _told(job_filter) if bulk else {"uuid": job_filter.uuid, "uri": f"/2/filters/{job_filter.uuid}"}
                for job_filter in found
            ]
        )

    @routes.get("/filters/{name}", response_model=dict[str, Any])
    async def info(name: str) -> Response:
        return Json(_told(known(name)))

    @routes.post("/filters", response_model=str)
    async def make(body: Rule) -> Response:
        return Json(await _stand(service, str(uuid.uuid4()), body))

    @routes.put("/filters/{name}", response_model=str)
    async def replace(name: Uuid, body: Rule) -> Response:
        return Json(await _stand(service, name, body))

    @routes.delete("/filters/{name}", response_model=None)
    async def remove(name: str) -> Response:
        gone = known(name).uuid
        await service.configuration.commit(lambda _: [changes.FilterGone(gone)])
        service.queue.look()
        return Json(None)


async def _stand(service: Service, name: str, rule: Rule) -> str:
    told = rule.model_dump(include={"priority", "predicates", "action"})
    job_filter = job_filters.make(told, uuid=name, watermark=service.queue.last_id, reason=rule.reason)
    await service.configuration.commit(lambda _: [changes.FilterStands(job_filter)])
    service.queue.look()
    return name


def _told(job_filter: job_filters.Filter) -> dict[str, Any]:
    return {
        "uuid": job_filter.uuid,
        "watermark": job_filter.watermark,
        "priority": job_filter.priority,
        "predicates": [list(predicate) for predicate in job_filter.predicates],
        "action": job_filters.tell_action(job_filter),
        "reason_trail": [list(entry) for entry in job_filter.reason],
    }
