"""Which nodes of a set can be emptied together of the instances that have no secondary, first fit (Ganeti's hroller).

An instance needs memory and disk on another node of its group; CPUs, tags and policies do not count while a node is
away. Its data is not looked at: a plain disk is copied, a shared one is not.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ..models import node_memory

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..models.model import Instance, Model


@dataclass(frozen=True)
class Displacement:
    """An instance and the node that it is to be moved to."""

    instance: str
    node: str


@dataclass(frozen=True)
class NotEmptied:
    """A node that cannot be emptied, the instance that has no place, and why."""

    node: str
    instance: str
    text: str


@dataclass(frozen=True)
class Share:
    """Nodes, by their numbers in the model, that can be empty at the same time, and what moves before."""

    nodes: tuple[int, ...]
    moves: tuple[Displacement, ...] = ()


@dataclass
class _State:
    memory: list[int]
    disk: list[int]
    spindles: list[int]
    held: list[list[int]]
    moved: dict[int, int] = field(default_factory=dict)

    def copy(self) -> _State:
        return _State([*self.memory], [*self.disk], [*self.spindles], [[*held] for held in self.held])


class Clearing:
    """What every node holds without a replica elsewhere, and who could take it."""

    def __init__(self, model: Model) -> None:
        self._model = model
        number = {node.name: index for index, node in enumerate(model.nodes)}
        held: list[list[int]] = [[] for _ in model.nodes]
        for index, instance in enumerate(model.instances):
            if not instance.secondary and not instance.forthcoming:
                held[number[instance.primary]].append(index)
        free = node_memory.free(model)
        self._first = _State(
            [free[node.name] for node in model.nodes],
            [node.f_disk for node in model.nodes],
            [node.free_spindles for node in model.nodes],
            held,
        )
        self._takers: dict[str, list[int]] = {group.uuid: [] for group in model.groups}
        for index, node in enumerate(model.nodes):
            if node_memory.takes_instances(node):
                self._takers[node.group].append(index)

    def holds(self, node: int) -> bool:
        """Whether a node has instances without a replica elsewhere."""
        return bool(self._first.held[node])

    def shares(self, nodes: Sequence[int]) -> tuple[list[Share], list[NotEmptied]]:
        """Nodes in as many shares as are needed, the first as large as first fit makes it.

        Those that cannot even be emptied alone are refused.
        """
        if not any(self._first.held[node] for node in nodes):
            return [Share(tuple(nodes))], []
        found: list[Share] = []
        left = list(nodes)
        while left:
            share, refusals = self._share(left)
            if not share.nodes:
                return found, refusals
            found.append(share)
            left = [node for node in left if node not in share.nodes]
        return found, []

    def _share(self, nodes: Sequence[int]) -> tuple[Share, list[NotEmptied]]:
        state = self._first.copy()
        cleared: list[int] = []
        refusals = []
        for node in nodes:
            refusal = self._empty(state, node, without={node, *cleared})
            if refusal is None:
                cleared.append(node)
            else:
                refusals.append(refusal)
        names = [
            (self._model.instances[index].name, self._model.nodes[node].name) for index, node in state.moved.items()
        ]
        return Share(tuple(cleared), tuple(Displacement(*pair) for pair in names)), refusals

    def _empty(self, state: _State, node: int, *, without: set[int]) -> NotEmptied | None:
        """Displacement everything away, or nothing."""
        targets = [taker for taker in self._takers[self._model.nodes[node].group] if taker not in without]
        found: list[tuple[int, int]] = []
        refusal = None
        # The instance that came last is moved first, as hroller does: only then are our groups never more than its.
        for index in reversed(state.held[node]):
            instance = self._model.instances[index]
            target = next((taker for taker in targets if self._fits(state, instance, taker)), None)
            if target is None:
                refusal = self._refusal(state, node, instance, targets)
                break
            self._take(state, instance, target)
            found.append((index, target))
        if refusal is not None:
            for index, target in found:
                self._take(state, self._model.instances[index], target, sign=-1)
            return refusal
        state.held[node] = []
        for index, target in found:
            state.held[target].append(index)
            state.moved[index] = target
        return None

    def _fits(self, state: _State, instance: Instance, node: int) -> bool:
        """Whether there is room; something must be left of both memory and disk, or a node counts as full."""
        if state.memory[node] - instance.takes_memory * instance.memory <= 0:
            return False
        if not instance.template.is_on_volumes:
            return True
        has_spindles = not self._model.nodes[node].exclusive_storage or state.spindles[node] >= (instance.spindles or 0)
        return has_spindles and state.disk[node] > instance.disk

    def _take(self, state: _State, instance: Instance, node: int, *, sign: int = 1) -> None:
        state.memory[node] -= sign * instance.takes_memory * instance.memory
        if instance.template.is_on_volumes:
            state.disk[node] -= sign * instance.disk
            state.spindles[node] -= sign * (instance.spindles or 0)

    def _refusal(self, state: _State, node: int, instance: Instance, targets: Sequence[int]) -> NotEmptied:
        name = self._model.nodes[node].name
        wants = f"{instance.memory} MiB of memory"
        if instance.template.is_on_volumes:
            wants += f" and {instance.disk} MiB of disk"
        if not targets:
            return NotEmptied(name, instance.name, f"no other node of its group takes instances: it needs {wants}")
        best = max(targets, key=lambda target: (state.memory[target], state.disk[target]))
        text = (
            f"no other node has more than {wants} free: the one with the most memory is "
            f"{self._model.nodes[best].name} with {max(0, state.memory[best])} and {max(0, state.disk[best])} MiB"
        )
        return NotEmptied(name, instance.name, text)
