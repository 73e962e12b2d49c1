"""MatMulInteger, QLinearMatMul and their relatives of ONNX Runtime.

In: instances. Out: products of bytes that are exact in 32 bits, and steps on the sums.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from rewrite.plan.lower.matmul_bytes import Places, corrected, emit, factors
from rewrite.plan.lower.matmul_tail import Arg, Tail
from rewrite.plan.lowering import Instance, Lowering, lowers, refuses
from rewrite.plan.spec import Constant

Array = np.ndarray[Any, np.dtype[Any]]
MICROSOFT = "com.microsoft"


@lowers("MatMulInteger", epilogue=True)
def matmul_integer(low: Lowering, op: Instance) -> None:
    """The sums themselves."""
    given = factors(low, Places(0, 1, 2, 3))
    tail = Tail("s32", op.out_dtype())
    emit(low, given, tail, corrected(low, given, tail))


@lowers("MatMulIntegerToFloat", domain=MICROSOFT, epilogue=True)
def matmul_integer_to_float(low: Lowering, op: Instance) -> None:
    """sums * (a_scale * b_scale) + bias, in the type of the scales."""
    given = factors(low, Places(0, 1, 4, 5))
    tail = Tail("s32", op.out_dtype())
    start = corrected(low, given, tail)
    number = op.out_dtype()
    scale = tail.value("Mul", scalar(low, tail, 2), scalar(low, tail, 3), dtype=number)
    tail.last = tail.cast(tail.last, number)
    tail.then("Mul", scale, dtype=number)
    if op.has(6):
        tail.then("Add", tail.operand(low.view(6)), dtype=number)
    emit(low, given, tail, start)


@lowers("QLinearMatMul", epilogue=True)
def qlinear_matmul(low: Lowering, op: Instance) -> None:
    """round(sums * (a_scale * b_scale / y_scale)) + y_zero, saturated."""
    given = factors(low, Places(0, 3, 2, 5))
    tail = Tail("s32", op.out_dtype())
    start = corrected(low, given, tail)
    requantized(low, tail, 1, 4, 6, 7)
    emit(low, given, tail, start)


@refuses("QLinearMatMul")
def qlinear_refusal(op: Instance) -> str | None:
    """Bytes only; the scales of one type."""
    if op.dtype(0) not in ("u8", "s8") or op.dtype(3) not in ("u8", "s8"):
        return "QLinearMatMul of floats of 8 bits"
    return None


@lowers("QGemm", domain=MICROSOFT, epilogue=True)
def qgemm(low: Lowering, op: Instance) -> None:
    """alpha (a - a_zero) (b - b_zero) + C, requantized, or scaled to floats without y_scale."""
    turned = (bool(op.integer("transA", 0)), bool(op.integer("transB", 0)))
    given = factors(low, Places(0, 3, 2, 5, turned))
    tail = Tail("s32", op.out_dtype())
    row = low.known(6) if op.has(6) else None
    if row is not None and (row.ndim == 0 or row.size != row.shape[-1]):
        row = None  # not one row: an operand of a step
    start = corrected(low, given, tail, None if row is None else row.reshape(-1))
    if op.has(6) and row is None:
        tail.then("Add", tail.operand(low.view(6)))
    requantized(low, tail, 1, 4, 7, 8, op.number("alpha", 1.0))
    emit(low, given, tail, start)


def requantized(
    low: Lowering, tail: Tail, a: int, b: int, y: int, zero: int, alpha: float = 1.0
) -> None:
    """Steps from exact sums to codes; operands `a`, `b`, `y` are scales. Without y: to floats.

    The scales are combined in float32, in this order, before they touch the sums.
    """
    op = low.op
    known = [low.known(i) for i in (a, b, y) if op.has(i)]
    if all(k is not None and k.size == 1 for k in known):
        one = np.float32(alpha)
        for i, k in enumerate(known):
            number = np.float32(k.reshape(-1)[0])  # type: ignore[union-attr]
            one = np.float32(one / number if i == 2 else one * number)
        scale: Arg = Constant("f32", float(one))
    else:
        scale = scale_of(low, tail, a, rows=True)
        if alpha != 1:
            scale = tail.value("Mul", Constant("f32", alpha), scale, dtype="f32")
        scale = tail.value("Mul", scale, scale_of(low, tail, b), dtype="f32")
        if op.has(y):
            scale = tail.value("Div", scale, scale_of(low, tail, y), dtype="f32")
    tail.last = tail.cast(tail.last, "f32")
    tail.then("Mul", scale, dtype="f32")
    if op.has(y):
        tail.last = quantized(low, tail, Constant("f32", 1.0), zero)


def quantized(low: Lowering, tail: Tail, scale: Constant, zero: int) -> int:
    """QuantizeLinear of what the tail gives."""
    op = low.op
    attributes = (("axis", 1), ("block_size", 0), ("output_dtype", 0), ("precision", 0),
                  ("saturate", 1))  # fmt: skip
    args: list[Arg] = [tail.last, scale]
    if op.has(zero):
        args.append(scalar(low, tail, zero))
    return tail.value("QuantizeLinear", *args, dtype=op.out_dtype(), attributes=attributes)


def scalar(low: Lowering, tail: Tail, index: int) -> Arg:
    """An operand as an argument: a constant where it is one known number."""
    known = low.op.single(index)
    if known is not None:
        number = known.reshape(-1)[0].item()
        return Constant(low.op.dtype(index), number)
    tensor = low.view(index)
    if tensor.view.size == 1:
        one = tensor.reshaped(())
        assert one is not None, "one element has any shape"
        tensor = one
    return tail.operand(tensor)


def scale_of(low: Lowering, tail: Tail, index: int, rows: bool = False) -> Arg:
    """A scale in float32; of rows, where it is a vector of the left factor."""
    found = scalar(low, tail, index)
    if rows and not isinstance(found, Constant) and len(low.op.shape(index)) == 1:
        tensor = low.view(index)
        if tensor.view.size != 1:
            column = tensor.reshaped((tensor.shape[0], 1))
            assert column is not None, "a vector of any stride is a matrix"
            tail.tensors[-1] = column
    return found if low.op.dtype(index) == "f32" else tail.cast(found, "f32")
