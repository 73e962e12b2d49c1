"""Where vertices stand from left to right, so that chains are straight.

In: layers of vertices in order, neighbours, widths. Out: the middle of each vertex. The method is
that of Brandes and Köpf (2002): vertices that are each other's median neighbours form blocks, which
stand at one place; four times, leaning up or down and left or right, and each vertex goes to the
mean of the two places in the middle. Blocks are pushed together along longest paths.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

Rows = list[list[int]]
Neighbours = Sequence[Sequence[int]]
Pair = tuple[int, int]


@dataclass(frozen=True, slots=True)
class _Leaning:
    """The graph as seen from one of the four sides."""

    rows: Rows
    neighbours: Neighbours  # towards the side that blocks grow from
    mirrored: bool


def placed(
    rows: Rows,
    above: Neighbours,
    below: Neighbours,
    widths: Sequence[int],
    nodes: int,
    gap: int,
) -> list[int]:
    """The middles, the leftmost border being at 0. Vertices from `nodes` on are lines."""
    conflicts = _conflicts(rows, above, nodes)
    sides = []
    for turned in (False, True):
        layers = list(reversed(rows)) if turned else rows
        neighbours = below if turned else above
        for mirrored in (False, True):
            seen = [list(reversed(row)) for row in layers] if mirrored else layers
            leaning = _Leaning(seen, neighbours, mirrored)
            sides.append(_one_side(leaning, conflicts, widths, gap))
    return _balanced(sides, widths)


def _conflicts(rows: Rows, above: Neighbours, nodes: int) -> frozenset[Pair]:
    """Edges that cross a line which goes on upwards: the line is kept straight, not they."""
    place = {vertex: number for row in rows for number, vertex in enumerate(row)}
    found: list[Pair] = []
    for upper, row in itertools.pairwise(rows):
        left, start = 0, 0
        for number, vertex in enumerate(row):
            inner = -1
            if vertex >= nodes and above[vertex] and above[vertex][0] >= nodes:
                inner = place[above[vertex][0]]
            if inner < 0 and number < len(row) - 1:
                continue
            right = inner if inner >= 0 else len(upper) - 1
            for other in row[start : number + 1]:
                for end in above[other]:
                    line = end >= nodes and other >= nodes
                    if not line and not left <= place[end] <= right:
                        found.append((end, other))
            start, left = number + 1, right
    return frozenset(found)


def _one_side(
    leaning: _Leaning, conflicts: frozenset[Pair], widths: Sequence[int], gap: int
) -> list[float]:
    root = _blocks(leaning, conflicts, len(widths))
    places = _pushed(leaning.rows, root, widths, gap)
    if leaning.mirrored:
        return [-places[r] for r in root]
    return [places[r] for r in root]


def _blocks(leaning: _Leaning, conflicts: frozenset[Pair], count: int) -> list[int]:
    """For each vertex the first vertex of its block."""
    root = list(range(count))
    linked = [False] * count
    place = [0] * count
    for row in leaning.rows:
        for number, vertex in enumerate(row):
            place[vertex] = number
        last = -1
        for vertex in row:
            ends = sorted(leaning.neighbours[vertex], key=place.__getitem__)
            if not ends:
                continue
            for middle in sorted({(len(ends) - 1) // 2, len(ends) // 2}):
                end = ends[middle]
                crossed = (end, vertex) in conflicts or (vertex, end) in conflicts
                if last < place[end] and not linked[end] and not crossed:
                    linked[end] = True
                    root[vertex] = root[end]
                    last = place[end]
                    break
    return root


def _pushed(rows: Rows, root: Sequence[int], widths: Sequence[int], gap: int) -> list[float]:
    """Places of blocks: as far left as they go, then as far right as nothing is moved by it."""
    count = len(widths)
    after: list[dict[int, float]] = [{} for _ in range(count)]
    before = [0] * count
    for row in rows:
        for one, other in itertools.pairwise(row):
            a, b = root[one], root[other]
            apart = (widths[one] + widths[other]) / 2 + gap
            if b not in after[a]:
                before[b] += 1
                after[a][b] = apart
            else:
                after[a][b] = max(after[a][b], apart)
    places = [0.0] * count
    order = [v for v in range(count) if root[v] == v and before[v] == 0]
    for block in order:  # grows while it is read
        for other, apart in after[block].items():
            places[other] = max(places[other], places[block] + apart)
            before[other] -= 1
            if before[other] == 0:
                order.append(other)
    for block in reversed(order):
        if after[block]:
            most = min(places[other] - apart for other, apart in after[block].items())
            places[block] = max(places[block], most)
    return places


def _balanced(sides: Sequence[Sequence[float]], widths: Sequence[int]) -> list[int]:
    """The four drawings laid over the narrowest of them; then the mean of the two in the middle."""
    lefts = [min(x - w / 2 for x, w in zip(side, widths, strict=True)) for side in sides]
    rights = [max(x + w / 2 for x, w in zip(side, widths, strict=True)) for side in sides]
    narrow = min(range(len(sides)), key=lambda i: (rights[i] - lefts[i], i))
    shifts = [
        rights[narrow] - rights[i] if i % 2 else lefts[narrow] - lefts[i] for i in range(len(sides))
    ]
    middles = []
    for vertex in range(len(widths)):
        found = sorted(side[vertex] + shift for side, shift in zip(sides, shifts, strict=True))
        middles.append((found[1] + found[2]) / 2)
    first = min((m - w / 2 for m, w in zip(middles, widths, strict=True)), default=0.0)
    return [round(m - first) for m in middles]
