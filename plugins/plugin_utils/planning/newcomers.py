"""New instances: what one takes of a node, and whether a policy allows it (Ganeti's htools)."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

from . import model

if TYPE_CHECKING:
    from collections.abc import Mapping

Load = tuple[float, float, float, float]


class Kind(Enum):
    """Why a new instance cannot be somewhere; the order is that in which ties are decided."""

    MEMORY = "memory"
    DISK = "disk"
    VCPUS = "vcpus"
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
    """A running instance that is nowhere yet.

    spindle_use: what it adds to a node's spindles where storage is shared; reserves: whether its secondary keeps memory
    for it (auto_balance); tags: its exclusion tags; desired: the locations it wants.
    """

    size: Size
    template: model.Template
    spindle_use: int = 1
    disks: int = 1
    reserves: bool = True
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
        _smaller(newcomer, least, exclusive=exclusive) or _larger(newcomer, most, exclusive=exclusive)
        for least, most in policy.bounds
    ]
    if found and None not in found:
        return found[0]
    return None if newcomer.template in policy.templates else Kind.DISK


def _smaller(newcomer: Newcomer, least: model.Spec, *, exclusive: bool) -> Kind | None:
    wanted, allowed = _sizes(newcomer, least, exclusive=exclusive)
    return next((kind for kind, value in wanted.items() if value is None or value < allowed[kind]), None)


def _larger(newcomer: Newcomer, most: model.Spec, *, exclusive: bool) -> Kind | None:
    wanted, allowed = _sizes(newcomer, most, exclusive=exclusive)
    return next((kind for kind, value in wanted.items() if value is None or value > allowed[kind]), None)


def _sizes(
    newcomer: Newcomer, bound: model.Spec, *, exclusive: bool
) -> tuple[Mapping[Kind, int | None], Mapping[Kind, int]]:
    """Both sides by kind, in the order in which they are compared."""
    size = newcomer.size
    wanted = {
        Kind.MEMORY: size.memory,
        Kind.DISK: size.disk,
        Kind.VCPUS: size.vcpus,
        Kind.SPINDLES: size.spindles if exclusive else newcomer.spindle_use,
        Kind.DISKS: newcomer.disks,
    }
    if newcomer.template is model.Template.DISKLESS:
        del wanted[Kind.DISKS]
    allowed = {
        Kind.MEMORY: bound.memory,
        Kind.DISK: bound.disk,
        Kind.VCPUS: bound.vcpus,
        Kind.SPINDLES: bound.spindle_use,
        Kind.DISKS: bound.disks,
    }
    return wanted, allowed
