"""How many new instances a cluster still takes: of shrinking sizes (tiered) and of one (standard), as Ganeti's hspace.

Instances are placed one after the other, each on the place with the best score of the cluster after it, until none has
room; then the size shrinks. Of equal places the last is taken. Nothing of one question is left for the next.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from . import obstacles, openings, placed_scores, shrinking

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ..models import model
    from ..score import columns
    from ..score.state import State
    from .newcomers import Kind, Newcomer, Size


@dataclass(frozen=True)
class Tier:
    """So many instances of one size were placed before the size had to shrink; bigger tiers count for smaller too."""

    size: Size
    count: int


class Filling:
    """A cluster that is being filled with new instances of one kind.

    policies: by the group's index, their CPU ratio counts; allowed: the nodes (of the state) that take some; spare:
    disk (MiB) that stays free, by node of the state.
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
        ratios = np.array([policy.vcpu_ratio for policy in policies])
        self.openings.nodes.vcpu_ratio = ratios[self.openings.nodes.group]
        here = allowed[self.openings.numbers]
        self._newcomer = newcomer
        self._obstacles = obstacles.Obstacles(
            self.openings, newcomer, policies=policies, primaries=here, secondaries=here
        )

    def standard(self, size: Size, *, most: int | None = None) -> int:
        """How many instances of one size still fit, counted up to `most`."""
        count, _ = self._fill(size, most=most)
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

    def _fill(self, size: Size, *, most: int | None = None) -> tuple[int, tuple[Kind, ...]]:
        """Place instances of one size until none fits: how many, and what then bars places, most of them first."""
        newcomer = replace(self._newcomer, size=size)
        scores = placed_scores.PlacedScores(self.openings, newcomer)
        count = 0
        while count != most and (places := self._obstacles.places(size)):
            place = scores.best(places)
            self.openings.take(newcomer, primary=place.primary, secondary=place.secondary)
            scores.taken(place)
            self._obstacles.changed(place.primary, place.secondary)
            count += 1
        return count, _ordered(self._obstacles.barred(size))

    def _jump(self, since: list[tuple[Size, tuple[Kind, ...]]]) -> Size | None:
        """When nothing more can shrink: the first size that fits if one thing alone shrinks, the last tries first."""
        for size, kinds in reversed(since):
            for kind in kinds:
                found = shrinking.sufficient(self._obstacles, size, kind)
                if found is not None:
                    return found
        return None


def _ordered(barred: Mapping[Kind, int]) -> tuple[Kind, ...]:
    """The kinds of obstacles by the number of places they bar, the most first; of equal ones the later kind."""
    order = list(barred)
    return tuple(sorted(order, key=lambda kind: (barred[kind], order.index(kind)), reverse=True))
