"""How many new instances a cluster still takes: of shrinking sizes (tiered) and of one (standard), as Ganeti's hspace.

Instances are placed one after the other, each on the place with the best score of the cluster after it, until none has
room; then the size shrinks. Of equal places the last is taken. Nothing of one question is left for the next.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from . import obstacles, openings, placed_scores, shrinking
from .newcomers import Kind, Newcomer, Size

if TYPE_CHECKING:
    from collections.abc import Sequence

    from . import columns, model
    from .state import State


@dataclass(frozen=True)
class Tier:
    """So many instances of one size were placed before the size had to shrink; bigger tiers count for smaller too."""

    size: Size
    count: int


class Filling:
    """A cluster that is being filled with new instances of one kind.

    allowed: the nodes (of the state) that take some; spare: disk (MiB) that stays free by node (of the state).
    """

    def __init__(
        self,
        state: State,
        newcomer: Newcomer,
        *,
        policies: Sequence[model.Policy],
        allowed: columns.Flags,
        spare: columns.Numbers | None = None,
    ) -> None:
        self.openings = openings.of(state)
        if spare is not None:
            self.openings.spare = spare[self.openings.numbers]
        here = allowed[self.openings.numbers]
        self._newcomer = newcomer
        self._obstacles = obstacles.Obstacles(
            self.openings, newcomer, policies=policies, primaries=here, secondaries=here
        )

    def standard(self, size: Size) -> int:
        """How many instances of one size still fit."""
        count, _ = self._fill(size)
        return count

    def tiered(self, size: Size) -> list[Tier]:
        """Place as many as fit, shrink, and so on until nothing fits; the biggest first."""
        found: list[Tier] = []
        since: list[tuple[Size, tuple[Kind, ...]]] = []
        following: Size | None = size
        while following is not None:
            count, kinds = self._fill(following)
            if count:
                found.append(Tier(following, count))
                since.clear()
            shrunk = shrinking.stretch(self._obstacles, following, kinds[0])
            since.append((shrunk.last, kinds))
            following = shrunk.beyond
            if following is None:
                following = self._jump(since)
                since.clear()
        return found

    def _fill(self, size: Size) -> tuple[int, tuple[Kind, ...]]:
        """Place instances of one size until none fits: how many, and what then bars places, most of them first."""
        newcomer = replace(self._newcomer, size=size)
        count = 0
        while True:
            places = self._obstacles.places(size)
            if not len(places.primaries):
                return count, _ordered(places.barred)
            primary, secondary = best(self.openings, newcomer, places)
            self.openings.take(newcomer, primary=primary, secondary=secondary)
            self._obstacles.changed(primary, secondary)
            count += 1

    def _jump(self, since: list[tuple[Size, tuple[Kind, ...]]]) -> Size | None:
        """When the size cannot shrink further: the first size that fits if one thing alone shrinks, last tries first."""
        for size, kinds in reversed(since):
            for kind in kinds:
                found = shrinking.sufficient(self._obstacles, size, kind)
                if found is not None:
                    return found
        return None


def best(there: openings.Openings, newcomer: Newcomer, places: obstacles.Places) -> tuple[int, int]:
    """The place with the best score, of equal ones the last; -1 is no secondary."""
    if newcomer.template.is_mirrored:
        scores = placed_scores.of_pairs(there, newcomer, places.primaries, places.secondaries)
    else:
        scores = placed_scores.of_singles(there, newcomer, places.primaries)
    last = len(scores) - 1 - int(np.argmin(scores[::-1]))
    return int(places.primaries[last]), int(places.secondaries[last]) if len(places.secondaries) else openings.NOWHERE


def _ordered(barred: Sequence[int]) -> tuple[Kind, ...]:
    """The kinds of obstacles by the number of places they bar, the most first; of equal ones the later kind."""
    order = sorted(range(len(barred)), key=lambda number: barred[number])
    return tuple(obstacles.KINDS[number] for number in reversed(order))
