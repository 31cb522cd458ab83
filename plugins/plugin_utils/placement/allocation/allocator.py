"""The allocator's port: what it can be asked, and what it answers; who decides is passed in.

A decision is a function of a model and a request; ours are one kind of allocator, an external program is another.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Any, Protocol, Union

from ....module_utils.domain.values import errors

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from ..models.model import Instance, Model


class Scope(Enum):
    """Which of its nodes an instance leaves."""

    PRIMARY = "primary-only"
    SECONDARY = "secondary-only"
    ALL = "all"


@dataclass(frozen=True)
class Wanted:
    """A new instance; a primary or secondary that it has already is given, "" is to be found.

    disks: their sizes in MiB, without what the disk template adds; group: the name of the only one to consider, or "";
    only: the only nodes to consider, or None.
    """

    instance: Instance
    disks: tuple[int, ...] = ()
    group: str = ""
    only: tuple[str, ...] | None = None


@dataclass(frozen=True)
class Allocate:
    """A place for a new instance."""

    wanted: Wanted


@dataclass(frozen=True)
class MultiAllocate:
    """Places for new instances, one after the other."""

    wanted: tuple[Wanted, ...]


@dataclass(frozen=True)
class AllocateSecondary:
    """A secondary for an instance that becomes a DRBD pair."""

    instance: str


@dataclass(frozen=True)
class Relocate:
    """Another node instead of one for an instance: a pair's secondary, a shared instance's primary."""

    instance: str
    away_from: tuple[str, ...]


@dataclass(frozen=True)
class Evacuate:
    """Other nodes of their groups for instances; `ignores_soft_errors` lets go of all but memory and disk."""

    instances: tuple[str, ...]
    scope: Scope
    ignores_soft_errors: bool = False


@dataclass(frozen=True)
class ChangeGroup:
    """Another group for instances; without targets (UUIDs) any group that none of them is in.

    `primary` and `secondary` are nodes (names) that are asked for; they are for one instance.
    """

    instances: tuple[str, ...]
    targets: tuple[str, ...] = ()
    primary: str = ""
    secondary: str = ""


Request = Union[Allocate, MultiAllocate, AllocateSecondary, Relocate, Evacuate, ChangeGroup]


class Action(Enum):
    """One step of an instance to its place."""

    MIGRATE = "migrate"
    FAILOVER = "failover"
    REPLACE_SECONDARY = "replace-secondary"


@dataclass(frozen=True)
class Step:
    """An action; `node` is the new secondary, or where a shared instance goes, "" where there is no choice."""

    action: Action
    node: str = ""


@dataclass(frozen=True)
class Placement:
    """Where an instance goes: its nodes, the primary first, its group's name, and how it gets there.

    `after` are placements of the same answer that have to be done before.
    """

    instance: str
    nodes: tuple[str, ...]
    group: str = ""
    steps: tuple[Step, ...] = ()
    after: tuple[str, ...] = ()


@dataclass(frozen=True)
class Unplaced:
    """An instance that has no place, and why: by the name of each group, or under "" whatever the group."""

    instance: str
    reasons: Mapping[str, str]

    @property
    def text(self) -> str:
        """Why, in one line."""
        return _joined(self.reasons)

    def within(self, groups: Collection[str]) -> str:
        """Why in these groups (names), in one line; "" if nothing is said of them."""
        return _joined({group: reason for group, reason in self.reasons.items() if group in groups})


def _joined(reasons: Mapping[str, str]) -> str:
    return "; ".join(f"{group}: {reason}" if group else reason for group, reason in reasons.items())


@dataclass(frozen=True)
class Result:
    """All that was asked for: each instance has a placement or is unplaced; `info` says it in a sentence."""

    placements: tuple[Placement, ...] = ()
    unplaced: tuple[Unplaced, ...] = ()
    info: str = ""


class Allocator(Protocol):
    """Whoever decides."""

    def decide(self, model: Model, request: Request, /) -> Result:
        """Answer a request.

        Raises:
            RoundsmanError: it cannot be answered at all; no room is no error: the result has what is unplaced.
        """


@dataclass(frozen=True)
class Own:
    """Our allocator: a decider for each type of request it knows."""

    deciders: Mapping[type, Callable[[Model, Any], Result]] = field(default_factory=dict)

    def decide(self, model: Model, request: Request, /) -> Result:
        """Let the decider for it answer.

        Raises:
            Refused: there is none.
        """
        decider = self.deciders.get(type(request))
        if decider is None:
            raise errors.Refused(f"requests of type {type(request).__name__} are not answered")
        return decider(model, request)
