"""Colourings of a graph: no two neighbours in one class, by greedy orders (Welsh and Powell; Brelaz; Culberson)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

Edges = NDArray[np.int64]
"""N x N, symmetric: how many edges join two vertices; the diagonal counts for the degree alone."""
Classes = list[list[int]]
ROUNDS = 20
TAKEN = -(1 << 62)


def colourings(edges: Edges) -> Iterator[Classes]:
    """Largest first, most colours around it first (DSATUR), most coloured neighbours first, each O(N^2).

    Ties go to the higher degree, then to the higher vertex. Then, where it is smaller than these, what the best of them
    becomes when its classes are coloured again in other orders. Classes are in the order of their colours, the
    vertices of each ascending.
    """
    near = edges > 0
    np.fill_diagonal(near, val=False)
    masks = [int.from_bytes(row.tobytes(), "little") for row in np.packbits(near, axis=1, bitorder="little")]
    degree = edges.sum(axis=1).tolist()
    found = [
        _in_order(masks, sorted(range(len(masks)), key=lambda vertex: (degree[vertex], vertex), reverse=True)),
        _by_rank(edges, near, only_new_colours=True),
        _by_rank(edges, near, only_new_colours=False),
    ]
    yield from found
    best = min(found, key=len)
    improved = _again(masks, best)
    if len(improved) < len(best):
        yield improved


def _in_order(masks: list[int], order: Iterable[int]) -> Classes:
    """Each vertex in the first class without a neighbour; sets of vertices are the bits of a number."""
    members: list[int] = []
    found: Classes = []
    for vertex in order:
        colour = next((at for at, inside in enumerate(members) if not masks[vertex] & inside), len(members))
        if colour == len(members):
            members.append(0)
            found.append([])
        members[colour] |= 1 << vertex
        found[colour].append(vertex)
    return [sorted(vertices) for vertices in found]


def _by_rank(edges: Edges, near: NDArray[np.bool_], *, only_new_colours: bool) -> Classes:
    """Always the vertex with the most colours around it, or with the most coloured neighbours."""
    count = len(edges)
    degree = edges.sum(axis=1)
    # One number orders by rank, then degree, then vertex.
    step = (int(degree.max(initial=0)) + 1) * count
    rank = degree * count + np.arange(count)
    around = np.zeros((count + 1, count), dtype=bool)
    found: Classes = []
    for _ in range(count):
        vertex = int(rank.argmax())
        rank[vertex] = TAKEN
        colour = int(around[:, vertex].argmin())
        if colour == len(found):
            found.append([])
        found[colour].append(vertex)
        rank += step * ((near[vertex] & ~around[colour]) if only_new_colours else edges[vertex])
        around[colour] |= near[vertex]
    return [sorted(vertices) for vertices in found]


def _again(masks: list[int], classes: Classes) -> Classes:
    """Colour class by class, in reversed order and in that of size by turns: never more classes, and at times fewer."""
    for number in range(ROUNDS):
        classes = sorted(classes, key=len, reverse=True) if number % 2 else classes[::-1]
        classes = _in_order(masks, (vertex for members in classes for vertex in members))
    return classes
