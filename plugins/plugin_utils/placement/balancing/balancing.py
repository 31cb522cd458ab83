"""Balancing: a better score for less data, and a plan of which each step is possible.

The search wants a low score (Ganeti's) plus a price for each GiB that is copied from where it is now. It begins with a
high price, at which only what gains much is moved, and halves it until it is the one asked for: what was cheap and good
is found before what is dear. At each price single moves come first and then pairs, for a search with single moves is
stuck as soon as counts are even. What was found is one way for each instance, in an order of its own (`turns.py`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from ..htools import greedy
from ..score import columns, oracle, scoring
from . import candidates, search, turns

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from ..score import state as states

PRICE = 0.0025
HALVINGS = 5
PAIRS = 0.5
MOST_PAIRS = 300
REPAIRS = 3


@dataclass(frozen=True)
class Options:
    """How to search.

    price: what a GiB costs, as score times nodes, since the gain of a move falls with the number of nodes too;
    halvings: how often the price is halved until it is that.
    pairs: how many are tried at each price for each movable instance, `most_pairs` in all, by the chance of `seed`.
    max_moves: so many instances at the most are moved, those of the first ones of the plan; None is no limit.
    enough: the search ends once it has moved so many; repairs: how often it looks again for what the plan had to keep.
    min_gain: what a step must gain (of hbal's, once the score is 0.1 or less).
    min_score: the search ends so near to the bound below which no score gets.
    """

    price: float = PRICE
    pairs: float = PAIRS
    most_pairs: int = MOST_PAIRS
    halvings: int = HALVINGS
    seed: int = 1
    max_moves: int | None = None
    enough: int | None = None
    repairs: int = REPAIRS
    min_gain: float | None = None
    min_score: float = 1e-9
    allowed: candidates.Allowed = candidates.ANY


@dataclass(frozen=True)
class Balance:
    """What was found: the 20 components before and after, and the schedule between them."""

    before: dict[str, float]
    after: dict[str, float]
    schedule: turns.Schedule


def balance(
    state: states.State,
    *,
    group: str | None = None,
    without: Collection[str] = (),
    options: Options = Options(),
    told: Callable[[str], None] = lambda _: None,
) -> Balance:
    """Balance the nodes of a group (its name) or all; the state is moved along and ends as the plan promises.

    Nodes (names) of `without` take no part: nothing comes, nothing goes, and the score is that of the others.
    `told` gets a line for each price. A look at all moves costs O(instances * nodes), and there are about ten of them
    at each price; each move that is taken costs O(64 * nodes).
    """
    where = scoring.scope(state, group=group, without=without)
    before = scoring.components(state, where)
    if options.max_moves == 0:
        return Balance(before, before, turns.Schedule())
    lowest = 0.0 if without else oracle.bound(state.cluster, group=group) + options.min_score
    ends = search.Ends(moved=options.enough, score=lowest, gain=options.min_gain or 0.0)
    work = search.Search(state, where, seed=options.seed, allowed=options.allowed, ends=ends)
    tries = min(options.most_pairs, round(options.pairs * len(work.rows)))
    for halvings in range(options.halvings, -1, -1):
        price = options.price * 2**halvings
        work.price = price / max(1, len(where.online)) / turns.GIB
        work.descend()
        pairs = work.pairs(tries)
        told(f"at {price:g} a GiB: score {work.score:.5f}, {len(work.moved)} instances moved, {pairs} pairs")
    schedule = _ordered(state, work, options)
    return Balance(before, scoring.components(state, where), schedule)


def _ordered(state: states.State, work: search.Search, options: Options) -> turns.Schedule:
    """The schedule of what a search found; for what is possible at no time another look is taken from its end."""
    order = turns.Order(state)
    order.add(work.back())
    schedule = order.run(options.max_moves)
    for _ in range(options.repairs):
        if not schedule.kept or len(schedule.turns) == options.max_moves:
            break
        moved = {turn.move.instance for turn in schedule.turns}
        allowed = replace(options.allowed, kept=options.allowed.kept | moved)
        again = search.Search(state, work.where, allowed=allowed, ends=work.ends)
        again.price, before = work.price, again.score
        again.descend()
        order.add(again.back())
        repaired = order.run(options.max_moves)
        if scoring.score(state, work.where) > before:
            again.back()
            break
        schedule = repaired
    return schedule


def like_hbal(state: states.State, *, group: str | None = None, options: Options = Options()) -> Balance:
    """Balance with hbal's choices, move for move; of them all only `max_moves` counts."""
    where = scoring.scope(state, group=group)
    before = scoring.components(state, where)
    held, here = state.instances, {**state.nodes.index, "": columns.NOWHERE}
    first = [(int(held.primary[number]), int(held.secondary[number])) for number in range(len(held.names))]
    rules = greedy.Rules(max_moves=options.max_moves, least=options.min_score, allowed=options.allowed)
    if options.min_gain is not None:
        rules = replace(rules, small_gain=options.min_gain)
    steps = [
        (state.by_instance[step.instance], (here[step.primary], here[step.secondary]))
        for step in greedy.balance(state, group=group, rules=rules)
    ]
    after = scoring.components(state, where)
    for instance, _ in steps:
        state.move(instance, primary=first[instance][0], secondary=first[instance][1])
    return Balance(before, after, turns.followed(state, steps))
