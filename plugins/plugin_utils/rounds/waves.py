"""Waves: how many instances move at one node at the same time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Collection

if TYPE_CHECKING:
    from . import unfinished

Row = list[tuple["str | int", "str | None"]]
"""The last move of each chain at a node: its key, or the number of a job submitted before, and its incident."""


@dataclass(frozen=True)
class Admitted:
    """What a move waits for: keys of its own incident, keys of others, and numbers of jobs submitted before."""

    own: tuple[str, ...] = ()
    others: tuple[str, ...] = ()
    earlier: tuple[int, ...] = ()


class Waves:
    """The moves at a node form chains, in which each waits for the one before: never more than `limit` run at once.

    Urgent moves copy nothing, and their instances are down until they end: they are counted by themselves, and wait for
    each other only. All other moves at their nodes that are admitted later wait until they have ended. Moves are
    numbered over all evacuations of a round, and come after those of unfinished jobs; one admission costs
    O(nodes of the move * limit).
    """

    def __init__(self, *, limit: int) -> None:
        self._limit = max(1, limit)
        self._admitted: dict[str, Row] = {}
        self._urgent: dict[str, Row] = {}

    def count(self, claims: unfinished.Claims) -> None:
        """Give unfinished jobs their places; of those that do not wait for each other each is a chain of its own."""
        for job in claims.jobs:
            rows = self._urgent if job.number in claims.urgent else self._admitted
            for node in claims.nodes[job.number]:
                row = rows.setdefault(node, [])
                row[:] = [entry for entry in row if entry[0] not in job.depends] + [(job.number, None)]

    def admit(self, key: str, *, nodes: Collection[str], incident: str | None, urgent: bool = False) -> Admitted:
        """Let a move in at its nodes, as the last of a chain at each."""
        found: dict[str | int, str | None] = {}
        for node in nodes:
            row = (self._urgent if urgent else self._admitted).setdefault(node, [])
            ahead = row[: max(0, len(row) - self._limit + 1)]
            row[:] = [*row[len(ahead) :], (key, incident)]
            found |= dict(ahead if urgent else (*ahead, *self._urgent.get(node, [])))
        return Admitted(
            own=tuple(before for before, theirs in found.items() if isinstance(before, str) and theirs == incident),
            others=tuple(before for before, theirs in found.items() if isinstance(before, str) and theirs != incident),
            earlier=tuple(before for before in found if isinstance(before, int)),
        )
