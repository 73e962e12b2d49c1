"""Tiles of different heights: where they start, and the function of each height.

In: the schedule that a plan's words carry (rewrite/plan/conv_tiling.py). Out: instructions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rewrite.codegen.ir import Function
from rewrite.codegen.value import Value


def first_pixel(
    f: Function, whole: Value, height: Value, others: Value, tile: Value
) -> list[Value]:
    """Where a tile starts, and the heights of the smaller tiles from it on."""

    def skip(_: Value, start: Value, code: Value) -> list[Value]:
        return [start + f.binary("and", code, 15), f.binary("lshr", code, 4)]

    least = f.select(f.compare("<", tile, whole), tile, whole)
    return f.loop(whole, tile, skip, [least * height, others])


def dispatch(
    f: Function,
    tiles: Mapping[int, Function],
    heights: Sequence[int],
    height: Value,
    arguments: Sequence[Value],
) -> None:
    """Calls the function of a height, asking for the most frequent one first."""

    def choose(index: int) -> None:
        name = tiles[heights[index]].name
        if index == len(heights) - 1:
            f.call(name, "void", *arguments)
            return
        f.if_(
            f.compare("==", height, heights[index]),
            lambda: f.call(name, "void", *arguments) and None,
            lambda: choose(index + 1),
        )

    choose(0)
