"""Pools over sliding windows and over whole images.

In: MaxPool, AveragePool, LpPool, their global forms, ONNX Runtime's quantized averages. Out: one
call of the kernel `Pool` each.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rewrite.plan.conv_after import Finish, First, finish_of
from rewrite.plan.conv_steps import Program
from rewrite.plan.conv_window import Frame, axis_table, frame_of, has_two_or_three, whole
from rewrite.plan.instance import Instance
from rewrite.plan.lower.reduction import row_program, row_refusal
from rewrite.plan.lowering import Lowering, channels_last, lowers, refuses
from rewrite.plan.spec import Body, Constant
from rewrite.plan.specs.conv import After
from rewrite.plan.specs.pool import Pool
from rewrite.plan.tensor import Tensor
from rewrite.quant.codes import code_type

MICROSOFT = "com.microsoft"
_GRAIN = 1 << 15  # elements under windows that are worth handing to a thread
_FLOATS = {"f32": "f32", "f64": "f64", "f16": "f32", "bf16": "f32"}
_LARGEST = frozenset({*_FLOATS, "u8", "s8", "u16", "s16", "s32", "s64", "u32", "u64"})


@dataclass(frozen=True, slots=True)
class Combination:
    """What `Pool` combines, as in its spec, and `first`: what makes the element of it."""

    combine: str
    total: str
    each: Body | None = None
    counted: str = ""
    first: Body | None = None


# --- what is combined -------------------------------------------------------------------------


def largest(dtype: str) -> Combination:
    return Combination("max", _FLOATS.get(dtype, dtype))


def mean(dtype: str) -> Combination:
    total = _FLOATS[dtype]
    program = Program(total, total)
    program.step("Div", dtype, 0, 1)
    return Combination("sum", total, None, total, program.body(2))


def norm(dtype: str, p: int) -> Combination:
    """(sum |x|^p)^(1/p)"""
    total = _FLOATS[dtype]
    each, root = Program(total), Program(total)
    size = each.step("Abs", total, 0)
    if p == 2:
        each.step("Mul", total, 0, 0)
        root.step("Sqrt", dtype, 0)
    elif p != 1:
        each.step("Pow", total, size, Constant(total, float(p)))
        root.step("Pow", dtype, 0, Constant(total, 1.0 / p))
    else:
        root.cast(0, dtype)
    return Combination("sum", total, each.body(len(each.steps)), "", root.body(1))


# --- lowerings --------------------------------------------------------------------------------


@refuses("MaxPool", "AveragePool", "LpPool")
def pool_refusal(op: Instance) -> str | None:
    allowed = _LARGEST if op.name == "MaxPool" else frozenset(_FLOATS)
    if op.dtype(0) not in allowed:
        return f"a pool of {op.dtype(0)}"
    if not has_two_or_three(op):
        return f"a window over {len(op.shape(0)) - 2} dimensions"
    if min(op.integers("pads") or (0,)) < 0:
        return "a negative border"
    return None


@refuses("GlobalMaxPool", "GlobalAveragePool", "GlobalLpPool")
def global_refusal(op: Instance) -> str | None:
    allowed = _LARGEST if op.name == "GlobalMaxPool" else frozenset(_FLOATS)
    if op.dtype(0) not in allowed:
        return f"a pool of {op.dtype(0)}"
    if not 2 <= len(op.shape(0)) <= 5:
        return f"a window over {len(op.shape(0)) - 2} dimensions"
    return None


@lowers("MaxPool", epilogue=True)
def max_pool(low: Lowering, op: Instance) -> None:
    frame = frame_of(op, op.integers("kernel_shape") or ())
    pooled(low, op, frame, largest(op.dtype(0)), indices=op.wants(1))


@lowers("AveragePool", epilogue=True)
def average_pool(low: Lowering, op: Instance) -> None:
    frame = frame_of(op, op.integers("kernel_shape") or ())
    with_border = op.integer("count_include_pad", 0) != 0
    pooled(low, op, frame, mean(op.dtype(0)), with_border)


@lowers("LpPool", epilogue=True)
def lp_pool(low: Lowering, op: Instance) -> None:
    frame = frame_of(op, op.integers("kernel_shape") or ())
    pooled(low, op, frame, norm(op.dtype(0), op.integer("p", 2)))


@lowers("GlobalMaxPool", epilogue=True)
def global_max_pool(low: Lowering, op: Instance) -> None:
    _over_all(low, op, largest(op.dtype(0)))


@lowers("GlobalAveragePool", epilogue=True)
def global_average_pool(low: Lowering, op: Instance) -> None:
    _over_all(low, op, mean(op.dtype(0)))


def _over_all(low: Lowering, op: Instance, how: Combination) -> None:
    """Down the pixels of a channels-last image; along them where they are neighbours."""
    by_channels = low.view(0).view.is_ordered(channels_last(len(op.shape(0))))
    if by_channels or row_refusal(op) is not None:
        pooled(low, op, whole(op.shape(0)[2:]), how)
    else:
        row_program(low, op)


@lowers("GlobalLpPool", epilogue=True)
def global_lp_pool(low: Lowering, op: Instance) -> None:
    pooled(low, op, whole(op.shape(0)[2:]), norm(op.dtype(0), op.integer("p", 2)))


def pooled(
    low: Lowering,
    op: Instance,
    frame: Frame,
    how: Combination,
    with_border: bool = False,
    indices: bool = False,
) -> None:
    order = channels_last(len(op.shape(0)))
    x = low.ordered(low.view(0), order)
    out = low.output(0, order)
    places = low.output(1, order) if indices else None
    finish = finish_of(low, how.total, None if how.first is None else First(how.first))
    columns = op.integer("storage_order", 0) == 1
    call_pool(low, frame, how, x, out, finish, with_border, places, columns)


def call_pool(
    low: Lowering,
    frame: Frame,
    how: Combination,
    x: Tensor,
    out: Tensor,
    finish: Finish,
    with_border: bool = False,
    indices: Tensor | None = None,
    columns: bool = False,
) -> None:
    """`x`, `out` and `indices` are (N, C, …) in channels-last order."""
    images, channels = x.shape[:2]
    if out.view.size == 0:
        return
    lanes = low.machine.lanes("s64" if indices is not None else how.total)
    spec = Pool(
        x.dtype, how.total, how.combine, how.each, how.counted, indices is not None,
        channels % lanes, finish.after,
    )  # fmt: skip
    tables = [low.constant(axis_table(frame, axis, with_border)) for axis in range(3)]
    d, h, w = frame.sizes
    words: list[Tensor | int] = [x, *tables, *finish.tensors, out]
    words += [] if indices is None else [indices]
    words += [*frame.out, channels, *frame.dilations]
    words += [h * w * channels, w * channels, channels, frame.pixels * channels]
    words += [1, d, d * h] if columns else [h * w, w, 1]
    words += [d * h * w, d * h * w * channels, *finish.strides]
    work = frame.out[2] * channels * frame.taps
    items = images * frame.out[0] * frame.out[1]
    low.call(spec, words, items, max(1, _GRAIN // max(1, work)), 0, work * items)


# --- quantized averages -----------------------------------------------------------------------


@refuses("QLinearAveragePool", "QLinearGlobalAveragePool", domain=MICROSOFT)
def quantized_refusal(op: Instance) -> str | None:
    if op.dtype(0) not in ("u8", "s8"):
        return f"a pool of {op.dtype(0)}"
    if any(op.has(i) and not op.is_known(i) for i in range(1, 5)):
        return "scales that come with the run"
    if any(op.has(i) and op.shape(i) not in ((), (1,)) for i in range(1, 5)):
        return "scales per channel"
    if not 3 <= len(op.shape(0)) <= 5:
        return f"a window over {len(op.shape(0)) - 2} dimensions"
    taps = np.prod(op.shape(0)[1:]) if op.name.startswith("QLinearG") else np.prod(
        op.integers("kernel_shape") or (1,))  # fmt: skip
    return "a window of more than 2^19 elements" if taps > _MOST_EXACT else None


# Numerator x_s sum and denominator count y_s are exact in f64: with c bits of count they have at
# most 32 + c and 24 + c digits. Their quotient is no half without being at least 2^-(33 + c) of
# itself away from every half, and is rounded by 2^-53 of itself: enough for c up to 19.
_MOST_EXACT = 1 << 19


@lowers("QLinearAveragePool", "QLinearGlobalAveragePool", domain=MICROSOFT)
def quantized_average(low: Lowering, op: Instance) -> None:
    rank = len(op.shape(0))
    last = op.integer("channels_last", 0) != 0
    to_first = (0, rank - 1, *range(1, rank - 1)) if last else tuple(range(rank))
    frame = (
        whole(op.shape(0)[slice(1, -1) if last else slice(2, None)])
        if op.name == "QLinearGlobalAveragePool"
        else frame_of(op, op.integers("kernel_shape") or (), last)
    )
    x = low.ordered(low.view(0).permuted(to_first), channels_last(rank))
    out = low.output(0, None if last else channels_last(rank))
    out = out.permuted(to_first)
    how = _quantized_mean(op)
    assert how.first is not None
    finish = Finish(After(op.out_dtype(0), how.first), ())
    call_pool(low, frame, how, x, out, finish, op.integer("count_include_pad", 0) != 0)


def _quantized_mean(op: Instance) -> Combination:
    """round(x_s sum (x - zx) / (count y_s)) + zy, exact: all but the quotient is."""
    dtype, out = op.dtype(0), op.out_dtype(0)
    x_scale, y_scale = _number(op, 1), _number(op, 3)
    each = Program(dtype)
    wide = each.cast(0, "s32")
    each.step("Sub", "s32", wide, Constant("s32", int(_number(op, 2))))
    first = Program("s32", "f64")
    total = first.cast(0, "f64")
    numerator = first.step("Mul", "f64", total, Constant("f64", x_scale))
    denominator = first.step("Mul", "f64", 1, Constant("f64", y_scale))
    quotient = first.step("Div", "f64", numerator, denominator)
    code = code_type(out)
    assert code is not None
    found = first.codes(quotient, out, int(_number(op, 4)), int(code.low), int(code.high))
    return Combination("sum", "s32", each.body(2), "f64", first.body(found))


def _number(op: Instance, index: int) -> float:
    """A scalar operand; an absent zero point is 0."""
    array = op.known(index)
    return 0.0 if array is None else float(array.reshape(-1)[0])
