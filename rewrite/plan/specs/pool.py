"""Kernels of pools over channels-last tensors.

In: nothing. Out: frozen specs. Windows are described by tables, one per spatial dimension, so that
one piece of code serves all sizes, strides, borders and dilations.
"""

from __future__ import annotations

from dataclasses import dataclass

from rewrite.plan.spec import Body, Spec
from rewrite.plan.specs.conv import After


@dataclass(frozen=True, slots=True)
class Pool(Spec):
    """out[pixel, c] = after(combination of each(x) over a window[, elements counted]).

    `combine`: max or sum. `each` makes of an element what is combined, in type `total`. `counted`:
    the type in which `after` gets the number of elements as value 1, before its operands; empty:
    it does not get it. `indices`: also where the largest element was (the first of equals), as an
    index into the whole row-major tensor, or column by column in each image (`columns`).
    `tail`: channels that do not fill a vector of `total`.

    Words:
      0 x
      1 table of depth, 2 of height, 3 of width: s32[size of out][3] each: the first element of the
        window that is inside, how many are, how many are counted
      4 .. operands (n of them), 4 + n out[, 5 + n indices]; then integers; strides in elements:
        0 depth, 1 height, 2 width of out   10 stride of images of out
        3 channels                          11, 12, 13 of an index by d, h, w
        4 .. 6 dilation in d, h, w          14 elements of one channel of x
        7 .. 9 strides of x: d, h, w        15 stride of images of x
        16 + 2i stride of images of operand i, 17 + 2i stride of pixels
    Items: rows of out, images * depth * height.
    """

    x: str
    total: str
    combine: str
    each: Body | None
    counted: str
    indices: bool
    tail: int
    after: After


@dataclass(frozen=True, slots=True)
class Unpool(Spec):
    """out[indices[i]] = x[i] for row-major tensors; out holds zeros before.

    Words: 0 x  1 indices, s64  2 out, 3 elements of x, 4 elements of out.
    Items: 1. Fault: INDEX_OUT_OF_RANGE.
    """

    dtype: str


@dataclass(frozen=True, slots=True)
class Lrn(Spec):
    """y = x / (bias + alpha / size * sum of x^2 over neighbouring channels)^beta.

    `before` and `after` neighbours; channels and pixels have the strides that words say, pixels are
    neighbours (stride 1).

    Words: 0 x  1 y  2 images 3 channels 4 pixels 5 stride of images 6 stride of channels.
    Items: images * channels.
    """

    dtype: str
    before: int
    after: int
    scale: float  # alpha / size
    beta: float
    bias: float
