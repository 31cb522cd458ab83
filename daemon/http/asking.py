"""What any request for a change may carry beside its body: who asks, why, how urgently, and whether only to try."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from fastapi import Depends, Header, Query

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
        bool, Query(alias="dry-run", description="Only say what would be done; refused where that cannot be known.")
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
