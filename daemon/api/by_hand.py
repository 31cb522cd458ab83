"""What plays by hand ask of the daemon: locks, and that what became true is recorded."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pydantic
from fastapi.responses import Response  # noqa: TC002 - FastAPI reads the annotations

from ...plugins.module_utils.domain.values import errors
from ...plugins.plugin_utils import livelocks
from ...plugins.plugin_utils.cluster import locks, recording
from ...plugins.plugin_utils.rounds import wording
from ..locks import holders
from . import auditing
from .answers import Json

if TYPE_CHECKING:
    from fastapi import APIRouter

    from ..service import Service

NAME = re.compile("[a-zA-Z0-9_-]{1,100}")
"""Names of livelocks, and of the plays that hold them: without spaces, so that no play is taken for a job."""


class Hold(pydantic.BaseModel):
    """A play by hand asks for locks; they are its own for as long as its livelock is held.

    Instances on which steps of another controller may still be at work are held in an emergency only.
    """

    model_config = pydantic.ConfigDict(extra="forbid")
    owner: str
    livelock: str
    wants: dict[str, locks.Mode]
    time_limit: float = pydantic.Field(default=300, gt=0, le=86400)
    is_emergency: bool = False


class ConfirmBoots(pydantic.BaseModel):
    """A play by hand has steps for nodes (UUIDs) that may have booted since they were asked last."""

    model_config = pydantic.ConfigDict(extra="forbid")
    owner: str
    livelock: str
    nodes: list[str] = pydantic.Field(max_length=100_000)


class Record(pydantic.BaseModel):
    """A play by hand hands over what became true."""

    model_config = pydantic.ConfigDict(extra="forbid")
    owner: str
    livelock: str
    changes: list[dict[str, Any]] = pydantic.Field(min_length=1, max_length=100_000)


def add(routes: APIRouter, service: Service) -> None:
    """Hold and record, for whoever holds a livelock."""

    @routes.post("/hold", response_model=dict[str, str])
    async def hold(body: Hold) -> Response:
        owner = _owner(service, body)
        auditing.add_text(f"{owner.name} holds {wording.count(len(body.wants), 'lock')}")
        _require_held(owner)
        if body.is_emergency:
            auditing.add_text("in an emergency: steps of another controller are not waited for")
        await _clear(service, body, asks_all=False)
        await service.desk.acquire(owner, body.wants, purpose=body.owner, time_limit=body.time_limit)
        # What was so before the locks were waited for may be so no more.
        await _clear(service, body, asks_all=True)
        held = service.desk.table.locks_of(owner)
        return Json({lock: mode.value for lock, mode in held.items()})

    @routes.post("/confirm-boots", response_model=dict[str, list[str]])
    async def confirm_boots(body: ConfirmBoots) -> Response:
        owner = _owner(service, body)
        _require_held(owner)
        auditing.add_text(f"{owner.name} has {wording.count(len(body.nodes), 'node')} asked for their boots")
        return Json({"unconfirmed": sorted(await service.leadership.confirm_boots(body.nodes))})

    @routes.post("/record", response_model=dict[str, bool])
    async def record(body: Record) -> Response:
        owner = _owner(service, body)
        stated = [recording.decode(change) for change in body.changes]
        auditing.add_text(f"{owner.name} records {wording.count(len(stated), 'change')}")
        held = service.desk.table.locks_of(owner)
        for change in stated:
            recording.refuse_unheld(held, change)
        await service.configuration.commit(lambda _: stated, by=f"record {auditing.requester()} play={owner.name}")
        service.rounds.wake()
        return Json({"recorded": True})


async def _clear(service: Service, body: Hold, *, asks_all: bool) -> None:
    """Wait until no step of another controller is at work on the instances of a hold, save in an emergency.

    Raises:
        Refused: that cannot be told.
    """
    cluster = service.configuration.current
    instances = locks.objects(body.wants, "instance", known=cluster.instances)
    if instances and not body.is_emergency:
        nodes = locks.objects(body.wants, "node", known=cluster.nodes)
        await service.leadership.clear(instances, nodes, asks_all=asks_all)


def _require_held(owner: holders.Owner) -> None:
    path = Path(owner.livelock)
    if not livelocks.is_alive(path):
        raise errors.Refused(f"nobody holds the livelock {path.name}")


def _owner(service: Service, body: Hold | Record | ConfirmBoots) -> holders.Owner:
    for field, name in (("livelock", body.livelock), ("owner", body.owner)):
        if not NAME.fullmatch(name):
            raise errors.InvalidInput(f"{field} must be 1 to 100 letters, digits, '-' and '_' (got {name[:100]!r})")
    return holders.Owner(body.owner, str(service.where.livelocks / body.livelock))
