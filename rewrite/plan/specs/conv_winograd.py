"""The kernel of 3 by 3 convolutions by Winograd's minimal filtering.

In: nothing. Out: a frozen spec.
"""

from __future__ import annotations

from dataclasses import dataclass

from rewrite.plan.spec import Spec
from rewrite.plan.specs.conv import After


@dataclass(frozen=True, slots=True)
class Winograd(Spec):
    """A convolution with a kernel of 3 by 3 and stride 1 over channels-last images, `edge` by
    `edge` outputs at a time (2 or 4): F(2x2, 3x3), F(4x4, 3x3).

        out = A^T ((G w G^T) * (B^T x B)) A

    The middle product is a matrix product over the input channels for each of the (edge + 2)^2
    places of a tile. Of floats (`x` is f32) weights are G w G^T in panels,
    [panel][place][C][columns]. A tile whose outputs are not all finite is computed again without
    transforms, so that an infinite or NaN element reaches no other windows than its own.

    Of bytes (`x` is u8 or s8) everything is exact modulo 2^32: transformed tiles and weights are
    s16, sums and bias s32. The rows of G are multiplied by 1, 2, 2, 1 (edge 2) or 4, 6, 6, 24, 24,
    1 (edge 4) to be integers, and the columns of A^T by 2 or 24 over that: the result is 4 or 576
    times the convolution. 576 is 64 times 9, and 9 is invertible; what is left is a shift by 2 or
    6 bits, exact where the convolution of the bytes as they are, without its bias, fits in 30 or
    26 bits. `form` says how products are added up: `words` takes two channels at once, and weights
    are [panel][place][C / 2][columns][2]; `plain` one.

    `vectors` vectors of channels are a panel; `tail`: output channels that do not fill the last
    one. `heights`: how many tiles one product takes. `lanes`: how many input channels are
    transformed at once, at most as many as there are; the last ones may overlap.

    Words:
      0 x  1 weights  2 bias  3 .. operands (n of them), 3 + n out; integers from 4 + n on, strides
      in elements:
        0 height, 1 width of x, 2 channels   11 channels out
        3 height, 4 width of out             12 stride of images of x
        5 border above, 6 at the left        13 stride of images of out
        7 tiles in a row                     14 stride of pixels of out
        8 tiles in one product, 9 such       15 products in all
          products, 10 heights of the others 16 products per block, 17 panels
        18 an element of the border: its bits
        19 + 2i stride of images of operand i, 20 + 2i stride of pixels
    Items: images * blocks of products * panels.
    Scratch: transformed tiles of a block, [place][tile][C]; sums, [place][height][columns]; the
    outputs of a tile, [pixel][columns]; the elements of a tile, [row][column][C]. C is rounded up
    to two for `words`.
    """

    edge: int
    form: str
    x: str
    vectors: int
    heights: tuple[int, ...]
    lanes: int
    tail: int
    after: After
