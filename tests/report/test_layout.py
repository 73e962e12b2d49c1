"""Where the parts of a graph are drawn, against what can be counted by hand or by force."""

from __future__ import annotations

import random
import time
from collections.abc import Sequence
from itertools import combinations, pairwise

import pytest

from rewrite.report.layout.layered import LAYER_GAP, NODE_GAP, Drawing, draw
from rewrite.report.layout.ordering import crossings, ordered

Edges = list[tuple[int, int]]


def overlaps(drawing: Drawing, sizes: Sequence[tuple[int, int]]) -> int:
    """Pairs of nodes of one layer that are nearer than the gap."""
    rows: dict[int, list[tuple[int, int]]] = {}
    for (x, y), (w, h) in zip(drawing.corners, sizes, strict=True):
        rows.setdefault(2 * y + h, []).append((x, x + w))
    return sum(
        b[0] - a[1] < NODE_GAP - 1 for row in rows.values() for a, b in pairwise(sorted(row))
    )


def middles(drawing: Drawing, sizes: Sequence[tuple[int, int]]) -> list[int]:
    return [x + w // 2 for (x, _), (w, _) in zip(drawing.corners, sizes, strict=True)]


def test_nothing_and_one():
    assert draw([], []) == Drawing((), (), (), 0, 0)
    drawing = draw([(80, 40)], [])
    assert (drawing.corners, drawing.width, drawing.height) == (((0, 0),), 80, 40)


def test_a_chain_is_a_straight_line():
    sizes = [(80, 40), (120, 40), (60, 20), (100, 40)]
    drawing = draw(sizes, [(0, 1), (1, 2), (2, 3)])
    assert len(set(middles(drawing, sizes))) == 1
    assert [y for _, y in drawing.corners] == [
        0, 40 + LAYER_GAP, 80 + 2 * LAYER_GAP, 100 + 3 * LAYER_GAP,
    ]  # fmt: skip
    assert all(len(points) == 2 for _, points in drawing.routes)


def test_a_residual_goes_round_what_it_skips():
    sizes = [(80, 40)] * 4
    drawing = draw(sizes, [(0, 1), (1, 2), (2, 3), (0, 3)])
    routes = dict(drawing.routes)
    left, right = (middles(drawing, sizes)[1] + d for d in (-40, 40))
    beside = [x for x, _ in routes[0, 3][1:-1]]
    assert beside
    assert all(x < left or x > right for x in beside)


def test_constants_stand_at_their_users():
    """Sources that only a late node needs: one layer above it, and the chain stays straight."""
    # The constants come first: 0 to 7, for the nodes 9 to 16.
    sizes = [(60, 26)] * 8 + [(80, 40)] * 9
    edges = [(k, k + 9) for k in range(8)] + [(i, i + 1) for i in range(8, 16)]
    drawing = draw(sizes, edges, frozenset(range(8)))
    chain_middles = middles(drawing, sizes)[8:]
    assert len(set(chain_middles)) == 1
    assert overlaps(drawing, sizes) == 0
    tops = [y for _, y in drawing.corners]
    for constant in range(8):
        assert tops[constant + 8] <= tops[constant] < tops[constant + 9]
    assert drawing.width <= 80 + 2 * (60 + NODE_GAP)  # at most one on each side


def test_edges_that_are_too_long_are_told_and_not_drawn():
    sizes = [(80, 40)] * 60
    edges = [(i, i + 1) for i in range(59)]
    drawing = draw(sizes, [*edges, (0, 59), (0, 20)])
    assert drawing.far == ((0, 59),)
    assert (0, 20) in dict(drawing.routes)


def test_a_value_with_many_users_is_drawn_to_those_near():
    sizes = [(80, 40)] * 41
    chain = [(i, i + 1) for i in range(40)]
    everywhere = [(0, i) for i in range(2, 22)]
    drawing = draw(sizes, [*chain, *everywhere])
    assert drawing.far == tuple((0, i) for i in range(4, 22))


def some_graph(seed: int, count: int) -> tuple[list[tuple[int, int]], Edges]:
    chosen = random.Random(seed)
    sizes = [(chosen.choice((60, 90, 150)), chosen.choice((26, 40, 90))) for _ in range(count)]
    pairs = {
        (chosen.randrange(max(0, i - 6), i), i)
        for i in range(1, count)
        for _ in range(chosen.choice((0, 1, 1, 2)))
    }
    return sizes, sorted(pairs)


@pytest.mark.parametrize("seed", range(20))
def test_nothing_overlaps_and_everything_goes_down(seed):
    sizes, edges = some_graph(seed, 60)
    drawing = draw(sizes, edges)
    assert overlaps(drawing, sizes) == 0
    assert sorted([*dict(drawing.routes), *drawing.far]) == edges
    for (source, target), points in drawing.routes:
        assert points[0][1] == drawing.corners[source][1] + sizes[source][1]
        assert points[-1][1] == drawing.corners[target][1]
        assert [y for _, y in points] == sorted(y for _, y in points)
        for end, point in ((source, points[0]), (target, points[-1])):
            x, width = drawing.corners[end][0], sizes[end][0]
            assert abs(point[0] - (x + width / 2)) <= 1
    assert min(x for x, _ in drawing.corners) >= 0
    assert (
        max(x + w for (x, _), (w, _) in zip(drawing.corners, sizes, strict=True)) <= drawing.width
    )
    assert drawing == draw(sizes, edges)


@pytest.mark.parametrize("seed", range(10))
def test_crossings_are_counted_as_by_pairs(seed):
    chosen = random.Random(seed)
    rows = [list(range(8)), list(range(8, 16))]
    edges = sorted({(chosen.randrange(8), chosen.randrange(8, 16)) for _ in range(20)})
    below = [[b for a, b in edges if a == v] for v in range(16)]
    place = [v % 8 for v in range(16)]
    by_pairs = sum(
        (a[0] - b[0]) * (place[a[1]] - place[b[1]]) < 0 for a, b in combinations(edges, 2)
    )
    assert crossings(rows, below, place) == by_pairs


def test_what_need_not_cross_does_not():
    """Ten chains whose vertices come mixed up."""
    chosen = random.Random(0)
    rows = [[10 * layer + c for c in range(10)] for layer in range(6)]
    above = [[v - 10] if v >= 10 else [] for v in range(60)]
    below = [[v + 10] if v < 50 else [] for v in range(60)]
    for row in rows:
        chosen.shuffle(row)
    found = ordered(rows, above, below)
    place = {v: i for row in found for i, v in enumerate(row)}
    assert crossings(found, below, [place[v] for v in range(60)]) == 0
    assert [sorted(row) for row in found] == [sorted(row) for row in rows]


def test_5000_nodes_of_any_shape_take_seconds():
    shapes = {
        "near": some_graph(1, 5000),
        "star": ([(90, 40)] * 5000, [(0, i) for i in range(1, 5000)]),
        "apart": ([(90, 40)] * 5000, []),
        "dense": ([(90, 40)] * 5000, [(i, j) for i in range(40) for j in range(40, 5000, 9)]),
    }
    for name, (sizes, edges) in shapes.items():
        start = time.process_time()
        drawing = draw(sizes, edges)
        spent = time.process_time() - start
        assert spent < 5, f"{name}: {spent:.1f} s"
        assert len(drawing.corners) == 5000
