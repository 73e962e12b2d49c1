"""Calls of the kernels `Conv` and `ConvDot`.

In: an operand in channels-last order, weights in panels, which windows there are. Out: one call.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rewrite.plan.conv_after import Finish
from rewrite.plan.conv_packing import Panels
from rewrite.plan.conv_source import Source
from rewrite.plan.conv_tiling import tallest_tile, tiles_of, vectors_for
from rewrite.plan.conv_window import Windows
from rewrite.plan.lowering import Lowering
from rewrite.plan.machine import Machine
from rewrite.plan.specs.conv import Conv
from rewrite.plan.specs.conv_dot import ConvDot
from rewrite.plan.tensor import Tensor
from rewrite.plan.view import BYTES

_BLOCK = 128 * 1024  # bytes of the operand that one panel is taken over before the next one
_GRAIN = 1 << 19  # multiplications that are worth handing to a thread
_FEW = 4  # channels: a quarter of a vector of them, or less


@dataclass(frozen=True, slots=True)
class Products:
    """How products are added up: names and element types as in specs.conv.Conv."""

    form: str
    x: str
    w: str
    total: str


def columns_for(machine: Machine, total: str, groups: int, channels: int, run: int) -> int:
    """Channels of a panel; 1: the kernel `ConvDot`, for few channels and long runs.

    `run`: elements of type `total` (or words that hold several narrower ones) of one tap.
    """
    lanes = machine.lanes(total)
    if groups == 1 and channels <= _FEW and 2 * run >= lanes:
        return 1
    return vectors_for(machine, channels, lanes) * lanes


@dataclass(frozen=True, slots=True)
class Dense:
    """One convolution: operands as the kernels read them; `out` lies in channels-last order."""

    products: Products
    source: Source
    windows: Windows
    panels: Panels
    w: Tensor
    bias: Tensor
    finish: Finish
    out: Tensor


def call_conv(low: Lowering, given: Dense) -> None:
    """By `Conv`, or by `ConvDot` where a panel is one channel."""
    windows, finish, out = given.windows, given.finish, given.out
    if len(windows.starts) == 0 or out.shape[0] == 0:
        return
    table = windows.starts
    if windows.places is not None:  # made anew for each plan: other sizes, other places
        table = np.concatenate([table, windows.places])
    operands: list[Tensor | int] = [
        given.source.tensor, given.w, given.bias, low.constant(table), low.constant(windows.taps),
        *finish.tensors, out,
    ]  # fmt: skip
    call = _call_dot if given.panels.columns == 1 else _call_panels
    call(low, given, operands)


def _call_panels(low: Lowering, given: Dense, operands: list[Tensor | int]) -> None:
    machine, products, panels = low.machine, given.products, given.panels
    source, windows, finish, out = given.source, given.windows, given.finish, given.out
    pixels, images = len(windows.starts), out.shape[0]
    vectors = panels.columns // machine.lanes(products.total)
    tiles = tiles_of(pixels, tallest_tile(machine, vectors))
    covered = max(1, source.image // pixels) * BYTES[products.x]
    block = max(1, min(tiles.count, _BLOCK // (covered * tiles.height)))
    groups, all_panels = panels.groups, panels.groups * panels.count
    depth = source.channels // groups
    channels = groups * panels.channels
    spec = Conv(
        products.form, products.x, products.w, products.total, vectors, tiles.heights, panels.tail,
        finish.after, windows.places is not None,
    )  # fmt: skip
    words = list(operands)
    words += [pixels, tiles.height, tiles.whole, tiles.code, tiles.count, block, panels.count]
    words += [groups, panels.channels, depth, source.image, out.view.size // images, channels]
    words += [len(windows.taps), windows.run // panels.step, *finish.strides]
    work = max(1, windows.run * len(windows.taps)) * pixels * channels * images
    items = images * -(-tiles.count // block) * all_panels
    size = tallest_tile(machine, vectors) * panels.columns * BYTES[products.total]
    grain = max(1, items * _GRAIN // work)
    low.call(spec, words, items, min(grain, items), size, 2 * work)


def _call_dot(low: Lowering, given: Dense, operands: list[Tensor | int]) -> None:
    products, panels, finish, out = given.products, given.panels, given.finish, given.out
    source, windows = given.source, given.windows
    lanes = low.machine.lanes(products.total)
    pixels, images, channels = len(windows.starts), out.shape[0], panels.channels
    whole, tail = divmod(windows.run // panels.step, lanes)
    unroll = next(u for u in (4, 3, 2, 1) if whole % u == 0)
    unit = channels == 1 and all(
        o.pixel == 1 for o in finish.operands if o.along.pixels
    )  # fmt: skip
    spec = ConvDot(
        products.form, products.x, products.w, products.total, tail, unroll, unit, finish.after,
        windows.places is not None,
    )  # fmt: skip
    words = list(operands)
    words += [pixels, channels, source.image, out.view.size // images, channels]
    words += [len(windows.taps), whole, windows.run * BYTES[products.w], *finish.strides]
    work = max(1, windows.run * len(windows.taps)) * lanes * channels
    items = images * -(-pixels // lanes)
    scratch = 8 * lanes
    low.call(spec, words, items, max(1, _GRAIN // work), scratch, 2 * work * items)
