"""The single moves that hbal would look at, and the score after each, in O(1) a move.

For an instance with a secondary: change roles (`f`), and for each other online node t of its group a new secondary
(`r:t`), that and a change of roles (`r:t f`), t as new primary through the secondary (`f r:t f`), or the secondary as
primary and t as its secondary (`f r:t`); on shared storage t as the primary (`fa:t`). Source: Ganeti's htools.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ..score import columns
from . import actions, scan
from .actions import Action

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..score import scoring
    from ..score import state as states

BLOCK = 40_000
"""So many pairs of instance and node are looked at in one go: their columns stay in a processor's cache."""


@dataclass(frozen=True)
class Allowed:
    """Which moves are looked at, by default all.

    disk_moves: replicas may go to other nodes; instance_moves: primaries may change; only_offline: only instances with
    an offline node. `chosen` are the only instances (names) that may move, None stands for all of them; `kept` may not.
    The nodes of `paired` stay the same two: only primary and secondary change roles.
    """

    disk_moves: bool = True
    instance_moves: bool = True
    only_offline: bool = False
    chosen: frozenset[str] | None = None
    kept: frozenset[str] = frozenset()
    paired: frozenset[str] = frozenset()

    def may_move(self, names: list[str]) -> columns.Flags:
        """Which of these instances may move."""
        if self.chosen is None and not self.kept:
            return np.ones(len(names), dtype=bool)
        chosen = frozenset(names) if self.chosen is None else self.chosen
        return np.array([name in chosen and name not in self.kept for name in names], dtype=bool)

    def only_swapped(self, names: list[str]) -> columns.Flags:
        """Of which of these instances the replicas go to no other node."""
        if not self.disk_moves or not self.paired:
            return np.full(len(names), not self.disk_moves)
        return np.array([name in self.paired for name in names], dtype=bool)


ANY = Allowed()


@dataclass(frozen=True)
class Candidate:
    """One instance's move, by indices, and about the score after it."""

    instance: int
    action: Action
    primary: int
    secondary: int
    score: float


@dataclass(frozen=True, eq=False)
class Candidates:
    """The moves within one scope of a state, which each look takes as it is then.

    meant: I, which may move; swapped: I, which only change roles if they have a secondary.
    """

    state: states.State
    where: scoring.Scope
    always: scan.Fixed
    ignore_soft: bool
    allowed: Allowed
    meant: columns.Flags
    swapped: columns.Flags

    def movable(self) -> columns.Indices:
        """The instances that may be moved: balanced automatically, with all their nodes in the scope."""
        held = self.state.instances
        inside = np.zeros(len(self.state.nodes.names) + 1, dtype=bool)
        inside[self.where.everyone] = True
        alone = held.secondary == columns.NOWHERE
        both = inside[held.primary] & (alone | inside[held.secondary]) & (alone != held.mirrored)
        if self.allowed.only_offline:
            left = np.append(self.state.nodes.offline & inside[:-1], False)
            both &= left[held.primary] | left[held.secondary]
        return np.flatnonzero(held.movable & held.balanced & both & self.meant)

    def blocks(self, rows: columns.Indices | None = None, *, score: float | None = None) -> Iterator[scan.Block]:
        """Every move of these instances, or of all that are movable; `score` is the state's as it is, if known."""
        wanted = self.movable() if rows is None else rows
        if not len(self.where.online) or not len(wanted):
            return
        look = scan.look(self.state, self.where, self.always, ignore_soft=self.ignore_soft, score=score)
        swapped = self.swapped[wanted] & (self.state.instances.secondary[wanted] != columns.NOWHERE)
        step = max(1, BLOCK // len(self.where.online))
        for some, made in ((wanted[swapped], look.swaps), (wanted[~swapped], look.block)):
            for start in range(0, len(some), step):
                yield self._permitted(made(some[start : start + step]))

    def _permitted(self, block: scan.Block) -> scan.Block:
        if not self.allowed.instance_moves:
            block.failover[:] = scan.REFUSED
            block.moved[scan.SECONDARY + 1 :] = scan.REFUSED
        return block

    def best(self, *, below: float, within: float, score: float | None = None) -> list[Candidate]:
        """The moves to less than `below` whose score is the least, or at most `within` more; in hbal's order."""
        found: list[Candidate] = []
        limit = below
        for block in self.blocks(score=score):
            least = min(block.failover.min(), block.moved.min(initial=scan.REFUSED))
            limit = min(limit, least + within)
            if least <= limit:
                found += self._moves(block, limit)
        left = [move for move in found if move.score <= limit and move.score < below]
        return sorted(left, key=lambda move: move.instance) if self.swapped.any() else left

    def _moves(self, block: scan.Block, limit: float) -> list[Candidate]:
        """The moves of one block up to a score: by instance, then as hbal tries them."""
        found = [(int(row), -1, 0) for row in np.flatnonzero(block.failover <= limit)]
        found += [
            (int(row), int(target), place)
            for place in range(len(actions.TO_TARGET))
            for row, target in np.argwhere(block.moved[place] <= limit)
        ]
        return [self._move(block, *move) for move in sorted(found)]

    def _move(self, block: scan.Block, row: int, target: int, place: int) -> Candidate:
        held, instance = self.state.instances, int(block.rows[row])
        primary, secondary = int(held.primary[instance]), int(held.secondary[instance])
        action = actions.TO_TARGET[place] if secondary != columns.NOWHERE else Action.FAILOVER_TO_ANY
        score = float(block.failover[row] if target < 0 else block.moved[place, row, target])
        action = Action.FAILOVER if target < 0 else action
        node = columns.NOWHERE if target < 0 else int(block.targets[target])
        return Candidate(instance, action, *action.placed(primary, secondary, node), score)


def in_scope(
    state: states.State, where: scoring.Scope, *, ignore_soft: bool = False, allowed: Allowed = ANY
) -> Candidates:
    """The moves within a scope that are allowed; `ignore_soft` allows all that memory and disk have room for."""
    names = state.instances.names
    fixed = scan.fixed(state, where)
    return Candidates(state, where, fixed, ignore_soft, allowed, allowed.may_move(names), allowed.only_swapped(names))
