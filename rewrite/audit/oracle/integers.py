"""Contractions of integers with results in s32, by float64 BLAS, which is exact for them.

In: `Step`. Out: integers; what 32 bits do not hold is a fault.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from rewrite.audit.oracle import terms as exact
from rewrite.audit.oracle.contraction import conv, matmul
from rewrite.audit.oracle.real import Real
from rewrite.audit.oracle.standard import in_type
from rewrite.audit.oracle.step import OracleError, Step, Values
from rewrite.quant.codes import Array


def shifted(codes: Array, zero: Array | None, rows: bool = False) -> Real:
    """Codes without their zero point; one for each row, or for each last index, where many."""
    wide = codes.astype(np.int64)
    if zero is not None:
        shift = zero.astype(np.int64)
        if shift.size == 1:
            wide = wide - shift.reshape(())
        elif shift.ndim == 1 and rows:
            wide = wide - shift.reshape(-1, *(1,) * (codes.ndim - 1 if codes.ndim > 2 else 1))
        else:
            wide = wide - shift
    return Real([exact.integers(wide)], 0.0, np.float64)


def _numbers(real: Real) -> Array:
    """The integers of a sum that was computed without a loss."""
    term = real.single
    if term is None or term.table != exact.ONE:
        raise OracleError("integers beyond 2^53")
    return term.x


def matmul_integer(step: Step) -> Values:
    a = _left(step.array(0), step.optional(2))
    b = shifted(step.array(1), step.optional(3))
    return (in_type(step, _numbers(matmul(a, b)), "s32"),)


def _left(codes: Array, zero: Array | None) -> Real:
    """Zero points of a left operand: one for all, one for each row, or with the rank of it."""
    if zero is not None and zero.ndim == 1 and zero.size > 1:
        zero = zero.reshape(-1, 1)
    return shifted(codes, zero)


def conv_integer(step: Step) -> Values:
    x = shifted(step.array(0), step.optional(2))
    zero = step.optional(3)
    if zero is not None and zero.size > 1:
        zero = zero.reshape(-1, *(1,) * (step.array(1).ndim - 1))
    w = shifted(step.array(1), zero)
    return (in_type(step, _numbers(conv(step, x, w, None)), "s32"),)


INTEGERS: dict[tuple[str, str], Callable[[Step], Any]] = {
    ("", "MatMulInteger"): matmul_integer,
    ("", "ConvInteger"): conv_integer,
}
