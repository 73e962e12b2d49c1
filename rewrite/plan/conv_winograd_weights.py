"""Weights of 3 by 3 convolutions as Winograd's kernels read them.

In: weights (M, C, 3, 3), floats, or integers of at most 9 bits. Out: G w G^T in panels; which
integers may be used.
"""

from __future__ import annotations

import numpy as np

from rewrite.plan.conv_packing import Panels
from rewrite.plan.instance import Array

# Rows by interpolation points; see rewrite/codegen/kernels/winograd_math.py.
_G = {
    2: np.array([[1, 0, 0], [1 / 2, 1 / 2, 1 / 2], [1 / 2, -1 / 2, 1 / 2], [0, 0, 1]]),
    4: np.array([
        [1 / 4, 0, 0], [-1 / 6, -1 / 6, -1 / 6], [-1 / 6, 1 / 6, -1 / 6],
        [1 / 24, 1 / 12, 1 / 6], [1 / 24, -1 / 12, 1 / 6], [0, 0, 1],
    ]),
}  # fmt: skip
# By these the rows are integers.
_SCALES = {2: np.array([1, 2, 2, 1]), 4: np.array([4, 6, 6, 24, 24, 1])}
_BITS = {2: 30, 4: 26}  # of a sum that the last shift gives back


def transformed(panels: Panels, edge: int, w: Array) -> Array:
    """G w G^T in f32 as [panel][place][C][column]; of integers scaled, in s16, as
    [panel][place][C / step][column][step]. A view, copied by who keeps it."""
    m, c = w.shape[:2]
    g = _G[edge]
    if w.dtype.kind == "i":
        g = np.rint(g * _SCALES[edge][:, None])
    places, step = len(g) ** 2, panels.step
    # Sums of integers stay below 2^24, exact in float32 too.
    kind = np.float64 if w.dtype.kind == "f" else np.float32
    wide = w.reshape(m * c, 9).astype(kind) @ np.kron(g, g).T.astype(kind)
    wide = wide.astype(np.float32 if w.dtype.kind == "f" else np.int16).reshape(m, c, places)
    rows, depth = panels.count * panels.columns, -(-c // step) * step
    if (rows, depth) != (m, c):
        wide = np.pad(wide, [(0, rows - m), (0, depth - c), (0, 0)])
    cut: Array = wide.reshape(panels.count, panels.columns, depth // step, step, places)
    return cut.transpose(0, 4, 2, 1, 3)


def is_exact(edge: int, w: Array, x_dtype: str) -> bool:
    """Whether a convolution of bytes by these integers can be shifted back, in every channel.

    Sums of x w lie between the sums of the smallest and of the largest products.
    """
    least, most = (0, 255) if x_dtype == "u8" else (-128, 127)
    rows = w.reshape(w.shape[0], -1).astype(np.int64)
    positive = np.maximum(rows, 0).sum(1)
    negative = rows.sum(1) - positive
    top = most * positive + least * negative
    bottom = least * positive + most * negative
    bound = 1 << (_BITS[edge] - 1)
    return bool(np.all(top < bound) and np.all(bottom >= -bound))
