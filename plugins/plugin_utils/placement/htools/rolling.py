"""Rolling maintenance: which nodes may be rebooted at the same time, in the fewest steps.

Never both nodes of an instance at once. Unless instances are shut down meanwhile, a step's primaries move to their
secondaries first, so two nodes whose primaries share a secondary are not in one step either; and what has no secondary
must fit on other nodes, or the step is split (Ganeti's hroller).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

import numpy as np

from ....module_utils.domain.values import errors
from ..models import node_memory
from . import clearing, colouring

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..models.model import Instance, Model, Node


class NonRedundant(Enum):
    """What becomes of instances without a secondary: they move away, stay and stop, or keep their node out of it."""

    MOVE = "move"
    IGNORE = "ignore"
    SKIP = "skip"


@dataclass(frozen=True)
class Options:
    """Which nodes, and how: `group` is a group's name or "", `tags` admit the nodes that have one of them.

    Nodes (names) in `without` are left out.
    """

    offline_maintenance: bool = False
    non_redundant: NonRedundant = NonRedundant.MOVE
    group: str = ""
    tags: tuple[str, ...] = ()
    without: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Step:
    """Nodes that may be away at the same time, and which instances without a secondary move before that."""

    nodes: tuple[str, ...]
    moves: tuple[clearing.Displacement, ...] = ()


@dataclass(frozen=True)
class Rolling:
    """The steps, the largest first, the master's last and the master last in it; and the nodes left out, with why."""

    steps: tuple[Step, ...]
    refused: tuple[clearing.NotEmptied, ...] = ()


Parts = tuple[list[clearing.Share], list[clearing.NotEmptied]]


def plan(model: Model, *, options: Options = Options()) -> Rolling:
    """The steps for every node that is in service; O(nodes^2 * groups + nodes^3 of a matrix product).

    Raises:
        NotFound: there is no such group.
    """
    rooms = clearing.Clearing(model)
    numbers = _chosen(model, rooms, options)
    edges = _edges(model, options)[np.ix_(numbers, numbers)]
    best: Parts = ([], [])
    for index, classes in enumerate(colouring.colourings(edges)):
        parts = _parts([[numbers[vertex] for vertex in each] for each in classes], rooms, options)
        if index == 0 or (len(parts[1]), len(parts[0])) < (len(best[1]), len(best[0])):
            best = parts
    steps = [_step(model.nodes, share) for share in sorted(best[0], key=lambda share: -len(share.nodes))]
    masters = {node.name for node in model.nodes if node.master}
    return Rolling(tuple(sorted(steps, key=lambda step: not masters.isdisjoint(step.nodes))), tuple(best[1]))


def _chosen(model: Model, rooms: clearing.Clearing, options: Options) -> list[int]:
    groups = {group.uuid for group in model.groups if options.group in {"", group.name}}
    if options.group and not groups:
        raise errors.NotFound(f"there is no node group {options.group!r}")
    return [
        number
        for number, node in enumerate(model.nodes)
        if node_memory.takes_instances(node)
        and node.group in groups
        and node.name not in options.without
        and (not options.tags or not set(options.tags).isdisjoint(node.tags))
        and not (options.non_redundant is NonRedundant.SKIP and rooms.holds(number))
    ]


def _edges(model: Model, options: Options) -> colouring.Edges:
    """How many instances join two nodes, and one for nodes that are joined by a secondary of their primaries only.

    One that is not made yet keeps its nodes apart, as hroller has it, but nothing of it moves.
    """
    every = _backed(model, [instance for instance in model.instances if instance.secondary])
    edges: colouring.Edges = every + every.T
    if options.offline_maintenance:
        return edges
    real = [instance for instance in model.instances if instance.secondary and not instance.forthcoming]
    # In single precision the product is a fast one, and counts of this size are exact in it.
    made = _backed(model, real) > 0
    is_backed = made.astype(np.float32)
    return np.where(edges > 0, edges, is_backed @ is_backed.T > 0)


def _backed(model: Model, instances: Sequence[Instance]) -> colouring.Edges:
    """How many instances have their primary on one node (row) and their secondary on another (column)."""
    number = {node.name: index for index, node in enumerate(model.nodes)}
    count = len(number)
    pairs = [number[instance.primary] * count + number[instance.secondary] for instance in instances]
    return np.bincount(np.array(pairs, dtype=np.int64), minlength=count * count).reshape(count, count)


def _parts(classes: Sequence[Sequence[int]], rooms: clearing.Clearing, options: Options) -> Parts:
    if options.non_redundant is not NonRedundant.MOVE:
        return [clearing.Share(tuple(each)) for each in classes], []
    found: Parts = ([], [])
    for each in classes:
        shares, refusals = rooms.shares(each)
        found[0].extend(shares)
        found[1].extend(refusals)
    return found


def _step(nodes: Sequence[Node], share: clearing.Share) -> Step:
    ordered = sorted((nodes[number] for number in share.nodes), key=lambda node: node.master)
    return Step(tuple(node.name for node in ordered), share.moves)
