"""How convolutions are cut into tiles.

In: numbers of pixels and channels, the machine. Out: how many vectors of channels and how many
pixels a tile has, and the tiles that cover an image.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from rewrite.plan.machine import Machine


@dataclass(frozen=True, slots=True)
class Tiles:
    """`whole` tiles of `height` pixels, then one of each height of `others`."""

    height: int
    whole: int
    others: tuple[int, ...]

    @property
    def count(self) -> int:
        return self.whole + len(self.others)

    @property
    def code(self) -> int:
        """The heights of the others, four bits each, the first one lowest."""
        return sum(h << (4 * i) for i, h in enumerate(self.others))

    @property
    def heights(self) -> tuple[int, ...]:
        """Those that occur, the most frequent one first."""
        first = (self.height,) if self.whole else ()
        return tuple(dict.fromkeys((*first, *self.others)))


@cache
def tiles_of(pixels: int, tallest: int) -> Tiles:
    """Tiles of `tallest` pixels, the last two of them evened out: small tiles waste the panel."""
    if pixels % tallest == 0:
        return Tiles(tallest, pixels // tallest, ())
    if pixels < tallest:
        return Tiles(pixels, 1, ())
    whole = pixels // tallest - 1
    left = pixels - whole * tallest
    return Tiles(tallest, whole, (left - left // 2, left // 2))


def tallest_tile(machine: Machine, vectors: int) -> int:
    """How many pixels by `vectors` vectors fit in registers, operands beside them."""
    return min(14, (machine.registers - vectors - 2) // vectors)


def vectors_for(machine: Machine, channels: int, lanes: int) -> int:
    """Vectors per panel: two, or what wastes less of the last panel."""
    vectors = -(-channels // lanes)
    # One vector per panel loads as much as it multiplies; three leave room for few pixels.
    cost = {1: 1.12, 2: 1.0, 3: 1.0 if machine.registers >= 32 else 1.15}
    return min(cost, key=lambda v: (-(-vectors // v) * v * cost[v], abs(v - 2)))
