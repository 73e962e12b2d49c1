"""3 by 3 convolutions by Winograd's F(2x2, 3x3): when, and the call.

In: Conv of float32 with known weights. Out: one call of the kernel `Winograd`, with 4/9 of the
multiplications and an error as small as that of a sum in order.
"""

from __future__ import annotations

import numpy as np

from rewrite.plan.conv_after import Finish
from rewrite.plan.conv_packing import Panels, bias
from rewrite.plan.conv_tiling import tallest_tile, tiles_of, vectors_for
from rewrite.plan.conv_window import Frame
from rewrite.plan.instance import Array, Instance
from rewrite.plan.lowering import Lowering
from rewrite.plan.specs.conv_winograd import Winograd
from rewrite.plan.tensor import Tensor

_LEAST_CHANNELS = 16
_LEAST_TILES = 24  # fewer do not pay for weights that are 16/9 as large
_BLOCK = (1 << 18, 1 << 20)  # bytes of transformed tiles, at least and at most
_GRAIN = 1 << 19

G = np.array([[1, 0, 0], [0.5, 0.5, 0.5], [0.5, -0.5, 0.5], [0, 0, 1]], np.float64)
_BOTH = np.kron(G, G).T  # of a filter's 9 elements: G w G^T


def suits(op: Instance, frame: Frame) -> bool:
    """Whether it is fewer multiplications, and worth the transforms."""
    small = frame.kernel == (1, 3, 3) and frame.strides == frame.dilations == (1, 1, 1)
    known = op.known(1) is not None and op.dtype(0) == "f32" and op.integer("group", 1) == 1
    flat = frame.sizes[0] == frame.out[0] == 1
    if not (small and known and flat):
        return False
    channels = min(op.shape(1)[:2])
    tiles = -(-frame.out[1] // 2) * -(-frame.out[2] // 2)
    return channels >= _LEAST_CHANNELS and tiles >= _LEAST_TILES and frame.out[2] > 1


def transformed(panels: Panels, w: Array) -> Array:
    """G w G^T as [panel][place][C][column]: a view, copied by who keeps it."""
    m, c = w.shape[:2]
    wide = (w.reshape(m * c, 9).astype(np.float64) @ _BOTH).astype(np.float32).reshape(m, c, 16)
    rows = panels.count * panels.columns
    if rows != m:
        wide = np.pad(wide, [(0, rows - m), (0, 0), (0, 0)])
    return wide.reshape(panels.count, panels.columns, c, 16).transpose(0, 3, 2, 1)


def call_winograd(low: Lowering, frame: Frame, x: Tensor, finish: Finish, out: Tensor) -> None:
    """`x` and `out` lie in channels-last order."""
    images, channels = out.shape[:2]
    depth = x.shape[1]
    if out.view.size == 0:
        return
    machine = low.machine
    lanes = machine.lanes("f32")
    vectors = vectors_for(machine, channels, lanes)
    panels = Panels(1, channels, vectors * lanes)
    rows, across = -(-frame.out[1] // 2), -(-frame.out[2] // 2)
    tallest = tallest_tile(machine, vectors)
    tiles = tiles_of(rows * across, tallest)
    # Large weights come from far: the more tiles they meet, the better.
    least, most = _BLOCK
    limit = min(most, max(least, 16 * depth * channels))
    block = max(1, min(tiles.count, limit // (64 * depth * tiles.height)))
    weights = low.packed(1, ("winograd", panels), lambda w: transformed(panels, w))
    spec = Winograd(vectors, tiles.heights, depth % lanes, panels.tail, finish.after)
    words: list[Tensor | int] = [x, weights, bias(low, 2, panels, "f32"), *finish.tensors, out]
    words += [*frame.sizes[1:], depth, *frame.out[1:], *frame.before[1:], across]
    words += [tiles.height, tiles.whole, tiles.code, channels, x.view.size // images]
    words += [out.view.size // images, channels, tiles.count, block, panels.count]
    words += finish.strides
    items = images * -(-tiles.count // block) * panels.count
    scratch = 64 * block * tiles.height * depth + 64 * tallest * panels.columns + 4 * depth
    work = 9 * frame.pixels * depth * channels * images
    grain = max(1, items * _GRAIN // work)
    low.call(spec, words, items, min(grain, items), scratch, 2 * work)
