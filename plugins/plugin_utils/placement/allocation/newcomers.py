"""New instances: what one takes of a node, and whether a policy allows it (Ganeti's htools)."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

from ..models import model

if TYPE_CHECKING:
    from collections.abc import Iterator

Load = tuple[float, float, float, float]


class Kind(Enum):
    """Why a new instance cannot be somewhere; the order is that in which ties are decided."""

    MEMORY = "memory"
    DISK = "disk"
    VCPUS = "vcpus"
    FAILURE = "the failure of a node"
    TAGS = "exclusion tags"
    DISKS = "number of disks"
    SPINDLES = "spindles"


@dataclass(frozen=True)
class Size:
    """What a new instance takes: memory and disk in MiB; `spindles` count on exclusive storage only."""

    memory: int
    disk: int
    vcpus: int
    spindles: int | None = None


@dataclass(frozen=True)
class Newcomer:
    """An instance that is nowhere yet.

    spindle_use: what it adds to a node's spindles where storage is shared; disks: their sizes in MiB, one disk of the
    whole size without; reserves: whether its secondary keeps memory for it (auto_balance); runs: whether it takes
    memory where it is; tags: its exclusion tags; desired: the locations it wants.
    """

    size: Size
    template: model.Template
    spindle_use: int = 1
    disks: tuple[int, ...] | None = None
    reserves: bool = True
    runs: bool = True
    tags: tuple[str, ...] = ()
    desired: frozenset[str] = frozenset()
    load: Load = (1.0, 1.0, 1.0, 1.0)

    @property
    def on_volumes(self) -> bool:
        """Whether it takes disk space and spindles of its nodes."""
        return self.template.is_on_volumes


def misfit(newcomer: Newcomer, policy: model.Policy, *, exclusive: bool) -> Kind | None:
    """What a policy has against a new instance, None for nothing; with several bounds, what the first has against it.

    `exclusive`: on nodes with exclusive storage the spindles count instead of the spindle use.
    """
    found = [
        _beyond(newcomer, least, -1, exclusive=exclusive) or _beyond(newcomer, most, 1, exclusive=exclusive)
        for least, most in policy.bounds
    ]
    if found and None not in found:
        return found[0]
    return None if newcomer.template in policy.templates else Kind.DISK


def misfits(newcomer: Newcomer, policy: model.Policy, *, exclusive: bool) -> tuple[Kind, ...]:
    """Everything that `misfit` has the first of, with one bound; with several, what the first has against it."""
    first = misfit(newcomer, policy, exclusive=exclusive)
    if first is None or newcomer.template not in policy.templates:
        return () if first is None else (first,)
    least, most = policy.bounds[0]
    found = {
        *_all_beyond(newcomer, least, -1, exclusive=exclusive),
        *_all_beyond(newcomer, most, 1, exclusive=exclusive),
    }
    return (first, *(kind for kind in Kind if kind in found and kind is not first))


def _beyond(newcomer: Newcomer, bound: model.Spec, sign: int, *, exclusive: bool) -> Kind | None:
    """The first thing that is less (-1) or more (1) than a bound allows."""
    return next(_all_beyond(newcomer, bound, sign, exclusive=exclusive), None)


def _all_beyond(newcomer: Newcomer, bound: model.Spec, sign: int, *, exclusive: bool) -> Iterator[Kind]:
    size = newcomer.size
    disks = (size.disk,) if newcomer.disks is None else newcomer.disks
    spindles = size.spindles if exclusive else newcomer.spindle_use
    compared = (
        (Kind.MEMORY, size.memory * sign > bound.memory * sign),
        (Kind.DISK, any(disk * sign > bound.disk * sign for disk in disks)),
        (Kind.VCPUS, size.vcpus * sign > bound.vcpus * sign),
        (Kind.SPINDLES, spindles is None or spindles * sign > bound.spindle_use * sign),
        (Kind.DISKS, newcomer.template is not model.Template.DISKLESS and len(disks) * sign > bound.disks * sign),
    )
    return (kind for kind, beyond in compared if beyond)
