"""What any request for a change may carry beside its body: who asks, why, how urgently, and whether only to try."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from fastapi import Depends, Header, Query, Request

from ...plugins.module_utils.domain import errors

DRY_RUN = "dry-run"
NO = frozenset({"", "0", "f", "false", "n", "no", "off"})
USER = "gnt:user"
CLIENT = "gnt:client:rapi"


@dataclass(frozen=True)
class Asked:
    """The common part of a request for a change; `trail` are the sources and texts for its reason trail."""

    trail: tuple[tuple[str, str], ...]
    dry_run: bool
    force: bool

    def because(self, text: str) -> tuple[tuple[str, str], ...]:
        """The reason trail; `text` says what was asked for where nobody said why."""
        return self.trail if any(source == USER for source, _ in self.trail) else ((USER, text), *self.trail)


def _asked(
    *,
    reason: Annotated[str, Query(max_length=1000, description="Why; the first entry of the reason trail.")] = "",
    dry_run: Annotated[
        bool, Query(alias=DRY_RUN, description="Only say what would be done; refused where that cannot be known.")
    ] = False,
    force: Annotated[bool, Query(description="Skip the checks that protect instances.")] = False,
    x_roundsman_user: Annotated[
        str, Header(max_length=200, description="Who was authenticated; set by the front, believed on the socket.")
    ] = "",
) -> Asked:
    trail = [(USER, reason)] if reason else []
    trail += [(CLIENT, x_roundsman_user)] if x_roundsman_user else []
    return Asked(tuple(trail), dry_run, force)


Parameters = Annotated[Asked, Depends(_asked)]


async def refuse_ignored_trial(request: Request) -> None:
    """A trial is refused where it would be ignored, and so the thing itself done.

    Raises:
        InvalidInput: it is asked for, and this resource has none.
    """
    asked = request.query_params.get(DRY_RUN)
    if asked is None or asked.lower() in NO or request.method in {"GET", "HEAD"}:
        return
    operation = request.app.openapi()["paths"][request.scope["route"].path][request.method.lower()]
    if all(one["name"] != DRY_RUN for one in operation.get("parameters", [])):
        raise errors.InvalidInput(f"{DRY_RUN}: what this does cannot be tried")
