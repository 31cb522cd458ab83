"""What happens when nodes fail: which instances start again, where, and what is missing for the others (N+1).

Only memory decides, as in Ganeti's htools: whatever else is short, an instance is better off running. It fits where
more is free than it needs. All amounts are MiB.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

from ....module_utils.domain.values import errors
from ..models import node_memory

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from ..models.model import Instance, Model


class Fate(Enum):
    """What becomes of an instance of a failed node."""

    STARTS = "starts"
    NO_ROOM = "no room"
    NO_REPLICA = "no replica"
    UNMIRRORED = "unmirrored"
    NOT_RUNNING = "not running"


@dataclass(frozen=True)
class Outcome:
    """One instance; `node` is where it starts or should, `free` what is free there when its turn comes."""

    instance: str
    fate: Fate
    memory: int = 0
    node: str = ""
    free: int = 0
    text: str = ""


@dataclass(frozen=True)
class Shortage:
    """A node with too little memory free for all that would start there; `free` may be negative already."""

    node: str
    needed: int
    free: int

    @property
    def missing(self) -> int:
        """What would have to be free beside: one more than is short, or nothing would be left."""
        return self.needed + 1 - self.free


@dataclass(frozen=True)
class Failure:
    """The failure of nodes at once: what becomes of each instance, in the order of the model, and who is short."""

    nodes: tuple[str, ...]
    outcomes: tuple[Outcome, ...]
    shortages: tuple[Shortage, ...] = ()

    @property
    def lost(self) -> tuple[Outcome, ...]:
        """The instances that do not come back by themselves."""
        return tuple(outcome for outcome in self.outcomes if outcome.fate in {Fate.NO_ROOM, Fate.NO_REPLICA})


def not_survived(model: Model) -> tuple[Failure, ...]:
    """Each node whose failure loses an instance; O(nodes * shared instances + instances).

    One that is offline counts too: it may only be drained, and else what it holds waits for a place all the same. As
    N+1 counts, a stopped instance needs its memory too, but not one that is ADMIN_offline or without auto balance.
    """
    survey = _Survey(model)
    found = []
    for node in model.nodes:
        failure = survey.failure((node.name,), counts=lambda instance: instance.reserves_memory)
        if failure.lost:
            found.append(failure)
    return tuple(found)


def what_if(model: Model, *, failed: Sequence[str]) -> Failure:
    """What would happen if these nodes failed now; who runs counts, those without auto balance last.

    Raises:
        NotFound: there is no such node.
    """
    known = {node.name for node in model.nodes}
    for name in failed:
        if name not in known:
            raise errors.NotFound(f"there is no node {name!r}")
    return _Survey(model).failure(tuple(dict.fromkeys(failed)), counts=lambda instance: instance.takes_memory)


class _Survey:
    """The cluster, arranged by who starts where."""

    def __init__(self, model: Model) -> None:
        self._model = model
        self._free = node_memory.free(model)
        self._group = {node.name: node.group for node in model.nodes}
        self._takers: dict[str, list[str]] = {}
        self._primaries: dict[str, list[int]] = {node.name: [] for node in model.nodes}
        self._secondaries: dict[str, list[int]] = {node.name: [] for node in model.nodes}
        for node in model.nodes:
            if node_memory.takes_instances(node):
                self._takers.setdefault(node.group, []).append(node.name)
        self._serving = {name for names in self._takers.values() for name in names}
        for index, instance in enumerate(model.instances):
            if not instance.forthcoming:
                self._primaries[instance.primary].append(index)
                if instance.secondary:
                    self._secondaries[instance.secondary].append(index)

    def failure(self, nodes: tuple[str, ...], *, counts: Callable[[Instance], bool]) -> Failure:
        """Let the largest choose first, those that have one place only before those that have several."""
        hit = [index for node in nodes for index in self._primaries[node]]
        taken: dict[str, int] = {}
        found: dict[int, Outcome] = {}
        for index in sorted(hit, key=self._turn):
            found[index] = outcome = self._outcome(self._model.instances[index], nodes, taken, counts=counts)
            if outcome.fate is Fate.STARTS:
                taken[outcome.node] = taken.get(outcome.node, 0) + outcome.memory
        for index in (index for node in nodes for index in self._secondaries[node]):
            if index not in found:
                found[index] = self._unmirrored(self._model.instances[index])
        outcomes = tuple(found[index] for index in sorted(found))
        return Failure(nodes, outcomes, tuple(self._shortages(outcomes)))

    def _turn(self, index: int) -> tuple[bool, bool, int, int]:
        instance = self._model.instances[index]
        return not instance.auto_balance, not instance.secondary, -instance.memory, index

    def _outcome(
        self, instance: Instance, failed: Sequence[str], taken: dict[str, int], *, counts: Callable[[Instance], bool]
    ) -> Outcome:
        if not counts(instance):
            return Outcome(instance.name, Fate.NOT_RUNNING, instance.memory, text=f"is not counted: {instance.status}")
        if instance.secondary:
            if instance.secondary not in self._serving or instance.secondary in failed:
                why = "fails too" if instance.secondary in failed else "takes no instances"
                return Outcome(
                    instance.name,
                    Fate.NO_REPLICA,
                    instance.memory,
                    text=f"has no other replica: {instance.secondary} {why}",
                )
            return self._started(instance, instance.secondary, taken)
        if instance.template.is_mirrored or not instance.template.can_leave:
            text = f"has no other replica: its disks are {instance.template.value} on {instance.primary}"
            return Outcome(instance.name, Fate.NO_REPLICA, instance.memory, text=text)
        places = [name for name in self._takers.get(self._group[instance.primary], []) if name not in failed]
        if not places:
            text = "has no room: no other node of its group takes instances"
            return Outcome(instance.name, Fate.NO_ROOM, instance.memory, text=text)
        return self._started(instance, max(places, key=lambda name: self._free[name] - taken.get(name, 0)), taken)

    def _started(self, instance: Instance, node: str, taken: dict[str, int]) -> Outcome:
        free = max(0, self._free[node] - taken.get(node, 0))
        if free > instance.memory:
            text = f"starts on {node}: {instance.memory} of {free} MiB free"
            return Outcome(instance.name, Fate.STARTS, instance.memory, node, free, text)
        text = f"has no room on {node}: {instance.memory} MiB needed, {free} MiB free"
        return Outcome(instance.name, Fate.NO_ROOM, instance.memory, node, free, text)

    def _unmirrored(self, instance: Instance) -> Outcome:
        text = f"stays on {instance.primary} without its replica on {instance.secondary}"
        return Outcome(instance.name, Fate.UNMIRRORED, instance.memory, instance.primary, text=text)

    def _shortages(self, outcomes: Iterable[Outcome]) -> list[Shortage]:
        needed: dict[str, int] = {}
        for outcome in outcomes:
            if outcome.node and outcome.fate in {Fate.STARTS, Fate.NO_ROOM}:
                needed[outcome.node] = needed.get(outcome.node, 0) + outcome.memory
        short = {outcome.node for outcome in outcomes if outcome.node and outcome.fate is Fate.NO_ROOM}
        return [Shortage(name, needed[name], self._free[name]) for name in self._free if name in short]
