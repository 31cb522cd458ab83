"""How a new instance shrinks until it fits: one unit of what bars most places at a time (Ganeti's hspace).

Between two limits of the nodes nothing changes from one unit to the next, so that whole stretches are one step here.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from ..allocation.newcomers import Kind, Size

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..allocation.obstacles import Obstacles
    from ..models import model

UNITS = {Kind.MEMORY: 64, Kind.DISK: 256, Kind.VCPUS: 1, Kind.SPINDLES: 1}
"""MiB, MiB, and counts; no instance gets smaller than one unit."""
FIELDS = {Kind.MEMORY: "memory", Kind.DISK: "disk", Kind.VCPUS: "vcpus", Kind.SPINDLES: "spindles"}


@dataclass(frozen=True)
class Stretch:
    """Sizes for which the same is barred: the last of them, and the next smaller size, None if there is none."""

    last: Size
    beyond: Size | None


def stretch(obstacles: Obstacles, size: Size, kind: Kind) -> Stretch:
    """The sizes that shrinking one thing passes through before anything changes for any node."""
    value = getattr(size, FIELDS[kind]) if kind in UNITS else None
    if value is None:
        return Stretch(size, None)
    unit = UNITS[kind]
    steps = (value - unit) // unit
    change = _next_limit(obstacles, size, kind)
    first = -(-(value - change) // unit) if change is not None else 1 + max(0, steps)
    if steps < 1:
        return Stretch(size, None)
    if first > steps:
        return Stretch(_with(size, kind, value - steps * unit), None)
    return Stretch(_with(size, kind, value - (first - 1) * unit), _with(size, kind, value - first * unit))


def unit(size: Size, kind: Kind) -> Size | None:
    """The size with one unit less of one thing, None if that cannot shrink."""
    value = getattr(size, FIELDS[kind]) if kind in UNITS else None
    return None if value is None or value < 2 * UNITS[kind] else _with(size, kind, value - UNITS[kind])


def sufficient(
    obstacles: Obstacles,
    size: Size,
    kind: Kind,
    *,
    survives: Callable[[Size], bool] | None = None,
    hopeless: set[tuple[Size, Kind]] | None = None,
) -> Size | None:
    """The first size that has a place when one thing alone shrinks, None when other things bar all places.

    `survives`: whether one of the places with room is good, too; `hopeless` are the sizes that led nowhere before.
    """
    hopeless = set() if hopeless is None else hopeless
    if kind not in UNITS or (size, kind) in hopeless or not _worth_trying(obstacles, size, kind):
        return None
    found: Size | None = size
    while found is not None and (found, kind) not in hopeless:
        hopeless.add((found, kind))
        places = obstacles.places(found)
        if places and (survives is None or survives(found)):
            return found if getattr(found, FIELDS[kind]) >= 2 * UNITS[kind] else None
        if not obstacles.barred(found)[kind]:
            return None
        found = unit(found, kind) if places else stretch(obstacles, found, kind).beyond
    return None


def _with(size: Size, kind: Kind, value: int) -> Size:
    return replace(size, **{FIELDS[kind]: value})


def _worth_trying(obstacles: Obstacles, size: Size, kind: Kind) -> bool:
    """Whether there is a place, policies aside, when the one thing shrinks to its least."""
    if getattr(size, FIELDS[kind]) is None:
        return False
    places = obstacles.places(_with(size, kind, UNITS[kind]), any_policy=True)
    return bool(places)


def _next_limit(obstacles: Obstacles, size: Size, kind: Kind) -> int | None:
    """The largest value below that of the size at which something changes."""
    value = getattr(size, FIELDS[kind])
    if kind not in {Kind.MEMORY, Kind.DISK}:
        return int(value) - 1
    bounds = [bound for policy in obstacles.policies for bound in policy.bounds]
    limits = [np.array([value for bound in bounds for value in _ends(bound, kind)], dtype=float)]
    if kind is Kind.MEMORY:
        limits += [obstacles.memory, obstacles.memory_kept, obstacles.memory_expected]
        if obstacles.mirrored:
            limits.append(obstacles.copies[obstacles.rows(size)].ravel())
    else:
        limits += [obstacles.disk, obstacles.disk_expected]
    below = [limit[limit < value] for limit in limits]
    found = [float(part.max()) for part in below if len(part)]
    return int(max(found)) if found else None


def _ends(bound: tuple[model.Spec, model.Spec], kind: Kind) -> tuple[float, float]:
    """The largest values that are too small and allowed."""
    least, most = bound
    return float(getattr(least, FIELDS[kind]) - 1), float(getattr(most, FIELDS[kind]))
