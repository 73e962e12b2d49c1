"""QLinear operators of ONNX Runtime (com.microsoft) on codes of a byte.

In: instances whose scales and zero points are known. Out: pointwise kernels in float32 whose
numbers are right for all codes, in float64 where none are found, or lookups. Results are those of
rewrite/quant/reference.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from rewrite.ops.dtypes import integer_range, to_numpy
from rewrite.plan.lower.lookup import look_up
from rewrite.plan.lower.quantized import OPSET, QUANTIZE
from rewrite.plan.lowering import Instance, Lowering, Tensor, lowers, refuses
from rewrite.plan.quantized_arithmetic import (
    Operand,
    product_is_exact,
    product_number,
    sum_is_exact,
    sum_numbers,
)
from rewrite.plan.spec import Body, Constant, Step
from rewrite.quant import reference
from rewrite.schema import DTYPE_OF

DOMAIN = "com.microsoft"
Array = np.ndarray[Any, np.dtype[Any]]
_BYTES = ("u8", "s8")


def parameters(op: Instance, codes: int, scale: int, dtype: str | None = None) -> Operand:
    """Scale and zero point, which stand one behind the other, of operand `codes`."""
    low, high = integer_range(dtype or op.dtype(codes))
    known, zero = op.known(scale), op.known(scale + 1)
    assert known is not None
    return Operand(
        float(known.reshape(-1)[0]), 0 if zero is None else int(zero.reshape(-1)[0]), low, high
    )


def _refusal(op: Instance, codes: tuple[int, ...], scales: tuple[int, ...]) -> str | None:
    """Whether all codes are bytes and all parameters are known, one of each."""
    if any(op.dtype(i) not in _BYTES for i in codes) or op.out_dtype() not in _BYTES:
        return f"{op.name} of codes that are not bytes"
    for scale in scales:
        for index in (scale, scale + 1):
            known = op.known(index) if op.has(index) else np.zeros(1)
            if known is None or known.size != 1:
                return f"{op.name} whose parameters are not one known number each"
        factor = op.known(scale)
        if factor is None or not (np.isfinite(factor).all() and (factor > 0).all()):
            return f"{op.name} with a scale that is not positive"
    return None


# --- sums and products -------------------------------------------------------------------------


@refuses("QLinearAdd", "QLinearMul", domain=DOMAIN)
def binary_refusal(op: Instance) -> str | None:
    found = _refusal(op, (0, 3), (1, 4, 6))
    if found is not None:
        return found
    a, b, y = _three(op)
    if op.name == "QLinearAdd" and sum_numbers(a, b, y) is None:
        return None if sum_is_exact(a, b, y) else "QLinearAdd next to a tie"
    if op.name == "QLinearMul" and product_number(a, b, y) is None:
        return None if product_is_exact(a, b, y) else "QLinearMul next to a tie"
    return None


def _three(op: Instance) -> tuple[Operand, Operand, Operand]:
    return parameters(op, 0, 1), parameters(op, 3, 4), parameters(op, 0, 6, op.out_dtype())


@lowers("QLinearAdd", domain=DOMAIN)
def qlinear_add(low: Lowering, op: Instance) -> None:
    a, b, y = _three(op)
    steps = _Steps(op.dtype(0), op.dtype(3))
    numbers = sum_numbers(a, b, y)
    if numbers is not None:
        k, m, c = (Constant("f32", n) for n in numbers)
        left = steps.add("Mul", "f32", steps.cast(0, "f32"), k)
        right = steps.add("Mul", "f32", steps.cast(1, "f32"), m)
        total = steps.add("Add", "f32", steps.add("Add", "f32", left, right), c)
        quotient = steps.quantize(total, "f32", 1.0, y.zero, op.out_dtype())
    else:
        left, right = (
            steps.add("Mul", "f64", steps.less(i, x.zero, "f64"), Constant("f64", x.scale))
            for i, x in ((0, a), (1, b))
        )
        total = steps.add("Add", "f64", left, right)
        quotient = steps.quantize(total, "f64", y.scale, y.zero, op.out_dtype())
    _pointwise(low, op, steps.body(quotient), (0, 3))


@lowers("QLinearMul", domain=DOMAIN)
def qlinear_mul(low: Lowering, op: Instance) -> None:
    a, b, y = _three(op)
    steps = _Steps(op.dtype(0), op.dtype(3))
    k = product_number(a, b, y)
    kind = "f32" if k is not None else "f64"
    product = steps.add("Mul", kind, steps.less(0, a.zero, kind), steps.less(1, b.zero, kind))
    if k is not None:
        total = steps.add("Mul", "f32", product, Constant("f32", k))
        found = steps.quantize(total, "f32", 1.0, y.zero, op.out_dtype())
    else:
        total = steps.add("Mul", "f64", product, Constant("f64", a.scale * b.scale))
        found = steps.quantize(total, "f64", y.scale, y.zero, op.out_dtype())
    _pointwise(low, op, steps.body(found), (0, 3))


class _Steps:
    """A scalar program under construction."""

    def __init__(self, *dtypes: str) -> None:
        self.dtypes = dtypes
        self.steps: list[Step] = []

    def add(self, name: str, dtype: str, *args: int | Constant) -> int:
        attributes = (("saturate", 1),) if name == "Cast" else ()
        self.steps.append(Step("", name, args, dtype, attributes, OPSET))
        return len(self.dtypes) + len(self.steps) - 1

    def cast(self, value: int, dtype: str) -> int:
        return self.add("Cast", dtype, value)

    def less(self, value: int, zero: int, dtype: str) -> int:
        """A code less its zero point: exact in any type."""
        wide = self.cast(value, dtype)
        return wide if zero == 0 else self.add("Sub", dtype, wide, Constant(dtype, zero))

    def quantize(self, value: int, kind: str, scale: float, zero: int, dtype: str) -> int:
        args = (value, Constant(kind, scale), Constant(dtype, zero))
        self.steps.append(Step("", "QuantizeLinear", args, dtype, QUANTIZE, OPSET))
        return len(self.dtypes) + len(self.steps) - 1

    def body(self, result: int) -> Body:
        return Body(self.dtypes, tuple(self.steps), (result,))


def _pointwise(low: Lowering, op: Instance, body: Body, operands: tuple[int, ...]) -> None:
    """The program over the output, which lies as the operand that fills it does."""
    shape = op.out_shape()
    given = [low.view(i).broadcast(shape) for i in operands]
    order = None
    for tensor, index in zip(given, operands, strict=True):
        if op.shape(index) == shape and tensor.view.dense and order is None:
            order = tensor.view.order
    low.pointwise(body, given, [low.output(0, order)])


# --- functions of one code ---------------------------------------------------------------------


@refuses("QLinearSigmoid", "QLinearLeakyRelu", domain=DOMAIN)
def unary_refusal(op: Instance) -> str | None:
    return _refusal(op, (0,), (1, 3))


@lowers("QLinearSigmoid", "QLinearLeakyRelu", domain=DOMAIN)
def unary(low: Lowering, op: Instance) -> None:
    inputs = [every_code(op.dtype(0)), *(op.known(i) for i in range(1, len(op.inputs)))]
    found = reference.evaluate(DOMAIN, op.name, inputs, op.attributes)
    assert found is not None
    look_up(low, low.view(0), found[0])


def every_code(dtype: str) -> Array:
    """All codes of a byte, in the order of their bits."""
    return np.arange(256, dtype=np.uint8).view(to_numpy(dtype))


def requantized(low: Lowering, x: Tensor, of: Operand, to: Operand, dtype: str) -> Tensor:
    """Codes in other parameters, exactly."""
    if of.scale == to.scale and of.zero == to.zero and x.dtype == dtype:
        return x
    names = [np.float32(of.scale), np.array(of.zero, to_numpy(x.dtype))]
    parts = [np.float32(to.scale), np.array(to.zero, to_numpy(dtype))]
    inputs = [*parts, every_code(x.dtype), *names]
    found = reference.evaluate(DOMAIN, "QLinearConcat", [np.asarray(v) for v in inputs], {})
    assert found is not None
    return look_up_new(low, x, found[0])


def look_up_new(low: Lowering, x: Tensor, entries: Array) -> Tensor:
    """Entries for all codes of x, in fresh memory."""
    name = next(n for n in DTYPE_OF.values() if n in _BYTES and to_numpy(n) == entries.dtype)
    if not x.view.dense:
        x = low.ordered(x, tuple(range(x.view.rank)))
    made = low.new(name, x.shape, x.view.order)
    look_up(low, x, entries, made)
    return made


@refuses("QLinearConcat", domain=DOMAIN)
def concat_refusal(op: Instance) -> str | None:
    codes = tuple(range(2, len(op.inputs), 3))
    return _refusal(op, codes, (0, *(i + 1 for i in codes)))


@lowers("QLinearConcat", domain=DOMAIN)
def qlinear_concat(low: Lowering, op: Instance) -> None:
    """Parts whose parameters are the output's are copied, others are looked up."""
    rank = len(op.out_shape())
    axis = op.integer("axis", 0) % rank
    to = parameters(op, 2, 0, op.out_dtype())
    first = low.view(2).view
    out = low.output(0, first.order if first.dense and rank == 4 else None)
    start = 0
    for index in range(2, len(op.inputs), 3):
        part = low.view(index)
        if part.view.size == 0:
            continue
        begin = tuple(start if a == axis else 0 for a in range(rank))
        start += part.shape[axis]
        of = parameters(op, index, index + 1)
        low.copy(requantized(low, part, of, to, op.out_dtype()), out.sliced(begin, part.shape))


@refuses("QLinearWhere", domain=DOMAIN)
def where_refusal(op: Instance) -> str | None:
    return _refusal(op, (1, 4), (2, 5, 7))


@lowers("QLinearWhere", domain=DOMAIN)
def qlinear_where(low: Lowering, op: Instance) -> None:
    shape, dtype = op.out_shape(), op.out_dtype()
    to = parameters(op, 1, 7, dtype)
    sides = [
        requantized(low, low.view(i), parameters(op, i, i + 1), to, dtype).broadcast(shape)
        for i in (1, 4)
    ]
    body = Body(("bool", dtype, dtype), (Step("", "Where", (0, 1, 2), dtype),), (3,))
    low.pointwise(body, [low.view(0).broadcast(shape), *sides], [low.output()])
