"""The lock table as rows for a person: who holds each lock, who waits for it, and for whom."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...plugins.plugin_utils.cluster import locks

if TYPE_CHECKING:
    from collections.abc import Callable

    from .table import Table
    from .waiting import Request


def rows(table: Table, *, name_of: Callable[[str], str]) -> list[dict[str, Any]]:
    """Every lock that somebody holds or wants, in the order in which locks are taken; `name_of` names a UUID.

    Times are unix seconds; `behind` are those for whom a request waits, ten of them at most.
    """
    held, waiting = table.held, dict[str, list[dict[str, Any]]]()
    for request in table.waiting:
        told = _wanted(request, behind=table.blockers(request.owner))
        for lock, mode in request.wants.items():
            waiting.setdefault(lock, []).append({**told, "mode": mode.value})
    return [
        {
            "lock": lock,
            "name": readable(lock, name_of),
            "owners": [
                {
                    "owner": owner.name,
                    "mode": mode.value,
                    "purpose": table.holdings[owner].purpose,
                    "since": table.holdings[owner].since,
                }
                for owner, mode in held.get(lock, {}).items()
            ],
            "waiting": waiting.get(lock, []),
        }
        for lock in sorted({*held, *waiting}, key=locks.rank)
    ]


def readable(lock: str, name_of: Callable[[str], str]) -> str:
    """A lock as a person knows it, such as `node/node3`."""
    level, _, name = lock.partition("/")
    return f"{level}/{name_of(name)}"


def _wanted(request: Request, *, behind: list[str]) -> dict[str, Any]:
    return {
        "owner": request.owner.name,
        "purpose": request.purpose,
        "since": request.since,
        "priority": request.priority,
        "behind": behind,
    }
