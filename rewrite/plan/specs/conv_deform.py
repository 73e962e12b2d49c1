"""The kernel that samples an image where a deformable convolution looks.

In: nothing. Out: a frozen spec.
"""

from __future__ import annotations

from dataclasses import dataclass

from rewrite.plan.spec import Spec


@dataclass(frozen=True, slots=True)
class DeformSample(Spec):
    """out[image, pixel, tap, c] = mask x(y, x', c), interpolated between four neighbours, with

        y = row stride - before + tap's row dilation + offset[image, group, tap, 0, pixel]

    and x' likewise from offset[…, 1, pixel]; 0 outside of the image. x is channels-last, offsets
    and mask (if `masked`) are row-major, and `total` is the type of `out`.

    Words:
      0 x  1 offsets  2 mask (or anything)  3 out, then
      4 height, 5 width, 6 channels    11 kernel's rows, 12 columns
      7 height, 8 width of out         13, 14 dilations of rows, columns
      9, 10 strides of rows, columns   15, 16 before, in rows, columns   17 groups of offsets
    Items: images * pixels of out.
    """

    x: str
    total: str
    masked: bool
