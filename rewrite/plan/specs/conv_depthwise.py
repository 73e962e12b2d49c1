"""The kernel of convolutions in which every channel has its own filter.

In: nothing. Out: a frozen spec.
"""

from __future__ import annotations

from dataclasses import dataclass

from rewrite.plan.spec import Spec
from rewrite.plan.specs.conv import After


@dataclass(frozen=True, slots=True)
class Depthwise(Spec):
    """out[y, x, c] = after(bias[c] + sum over j, i of x[y', x', c] w[j, i, c]) with

        y' = y stride_y - before_y + j dilation_y     (and so for x')

    or, where groups of `spread` channels have as many filters each, also summed over these, with
    w[j, i, k, c] for the k-th channel of the group of c,

    over channels-last images without borders: what lies outside is `fill`. `columns`, `stride` and
    `dilation` are those of a row of the kernel. `block` pixels of a row are computed at once.
    `tail`: channels that do not fill a vector. Of integers `x`, x - fill is summed up in floats
    (`shifted`: whether fill is other than 0): where all sums are below 2^24, that is exact.

    Words:
      0 x  1 w, [rows][columns][spread][C] of type `total`  2 bias, of type `total`
      3 one vector of x's type, all elements `fill`
      4 .. operands (n of them), 4 + n out, then integers from 5 + n on; strides in elements:
        0 height, 1 width of x, 2 channels     9 height, 10 width of out
        3 rows of the kernel                   11 stride of images of x
        4 stride of rows of the window         12 stride of images of out
        5 dilation of rows                     13 channels that are taken over all rows first
        6 border above, 7 border at the left   14 + 2i stride of images of operand i
        8 stride of pixels of out              15 + 2i stride of pixels
    Items: rows of out.
    Scratch: `block` vectors of `total`.
    """

    x: str
    total: str
    columns: int
    stride: int
    dilation: int
    block: int
    tail: int
    after: After
    spread: int = 1
    shifted: bool = True
