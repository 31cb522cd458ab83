"""Who did it: one line of the audit log for each write, accepted or refused, with user, door, status and jobs.

A line is written before its answer is sent:
`request user=alice uid=997 door=remote PUT /2/nodes/node3/power status=202 jobs=7
text="power off node3"`. Paths are as they were sent, without queries; a user's name and a path have no spaces, and the
text is a JSON string, so no part can be forged.
"""

from __future__ import annotations

import contextvars
import json
import logging
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from starlette.requests import Request

from ...plugins.plugin_utils import log_output
from ...plugins.plugin_utils.rounds import wording
from ...plugins.plugin_utils.settings import permissions
from . import asking

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from ..jobs import values

    Message = dict[str, Any]
    Receive = Callable[[], Awaitable[Message]]
    Send = Callable[[Message], Awaitable[None]]
    Application = Callable[[Message, Receive, Send], Awaitable[None]]

LOG = logging.getLogger(log_output.AUDIT)
LONGEST = 500
FAILED, BROKEN_OFF = 500, 499
"""The statuses of a request that an unforeseen error ended, and of one whose client went away before the answer."""


@dataclass
class _Write:
    """What the handler of a write adds to its line."""

    requester: str
    jobs: list[int] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)


_write: contextvars.ContextVar[_Write | None] = contextvars.ContextVar("write", default=None)


def add_job(job: values.Job) -> None:
    """Name a job that the request at work has submitted."""
    write = _write.get()
    if write is not None:
        steps = [wording.summary(vars(opcode), job.names) for opcode in job.opcodes]
        write.jobs.append(job.id)
        write.texts.append(", then ".join(steps))


def add_text(text: str) -> None:
    """Say what the request at work does, where its path does not."""
    write = _write.get()
    if write is not None:
        write.texts.append(text)


def requester() -> str:
    """The user and the uid of the request at work, for a line of the audit log."""
    write = _write.get()
    return "user=unknown uid=unknown" if write is None else write.requester


class Audit:
    """An ASGI application that logs each write of another one."""

    def __init__(self, app: Application) -> None:
        self._app = app

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """Pass a request on, and log it when its answer begins or when there is none."""
        if scope["type"] != "http" or not permissions.is_write(scope["method"], scope["path"]):
            await self._app(scope, receive, send)
            return
        who = await asking.requester(Request(scope))
        write, is_logged = _Write(_named(who)), False
        token = _write.set(write)

        def log(status: int) -> None:
            nonlocal is_logged
            if not is_logged:
                is_logged = True
                _log(scope, who, status, write)

        async def noted(message: Message) -> None:
            if message["type"] == "http.response.start":
                log(message["status"])
            await send(message)

        try:
            await self._app(scope, receive, noted)
        except Exception:  # whatever it is, the write is logged before its door answers
            log(FAILED)
            raise
        finally:
            log(BROKEN_OFF)
            _write.reset(token)


def _log(scope: Message, who: asking.Requester, status: int, write: _Write) -> None:
    path = (scope.get("raw_path") or b"").decode("latin-1")[:LONGEST]
    jobs = ",".join(map(str, write.jobs)) or "none"
    if asking.is_dry_run(Request(scope)) and not any(text.startswith(wording.DRY_RUN) for text in write.texts):
        write.texts.insert(0, wording.DRY_RUN)
    text = f" text={json.dumps('; '.join(write.texts)[:LONGEST], ensure_ascii=False)}" if write.texts else ""
    LOG.info(
        "request %s door=%s %s %s status=%d jobs=%s%s",
        write.requester, who.door.value, scope["method"], path, status, jobs, text,
    )  # fmt: skip


def _named(who: asking.Requester) -> str:
    return f"user={who.user.replace(' ', '-')} uid={'unknown' if who.uid is None else who.uid}"
