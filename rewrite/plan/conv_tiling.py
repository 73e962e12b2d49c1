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
    """Tiles of `tallest` pixels and of one less: enough pixels are a sum of both, so that images of
    all sizes share their code. Few pixels are spread evenly, since small tiles waste the panel."""
    shorter = -pixels % tallest
    rest = pixels - shorter * (tallest - 1)
    if rest >= 0 and tallest > 1:
        return Tiles(tallest, rest // tallest, (tallest - 1,) * shorter)
    count = -(-pixels // tallest)
    height, higher = divmod(pixels, count)
    if higher == 0:
        return Tiles(height, count, ())
    return Tiles(height + 1, higher, (height,) * (count - higher))


def tallest_tile(machine: Machine, vectors: int) -> int:
    """How many pixels by `vectors` vectors fit in registers, operands beside them."""
    return min(14, (machine.registers - vectors - 2) // vectors)


def vectors_for(machine: Machine, channels: int, lanes: int) -> int:
    """Vectors per panel: two, or what wastes less of the last panel."""
    vectors = -(-channels // lanes)
    # One vector per panel loads as much as it multiplies; three leave room for few pixels.
    cost = {1: 1.12, 2: 1.0, 3: 1.0 if machine.registers >= 32 else 1.15}
    return min(cost, key=lambda v: (-(-vectors // v) * v * cost[v], abs(v - 2)))
