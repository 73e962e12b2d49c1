"""The kernel of convolutions with few output channels.

In: nothing. Out: a frozen spec.
"""

from __future__ import annotations

from dataclasses import dataclass

from rewrite.plan.spec import Spec
from rewrite.plan.specs.conv import After


@dataclass(frozen=True, slots=True)
class ConvDot(Spec):
    """As `Conv`, with one group: windows and weights are multiplied along the taps, vector by
    vector, for as many pixels at once as a vector of sums has lanes.

    Weights are [channel][tap][k], in the order of the window's elements. `tail`: 32-bit words (of
    f64: elements) of a tap that do not fill a vector; `unroll`: vectors at a time, of which whole
    ones are a multiple. `unit`: there is one channel, and pixels of the output and of operands
    follow each other at stride 1.

    Words:
      0 x  1 w  2 bias  3 starts and 4 offsets (and places) as those of `Conv`
      5 .. operands (n of them), 5 + n out; integers from 6 + n on, strides in elements:
        0 pixels    3 stride of images of out   6 whole vectors of a tap
        1 channels  4 stride of pixels of out   7 bytes of a tap's weights
        2 stride of images of x  5 taps
        8 + 2i stride of images of operand i, 9 + 2i stride of pixels
    Items: images * tiles of as many pixels as there are lanes.
    Scratch: one vector of results.
    """

    form: str
    x: str
    w: str
    total: str
    tail: int
    unroll: int
    unit: bool
    after: After
    scattered: bool = False
