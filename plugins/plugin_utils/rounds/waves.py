"""Waves: how many instances move at one node at the same time."""

from __future__ import annotations

from typing import Collection

Row = list[tuple[str, "str | None"]]


class Waves:
    """The k-th move at a node waits for the (k - limit)-th there: never more than `limit` run at once.

    Urgent moves copy nothing, and their instances are down until they end: they are counted by themselves, and wait for
    each other only. All other moves at their nodes that are admitted later wait until they have ended. Moves are
    numbered over all evacuations of a round; one admission costs O(nodes of the move * limit).
    """

    def __init__(self, *, limit: int) -> None:
        self._limit = max(1, limit)
        self._admitted: dict[str, Row] = {}
        self._urgent: dict[str, Row] = {}

    def admit(
        self, key: str, *, nodes: Collection[str], incident: str | None, urgent: bool = False
    ) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """The keys that a move waits for: those of its own incident, and those of others."""
        own: dict[str, None] = {}
        others: dict[str, None] = {}
        for node in nodes:
            row = (self._urgent if urgent else self._admitted).setdefault(node, [])
            ahead = [row[-self._limit]] if len(row) >= self._limit else []
            ahead += [] if urgent else self._urgent.get(node, [])[-self._limit :]
            for before, theirs in ahead:
                (own if theirs == incident else others)[before] = None
            row.append((key, incident))
        return tuple(own), tuple(others)
