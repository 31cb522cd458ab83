"""A DRBD resource on both of its nodes, and what becomes of it: the steps of a repair, or why there is none."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import FrozenSet, List, Optional, Tuple, Union

from .drbd import Connection, Generation, Side, Volume
from .drbd_generations import Relation, age, relation


class Where(Enum):
    """One of the two nodes, as the configuration has them."""

    PRIMARY = "primary"
    SECONDARY = "secondary"

    @property
    def other(self) -> Where:
        """The other node."""
        return Where.SECONDARY if self is Where.PRIMARY else Where.PRIMARY


class Action(Enum):
    """What is done to a resource on one node."""

    UP = "bring the resource up"
    ATTACH = "attach the disk again"
    RESUME = "resume the resync"
    CONNECT = "connect again"
    INVALIDATE = "copy everything again"
    DEMOTE = "close the disk"
    DISCARD = "discard what was written here, and connect"
    GIVE_UP = "discard what was written here, until a new replica is made"
    OUTDATE = "outdate the replica"
    REPLACE = "replace the secondary"


DESTRUCTIVE = frozenset({Action.INVALIDATE, Action.DISCARD, Action.GIVE_UP, Action.REPLACE})


class Unread(Enum):
    """Why a node says nothing of a resource."""

    DOWN = "the resource is down there"
    UNHEARD = "it could not be asked"
    UNREADABLE = "it is up there, and what it says is not understood"


Told = Union[Side, Unread]


@dataclass(frozen=True)
class Step:
    """An action, and the node on which it is done."""

    action: Action
    where: Where


@dataclass(frozen=True)
class Pair:
    """A resource on both of its nodes; `failed` are the steps that were tried and did not help.

    `undone` are those of them that ended in an error. `discard` is the node whose writes a person gives up after a
    split brain.
    """

    primary: Told
    secondary: Told
    failed: FrozenSet[Step] = frozenset()
    discard: Optional[Where] = None
    undone: FrozenSet[Step] = frozenset()

    def at(self, where: Where) -> Told:
        """What one of the nodes says."""
        return self.primary if where is Where.PRIMARY else self.secondary


class Kind(Enum):
    """What a verdict means."""

    HEALTHY = "healthy"
    WAITING = "waiting"
    REPAIR = "repair"
    REFUSED = "refused"


@dataclass(frozen=True)
class Verdict:
    """What is wrong, the steps that repair it in their order, and for a refusal what would lift it."""

    kind: Kind
    reason: str = ""
    steps: Tuple[Step, ...] = ()
    unblock: str = ""


@dataclass(frozen=True)
class Sides:
    """Both sides, where both have told, and their volumes in pairs."""

    pair: Pair
    primary: Side
    secondary: Side
    volumes: Tuple[Tuple[Volume, Volume], ...]

    def at(self, where: Where) -> Side:
        """What one of them says."""
        return self.primary if where is Where.PRIMARY else self.secondary

    @property
    def is_connected(self) -> bool:
        """Whether both say that they have their peer."""
        return self.primary.connection is self.secondary.connection is Connection.CONNECTED

    @property
    def generations(self) -> List[Tuple[Generation, Generation]]:
        """The generations of both sides by volume; none if one of them is not known."""
        found = []
        for ours, theirs in self.volumes:
            if ours.generation is None or theirs.generation is None:
                return []
            found.append((ours.generation, theirs.generation))
        return found

    @property
    def relations(self) -> List[Relation]:
        """Which side's data are newer, by volume, as DRBD finds it when it connects; none if that is not known."""
        return [relation(ours, theirs) for ours, theirs in self.generations]

    @property
    def ages(self) -> List[Relation]:
        """The same, also where DRBD no longer knows which side is newer."""
        return [age(ours, theirs) for ours, theirs in self.generations]
