"""Which algorithm a 3 by 3 convolution is computed by.

In: sizes, the machine, how the direct kernel would add up products. Out: a `Filtering`, or None for
the direct kernel.

The unit of costs is one multiplication of vectors: half a clock where two are done at once. The
numbers were measured on x86-64 with vectors of 16, 32 and 64 bytes; of other machines only the
operations of a step are counted, and nothing was measured there. What is compared is the products,
the transforms of tiles, and the weights, which are read from memory once per run: they grow to 16/9
or 4 times their size, bytes to twice that.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rewrite.plan.conv_tiling import vectors_for
from rewrite.plan.conv_window import Frame
from rewrite.plan.conv_winograd import Filtering, filtering
from rewrite.plan.machine import Machine, has_dot_product

_LEAST_CHANNELS = 16
_TRANSFORM = {2: 80.0, 4: 270.0}  # of a tile and a vector of channels, to or from it
_STORE = 10.0  # of a vector of channels of a pixel, without transforms
_BYTE = 0.18  # of weights
# Multiplications that add up one step of a vector of sums (codegen/kernels/conv_product.py).
_STEP = {"dot": 1.0, "arm_dot": 1.0, "pairs16": 2.0, "plain": 1.0}


@dataclass(frozen=True, slots=True)
class Layer:
    """A convolution: `element` is f32, or the type of its bytes' products (s8 or s16); `form` and
    `step` say how the direct kernel adds them up."""

    frame: Frame
    groups: int
    images: int
    depth: int
    channels: int
    element: str
    form: str
    step: int


def chosen(machine: Machine, layer: Layer, edges: Sequence[int]) -> Filtering | None:
    """The cheapest of the algorithms; `edges`: the tiles that may be taken."""
    if not _is_small_filter(layer):
        return None
    best, found = _direct(machine, layer), None
    for edge in edges:
        how = filtering(machine, edge, layer.channels, layer.element == "f32")
        cost = _filtered(machine, layer, how)
        if cost < best:
            best, found = cost, how
    return found


def _is_small_filter(layer: Layer) -> bool:
    frame = layer.frame
    square = frame.kernel == (1, 3, 3) and frame.strides == frame.dilations == (1, 1, 1)
    flat = frame.sizes[0] == frame.out[0] == 1
    wide = min(layer.depth, layer.channels) >= _LEAST_CHANNELS
    return square and flat and wide and layer.groups == 1


def _direct(machine: Machine, layer: Layer) -> float:
    lanes = machine.lanes("s32")
    columns = vectors_for(machine, layer.channels, lanes) * lanes
    rounded = -(-layer.channels // columns) * columns
    pixels = layer.images * layer.frame.pixels
    steps = 9 * -(-layer.depth // layer.step)
    size = {"f32": 4, "s8": 1, "s16": 2, "s32": 4}[layer.element]
    weights = 9 * layer.depth * rounded * size
    each = steps * _step(machine, layer.form) + _STORE
    return pixels * (rounded // lanes) * each + weights * _BYTE


def _filtered(machine: Machine, layer: Layer, how: Filtering) -> float:
    panels = how.panels
    rounded = panels.count * panels.columns
    vectors = rounded // machine.lanes("s32")
    rows, across = how.tiles(layer.frame)
    tiles = layer.images * rows * across
    steps = how.places * -(-layer.depth // panels.step) * _step(machine, how.form)
    chunks = -(-layer.depth // how.lanes(machine, layer.depth))
    transforms = _TRANSFORM[how.edge] * (chunks + vectors)
    weights = how.places * layer.depth * rounded * how.wide
    return tiles * (steps * vectors + transforms) + weights * _BYTE


def _step(machine: Machine, form: str) -> float:
    if form != "words":
        return _STEP[form]
    if has_dot_product(machine):
        return 1.0
    # vpmaddwd and an addition; elsewhere three shifts, two multiplications, two additions.
    return 1.3 if machine.arch == "x86_64" else 7.0
