"""Balancing as hbal does it: the best single move, again and again, its choices move for move.

The best move is the one with the least score; among equals the first in hbal's order (instances as in the model, for
each a change of roles, then its targets). What is nearly equal is compared exactly. Source: hbal's main loop.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from ..balancing import candidates
from ..score import oracle, scoring

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..balancing.actions import Action
    from ..score import state as states

NEARLY = 1e-7
"""Candidate scores are true to 1e-9; what is closer than this is decided by scores computed from scratch."""


@dataclass(frozen=True)
class Step:
    """One move, by names ("" is no secondary), and the exact score after it."""

    instance: str
    action: Action
    primary: str
    secondary: str
    score: float


@dataclass(frozen=True)
class Rules:
    """When to stop: after so many moves (None: never), at the bound plus `least`, or when gains get small.

    Once the score is not above `small_score`, a step must gain `small_gain`; only what is `allowed` is looked at.
    """

    max_moves: int | None = None
    least: float = 1e-9
    small_score: float = 0.1
    small_gain: float = 0.01
    ignore_soft: bool = False
    allowed: candidates.Allowed = candidates.ANY


def balance(state: states.State, *, group: str | None = None, rules: Rules = Rules()) -> Iterator[Step]:
    """Move the instances of one group (its name) in the state, step by step; each step is yielded when it is done.

    Instances that are split over groups, not balanced automatically or on storage of one node only stay where they are.
    """
    where = scoring.scope(state, group=group)
    moves = candidates.in_scope(state, where, ignore_soft=rules.ignore_soft, allowed=rules.allowed)
    score = scoring.score(state, where)
    lowest = oracle.bound(state.cluster, group=group) + rules.least
    done = 0
    while score > lowest and (rules.max_moves is None or done < rules.max_moves):
        found = _best(moves, score)
        if found is None or (score <= rules.small_score and score - found.score < rules.small_gain):
            return
        state.move(found.instance, primary=found.primary, secondary=found.secondary)
        score, done = found.score, done + 1
        yield _named(state, found)


def _best(moves: candidates.Candidates, score: float) -> candidates.Candidate | None:
    """The move to the least score below this one, with that score exactly."""
    best: candidates.Candidate | None = None
    for move in moves.best(below=score + NEARLY, within=NEARLY, score=score):
        undo = moves.state.move(move.instance, primary=move.primary, secondary=move.secondary)
        after = scoring.score(moves.state, moves.where)
        moves.state.undo(undo)
        if after < (score if best is None else best.score):
            best = replace(move, score=after)
    return best


def _named(state: states.State, move: candidates.Candidate) -> Step:
    names = [*state.nodes.names, ""]  # the last one, at -1, is no node's
    return Step(
        state.instances.names[move.instance], move.action, names[move.primary], names[move.secondary], move.score
    )
