"""Waves: how many instances move at one node at the same time."""

from __future__ import annotations

from typing import Collection


class Waves:
    """The k-th move at a node waits for the (k - limit)-th there: never more than `limit` run at once.

    Moves are numbered over all evacuations of a round; one admission costs O(nodes of the move).
    """

    def __init__(self, *, limit: int) -> None:
        self._limit = max(1, limit)
        self._admitted: dict[str, list[tuple[str, str | None]]] = {}

    def admit(
        self, key: str, *, nodes: Collection[str], incident: str | None
    ) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """The keys that a move waits for: those of its own incident, and those of others."""
        own: dict[str, None] = {}
        others: dict[str, None] = {}
        for node in nodes:
            admitted = self._admitted.setdefault(node, [])
            if len(admitted) >= self._limit:
                before, theirs = admitted[-self._limit]
                (own if theirs == incident else others)[before] = None
            admitted.append((key, incident))
        return tuple(own), tuple(others)
