"""The one place that checks which fields a request sets, for every resource.

Its table is `plugin_utils/settings/permissions.py`.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fastapi import Request  # noqa: TC002 - FastAPI reads the annotations

from ...plugins.module_utils import trusted_paths
from ...plugins.module_utils.domain.values import errors
from ...plugins.plugin_utils.settings import permissions
from . import asking

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable

    from ...plugins.module_utils.domain.values import tree


def check(where: tree.Tree) -> Callable[..., Awaitable[None]]:
    """The dependency of a router that refuses fields which the requester may not set.

    Raises:
        Forbidden: see `permissions.refuse`. InvalidInput: the body is nested too deeply to be checked.
    """

    async def refuse_forbidden(request: Request, requester: asking.Requesting) -> None:
        if request.method in {"GET", "HEAD"} or _is_whole(request):
            return
        _refuse(where, [_parsed(await request.body()), dict(request.query_params)], requester)

    return refuse_forbidden


def refuse_programs(where: tree.Tree, programs: Iterable[str], requester: asking.Requester) -> None:
    """Refuse helper programs that an import would bring into use and that the requester may not set.

    Raises:
        Forbidden: see `permissions.refuse`.
    """
    _refuse(where, [{"oob_program": program} for program in programs], requester)


def _refuse(where: tree.Tree, body: Any, requester: asking.Requester) -> None:
    def is_helper(path: str) -> bool:
        given = Path(path)
        is_plain = str(given) == path and given.parent == where.oob_programs
        return is_plain and trusted_paths.is_trusted(given, root=where.root) and os.access(given, os.X_OK)

    permissions.refuse(body, rank(requester), is_helper=is_helper, folder=str(where.oob_programs))


def rank(requester: asking.Requester) -> permissions.Requester:
    """What a requester is to the controller."""
    if requester.is_root:
        return permissions.Requester.ROOT
    is_local = requester.door is asking.Door.SOCKET
    return permissions.Requester.ADMINISTRATOR if is_local else permissions.Requester.REMOTE


def _is_whole(request: Request) -> bool:
    """Whether the body is a whole object of the configuration, which the remote door does not have."""
    segments: list[str] = request.scope["route"].path.split("/")
    return segments[2] in permissions.LOCAL_ONLY


def _parsed(body: bytes) -> Any:
    """The body as the resource parses it, too.

    Raises:
        InvalidInput: it is nested too deeply here. The resource might still be able to parse it, as it is called by
            fewer functions, so it must not get it.
    """
    try:
        return json.loads(body)
    except RecursionError as error:
        raise errors.InvalidInput("the body is nested too deeply") from error
    except ValueError:
        # The resource refuses it.
        return None
