"""Who makes a request and through which door, and what a request for a change may carry beside its body."""

from __future__ import annotations

import asyncio
import os
import pwd
import re
from dataclasses import dataclass
from enum import Enum
from typing import Annotated

from fastapi import Depends, Query, Request

from ...plugins.module_utils.domain.values import errors
from ..jobs import values

DRY_RUN = "dry-run"
NO = frozenset({"", "0", "f", "false", "n", "no", "off"})
USER = "gnt:user"
CLIENTS = {"socket": values.CLIENT + "socket", "remote": values.CLIENT + "rapi", "public": values.CLIENT + "public"}
"""By door the source of the entry of a reason trail that names the user."""
USER_HEADER = "x-roundsman-user"
UNKNOWN = "unknown"
_USER = re.compile(r"[!-~]{1,200}")


class Door(Enum):
    """The listening socket through which a request came."""

    SOCKET = "socket"
    REMOTE = "remote"
    PUBLIC = "public"


@dataclass(frozen=True)
class Requester:
    """The user who makes a request, and the door it came through.

    `uid` is the peer's, as the kernel reports it (SO_PEERCRED): at the remote door it is that of `roundsman-rapi`.
    `user` is the name of that account, or `uid 1234`; at the remote door the user whom the remote API authenticated,
    or `unknown`.
    """

    door: Door
    user: str
    uid: int | None
    pid: int | None

    @property
    def is_root(self) -> bool:
        """Whether this is root on the controller, or the daemon's own user: a lab needs no root."""
        return self.door is Door.SOCKET and self.uid in {0, os.geteuid()}


@dataclass(frozen=True)
class Asked:
    """The common part of a request for a change; `trail` are the sources and texts for its reason trail."""

    trail: tuple[tuple[str, str], ...]
    dry_run: bool
    force: bool

    @property
    def user(self) -> str:
        """The user who made the request."""
        return self.trail[-1][1]

    def because(self, text: str) -> tuple[tuple[str, str], ...]:
        """The reason trail; `text` says what was asked for where nobody said why."""
        return self.trail if any(source == USER for source, _ in self.trail) else ((USER, text), *self.trail)


async def requester(request: Request) -> Requester:
    """The user who makes a request; a dependency of handlers and of whole routers."""
    door: Door = request.app.state.door
    uid, pid = _peer(request)
    if door is Door.REMOTE:
        given = request.headers.getlist(USER_HEADER)
        is_name = len(given) == 1 and _USER.fullmatch(given[0])
        return Requester(door, given[0] if is_name else UNKNOWN, uid, pid)
    return Requester(door, UNKNOWN if uid is None else await _account(uid), uid, pid)


Requesting = Annotated[Requester, Depends(requester)]


def _peer(request: Request) -> tuple[int | None, int | None]:
    """The uid and pid that `peer_sockets` reports as the peer's address."""
    host, pid = request.scope.get("client") or ("", 0)
    return (int(host), pid) if re.fullmatch("[0-9]+", host) else (None, None)


_accounts: dict[int, str] = {}


async def _account(uid: int) -> str:
    # The accounts may come from a directory server that does not answer.
    if uid not in _accounts:
        _accounts[uid] = await asyncio.to_thread(_account_name, uid)
    return _accounts[uid]


def _account_name(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"uid {uid}"


def _asked(
    who: Requesting,
    *,
    reason: Annotated[str, Query(max_length=1000, description="Why; the first entry of the reason trail.")] = "",
    dry_run: Annotated[
        bool, Query(alias=DRY_RUN, description="Only say what would be done; refused where that cannot be known.")
    ] = False,
    force: Annotated[bool, Query(description="Skip the checks that protect instances.")] = False,
) -> Asked:
    trail = [(USER, reason)] if reason else []
    trail.append((CLIENTS[who.door.value], who.user))
    return Asked(tuple(trail), dry_run, force)


Parameters = Annotated[Asked, Depends(_asked)]


def is_dry_run(request: Request) -> bool:
    """Whether the query of a request asks for a dry run."""
    return request.query_params.get(DRY_RUN, "").lower() not in NO


async def refuse_ignored_trial(request: Request) -> None:
    """A trial is refused where it would be ignored, and so the thing itself done.

    Raises:
        InvalidInput: it is asked for, and this resource has none.
    """
    if not is_dry_run(request) or request.method in {"GET", "HEAD"}:
        return
    operation = request.app.openapi()["paths"][request.scope["route"].path][request.method.lower()]
    if all(parameter["name"] != DRY_RUN for parameter in operation.get("parameters", [])):
        raise errors.InvalidInput(f"{DRY_RUN}: what this does cannot be tried")
