"""MatMul and Gemm of numbers.

In: instances. Out: calls of `Gemm`. Sums of float16 and bfloat16 are float32, rounded once.
"""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from rewrite.plan.lower.matmul_factors import Right, plain
from rewrite.plan.lower.matmul_product import multiply
from rewrite.plan.lower.matmul_product import transposed as turned
from rewrite.plan.lower.matmul_tail import Tail
from rewrite.plan.lowering import Instance, Lowering, lowers, refuses
from rewrite.plan.spec import Constant
from rewrite.plan.tensor import Tensor

Array = np.ndarray[Any, np.dtype[Any]]


def as_matrices(tensor: Tensor, right: bool) -> Tensor:
    """A vector as a row (left factor) or a column (right factor)."""
    if len(tensor.shape) != 1:
        return tensor
    n = tensor.shape[0]
    found = tensor.reshaped((n, 1) if right else (1, n))
    assert found is not None, "a vector of any stride is a matrix"
    return found


def right_factor(low: Lowering, index: int, transposed: bool = False) -> Right:
    """Operand `index`, known or not, as a right factor."""
    if low.is_known(index):

        def form(w: Array) -> Array:
            matrix = w.reshape(-1, 1) if w.ndim == 1 else w
            return matrix.swapaxes(-1, -2) if transposed else matrix

        sizes = low.op.shape(index)
        rows, columns = sizes[-2:] if len(sizes) > 1 else (*sizes, 1)
        shape = (*sizes[:-2], *((columns, rows) if transposed else (rows, columns)))
        return Right(shape, None, index, ("right", transposed), form)
    tensor = as_matrices(low.view(index), right=True)
    tensor = turned(tensor) if transposed else tensor
    return Right(tensor.shape, tensor)


def left_factor(low: Lowering, index: int, transposed: bool = False) -> Tensor:
    """Operand `index` as a left factor; a known one is transposed once and for all."""
    if transposed and low.is_known(index):
        return low.packed(index, "transposed", lambda w: w.swapaxes(-1, -2))
    tensor = as_matrices(low.view(index), right=False)
    return turned(tensor) if transposed else tensor


def destination(low: Lowering, left: Tensor, right: Right) -> Tensor:
    """The output as [..., M, N], also where a factor is a vector."""
    batch = np.broadcast_shapes(left.shape[:-2], right.shape[:-2])
    found = low.output().reshaped((*batch, left.shape[-2], right.shape[-1]))
    assert found is not None, "an output is dense"
    return found


@lowers("MatMul", epilogue=True)
def matmul(low: Lowering, op: Instance) -> None:
    """Numpy's matmul: batches are broadcast, vectors are rows and columns."""
    left, right = left_factor(low, 0), right_factor(low, 1)
    scheme = plain(op.dtype(0))
    tail = Tail(scheme.total, op.out_dtype())
    multiply(low, left, right, destination(low, left, right), tail, scheme)


@lowers("Gemm", epilogue=True)
def gemm(low: Lowering, op: Instance) -> None:
    """alpha A' B' + beta C, where ' may transpose and C is broadcast."""
    left = left_factor(low, 0, bool(op.integer("transA", 0)))
    right = right_factor(low, 1, bool(op.integer("transB", 0)))
    scheme = plain(op.dtype(0))
    tail = Tail(scheme.total, op.out_dtype())
    alpha, beta = op.number("alpha", 1.0), op.number("beta", 1.0)
    out = destination(low, left, right)
    bias = added(low, tail, out, alpha, beta)
    multiply(low, left, right, out, tail, scheme, bias)


@refuses("Gemm")
def gemm_refusal(op: Instance) -> str | None:
    whole = all(op.number(name, 1.0).is_integer() for name in ("alpha", "beta"))
    if op.dtype(0)[0] in "us" and not whole:
        return "Gemm of integers scaled by fractions"
    return None


def added(low: Lowering, tail: Tail, out: Tensor, alpha: float, beta: float) -> Array | None:
    """Steps for alpha and operand 2, the addend; or the addend as what sums start from."""
    op, total = low.op, tail.total
    present = op.has(2) and beta != 0
    sizes = op.shape(2) if present else ()
    is_row = len(sizes) > 0 and prod(sizes) == sizes[-1]
    known = low.known(2) if is_row and alpha == 1 else None
    if known is not None:
        row = np.broadcast_to(known.reshape(-1), (out.shape[-1],)).astype(_wide(known.dtype))
        scaled: Array = row * row.dtype.type(beta)
        return scaled
    if alpha != 1:
        tail.then("Mul", _number(total, alpha))
    if not present:
        return None
    addend = tail.operand(low.view(2))
    if op.dtype(2) != total:
        addend = tail.cast(addend, total)
    if beta != 1:
        addend = tail.value("Mul", addend, _number(total, beta))
    tail.then("Add", addend)
    return None


def _wide(dtype: Any) -> Any:
    """Narrow floats are scaled in float32."""
    return np.dtype(np.float32) if dtype.itemsize == 2 and dtype.kind not in "iu" else dtype


def _number(dtype: str, number: float) -> Constant:
    return Constant(dtype, int(number) if dtype[0] in "us" else number)
