from __future__ import annotations

import itertools
import random

import hypothesis
import numpy as np
from ansible_collections.roundsman.cluster.plugins.plugin_utils.placement.htools import colouring
from hypothesis import strategies as st


def _edges(count: int, pairs: list[tuple[int, int]]) -> colouring.Edges:
    edges = np.zeros((count, count), dtype=np.int64)
    for one, other in pairs:
        edges[one, other] += 1
        edges[other, one] += one != other
    return edges


def _random(count: int, share: float, seed: int) -> colouring.Edges:
    chance = random.Random(seed)
    return _edges(count, [pair for pair in itertools.combinations(range(count), 2) if chance.random() < share])


@hypothesis.given(st.integers(0, 12), st.data())
def test_each_vertex_is_in_one_class_and_no_two_neighbours_are_in_the_same(count: int, data: st.DataObject) -> None:
    vertex = st.integers(0, max(0, count - 1))
    edges = _edges(count, data.draw(st.lists(st.tuples(vertex, vertex), max_size=40 if count else 0)))
    for classes in colouring.colourings(edges):
        assert sorted(itertools.chain(*classes)) == list(range(count))
        for one, other in itertools.chain(*(itertools.combinations(each, 2) for each in classes)):
            assert not edges[one, other]


def test_a_ring_that_misleads_who_looks_at_sizes_alone_has_two_classes_for_dsatur() -> None:
    ring = [(0, 3), (3, 1), (1, 4), (4, 2), (2, 5), (5, 0)]
    _, dsatur, *_ = colouring.colourings(_edges(6, ring))
    assert sorted(map(sorted, dsatur)) == [[0, 1, 2], [3, 4, 5]]


def test_of_equal_vertices_the_last_is_first() -> None:
    for classes in colouring.colourings(_edges(3, [(0, 1), (1, 2), (2, 0)])):
        assert classes == [[2], [1], [0]]


def test_colouring_the_classes_again_can_save_one() -> None:
    sizes = [[len(each) for each in colouring.colourings(_random(60, 0.5, seed))] for seed in range(3)]
    improved = [one for one in sizes if len(one) == 4]
    assert improved
    assert all(one[3] < min(one[:3]) for one in improved)
