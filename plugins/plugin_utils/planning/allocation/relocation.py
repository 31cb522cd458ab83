"""Where instances go that have to leave: their nodes (evacuation) or their group.

What leaves a node keeps its other copy, so that no more than one disk is copied; only where that has no room, or both
of its nodes are left, it gets two new ones. The target is the one with the best score of the cluster after it. What a
move frees is free for none of the same answer: the moves may run in any order. N+1 is kept where any target keeps it.
Sources: seed 004, "node evacuation" and "group change"; Ganeti's hail.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from ....module_utils.domain import errors
from ..balancing import actions, candidates, plans
from ..score import columns, limits, scoring, state
from . import allocation, allocator

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from ..models import model

Scope = allocator.Scope
ALONE = "its disks are {} on {}: no other node has them"


@dataclass(frozen=True)
class Vacated:
    """Placements and refusals of an evacuation, and the failures (in words) that are no longer survived after it."""

    placements: tuple[allocator.Placement, ...]
    refusals: tuple[allocator.Refusal, ...]
    lost: tuple[str, ...] = ()


def vacate(found: model.Model, nodes: Collection[str], *, scope: Scope = Scope.ALL) -> Vacated:
    """New places for whatever is on these nodes: primaries, secondaries or all; the largest instances first.

    A choice costs O(nodes of the cluster), so the answer O(instances that leave * nodes²) with the copies of the state.

    Raises:
        NotFound: there is no such node.
    """
    known = {one.name for one in found.nodes}
    for name in nodes:
        if name not in known:
            raise errors.NotFound(f"there is no node {name!r}")
    work = _Work(found, frozenset(nodes))
    for one in sorted(found.instances, key=lambda each: (-each.memory, -each.disk)):
        leaves = _leaves(one, nodes, scope)
        if leaves:
            work.leave(one, leaves)
    return Vacated(tuple(work.placements), tuple(work.refusals), work.lost())


def evacuate(found: model.Model, request: allocator.Evacuate) -> allocator.Result:
    """Other nodes for instances, which leave their primaries, their secondaries or both (seed 004).

    As with hail, a pair that leaves its primary only changes roles.

    Raises:
        NotFound: there is no such instance.
    """
    named = _named(found, request.instances)
    if request.scope is Scope.PRIMARY:
        leaving = {one.primary for one in named}
    elif request.scope is Scope.SECONDARY:
        leaving = {one.secondary for one in named if one.secondary}
    else:
        leaving = {node for one in named for node in (one.primary, one.secondary) if node}
    work = _Work(found, frozenset(leaving))
    for one in sorted(named, key=lambda each: (-each.memory, -each.disk)):
        if request.scope is Scope.PRIMARY and one.template.is_mirrored:
            work.swap(one)
        elif request.scope is Scope.SECONDARY:
            work.leave_secondary(one)
        else:
            work.leave(one, _leaves(one, leaving, request.scope))
    return work.result()


def change_group(found: model.Model, request: allocator.ChangeGroup) -> allocator.Result:
    """Places in other groups: in one of the targets, or in any that none of the instances is in (seed 004).

    What was interrupted on its way to a target, and runs there already, only gets its second copy there.

    Raises:
        NotFound: there is no such instance, group or node.
    """
    named = _named(found, request.instances)
    homes = {one.name: one.group for one in found.nodes}
    own = {homes[one.primary] for one in named}
    groups = {one.uuid for one in found.groups}
    for uuid in request.targets:
        if uuid not in groups:
            raise errors.NotFound(f"there is no group {uuid!r}")
    allowed = set(request.targets) or groups - own
    work = _Work(found, frozenset())
    for one in sorted(named, key=lambda each: (-each.memory, -each.disk)):
        if one.secondary and homes[one.secondary] != homes[one.primary] and homes[one.primary] in allowed:
            work.leave_secondary(one)
            continue
        only = tuple(name for name, group in homes.items() if group in allowed - {homes[one.primary]})
        work.anywhere(one, only, given=(request.primary, request.secondary))
    return work.result()


def _named(found: model.Model, names: Iterable[str]) -> list[model.Instance]:
    known = {one.name: one for one in found.instances}
    for name in names:
        if name not in known:
            raise errors.NotFound(f"there is no instance {name!r}")
    return [known[name] for name in dict.fromkeys(names)]


def _leaves(one: model.Instance, nodes: Collection[str], scope: Scope) -> frozenset[str]:
    first = {one.primary} if scope in {Scope.PRIMARY, Scope.ALL} else set()
    second = {one.secondary} if scope in {Scope.SECONDARY, Scope.ALL} else set()
    return frozenset((first | second) & set(nodes))


class _Work:
    """The cluster while instances leave; the nodes in `avoid` are no targets."""

    def __init__(self, found: model.Model, avoid: frozenset[str]) -> None:
        nodes = tuple(replace(one, offline=one.offline or one.name in avoid) for one in found.nodes)
        self._found = replace(found, nodes=nodes)
        self._now, self._first = state.of(self._found), state.of(found)
        self._before = [limits.lacks(self._now, node).survival for node in range(len(nodes))]
        self.placements: list[allocator.Placement] = []
        self.refusals: list[allocator.Refusal] = []

    def result(self) -> allocator.Result:
        count = len(self.placements) + len(self.refusals)
        info = f"{len(self.placements)} of {count} instances have a place"
        return allocator.Result(tuple(self.placements), tuple(self.refusals), info)

    def lost(self) -> tuple[str, ...]:
        """The nodes that have less than would start there, or lack more than before."""
        found = []
        for node, before in enumerate(self._before):
            missing = limits.lacks(self._now, node).survival
            if missing > before and not self._now.nodes.offline[node]:
                peer = self._now.nodes.names[int(self._now.nodes.reserved_for[node])]
                name = self._now.nodes.names[node]
                found.append(f"{peer} may no longer fail: {name} lacks {missing:.0f} MiB for what would start there")
        return tuple(found)

    def swap(self, one: model.Instance) -> None:
        """Change the roles of a pair."""
        given = replace(one, primary=one.secondary, secondary=one.primary)
        number, there = self._now.by_instance[one.name], self._now.nodes.index
        place = (there[given.primary], there[given.secondary])
        if why := plans.walk(self._now, number, [place]):
            self.refusals.append(allocator.Refusal(one.name, why))
        else:
            self._note(one, place)

    def leave(self, one: model.Instance, nodes: frozenset[str]) -> None:
        """Find new nodes for those it leaves."""
        kept = [name for name in (one.primary, one.secondary) if name and name not in nodes]
        # Whoever leaves its primary runs on its copy, and gets another one.
        primary = kept[0] if one.template.is_mirrored and len(kept) == 1 else ""
        place = answer = self._answer(one, primary)
        if isinstance(answer, allocator.Refusal) and one.template.can_leave:
            place = self._despite_n_plus_1(one, primary) or (self._answer(one, "") if primary else answer)
        self._take(one, answer if isinstance(place, allocator.Refusal) else place)

    def leave_secondary(self, one: model.Instance) -> None:
        """Find a new secondary; the primary stays, so there is none where nothing can be copied from that."""
        primary = self._now.nodes.index[one.primary]
        if not one.secondary or self._first.nodes.offline[primary]:
            why = f"its primary {one.primary} is offline" if one.secondary else "it has no secondary"
            self.refusals.append(allocator.Refusal(one.name, why))
            return
        # Others may leave the node where this one stays: it is no target for them, and one that is kept for this.
        offline, found = self._now.nodes.offline, self._found
        was = bool(offline[primary])
        offline[primary] = False
        nodes = tuple(replace(each, offline=each.offline and each.name != one.primary) for each in found.nodes)
        self._found = replace(found, nodes=nodes)
        place = answer = self._answer(one, one.primary)
        if isinstance(answer, allocator.Refusal):
            place = self._despite_n_plus_1(one, one.primary) or answer
        offline[primary], self._found = was, found
        self._take(one, place)

    def anywhere(self, one: model.Instance, only: tuple[str, ...], given: tuple[str, str] = ("", "")) -> None:
        """Find new nodes among these; `given` are the primary and the secondary that it shall have, or ""."""
        if only:
            self._take(one, self._answer(one, given[0], only, secondary=given[1]))
        else:
            self._take(one, allocator.Refusal(one.name, "there is no group that it could go to"))

    def _answer(
        self, one: model.Instance, primary: str, only: tuple[str, ...] | None = None, *, secondary: str = ""
    ) -> plans.Place | allocator.Refusal:
        """A place with these nodes, or any; in its own group, unless it is given the nodes it may have."""
        if not one.template.can_leave:
            return allocator.Refusal(one.name, ALONE.format(one.template.value, one.primary))
        number, group = self._now.by_instance[one.name], self._group(one) if only is None else ""
        wanted = allocator.Wanted(replace(one, primary=primary, secondary=secondary), group=group, only=only)
        self._now.count(number, state.FREED)
        answer = allocation.place(self._found, self._now, wanted, stays=only is None)
        self._now.count(number, state.TAKEN)
        if isinstance(answer, allocator.Refusal):
            return allocator.Refusal(one.name, _of_group(answer.text, group) if group else answer.text)
        index = self._now.nodes.index
        first, *others = (index[name] for name in answer.nodes)
        return first, others[0] if others else columns.NOWHERE

    def _despite_n_plus_1(self, one: model.Instance, primary: str) -> plans.Place | None:
        """The best place that has the memory and the disk, where every such place costs N+1."""
        nodes, number = self._now.nodes, self._now.by_instance[one.name]
        group = nodes.group[nodes.index[one.primary]]
        everyone = np.flatnonzero(nodes.group == group)
        where = scoring.Scope(everyone, np.flatnonzero((nodes.group == group) & ~nodes.offline))
        held = self._now.instances
        here = (int(held.primary[number]), int(held.secondary[number]))
        best: tuple[float, plans.Place] | None = None
        for block in candidates.of(self._now, where, ignore_soft=True).blocks(np.array([number])):
            for kind, action in enumerate(actions.TO_TARGET):
                for score, target in zip(block.moved[kind][0].tolist(), block.targets.tolist(), strict=True):
                    place = action.placed(*here, target)
                    if self._is_wanted(place, primary) and np.isfinite(score) and (best is None or score < best[0]):
                        best = score, place
        return None if best is None else best[1]

    def _is_wanted(self, place: plans.Place, primary: str) -> bool:
        nodes = self._now.nodes
        stays = not any(nodes.offline[node] for node in place if node != columns.NOWHERE)
        return stays and primary in {"", nodes.names[place[0]]}

    def _take(self, one: model.Instance, found: plans.Place | allocator.Refusal) -> None:
        if isinstance(found, allocator.Refusal):
            self.refusals.append(found)
            return
        number = self._now.by_instance[one.name]
        undo = self._now.move(number, primary=found[0], secondary=found[1])
        self._hold(number, {undo.primary, undo.secondary} - {*found, columns.NOWHERE}, undo.primary)
        self._note(one, found)

    def _hold(self, instance: int, left: set[int], primary: int) -> None:
        """What an instance leaves is free once it has gone, and nobody knows which of these moves is the last."""
        nodes, held = self._now.nodes, self._now.instances
        for node in left:
            nodes.disk[node] -= held.disk[instance]
            nodes.disk_expected[node] -= held.disk[instance]
        if primary in left:
            nodes.memory[primary] -= held.started[instance]
            nodes.memory_expected[primary] -= held.memory[instance]

    def _note(self, one: model.Instance, place: plans.Place) -> None:
        names, first = self._now.nodes.names, self._first.nodes
        move = allocator.Action.FAILOVER if first.offline[first.index[one.primary]] else allocator.Action.MIGRATE
        steps = []
        for step in plans.steps(self._first, self._first.by_instance[one.name], place):
            kind, _, node = step.action.partition(":")
            steps.append(allocator.Step(allocator.Action.REPLACE_SECONDARY if kind == "r" else move, node))
        nodes = tuple(names[node] for node in place if node != columns.NOWHERE)
        homes = {each.uuid: each.name for each in self._found.groups}
        group = homes[self._found.nodes[place[0]].group]
        self.placements.append(allocator.Placement(one.name, nodes, group, tuple(steps)))

    def _group(self, one: model.Instance) -> str:
        homes = {each.name: each.group for each in self._found.nodes}
        return next(each.name for each in self._found.groups if each.uuid == homes[one.primary])


def _of_group(text: str, group: str) -> str:
    """Of the reasons of all groups that of one."""
    mine = [part for part in text.split("; ") if part.startswith(f"{group}: ")]
    return mine[0].partition(": ")[2] if mine else text
