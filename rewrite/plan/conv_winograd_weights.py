"""Weights of 3 by 3 convolutions as Winograd's kernels read them.

In: weights (M, C, 3, 3), floats, or integers of at most 9 bits. Out: G w G^T in panels; which
may be used.
"""

from __future__ import annotations

from math import gcd

import numpy as np

from rewrite.plan.conv_packing import Panels
from rewrite.plan.instance import Array
from rewrite.plan.weights import room
from rewrite.quant.accumulator import sums
from rewrite.quant.codes import CODES

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
_PART = 512  # elements of a place
_BITS = {2: 30, 4: 26}  # of a sum that the last shift gives back


def transformed(panels: Panels, edge: int, w: Array) -> Array:
    """G w G^T in f32 as [panel][place][C][column]; of integers scaled, in s16, as
    [panel][place][C / step][column][step]."""
    m, c = w.shape[:2]
    floats = w.dtype.kind == "f"
    g = _G[edge] if floats else np.rint(_G[edge] * _SCALES[edge][:, None])
    # Sums of integers stay below 2^24, exact in float32 too.
    both = np.kron(g, g).astype(np.float64 if floats else np.float32)
    step, columns = panels.step, panels.columns
    steps = -(-c // step)
    flat = w.reshape(m, c, 9)
    if steps * step != c:
        flat = np.pad(flat, [(0, 0), (0, steps * step - c), (0, 0)])
    shape = (panels.count, len(both), steps, columns, step)
    out = room(shape, np.float32 if floats else np.int16)
    panel = np.zeros((9, steps, columns, step), both.dtype)
    # In parts for which numpy's matrix product wakes no threads.
    parts = steps // gcd(steps, max(1, _PART // (columns * step)))
    for number in range(panels.count):
        rows = flat[number * columns : (number + 1) * columns]
        panel[:, :, : len(rows)] = rows.reshape(-1, steps, step, 9).transpose(3, 1, 0, 2)
        panel[:, :, len(rows) :] = 0
        wide = both @ panel.reshape(9, parts, -1).swapaxes(0, 1)
        to = out[number].reshape(len(both), parts, -1).swapaxes(0, 1)
        np.copyto(to, wide, casting="unsafe")
    return out


def is_exact(edge: int, w: Array, x_dtype: str) -> bool:
    """Whether a convolution of bytes by these integers can be shifted back, in every channel."""
    x = CODES[x_dtype]
    return bool((sums(w, x.low, x.high).bits <= _BITS[edge]).all())


def are_finite(w: Array) -> bool:
    """Whether all weights are, and not so large that their sum is not."""
    with np.errstate(over="ignore", invalid="ignore"):
        return bool(np.isfinite(w.sum()))
