"""What integer kernels do with constant weights: sums that saturate or leave 32 bits.

In: codes of weights as constants, zero points, the range of the other operand. Out: truth values.
Weights are [channels, K] after moving the channel axis to the front.
"""

from __future__ import annotations

import numpy as np

from rewrite.match.builtins.registry import builtin
from rewrite.match.values import Env, Tensor, Unknown, integer_range
from rewrite.quant import accumulator
from rewrite.quant.codes import Ints

_S16 = (-(1 << 15), (1 << 15) - 1)


@builtin
def saturates(w: Tensor, axis: int) -> bool:
    """Whether two weights of one channel can bring a 16-bit sum of two products with u8 to its end.

    Any two may meet: a kernel may take K in any order. 255 a + 255 b stays within 16 bits exactly
    where positive weights add up to at most 128, and negative ones to at least -128.
    """
    rows = _rows(w, axis)
    if rows.shape[1] == 0:
        return False
    ordered = np.sort(rows, axis=1)
    most = np.maximum(ordered[:, -2:], 0).sum(axis=1)
    least = np.minimum(ordered[:, :2], 0).sum(axis=1)
    return bool((255 * most > _S16[1]).any() or (255 * least < _S16[0]).any())


@builtin
def accumulates(
    env: Env,
    w: Tensor,
    axis: int,
    w_zero: Tensor,
    x: object,
    x_zero: int,
    bias: Tensor | None = None,
) -> bool:
    """Whether no sum of products of weights and codes of `x`, with a bias, leaves 32 bits."""
    rows = _rows(w, axis)
    zeros = w_zero.array.astype(np.int64).reshape(-1)
    if zeros.size not in (1, rows.shape[0]):
        raise Unknown("the zero points of the weights do not lie along their channels")
    low, high = integer_range(str(env.facts.type(x).dtype))  # type: ignore[arg-type]
    found = accumulator.sums(rows - zeros.reshape(-1, 1), low, high, x_zero)
    added = 0 if bias is None else np.abs(np.rint(bias.reals()).reshape(-1))
    return bool((found.partial + added <= (1 << 31) - 1).all())


def _rows(w: Tensor, axis: int) -> Ints:
    if w.array.dtype.kind != "i" or not -w.array.ndim <= axis < w.array.ndim:
        raise Unknown("these are not codes of weights with such an axis")
    return accumulator.by_channel(w.array, axis)
