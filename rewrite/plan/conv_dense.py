"""Calls of the kernel `Conv`.

In: an operand in channels-last order, weights in panels, which windows there are. Out: one call.
"""

from __future__ import annotations

from dataclasses import dataclass

from rewrite.plan.conv_after import Finish
from rewrite.plan.conv_packing import Panels
from rewrite.plan.conv_source import Source
from rewrite.plan.conv_tiling import tallest_tile, tiles_of
from rewrite.plan.conv_window import Windows, narrow
from rewrite.plan.instance import Array
from rewrite.plan.lowering import Lowering
from rewrite.plan.specs.conv import Conv
from rewrite.plan.tensor import Tensor
from rewrite.plan.view import BYTES

_BLOCK = 128 * 1024  # bytes of the operand that one panel is taken over before the next one
_GRAIN = 1 << 19  # multiplications that are worth handing to a thread


@dataclass(frozen=True, slots=True)
class Products:
    """How products are added up: names and element types as in specs.conv.Conv."""

    form: str
    x: str
    w: str
    total: str


def call_conv(
    low: Lowering,
    products: Products,
    source: Source,
    windows: Windows,
    panels: Panels,
    w: Tensor,
    bias: Tensor,
    finish: Finish,
    out: Tensor,
) -> None:
    """`out` lies in channels-last order."""
    pixels = len(windows.starts)
    images = out.shape[0]
    if pixels == 0 or images == 0:
        return
    machine = low.machine
    vectors = panels.columns // machine.lanes(products.total)
    tiles = tiles_of(pixels, tallest_tile(machine, vectors))
    table = windows.starts
    if windows.places is not None:
        table = low.weights.packed(table, ("places", id(windows.places)), lambda t: narrow(
            _joined(t, windows.places)))  # fmt: skip
        low.weights.keep(windows.places)
    row = max(1, windows.run * len(windows.taps))
    covered = max(1, source.image // pixels) * BYTES[products.x]
    block = max(1, min(tiles.count, _BLOCK // (covered * tiles.height)))
    groups, all_panels = panels.groups, panels.groups * panels.count
    depth = source.channels // groups
    channels = groups * panels.channels
    spec = Conv(
        products.form, products.x, products.w, products.total, vectors, tiles.heights, panels.tail,
        finish.after, windows.places is not None,
    )  # fmt: skip
    words: list[Tensor | int] = [source.tensor, w, bias, low.constant(table),
                                 low.constant(windows.taps), *finish.tensors, out]  # fmt: skip
    words += [pixels, tiles.height, tiles.whole, tiles.code, tiles.count, block, panels.count]
    words += [groups, panels.channels, depth, source.image, out.view.size // images, channels]
    words += [len(windows.taps), windows.run // panels.step, *finish.strides]
    work = row * pixels * channels * images
    items = images * -(-tiles.count // block) * all_panels
    size = tallest_tile(machine, vectors) * panels.columns * BYTES[products.total]
    grain = max(1, items * _GRAIN // max(1, work))
    low.call(spec, words, items, min(grain, items), size, 2 * work)


def _joined(starts: Array, places: Array | None) -> Array:
    import numpy as np

    assert places is not None
    return np.concatenate([starts, places])
