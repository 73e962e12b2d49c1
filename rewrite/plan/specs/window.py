"""Kernels that pool regions which are data.

In: nothing. Out: specs. Sizes are words.
"""

from __future__ import annotations

from dataclasses import dataclass

from rewrite.plan.spec import Spec

ROI_SAMPLES = 512  # of a row of bins whose places are kept at once; where there are more, none are
ROI_SCRATCH = 4 * (8 + 8) * ROI_SAMPLES  # bytes: four offsets and weights of each


@dataclass(frozen=True, slots=True)
class RoiAlign(Spec):
    """result[r, c, i, j]: mean (or greatest) of samples of data[batch of r, c] in a bin of r.

    Words: data [n, c, h, w], regions [r, 4], batches [r], scale (one f32, or f64 for f64), result;
    n; c; h; w; output height; output width; samples per bin and direction (0: as many as pixels).
    Items: regions. Scratch: ROI_SCRATCH. A batch that is not there is a fault.
    """

    dtype: str
    index: str
    greatest: bool
    half_pixel: bool


@dataclass(frozen=True, slots=True)
class MaxRoiPool(Spec):
    """result[r, c, i, j]: the greatest element of data[batch of r, c] in a bin of region r.

    Words: data [n, c, h, w], regions [r, 5] (batch, x1, y1, x2, y2), scale (as for RoiAlign),
    result; n; c; h; w; output height; output width. Items: regions.
    """

    dtype: str
