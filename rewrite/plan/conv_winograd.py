"""3 by 3 convolutions by Winograd's F(2x2, 3x3) and F(4x4, 3x3): the call.

In: operands in channels-last order, weights in panels. Out: one call of the kernel `Winograd`.
"""

from __future__ import annotations

from dataclasses import dataclass

from rewrite.plan.conv_after import Finish
from rewrite.plan.conv_packing import Panels
from rewrite.plan.conv_tiling import tallest_tile, tiles_of, vectors_for
from rewrite.plan.conv_window import Frame
from rewrite.plan.lowering import Lowering
from rewrite.plan.machine import Machine
from rewrite.plan.specs.conv_winograd import Winograd
from rewrite.plan.tensor import Tensor

_BLOCK = (1 << 18, 1 << 20)  # bytes of transformed tiles, at least and at most
_GRAIN = 1 << 19  # multiplications that are worth handing to a thread


@dataclass(frozen=True, slots=True)
class Filtering:
    """How a convolution is done: tiles of `edge` by `edge` outputs; the form of products and the
    type of what they are of, as in specs.conv_winograd.Winograd; the weights' panels."""

    edge: int
    form: str
    element: str
    panels: Panels

    @property
    def places(self) -> int:
        return (self.edge + 2) ** 2

    @property
    def wide(self) -> int:
        """Bytes of a transformed element."""
        return 4 if self.element == "f32" else 2

    def tiles(self, frame: Frame) -> tuple[int, int]:
        """Rows of tiles, tiles in a row."""
        return -(-frame.out[1] // self.edge), -(-frame.out[2] // self.edge)

    def lanes(self, machine: Machine, depth: int) -> int:
        """Channels that are transformed at once."""
        return min(machine.lanes(self.element), 1 << (depth.bit_length() - 1))


@dataclass(frozen=True, slots=True)
class Operands:
    """`x` in channels-last order, its border's element (the bits), weights and bias in panels."""

    x: Tensor
    border: int
    w: Tensor
    bias: Tensor


def filtering(machine: Machine, edge: int, channels: int, floats: bool) -> Filtering:
    """`channels`: out."""
    lanes = machine.lanes("s32")
    columns = vectors_for(machine, channels, lanes) * lanes
    if floats:
        return Filtering(edge, "plain", "f32", Panels(1, channels, columns))
    if machine.arch == "x86_64":
        return Filtering(edge, "words", "s16", Panels(1, channels, columns, 2))
    return Filtering(edge, "plain", "s16", Panels(1, channels, columns))


def call_winograd(
    low: Lowering, how: Filtering, frame: Frame, given: Operands, finish: Finish, out: Tensor
) -> None:
    """`out` lies in channels-last order."""
    if out.view.size == 0:
        return
    panels, x = how.panels, given.x
    images, channels = out.shape[:2]
    depth = x.shape[1]
    vectors = panels.columns // low.machine.lanes("s32")
    rows, across = how.tiles(frame)
    tiles = tiles_of(rows * across, tallest_tile(low.machine, vectors))
    whole_depth = -(-depth // panels.step) * panels.step
    tile_bytes = how.places * whole_depth * how.wide
    # Large weights come from far: the more tiles they meet, the better.
    least, most = _BLOCK
    limit = min(most, max(least, how.places * depth * channels))
    block = max(1, min(tiles.count, limit // (tile_bytes * tiles.height)))
    spec = Winograd(
        how.edge, how.form, x.dtype, vectors, tiles.heights, how.lanes(low.machine, depth),
        panels.tail, finish.after,
    )  # fmt: skip
    words: list[Tensor | int] = [x, given.w, given.bias, *finish.tensors, out]
    words += [*frame.sizes[1:], depth, *frame.out[1:], *frame.before[1:], across]
    words += [tiles.height, tiles.whole, tiles.code, channels, x.view.size // images]
    words += [out.view.size // images, channels, tiles.count, block, panels.count, given.border]
    words += finish.strides
    items = images * -(-tiles.count // block) * panels.count
    sums = 4 * panels.columns * (how.places * max(tiles.heights) + how.edge**2)
    scratch = block * tiles.height * tile_bytes + 64 + sums + how.places * depth * 4
    work = 9 * frame.pixels * depth * channels * images
    grain = max(1, items * _GRAIN // work)
    low.call(spec, words, items, min(grain, items), scratch, 2 * work)
