"""Where instances go that have to leave, as an allocator is asked: their nodes (evacuation) or their group.

The target is the one with the best score of the cluster after it. What a move frees is free for none of the same
answer: the moves may run in any order. How a round empties a node is in `rounds/evacuation.py`.
Sources: seed 004, "node evacuation" and "group change"; Ganeti's hail.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from ....module_utils.domain.values import errors
from ..balancing import actions, candidates, turns
from ..score import columns, scoring, state
from . import allocation, allocator

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from ..models import model

Scope = allocator.Scope
ALONE = "its disks are {} on {}: no other node has them"
NO_SECONDARY = "it has no secondary"


def evacuate(found: model.Model, request: allocator.Evacuate) -> allocator.Result:
    """Other nodes for instances, which leave their primaries, their secondaries or both (seed 004).

    As with hail, a pair that leaves its primary only changes roles. If soft errors are ignored, memory and disk alone
    count where no place keeps all limits.

    Raises:
        NotFound: there is no such instance.
    """
    named = _named(found, request.instances)
    if request.scope is Scope.PRIMARY:
        leaving = {instance.primary for instance in named}
    elif request.scope is Scope.SECONDARY:
        leaving = {instance.secondary for instance in named if instance.secondary}
    else:
        leaving = {node for instance in named for node in (instance.primary, instance.secondary) if node}
    work = _Work(found, frozenset(leaving), ignores_soft=request.ignores_soft_errors)
    for instance in sorted(named, key=lambda each: (-each.memory, -each.disk)):
        if request.scope is Scope.PRIMARY and instance.template.is_mirrored:
            work.swap(instance)
        elif request.scope is Scope.SECONDARY:
            work.leave_secondary(instance)
        else:
            work.leave(instance)
    return work.result()


def change_group(found: model.Model, request: allocator.ChangeGroup) -> allocator.Result:
    """Places in other groups: in one of the targets, or in any that none of the instances is in (seed 004).

    What was interrupted on its way to a target, and runs there already, only gets its secondary there, unless the
    request names another primary.

    Raises:
        NotFound: there is no such instance, group or node.
    """
    named = _named(found, request.instances)
    homes = {node.name: node.group for node in found.nodes}
    own = {homes[instance.primary] for instance in named}
    groups = {group.uuid for group in found.groups}
    for uuid in request.targets:
        if uuid not in groups:
            raise errors.NotFound(f"there is no group {uuid!r}")
    allowed = set(request.targets) or groups - own
    work = _Work(found, frozenset())
    for instance in sorted(named, key=lambda each: (-each.memory, -each.disk)):
        home = homes[instance.primary]
        is_split = bool(instance.secondary) and homes[instance.secondary] != home
        if is_split and home in allowed:
            near = request.secondary != instance.primary and homes.get(request.secondary) in {None, home}
            if request.primary in {"", instance.primary} and near:
                work.leave_secondary(instance, to=request.secondary)
                continue
            left = set()
        else:
            left = {home}
        only = tuple(name for name, group in homes.items() if group in allowed - left)
        work.anywhere(instance, only, given=(request.primary, request.secondary))
    return work.result()


def _named(found: model.Model, names: Iterable[str]) -> list[model.Instance]:
    known = {instance.name: instance for instance in found.instances}
    for name in names:
        if name not in known:
            raise errors.NotFound(f"there is no instance {name!r}")
    return [known[name] for name in dict.fromkeys(names)]


class _Work:
    """The cluster while instances leave; the nodes in `avoid` are no targets."""

    def __init__(self, found: model.Model, avoid: frozenset[str], *, ignores_soft: bool = False) -> None:
        self._ignores_soft = ignores_soft
        nodes = tuple(replace(node, offline=node.offline or node.name in avoid) for node in found.nodes)
        self._found = replace(found, nodes=nodes)
        self._now, self._first = state.build(self._found), state.build(found)
        self.placements: list[allocator.Placement] = []
        self.unplaced: list[allocator.Unplaced] = []

    def result(self) -> allocator.Result:
        count = len(self.placements) + len(self.unplaced)
        info = f"{len(self.placements)} of {count} instances have a place"
        return allocator.Result(tuple(self.placements), tuple(self.unplaced), info)

    def _refuse(self, instance: model.Instance, why: str) -> None:
        self.unplaced.append(allocator.Unplaced(instance.name, {"": why}))

    def swap(self, instance: model.Instance) -> None:
        """Change the roles of a pair."""
        if not instance.secondary:
            self._refuse(instance, NO_SECONDARY)
            return
        given = replace(instance, primary=instance.secondary, secondary=instance.primary)
        number, there = self._now.by_instance[instance.name], self._now.nodes.index
        place = (there[given.primary], there[given.secondary])
        if why := turns.walk(self._now, number, [place]):
            self._refuse(instance, why)
        else:
            self._note(instance, place)

    def leave(self, instance: model.Instance) -> None:
        """Find new nodes for all it has."""
        place = answer = self._answer(instance, "")
        if isinstance(answer, allocator.Unplaced):
            place = self._with_soft_errors(instance, "") or answer
        self._take(instance, place)

    def leave_secondary(self, instance: model.Instance, to: str = "") -> None:
        """Find a new secondary, or take the node `to`; the primary stays, and must be there to copy from."""
        primary = self._now.nodes.index[instance.primary]
        if not instance.secondary or self._first.nodes.offline[primary]:
            why = f"its primary {instance.primary} is offline" if instance.secondary else NO_SECONDARY
            self._refuse(instance, why)
            return
        # Others may leave the node where this one stays: it is no target for them, and one that is kept for this.
        offline, found = self._now.nodes.offline, self._found
        was = bool(offline[primary])
        offline[primary] = False
        nodes = tuple(replace(each, offline=each.offline and each.name != instance.primary) for each in found.nodes)
        self._found = replace(found, nodes=nodes)
        place = answer = self._answer(instance, instance.primary, secondary=to)
        if isinstance(answer, allocator.Unplaced):
            place = self._with_soft_errors(instance, instance.primary) or answer
        offline[primary], self._found = was, found
        self._take(instance, place)

    def anywhere(self, instance: model.Instance, only: tuple[str, ...], given: tuple[str, str] = ("", "")) -> None:
        """Find new nodes among these; `given` are the primary and the secondary that it shall have, or ""."""
        if only:
            self._take(instance, self._answer(instance, given[0], only, secondary=given[1]))
        else:
            self._refuse(instance, "there is no group that it could go to")

    def _answer(
        self, instance: model.Instance, primary: str, only: tuple[str, ...] | None = None, *, secondary: str = ""
    ) -> turns.Place | allocator.Unplaced:
        """A place with these nodes, or any; in its own group, unless it is given the nodes it may have."""
        if not instance.template.can_leave:
            return allocator.Unplaced(instance.name, {"": ALONE.format(instance.template.value, instance.primary)})
        number, group = self._now.by_instance[instance.name], self._group(instance) if only is None else ""
        wanted = allocator.Wanted(replace(instance, primary=primary, secondary=secondary), group=group, only=only)
        self._now.count(number, state.FREED)
        answer = allocation.place(self._found, self._now, wanted, stays=only is None)
        self._now.count(number, state.TAKEN)
        if isinstance(answer, allocator.Unplaced):
            return allocator.Unplaced(instance.name, {"": answer.reasons[group]} if group else answer.reasons)
        index = self._now.nodes.index
        first, *others = (index[name] for name in answer.nodes)
        return first, others[0] if others else columns.NOWHERE

    def _with_soft_errors(self, instance: model.Instance, primary: str) -> turns.Place | None:
        """The best place that has the memory and the disk, if that is enough; two new nodes one after the other."""
        if not self._ignores_soft or not instance.template.can_leave:
            return None
        nodes, number = self._now.nodes, self._now.by_instance[instance.name]

        def is_open(place: turns.Place) -> bool:
            return not any(nodes.offline[node] for node in place if node != columns.NOWHERE)

        found = self._best(number, lambda place: is_open(place) and primary in {"", nodes.names[place[0]]})
        if found is not None or primary or not instance.template.is_mirrored:
            return found
        half = self._best(number, lambda place: not nodes.offline[place[0]])
        if half is None:
            return None
        undo = self._now.move(number, primary=half[0], secondary=half[1])
        found = self._best(number, lambda place: is_open(place) and place[0] == half[0])
        self._now.undo(undo)
        return found

    def _best(self, number: int, fits: Callable[[turns.Place], bool]) -> turns.Place | None:
        """Of the places with one new node of the group that of the best score."""
        nodes, held = self._now.nodes, self._now.instances
        mine = nodes.group == nodes.group[held.primary[number]]
        where = scoring.Scope(np.flatnonzero(mine), np.flatnonzero(mine & ~nodes.offline))
        here = (int(held.primary[number]), int(held.secondary[number]))
        best: tuple[float, turns.Place] | None = None
        for block in candidates.in_scope(self._now, where, ignore_soft=True).blocks(np.array([number])):
            for kind, action in enumerate(actions.TO_TARGET):
                for score, target in zip(block.moved[kind][0].tolist(), block.targets.tolist(), strict=True):
                    place = action.placed(*here, target)
                    if np.isfinite(score) and fits(place) and (best is None or score < best[0]):
                        best = score, place
        return None if best is None else best[1]

    def _take(self, instance: model.Instance, found: turns.Place | allocator.Unplaced) -> None:
        if isinstance(found, allocator.Unplaced):
            self.unplaced.append(found)
            return
        number = self._now.by_instance[instance.name]
        undo = self._now.move(number, primary=found[0], secondary=found[1])
        self._hold(number, {undo.primary, undo.secondary} - {*found, columns.NOWHERE}, undo.primary)
        self._note(instance, found)

    def _hold(self, instance: int, left: set[int], primary: int) -> None:
        """What an instance leaves is free once it has gone, and nobody knows which of these moves is the last."""
        nodes, held = self._now.nodes, self._now.instances
        for node in left:
            nodes.disk[node] -= held.disk[instance]
            nodes.disk_expected[node] -= held.disk[instance]
        if primary in left:
            nodes.memory[primary] -= held.started[instance]
            nodes.memory_expected[primary] -= held.memory[instance]

    def _note(self, instance: model.Instance, place: turns.Place) -> None:
        names, first = self._now.nodes.names, self._first.nodes
        move = allocator.Action.FAILOVER if first.offline[first.index[instance.primary]] else allocator.Action.MIGRATE
        steps = []
        for step in turns.steps(self._first, self._first.by_instance[instance.name], place):
            kind, _, node = step.action.partition(":")
            steps.append(allocator.Step(allocator.Action.REPLACE_SECONDARY if kind == "r" else move, node))
        nodes = tuple(names[node] for node in place if node != columns.NOWHERE)
        homes = {each.uuid: each.name for each in self._found.groups}
        group = homes[self._found.nodes[place[0]].group]
        self.placements.append(allocator.Placement(instance.name, nodes, group, tuple(steps)))

    def _group(self, instance: model.Instance) -> str:
        homes = {each.name: each.group for each in self._found.nodes}
        return next(each.name for each in self._found.groups if each.uuid == homes[instance.primary])
