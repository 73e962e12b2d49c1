"""A channels-last copy of a tensor with a border, as convolutions want their operand.

In: nothing. Out: a frozen spec.
"""

from __future__ import annotations

from dataclasses import dataclass

from rewrite.plan.spec import Body, Spec


@dataclass(frozen=True, slots=True)
class ConvPad(Spec):
    """out[n, d, h, w, c] = body(x[n, d - before, h - before, w - before, c]), or `fill` outside.

    `form`: how the rows of x lie.
      rows     pixels and channels without gaps, and no channels added
      pixels   channels are neighbours
      planes   columns are neighbours; `channels` of them are interleaved, with `added` of the
               border's value behind them
      any      anything
    `body` takes an element of x, then one element of each of `operands` (element types).

    Words: 0 x, 1 .. operands (n of them), 1 + n out, then from 2 + n on
      0 depth, 1 height, 2 width, 3 channels of x       12 .. 16 strides of x: n, d, h, w, c
      4 .. 6 before, in d, h, w                         17 fill: the bits of one element
      7 .. 9 depth, height, width of out, 10 channels
      11 elements of one image of out
    Items: rows of out, images * depth * height.
    """

    x: str
    out: str
    form: str
    channels: int = 0
    added: int = 0
    body: Body | None = None
    operands: tuple[str, ...] = ()
