"""The kernel of 3 by 3 convolutions by Winograd's minimal filtering.

In: nothing. Out: a frozen spec.
"""

from __future__ import annotations

from dataclasses import dataclass

from rewrite.plan.spec import Spec
from rewrite.plan.specs.conv import After


@dataclass(frozen=True, slots=True)
class Winograd(Spec):
    """A convolution of float32 with a kernel of 3 by 3 and stride 1 over channels-last images, two
    by two outputs at a time: F(2x2, 3x3).

        out = A^T ((G w G^T) * (B^T x B)) A

    The middle product is a matrix product over the input channels for each of the 16 places of a
    tile. Weights G w G^T lie in panels, [panel][16][C][columns]; `vectors` vectors of channels are
    a panel. What lies outside of an image is zero. `heights`: how many tiles one product takes;
    `depth_tail`: input channels that do not fill a vector, `tail`: output channels that do not
    fill a panel.

    Words:
      0 x  1 weights  2 bias  3 .. operands (n of them), 3 + n out; integers from 4 + n on, strides
      in elements:
        0 height, 1 width of x, 2 channels   11 channels out
        3 height, 4 width of out             12 stride of images of x
        5 border above, 6 at the left        13 stride of images of out
        7 tiles in a row                     14 stride of pixels of out
        8 tiles in one product, 9 such       15 products in all
          products, 10 heights of the others 16 products per block, 17 panels
        18 + 2i stride of images of operand i, 19 + 2i stride of pixels
    Items: images * blocks of products * panels.
    Scratch: transformed tiles of a block, [16][tiles][C]; sums, [16][height][columns]; C zeros.
    """

    vectors: int
    heights: tuple[int, ...]
    depth_tail: int
    tail: int
    after: After
