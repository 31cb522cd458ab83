"""How many new instances a cluster still takes: of shrinking sizes (tiered) and of one (standard), as Ganeti's hspace.

Instances are placed one after the other, each on the place with the best score of the cluster after it, until none has
room; then the size shrinks. Of equal places the last is taken. Nothing of one question is left for the next.
An instance without a secondary replica is placed only where any node may still fail afterwards, with the new ones on
it, too.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from ..allocation import newcomers, obstacles, openings, placed_scores
from . import failures, shrinking

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from ..allocation.newcomers import Kind, Newcomer, Size
    from ..models import model
    from ..score import columns
    from ..score.state import State

FEW = 10
MANY = 20
"""How many instances are placed at once before it is asked whether any node may fail, at the second try and the first.

As with hspace, which then goes on one by one: that no node may fail after many does not mean so after fewer.
"""


@dataclass(frozen=True)
class Tier:
    """So many instances of one size were placed before the size had to shrink; bigger tiers count for smaller too."""

    size: Size
    count: int


class Filling:
    """A cluster that is being filled with new instances of one kind.

    policies: by the group's index, their CPU ratio counts; allowed: the nodes (of the state) that take some; spare:
    disk (MiB) that stays free, by node of the state; may_fail: the nodes (of the state) that are not asked whether they
    may fail, None where no node is.
    """

    def __init__(
        self,
        state: State,
        newcomer: Newcomer,
        *,
        policies: Sequence[model.Policy],
        allowed: columns.Flags,
        spare: columns.Numbers | None = None,
        may_fail: Collection[int] | None = None,
    ) -> None:
        self.openings = openings.online_nodes(state)
        if spare is not None:
            self.openings.spare = spare[self.openings.numbers]
        ratios = np.array([policy.vcpu_ratio for policy in policies])
        self.openings.nodes.vcpu_ratio = ratios[self.openings.nodes.group]
        here = self._here = allowed[self.openings.numbers]
        self._newcomer = newcomer
        self._failures: failures.Failures | None = None
        if may_fail is not None and not newcomer.template.is_mirrored:
            groups = set(state.nodes.group[allowed].tolist())
            self._failures = failures.Failures(state, self.openings, groups=groups, but=may_fail)
        self._surviving: set[Size] = set()
        self._hopeless: list[Size] = []
        self._obstacles = obstacles.Obstacles(
            self.openings, newcomer, policies=policies, primaries=here, secondaries=here
        )

    @property
    def takers(self) -> int:
        """How many nodes take new instances."""
        return int(self._here.sum())

    @property
    def has_places(self) -> bool:
        """Whether there is a node, or a pair of nodes for mirrored disks, however full."""
        return bool(self._obstacles.weights.any())

    def barred(self, size: Size) -> tuple[Kind, ...]:
        """What bars places for an instance of this size, what bars most of them first."""
        barred = self._obstacles.barred(size)
        return tuple(kind for kind in _ordered(barred) if barred[kind]) or (
            (newcomers.Kind.FAILURE,) if self._failures is not None else ()
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
                self._surviving.clear()
                self._hopeless.clear()
                found.append(Tier(following, count))
                since.clear()
            if self._failures is not None and self._obstacles.places(following):
                since.append((following, kinds))
                following = shrinking.unit(following, kinds[0])
            else:
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
        if self._failures is None:
            return len(self._place(newcomer, most)), _ordered(self._obstacles.barred(size))
        count = self._place_surviving(newcomer, self._failures, most)
        barred = self._obstacles.barred(size)
        if count != most:
            barred[newcomers.Kind.FAILURE] += len(self._obstacles.places(size).primaries)
        return count, _ordered(barred)

    def _place(self, newcomer: Newcomer, most: int | None) -> list[int]:
        """Place instances until none has room, or there are as many: their primaries."""
        scores = placed_scores.PlacedScores(self.openings, newcomer)
        placed: list[int] = []
        while len(placed) != most and (places := self._obstacles.places(newcomer.size)):
            place = scores.best(places)
            self.openings.take(newcomer, primary=place.primary, secondary=place.secondary)
            scores.taken(place)
            self._obstacles.changed(place.primary, place.secondary)
            placed.append(place.primary)
        return placed

    def _place_surviving(self, newcomer: Newcomer, known: failures.Failures, most: int | None) -> int:
        """Place instances as long as any node may fail: how many."""
        if not self._survives(known, newcomer.size):
            return 0
        count, steps = 0, [self._guess(newcomer.size), FEW]
        while steps and count != most:
            placed = self._place(newcomer, steps[0] if most is None else min(steps[0], most - count))
            for node in placed:
                known.add(int(self.openings.numbers[node]), failures.Held(newcomer, node))
            if known.fatal(self.openings) is None:
                if not placed:
                    return count
                count += len(placed)
                continue
            for node in reversed(placed):
                self._take_back(newcomer, known, node)
            self._obstacles.changed()
            steps.pop(0)
        while count != most and self._place_one(newcomer, known):
            count += 1
        return count

    def _guess(self, size: Size) -> int:
        """How many instances are tried at once: what memory allows, but for one on each node."""
        nodes = self.openings.nodes
        room = np.maximum(0.0, nodes.memory - nodes.reserved).sum()
        return max(MANY, int(room // size.memory) - len(nodes.memory))

    def _place_one(
        self, newcomer: Newcomer, known: failures.Failures, *, stays: bool = True, any_policy: bool = False
    ) -> bool:
        """Find the best place after which any node may fail, and place an instance there if it `stays`."""
        nodes = self._obstacles.places(newcomer.size, any_policy=any_policy).primaries
        if not len(nodes):
            return False
        scores = placed_scores.PlacedScores(self.openings, newcomer).singles(nodes)
        for node in nodes[np.lexsort((-nodes, scores))].tolist():
            self.openings.take(newcomer, primary=node)
            known.add(int(self.openings.numbers[node]), failures.Held(newcomer, node))
            if known.fatal(self.openings) is None:
                if not stays:
                    self._take_back(newcomer, known, node)
                self._obstacles.changed(node)
                return True
            self._take_back(newcomer, known, node)
        return False

    def _take_back(self, newcomer: Newcomer, known: failures.Failures, node: int) -> None:
        self.openings.give(newcomer, primary=node)
        known.remove(int(self.openings.numbers[node]))

    def _survives(self, known: failures.Failures, size: Size) -> bool:
        """Whether there is a place for that size after which any node may fail; what is larger than a failure is one.

        Least memory, and least of all, are looked at first: mostly nothing fits any more, and hundreds of sizes follow.
        """
        little = replace(size, memory=shrinking.UNITS[newcomers.Kind.MEMORY])
        least = replace(little, disk=shrinking.UNITS[newcomers.Kind.DISK], vcpus=1)
        for tried in (least, little, size):
            if any(_at_least(size, other) for other in self._hopeless):
                return False
            if tried is not size and tried in self._surviving:
                continue
            newcomer = replace(self._newcomer, size=tried)
            if self._place_one(newcomer, known, stays=False, any_policy=tried is not size):
                self._surviving.add(tried)
            elif tried is size:
                self._hopeless.append(tried)
                return False
            else:
                self._hopeless.append(tried)
        return True

    def _jump(self, since: list[tuple[Size, tuple[Kind, ...]]]) -> Size | None:
        """When nothing more can shrink: the first size that fits if one thing alone shrinks, the last tries first."""
        survives = None if self._failures is None else functools.partial(self._survives, self._failures)
        hopeless: set[tuple[Size, Kind]] = set()
        for size, kinds in reversed(since):
            for kind in kinds:
                found = shrinking.sufficient(self._obstacles, size, kind, survives=survives, hopeless=hopeless)
                if found is not None:
                    return found
        return None


def _at_least(size: Size, other: Size) -> bool:
    return size.memory >= other.memory and size.disk >= other.disk and size.vcpus >= other.vcpus


def _ordered(barred: Mapping[Kind, int]) -> tuple[Kind, ...]:
    """The kinds of obstacles by the number of places they bar, the most first; of equal ones the later kind."""
    order = list(barred)
    return tuple(sorted(order, key=lambda kind: (barred[kind], order.index(kind)), reverse=True))
