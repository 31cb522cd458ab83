"""The daemon as the command line sees it: HTTP over its unix socket."""

from __future__ import annotations

import contextlib
import json
import socket
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import quote

import httpx

from ...plugins.module_utils.domain.values import errors, tree
from ...plugins.plugin_utils import daemon_client, unix_sockets
from ...plugins.plugin_utils.config import store
from . import output, places

if TYPE_CHECKING:
    from collections.abc import Callable

    import typer

PATIENCE = 75.0
"""Seconds to wait for an answer; the daemon itself keeps a waiting client at most 60."""
OWN = Path("/")
"""The root folder of this machine's controller."""
UNNAMED = "(name unknown)"
"""What stands for the name of a cluster that cannot be read."""


class NoDaemon(errors.Failed):
    """Nobody answers at the socket."""


@dataclass
class Notice:
    """How a cluster was found that was not named: printed once, before it is changed."""

    how: str = ""
    is_printed: bool = False

    def tell(self, root: Path, name: Callable[[], str]) -> None:
        """Print on standard error which cluster is about to be changed, if it was not named."""
        if self.how and not self.is_printed:
            self.is_printed = True
            output.warning(f"roundsman: this acts on cluster {name()} in {root.absolute()}, because {self.how}")


class Daemon:
    """The daemon of one root; to be used as a context manager.

    Raises, from every request:
        NoDaemon: nobody answers at the socket. Refused: the daemon's own sentence of why not.
        Failed: it broke off.
    """

    def __init__(self, root: Path, *, hint: str = "", notice: Notice | None = None) -> None:
        self.root = root
        self.notice = notice or Notice()
        self._socket = tree.Tree(root).socket
        self._hint = hint
        self._open = contextlib.ExitStack()
        self._http: httpx.Client | None = None

    def __enter__(self) -> Self:
        try:
            self._http = self._open.enter_context(daemon_client.connected(self._socket, seconds=PATIENCE))
        except OSError as error:
            raise self._absent(error) from error
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()

    def get(self, *parts: object, **query: object) -> Any:
        """Read the JSON value of a resource; each part of its path is quoted."""
        return json.loads(self.text(*parts, **query))

    def text(self, *parts: object, **query: object) -> str:
        """Read a resource as the very text that the daemon sent: no number in it is rounded."""
        return self._request("GET", parts, query=query)

    def put(self, *parts: object, body: Any = None, **query: object) -> Any:
        """Change a resource; returns what it is afterwards, or the number of the job that changes it."""
        return self.send("PUT", *parts, body=body, **query)

    def send(self, method: str, *parts: object, body: Any = None, **query: object) -> Any:
        """Make or change a resource by another method than PUT."""
        return json.loads(self._request(method, parts, query=query, body=body))

    def delete(self, *parts: object, **query: object) -> Any:
        """Remove a resource; returns what is left of it, or the number of the job that removes it."""
        return json.loads(self._request("DELETE", parts, query=query))

    def _name(self) -> str:
        try:
            return str(self.get("2", "info")["name"])
        except (errors.RoundsmanError, ValueError, KeyError, TypeError):
            return UNNAMED

    def _request(
        self,
        method: str,
        parts: tuple[object, ...],
        *,
        query: dict[str, Any] | None = None,
        body: Any = None,
    ) -> str:
        assert self._http is not None
        if method != "GET":
            self.notice.tell(self.root, self._name)
        path = "/" + "/".join(_quoted(str(part)) for part in parts)
        try:
            answer = self._http.request(method, path, params=query or None, json=body)
        except httpx.ConnectError as error:
            raise self._absent(error) from error
        except httpx.TimeoutException as error:
            raise errors.Failed(f"the daemon at {self._socket} gave no answer within {PATIENCE:.0f} s") from error
        except httpx.TransportError as error:
            raise errors.Failed(f"the daemon at {self._socket} broke off: {error}") from error
        if answer.status_code >= HTTPStatus.BAD_REQUEST:
            raise _refusal(answer)
        return answer.text

    def _absent(self, error: Exception) -> NoDaemon:
        if isinstance(error, PermissionError) or "Permission denied" in str(error):
            return NoDaemon(f"you may not talk to the daemon at {self._socket}: be root, or in the group of that file")
        if waits := store.waiting(tree.Tree(self.root)):
            return NoDaemon(f"the daemon does not work yet: {waits}")
        start = f"start it with `roundsmand --root {self.root}`"
        if tree.Tree(self.root).lab_file.exists():
            start = f"start it with `roundsman lab up --dir {self.root.parent}`"
        return NoDaemon(f"no daemon answers at {self._socket}: {self._hint or start}")


def find_daemon(ctx: typer.Context) -> Daemon:
    """Find the daemon that the options of this command name."""
    daemon = located(ctx.find_root().params.get("root"))
    daemon.notice = notice(ctx, daemon.notice.how or diversion(ctx, daemon.root))
    return daemon


def diversion(ctx: typer.Context, root: Path) -> str:
    """Why a command leaves this machine's own cluster, if its words do not say so; or ''."""
    source = ctx.find_root().get_parameter_source("root")
    is_named = source is None or source.name != "ENVIRONMENT"
    if is_named or root.absolute() == OWN or not _is_there(tree.Tree(OWN).config):
        return ""
    return "ROUNDSMAN_ROOT is set"


def notice(ctx: typer.Context, how: str = "") -> Notice:
    """The one notice of this command; `how` says how its cluster was found."""
    found: Notice = ctx.find_root().meta.setdefault(__name__, Notice(how))
    return found


def located(chosen: Path | None) -> Daemon:
    """Find the daemon of a root or lab folder; without one this machine's, else that of the only live lab.

    A machine that has a cluster is never left for a lab, whether its daemon runs or not.
    """
    if chosen is not None:
        return Daemon(places.root(chosen))
    where = tree.Tree(OWN)
    if _is_there(where.socket) or _is_there(where.config):
        return Daemon(OWN)
    live = [lab for lab in places.labs("controller") if _is_live(tree.Tree(lab / "controller").socket)]
    if len(live) == 1:
        return Daemon(live[0] / "controller", notice=Notice(f"it is the only live lab below {places.LABS}"))
    if live:
        names = ", ".join(map(str, live))
        return Daemon(OWN, hint=f"start it with `roundsmand --root /`, or choose one of the labs with --dir: {names}")
    starts = ", or ".join(f"`roundsman lab up --dir {folder}`" for folder in places.labs())
    hints = [f"start a lab with {starts}" if starts else "", places.left_out()]
    return Daemon(OWN, hint="; ".join(filter(None, hints)))


def _is_there(path: Path) -> bool:
    try:
        path.lstat()
    except PermissionError:
        return True
    except OSError:
        return False
    return True


def _is_live(path: Path) -> bool:
    try:
        with unix_sockets.short_name(path) as name, socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
            probe.settimeout(1)
            probe.connect(name)
    except OSError:
        return False
    return True


def _quoted(part: str) -> str:
    # A part such as `..` must reach the daemon, so its dots may not look like a way up.
    return quote(part, safe="").replace(".", "%2E")


def _refusal(answer: httpx.Response) -> errors.RoundsmanError:
    kind = errors.Refused if answer.status_code < HTTPStatus.INTERNAL_SERVER_ERROR else errors.Failed
    try:
        detail = answer.json()["detail"]
    except (ValueError, KeyError, TypeError):
        detail = f"the daemon answered {answer.status_code} {answer.reason_phrase}"
    return kind(str(detail))
