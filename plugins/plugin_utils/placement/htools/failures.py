"""Whether any node may fail: what ran there has room elsewhere (Ganeti's global N+1).

DRBD pairs run on their second nodes, what is on shared storage goes anywhere in the group, and what has its only disks
on the node is made anew in the group, the most memory first; each to the place with the best score. Memory and disk
are kept, nothing else. Offline nodes have no room. Unlike in htools, no policy is asked: nothing of it is new.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ..allocation import newcomers, placed_scores
from ..models import tags
from ..score import columns
from . import evenness

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from ..allocation.newcomers import Newcomer
    from ..allocation.openings import Openings
    from ..score.state import State

NOWHERE = columns.NOWHERE


@dataclass(frozen=True)
class Held:
    """An instance and its nodes as indices of the openings, -1 for none and for offline ones."""

    newcomer: Newcomer
    primary: int
    secondary: int = NOWHERE


class Failures:
    """What runs on each node of some groups (by index), and which of these nodes could not fail; `but` are not asked.

    Nodes are indices of the state; what is placed there is told by `add` and `remove`.
    """

    def __init__(self, state: State, openings: Openings, *, groups: Collection[int], but: Collection[int] = ()) -> None:
        self._state = state
        self._index = np.full(len(state.nodes.names), NOWHERE)
        self._index[openings.numbers] = np.arange(len(openings.numbers))
        asked = np.isin(state.nodes.group, list(groups))
        self._order = [node for node in np.flatnonzero(asked).tolist() if node not in but]
        self._held: dict[int, list[Held]] = {node: [] for node in range(len(state.nodes.names))}
        self._steps: evenness.Steps = {}
        for node, held in _held(state, self._index):
            self._held[node].append(held)

    def add(self, node: int, held: Held) -> None:
        """Know that an instance runs on a node."""
        self._held[node].append(held)

    def remove(self, node: int) -> None:
        """Forget the instance of a node that was added last."""
        self._held[node].pop()

    def fatal(self, openings: Openings) -> int | None:
        """A node that could not fail, None if each of them could; O(instances x nodes) at the most."""
        for position, node in enumerate(self._order):
            if not self._may_fail(openings, node):
                # Who could not fail can mostly not fail the next time either.
                self._order.insert(0, self._order.pop(position))
                return node
        return None

    def all_fatal(self, openings: Openings) -> list[int]:
        """All nodes that could not fail."""
        return sorted(node for node in self._order if not self._may_fail(openings, node))

    def _may_fail(self, openings: Openings, node: int) -> bool:
        mine = self._held[node][::-1]
        shared = [held for held in mine if _is_shared(held.newcomer)]
        alone = [held for held in mine if not (_is_shared(held.newcomer) or held.newcomer.template.is_mirrored)]
        group = np.flatnonzero(openings.nodes.group == self._state.nodes.group[node])
        others = group[group != self._index[node]]
        if not _could_suffice(openings, [*shared, *alone], others):
            return False
        there = openings.copy()
        pairs = [held for held in mine if held.newcomer.template.is_mirrored]
        if not all(self._fail_over(there, pair, node) for pair in pairs):
            return False
        if not (shared or alone):
            return True
        there.failing = there.nodes.memory <= there.nodes.reserved
        placing = _Placing(there, self._steps, [*shared, *alone][0].newcomer)
        receives = others[self._state.nodes.receives[node, there.numbers[others]]]
        everywhere = np.arange(len(there.numbers))
        alone.sort(key=lambda held: -held.newcomer.size.memory)
        return all(placing.move(held, receives, among=group) for held in shared) and all(
            placing.put(held.newcomer, _with_disk(there, held.newcomer, others), among=everywhere) for held in alone
        )

    def _fail_over(self, there: Openings, held: Held, node: int) -> bool:
        target, need = held.secondary, held.newcomer.size.memory * held.newcomer.runs
        if target == NOWHERE or not self._state.nodes.receives[node, there.numbers[target]]:
            return False
        if need and there.nodes.memory[target] <= need:
            return False
        there.give(held.newcomer, primary=held.primary, secondary=target)
        there.take(held.newcomer, primary=target, secondary=held.primary)
        return True


class _Placing:
    """The cluster while a node fails, and how even it is; with locations the whole score is looked at."""

    def __init__(self, there: Openings, steps: evenness.Steps, newcomer: Newcomer) -> None:
        self._there = there
        self._evenness = None if there.locations else evenness.Evenness(there, newcomer, steps)

    def move(self, held: Held, nodes: columns.Indices, *, among: columns.Indices) -> bool:
        """Move an instance to the best of some nodes with the memory for it, if there is one."""
        if held.primary != NOWHERE:
            self._there.give(held.newcomer, primary=held.primary)
            self._know_failing(held.primary)
            if self._evenness is not None:
                self._evenness.give(held.newcomer, held.primary)
        return self.put(held.newcomer, _with_memory(self._there, held.newcomer, nodes), among=among)

    def put(self, newcomer: Newcomer, nodes: columns.Indices, *, among: columns.Indices) -> bool:
        """Take an instance in on the best of these nodes, of equal ones the last, if there is one."""
        if not len(nodes):
            return False
        there = self._there
        best = int(nodes[0])
        if len(nodes) > 1:
            extra = _broken(there, newcomer, nodes)
            if self._evenness is None:
                scores = placed_scores.PlacedScores(there, newcomer).singles(nodes) + extra
                best = int(nodes[len(nodes) - 1 - int(np.argmin(scores[::-1]))])
            else:
                # On a node where N+1 is lost already each one more counts, which the whole score has in it.
                best = self._evenness.best(newcomer, nodes, among=among, extra=extra + there.failing[nodes])
        there.take(newcomer, primary=best)
        self._know_failing(best)
        if self._evenness is not None:
            self._evenness.take(newcomer, best)
        return True

    def _know_failing(self, node: int) -> None:
        self._there.failing[node] = self._there.nodes.memory[node] <= self._there.nodes.reserved[node]


def _is_shared(newcomer: Newcomer) -> bool:
    return newcomer.template.can_leave and not newcomer.template.is_mirrored


def _could_suffice(openings: Openings, leaving: list[Held], others: columns.Indices) -> bool:
    """Whether other nodes could hold what leaves, as far as is quickly seen: of each size, as many as there are."""
    memory = np.array([held.newcomer.size.memory * held.newcomer.runs for held in leaving])
    disk = np.array([held.newcomer.size.disk * held.newcomer.on_volumes for held in leaving])
    nodes = openings.nodes
    return _fit(memory, nodes.memory[others] - 1) and _fit(disk, nodes.disk[others] - 1)


def _fit(needs: columns.Indices, room: columns.Numbers) -> bool:
    """Whether of those that need at least so much there are no more than nodes could hold if none needed more."""
    needs = np.sort(needs[needs > 0])[::-1]
    held = np.floor_divide(np.maximum(room, 0.0)[:, None], needs[None, :]).sum(axis=0)
    return bool((np.arange(1, len(needs) + 1) <= held).all())


def _with_memory(there: Openings, newcomer: Newcomer, nodes: columns.Indices) -> columns.Indices:
    return nodes[there.nodes.memory[nodes] > newcomer.size.memory * newcomer.runs]


def _with_disk(there: Openings, newcomer: Newcomer, nodes: columns.Indices) -> columns.Indices:
    found = _with_memory(there, newcomer, nodes)
    if not newcomer.on_volumes:
        return found
    found = found[there.nodes.disk[found] > newcomer.size.disk]
    wanted = np.inf if newcomer.size.spindles is None else newcomer.size.spindles
    return found[~there.nodes.exclusive[found] | (there.nodes.free_spindles[found] >= wanted)]


def _broken(there: Openings, newcomer: Newcomer, nodes: columns.Indices) -> columns.Numbers:
    """What it adds to the score by node that N+1 is lost there, or that an exclusion tag is there already."""
    found = there.nodes
    memory = found.memory[nodes] - newcomer.size.memory * newcomer.runs
    lost = (memory <= found.reserved[nodes]) & ~there.failing[nodes]
    added = np.where(lost, found.primaries[nodes] + found.secondaries[nodes] + 1, 0.0)
    known = [there.tags[tag] for tag in newcomer.tags if tag in there.tags]
    return np.asarray(added + 2 * (found.tags[nodes][:, known] > 0).sum(axis=1))


def _held(state: State, index: columns.Indices) -> Iterable[tuple[int, Held]]:
    exclusion, desired = tags.exclusion(state.cluster), tags.desired(state.cluster)
    for number, instance in enumerate(state.cluster.instances):
        if instance.forthcoming:
            continue
        primary, secondary = int(state.instances.primary[number]), int(state.instances.secondary[number])
        newcomer = newcomers.Newcomer(
            newcomers.Size(
                instance.memory, instance.disk, 0 if instance.is_offline else instance.vcpus, instance.spindles
            ),
            instance.template,
            spindle_use=instance.spindle_use,
            reserves=instance.reserves_memory,
            runs=instance.takes_memory,
            tags=exclusion[number],
            desired=desired[number],
            load=(instance.load.cpu, instance.load.memory, instance.load.disk, instance.load.net),
        )
        other = NOWHERE if secondary == NOWHERE else int(index[secondary])
        yield primary, Held(newcomer, int(index[primary]), other)
