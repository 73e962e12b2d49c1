"""Kernels of convolutions over channels-last tensors.

In: nothing. Out: frozen specs. Sizes, strides, pads, dilations and groups are words or tables, so
that one piece of code serves most convolutions of a model, of one, two or three dimensions.
"""

from __future__ import annotations

from dataclasses import dataclass

from rewrite.plan.spec import Body, Spec

# A double of this size has units of 1: adding it rounds half to even. The low bits of the sum are
# the integer in two's complement.
MAGIC = 1.5 * 2.0**52


@dataclass(frozen=True, slots=True)
class Along:
    """An operand of an epilogue: what its elements vary with.

    `channels`: neighbours along the channels (stride 1), else one for all. `pixels`: another one
    for each pixel, at the stride that a word says; else the same for all pixels of an image.
    """

    dtype: str
    channels: bool
    pixels: bool


@dataclass(frozen=True, slots=True)
class After:
    """What is done with a sum before it is stored: `body` takes it as value 0, then `operands`.

    `out` is the element type in memory. Without `body` the sum is stored as it is.
    `codes`: an integer type of at most 16 bits, or empty. Where it is given, the sum, an integer,
    first becomes a code of it: times operand 0 (f64, below 1), rounded to f64 and then half to
    even, plus operand 1 (s32), saturated. Where no product is nearly a half (not `halves`), operand
    1 is MAGIC plus that number, in f64, to which the product is added. `body` takes the code, and
    the operands behind these two.
    """

    out: str
    body: Body | None = None
    operands: tuple[Along, ...] = ()
    codes: str = ""
    halves: bool = True


@dataclass(frozen=True, slots=True)
class Conv(Spec):
    """out[pixel, channel] = after(bias[channel] + sum over taps and k of
    x[start[pixel] + offset[tap] + k] w[tap, k, channel]).

    A tap is a run of neighbours in memory: one element of the kernel with all input channels, or a
    row of the kernel where nothing lies between its elements. Borders are part of x. Weights lie in
    panels of `vectors` vectors of channels, [panel][tap][k / step][channel][step], the last panel
    of a group padded with zeros; bias is padded likewise. `form` says how products are added up
    (rewrite/codegen/kernels/conv_product.py), `x` and `w` what they are products of, `total` the
    sums.

    `heights`: how many pixels a tile can have (most frequent first). `tail`: channels of the last
    panel of a group; 0: it is whole. `scattered`: pixels of the output are placed by a table.

    Words:
      0 x  1 w  2 bias (of type `total`)
      3 starts, s32[pixels]: where each pixel's window starts in an image, in elements of x;
        if `scattered`, then s32[pixels]: which pixel of the output image it is
      4 offsets, s32[taps], in elements of x
      5 .. operands (n of them), 5 + n out
      then integers, from 6 + n on; strides in elements:
        0 pixels                   5 tiles per block          10 stride of images of x
        1 height of whole tiles    6 panels of one group      11 stride of images of out
        2 whole tiles              7 groups                   12 stride of pixels of out
        3 heights of the others    8 channels out of a group  13 taps
        4 tiles in all             9 channels in of a group   14 steps of a tap
        15 + 2i stride of images of operand i, 16 + 2i stride of pixels
    Heights of the others: 4 bits each, the first one lowest.
    Items: images * blocks of tiles * panels of all groups.
    Scratch: one tile of sums.
    """

    form: str
    x: str
    w: str
    total: str
    vectors: int
    heights: tuple[int, ...]
    tail: int
    after: After
    scattered: bool = False
