"""Plans that somebody has made and looked at, to be run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from fastapi import Body
from fastapi.responses import Response  # noqa: TC002 - FastAPI reads the annotations

from ...plugins.module_utils.domain.values import errors
from ...plugins.plugin_utils import plan_documents
from ..jobs import values
from . import asking, submissions
from .answers import Json

if TYPE_CHECKING:
    from fastapi import APIRouter

    from ..service import Service

Text = Annotated[str, Body(embed=True, description="The text of the document, with its checksum.")]


def add(routes: APIRouter, service: Service) -> None:
    """The resource that runs plans."""

    @routes.post("/plans", response_model=int)
    async def run(document: Text, asked: asking.Parameters) -> Response:
        found = plan_documents.read(document.encode(errors="replace"))
        plan_documents.refuse_another(service.configuration.current, found)
        if not found.moves:
            raise errors.Refused("this plan has no moves: there is nothing to do")
        params: dict[str, Any] = {
            "command": found.command,
            "digest": found.digest,
            "moves": [{"instance": move.instance, "action": move.action, "after": move.after} for move in found.moves],
            "failover": found.failover,
        }
        reason = asked.because(found.command)
        if found.ignore_consistency:
            params["ignore_consistency"] = True
            reason += submissions.ignore_consistency(asked)
        if found.max_loss is not None:
            params["max_loss"] = found.max_loss
            reason += submissions.max_loss(asked, found.max_loss)
        opcode = values.Opcode("run_plan", params)
        return Json((await submissions.submit(service, [opcode], reason=reason, dry_run=asked.dry_run)).id)
