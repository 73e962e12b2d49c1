"""Products of codes whose scale and zero point come with the run, as numbers.

In: known weights, tensors. Out: weights without their zero point; steps from sums to numbers.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from rewrite.plan.lower.matmul_product import Scheme
from rewrite.plan.lower.matmul_tail import Tail
from rewrite.plan.spec import Constant
from rewrite.plan.tensor import Tensor

Array = np.ndarray[Any, np.dtype[Any]]


def centered(codes: Array, zero: Array | None) -> Array:
    """Codes (..., k, columns) less their zero point: one, or one of each matrix or column."""
    if zero is None:
        return codes.astype(np.int64)
    wide = zero.astype(np.int64)
    if codes.ndim == 3 and wide.size > 1:
        return codes.astype(np.int64) - wide.reshape(len(codes), 1, -1)
    return codes.astype(np.int64) - wide.reshape(-1)


def needs_nine_bits(codes: Array, zero: Array | None) -> bool:
    made = centered(codes, zero)
    return bool(made.size and (made.min() < -128 or made.max() > 127))


def scaled_sums(
    out: Tensor, sums: Tensor, factors: Tensor, scheme: Scheme, scale: Tensor, zero: Tensor
) -> Tail:
    """Steps from a sum of codes to a number: scale factors[n] (sum - zero sums[n]).

    `sums`: of the columns of the weights. `scale`, `zero`: of the left factor, one each.
    """
    tail = Tail("s32", "f32", inner=True)
    places = [_columns(t, out.shape) for t in (sums, factors)]
    places += [_one(t, out.shape) for t in (zero, scale)]
    by_column, factor, point, step = (tail.operand(t) for t in places)
    wide: int = tail.cast(point, "s32")
    if scheme.flip_a:
        wide = tail.value("Sub", wide, Constant("s32", 128 if zero.dtype == "u8" else -128))
    tail.then("Sub", tail.value("Mul", wide, by_column))
    tail.last = tail.cast(tail.last, "f32")
    tail.then("Mul", tail.value("Mul", step, factor, dtype="f32"), dtype="f32")
    return tail


def _columns(tensor: Tensor, shape: tuple[int, ...]) -> Tensor:
    """One element for each column of a shape."""
    found = tensor.reshaped((shape[-1],))
    assert found is not None
    return found.broadcast(shape)


def _one(tensor: Tensor, shape: tuple[int, ...]) -> Tensor:
    """A tensor of one element in every place of a shape."""
    found = tensor.reshaped(())
    assert found is not None
    return found.broadcast(shape)
