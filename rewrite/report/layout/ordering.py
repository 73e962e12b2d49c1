"""The order of vertices inside of layers, so that few edges cross.

In: layers of vertices, neighbours above and below. Out: the layers in another order. First as a
walk from the top meets them; then each layer is sorted by the means of its neighbours' places, down
and up again, and the best order seen is kept.
"""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Sequence

_SWEEPS = 8
_PATIENCE = 3  # sweeps without a better order

Rows = list[list[int]]
Neighbours = Sequence[Sequence[int]]


def ordered(rows: Rows, above: Neighbours, below: Neighbours) -> Rows:
    """The layers, each in an order with few crossings."""
    place = [0] * len(above)
    current = _walked(rows, below)
    for row in current:
        _number(row, place)
    best, fewest, idle = [list(row) for row in current], crossings(current, below, place), 0
    for sweep in range(_SWEEPS):
        if fewest == 0 or idle >= _PATIENCE:
            break
        down = sweep % 2 == 0
        for row in current if down else reversed(current):
            _sort(row, above if down else below, place)
        found = crossings(current, below, place)
        if found < fewest:
            best, fewest, idle = [list(row) for row in current], found, 0
        else:
            idle += 1
    return best


def crossings(rows: Rows, below: Neighbours, place: Sequence[int]) -> int:
    """How many pairs of edges cross."""
    total = 0
    for row in rows:
        if len(row) < 2:
            continue
        seen: list[int] = []
        for vertex in row:
            ends = sorted([place[end] for end in below[vertex]])
            for end in ends:
                total += len(seen) - bisect_right(seen, end)
            for end in ends:
                insort(seen, end)
    return total


def _walked(rows: Rows, below: Neighbours) -> Rows:
    """Each layer in the order in which a walk in depth from the top comes to its vertices."""
    layer = {vertex: number for number, row in enumerate(rows) for vertex in row}
    found: Rows = [[] for _ in rows]
    seen: set[int] = set()
    for row in rows:
        for top in row:
            waiting = [top]
            while waiting:
                vertex = waiting.pop()
                if vertex in seen:
                    continue
                seen.add(vertex)
                found[layer[vertex]].append(vertex)
                waiting.extend(reversed(below[vertex]))
    return found


def _sort(row: list[int], neighbours: Neighbours, place: list[int]) -> None:
    """By the mean place of the neighbours; a vertex without any stays about where it is."""
    if len(row) < 2:
        return
    mean: dict[int, float] = {}
    for vertex in row:
        places = [place[other] for other in neighbours[vertex]]
        mean[vertex] = sum(places) / len(places) if places else float(place[vertex])
    row.sort(key=mean.__getitem__)
    _number(row, place)


def _number(row: Sequence[int], place: list[int]) -> None:
    for number, vertex in enumerate(row):
        place[vertex] = number
