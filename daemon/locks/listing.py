"""The lock table as rows for a person: who holds each lock, who waits for it, and for whom."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...plugins.module_utils.domain import locks

if TYPE_CHECKING:
    from collections.abc import Callable

    from .table import Owner, Request, Table


def rows(table: Table, *, name_of: Callable[[str], str]) -> list[dict[str, Any]]:
    """Every lock that somebody holds or wants, in the order in which locks are taken; `name_of` names a UUID.

    Times are unix seconds.
    """
    waiting: dict[str, list[Request]] = {}
    for request in table.waiting:
        for lock in request.wants:
            waiting.setdefault(lock, []).append(request)
    return [
        {
            "lock": lock,
            "name": readable(lock, name_of),
            "owners": [_held(table, lock, owner) for owner in table.held.get(lock, {})],
            "waiting": [_wanted(table, lock, request) for request in waiting.get(lock, [])],
        }
        for lock in sorted({*table.held, *waiting}, key=locks.rank)
    ]


def readable(lock: str, name_of: Callable[[str], str]) -> str:
    """A lock as a person knows it, such as `node/node3`."""
    level, _, name = lock.partition("/")
    return f"{level}/{name_of(name)}"


def _held(table: Table, lock: str, owner: Owner) -> dict[str, Any]:
    holding = table.holdings[owner]
    return {
        "owner": owner.name,
        "mode": table.held[lock][owner].value,
        "purpose": holding.purpose,
        "since": holding.since,
    }


def _wanted(table: Table, lock: str, request: Request) -> dict[str, Any]:
    return {
        "owner": request.owner.name,
        "mode": request.wants[lock].value,
        "purpose": request.purpose,
        "since": request.since,
        "priority": request.priority,
        "behind": table.blockers(request.owner),
    }
