"""Reductions as row programs.

In: instances of Reduce*, GlobalAveragePool, GlobalMaxPool, QLinearReduceMean. Out: the region that
they reduce, and their steps. Sums of half floats are kept in f32 and rounded once; integers wrap
around, and what is no integer on the way (roots, logarithms) is computed in f64 and cut off.
"""

from __future__ import annotations

from collections.abc import Callable

from rewrite.plan.instance import Instance
from rewrite.plan.rows import Builder, Region, RowOp
from rewrite.plan.rows_draft import Draft, Ref
from rewrite.plan.spec import Constant
from rewrite.plan.specs.rows import ADD, MAX, MIN, MUL
from rewrite.schema import Type

Axes = tuple[int, ...]
_COMPUTED = frozenset({"f16", "bf16", "f32", "f64", "s32", "s64", "u32", "u64"})
_ORDERED = _COMPUTED | {"s8", "u8", "s16", "u16", "bool"}


def reduced_axes(op: Instance) -> Axes | None:
    """The dimensions that Reduce* reduces; None where that is not known."""
    rank = len(op.shape(0))
    if not op.has(1):
        return _all_or_none(op, rank)
    given = op.integers_at(1)
    if given is None:
        return None
    return tuple(sorted({a % rank for a in given})) if given else _all_or_none(op, rank)


def _all_or_none(op: Instance, rank: int) -> Axes:
    return () if op.integer("noop_with_empty_axes", 0) else tuple(range(rank))


def _where(op: Instance) -> Region | str:
    axes = reduced_axes(op)
    if axes is None:
        return f"the axes of {op.name} are not known"
    allowed = _ORDERED if op.name in ("ReduceMax", "ReduceMin") else _COMPUTED
    if op.dtype() not in allowed:
        return f"{op.name} is not computed in {op.dtype()}"
    return Region(op.shape(0), axes)


# --- Reduce* -----------------------------------------------------------------------------------

Formula = Callable[[Draft, Ref], Ref]


def _expand(formula: Formula) -> Callable[[Builder, Instance], None]:
    def expand(b: Builder, op: Instance) -> None:
        axes = b.region.axes
        result = formula(b.draft, b.arg(op, 0))
        kept = op.integer("keepdims", 1) != 0 or not axes
        seen = tuple(a for a in range(b.rank) if kept or a not in axes)
        b.put(op, 0, result, seen)

    return expand


def _real(d: Draft, x: Ref) -> Ref:
    """The value in the type that functions are computed in."""
    dtype = d.dtype(x)
    if dtype in ("f16", "bf16"):
        return d.cast(x, "f32")
    return x if dtype in ("f32", "f64") else d.cast(x, "f64")


def _wide(d: Draft, x: Ref) -> Ref:
    """Half floats as f32; others as they are."""
    return d.cast(x, "f32") if d.dtype(x) in ("f16", "bf16") else x


def _sum_of_squares(d: Draft, x: Ref) -> Ref:
    return d.fold(ADD, d.square(_wide(d, x)))


def _sum_of_magnitudes(d: Draft, x: Ref) -> Ref:
    return d.fold(ADD, d.step("Abs", _wide(d, x)))


def _norm(d: Draft, x: Ref) -> Ref:
    return d.step("Sqrt", _real(d, _sum_of_squares(d, x)))


def _log_sum(d: Draft, x: Ref) -> Ref:
    return d.step("Log", _real(d, d.fold(ADD, x)))


def log_sum_exp(d: Draft, x: Ref) -> Ref:
    """log sum exp(x - top) + top; where the largest element is infinite nothing is taken off."""
    wide = _real(d, x)
    top = d.fold(MAX, wide)
    dtype = d.dtype(wide)
    finite = d.step("Less", d.step("Abs", top), Constant(dtype, float("inf")), dtype="bool")
    shift = d.step("Where", finite, top, Constant(dtype, 0.0), dtype=dtype)
    total = d.fold(ADD, d.step("Exp", d.step("Sub", wide, shift)))
    return d.step("Add", d.step("Log", total), shift)


_FORMULAS: dict[str, Formula] = {
    "ReduceSum": lambda d, x: d.fold(ADD, x),
    "ReduceMean": lambda d, x: d.mean(x),
    "ReduceProd": lambda d, x: d.fold(MUL, x),
    "ReduceMax": lambda d, x: d.fold(MAX, x),
    "ReduceMin": lambda d, x: d.fold(MIN, x),
    "ReduceL1": _sum_of_magnitudes,
    "ReduceL2": _norm,
    "ReduceSumSquare": _sum_of_squares,
    "ReduceLogSum": _log_sum,
    "ReduceLogSumExp": log_sum_exp,
}


# --- pooling over everything -------------------------------------------------------------------


def _where_global(op: Instance) -> Region | str:
    shape = op.shape(0)
    if len(shape) < 3:
        return f"{op.name} without spatial dimensions"
    if op.dtype() not in ("f16", "bf16", "f32", "f64"):
        return f"{op.name} is not computed in {op.dtype()}"
    return Region(shape, tuple(range(2, len(shape))))


def _expand_global(combine: str) -> Callable[[Builder, Instance], None]:
    def expand(b: Builder, op: Instance) -> None:
        b.put(op, 0, b.draft.fold(combine, b.arg(op, 0), mean=combine == ADD))

    return expand


# --- quantized ---------------------------------------------------------------------------------


def _where_quantized(op: Instance) -> Region | str:
    shape = op.shape(0)
    axes = op.integers("axes")
    rank = len(shape)
    if any(_size(op.inputs[k]) != 1 for k in (1, 3)):
        return "scales of QLinearReduceMean are single numbers"
    return Region(
        shape, tuple(range(rank)) if not axes else tuple(sorted({a % rank for a in axes}))
    )


def _size(type_: Type | None) -> int:
    total = 1
    for n in (type_.shape or ()) if type_ is not None else ():
        total *= int(n)
    return total


def _expand_quantized(b: Builder, op: Instance) -> None:
    """The mean of the real numbers, quantized."""
    d = b.draft
    x = dequantized(b, op, 0, 1, 2)
    mean = quantized(b, op, d.mean(x), 3, 4)
    kept = op.integer("keepdims", 1) != 0
    b.put(op, 0, mean, tuple(a for a in range(b.rank) if kept or a not in b.region.axes))


def dequantized(b: Builder, op: Instance, x: int, scale: int, zero: int) -> Ref:
    """(x - zero) scale in f32, of operands that are single numbers."""
    d = b.draft
    real = d.cast(b.arg(op, x), "f32")
    if op.has(zero):
        real = d.step("Sub", real, d.cast(b.arg(op, zero), "f32"))
    return d.step("Mul", real, b.arg(op, scale))


def quantized(b: Builder, op: Instance, real: Ref, scale: int, zero: int) -> Ref:
    """Quantized by scale and zero point, which are single numbers."""
    d = b.draft
    given: list[Ref | Constant | None] = [real, b.arg(op, scale)]
    if op.has(zero):
        given.append(b.arg(op, zero))
    attributes = (("axis", 1), ("block_size", 0), ("output_dtype", 0), ("saturate", 1))
    return d.step("QuantizeLinear", *given, dtype=op.out_dtype(), attributes=attributes, opset=21)


OPERATORS: dict[tuple[str, str], RowOp] = {
    **{("", name): RowOp(_where, _expand(formula)) for name, formula in _FORMULAS.items()},
    ("", "GlobalAveragePool"): RowOp(_where_global, _expand_global(ADD)),
    ("", "GlobalMaxPool"): RowOp(_where_global, _expand_global(MAX)),
    ("com.microsoft", "QLinearReduceMean"): RowOp(_where_quantized, _expand_quantized),
}
