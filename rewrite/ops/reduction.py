"""Operators that combine the elements along axes: Reduce*, ArgMax, ArgMin, CumSum, CumProd.

In: `Call` or `Evaluation`. Out: types or arrays. A reduction is three scalar steps around a
combining function; sums of floats are computed in float64, so that the stated error is the
runtime's own, which grows with the number of elements (it holds for some thousand).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from rewrite.ops.call import Array, Arrays, Call, Evaluation, Types
from rewrite.ops.registry import EXACT, declare_value, op, value
from rewrite.ops.scalar import NumpyBuilder, widen
from rewrite.schema import Dim, Shape, Type

# A float32 sum of a few thousand elements, against the exact one.
SUMMATION = 2e-5

Combine = Literal["add", "mul", "min", "max"]


@dataclass(frozen=True, slots=True)
class Reduction:
    """finish(combine(prepare(x) for x in elements), number of elements).

    `identity` is the value of no elements (None: undefined); `shift`: the largest element is
    taken off before and added after, so that the exponential cannot overflow. `exact_integers`:
    of integers every order of combining gives the same.
    """

    combine: Combine
    identity: float | None
    prepare: Callable[[Any, Any], Any] | None = None
    finish: Callable[[Any, Any, int], Any] | None = None
    shift: bool = False
    error: Literal["exact"] | float = SUMMATION
    exact_integers: bool = False


_LOWEST, _HIGHEST = float("-inf"), float("inf")

REDUCTIONS: dict[str, Reduction] = {
    "ReduceSum": Reduction("add", 0, exact_integers=True),
    "ReduceMean": Reduction("add", None, finish=lambda b, x, n: b.div(x, n)),
    "ReduceProd": Reduction("mul", 1, exact_integers=True),
    "ReduceMax": Reduction("max", _LOWEST, error=EXACT),
    "ReduceMin": Reduction("min", _HIGHEST, error=EXACT),
    "ReduceL1": Reduction("add", 0, prepare=lambda b, x: b.abs(x), exact_integers=True),
    "ReduceL2": Reduction(
        "add", 0, prepare=lambda b, x: b.mul(x, x), finish=lambda b, x, n: b.sqrt(x)
    ),
    "ReduceSumSquare": Reduction("add", 0, prepare=lambda b, x: b.mul(x, x), exact_integers=True),
    "ReduceLogSum": Reduction("add", 0, finish=lambda b, x, n: b.log(x)),
    "ReduceLogSumExp": Reduction(
        "add", 0, prepare=lambda b, x: b.exp(x), finish=lambda b, x, n: b.log(x), shift=True
    ),
}

_COMBINE: dict[str, np.ufunc] = {
    "add": np.add, "mul": np.multiply, "min": np.minimum, "max": np.maximum,
}  # fmt: skip


def infer_reduction(call: Call) -> Types:
    """The axes given have size 1, or are gone; without axes all dimensions are reduced."""
    x = call.type(0)
    keep = call.integer("keepdims", 1) != 0
    no_op = call.integer("noop_with_empty_axes", 0) != 0
    axes = call.integers_of(1) if call.has(1) else ()
    if axes is not None and not axes:
        if no_op:
            return (x,)
        if x.shape is None:
            return (Type(x.dtype, None if keep else ()),)
        return (Type(x.dtype, (1,) * len(x.shape) if keep else ()),)
    if x.shape is None:
        return (Type(x.dtype, None),)
    if axes is None:
        return (Type(x.dtype, _unknown_axes(call, x.shape, keep)),)
    return (Type(x.dtype, reduced(x.shape, call.axes(axes, len(x.shape)), keep)),)


def _unknown_axes(call: Call, shape: Shape, keep: bool) -> Shape | None:
    if keep:
        return tuple(1 if size == 1 else call.fresh() for size in shape)
    count = call.length_of(1)
    if not count:
        return None
    return call.unknown(len(shape) - count) if count <= len(shape) else None


def reduced(shape: Shape, axes: tuple[int, ...], keep: bool) -> Shape:
    if keep:
        return tuple(1 if i in axes else size for i, size in enumerate(shape))
    return tuple(size for i, size in enumerate(shape) if i not in axes)


def _evaluator(name: str, parts: Reduction) -> Callable[[Evaluation], Arrays | None]:
    def evaluate(e: Evaluation) -> Arrays | None:
        x = e.array(0)
        axes = e.integers_of(1) or ()
        if not axes and e.integer("noop_with_empty_axes", 0):
            # Whether prepare and finish still apply has changed between texts of the standard.
            plain = parts.prepare is None and name != "ReduceLogSum"
            return (x,) if plain else None
        axes = tuple(a % x.ndim for a in axes) if axes else tuple(range(x.ndim))
        keep = e.integer("keepdims", 1) != 0
        wide = widen(x, parts.error == EXACT)
        with np.errstate(all="ignore"):
            result = _reduce(parts, wide, axes, keep)
            if result is None:
                return None
            if x.dtype.kind in "iu" and result.dtype.kind == "f":
                result = np.trunc(result)
            return (np.asarray(result).astype(x.dtype, copy=False),)

    return evaluate


_BUILDER = NumpyBuilder()


def _reduce(parts: Reduction, x: Array, axes: tuple[int, ...], keep: bool) -> Array | None:
    count = 1
    for axis in axes:
        count *= x.shape[axis]
    if count == 0 and x.size == 0 and not _has_identity(parts, x):
        return None
    top: Any = 0
    if parts.shift and count:
        top = np.maximum.reduce(x, axes, keepdims=True)
        top = np.where(np.isfinite(top), top, 0)
        x = x - top
        top = top if keep else np.squeeze(top, axes)
    if parts.prepare is not None:
        x = parts.prepare(_BUILDER, x)
    combine = _COMBINE[parts.combine]
    dtype = None if x.dtype.kind not in "iu" else x.dtype
    identity: Any = {} if count else {"initial": _identity(parts, x)}
    if combine in (np.minimum, np.maximum):
        result = combine.reduce(x, axes, keepdims=keep, **identity)
    else:
        result = combine.reduce(x, axes, dtype=dtype, keepdims=keep)
    if parts.finish is not None:
        result = parts.finish(_BUILDER, result, count)
    return np.asarray(result + top if parts.shift else result)


def _has_identity(parts: Reduction, x: Array) -> bool:
    return parts.identity is not None and x.dtype.kind in "fiub"


def _identity(parts: Reduction, x: Array) -> Any:
    """No element: the value that any element would replace."""
    if x.dtype.kind == "b":
        return parts.combine == "min"
    if x.dtype.kind in "iu" and parts.combine in ("min", "max"):
        limits = np.iinfo(x.dtype)
        return limits.min if parts.combine == "max" else limits.max
    return parts.identity


def _declare() -> None:
    for name, parts in REDUCTIONS.items():
        op(name, kind="reduction", body=parts)(infer_reduction)
        evaluate = _evaluator(name, parts)
        declare_value(("", name), evaluate, parts.error, parts.exact_integers)


_declare()


# --- positions --------------------------------------------------------------------------------


@op("ArgMax", "ArgMin", kind="reduction")
def arg_extreme(call: Call) -> Types:
    """The index of the largest or smallest element along an axis"""
    shape = call.shape(0)
    if shape is None:
        return (Type("s64", None),)
    axis = call.axis(call.integer("axis", 0), len(shape))
    return (Type("s64", reduced(shape, (axis,), call.integer("keepdims", 1) != 0)),)


@value("ArgMax")
def arg_max_value(e: Evaluation) -> Arrays | None:
    return _arg_extreme(e, np.argmax)


@value("ArgMin")
def arg_min_value(e: Evaluation) -> Arrays | None:
    return _arg_extreme(e, np.argmin)


def _arg_extreme(e: Evaluation, find: Callable[..., Any]) -> Arrays | None:
    x, axis = widen(e.array(0), True), e.integer("axis", 0)
    if x.shape[axis] == 0 or (x.dtype.kind == "f" and np.isnan(x).any()):
        return None  # no element, or an order that the standard does not define
    last = e.integer("select_last_index", 0) != 0
    found = find(np.flip(x, axis) if last else x, axis)
    found = x.shape[axis] - 1 - found if last else found
    if e.integer("keepdims", 1):
        found = np.expand_dims(found, axis)
    return (np.asarray(found, np.int64),)


# --- running totals ---------------------------------------------------------------------------


@op("CumSum", "CumProd", kind="reduction", shape_class="first")
def running(call: Call) -> Types:
    """Sums or products of the elements up to each place along an axis"""
    x, axis = call.type(0), call.integers_of(1)
    if x.shape is not None and axis is not None:
        for a in axis:
            call.axis(a, len(x.shape))
    return (x,)


@value("CumSum", error=SUMMATION, exact_integers=True)
def cumulative_sum(e: Evaluation) -> Arrays:
    return _running(e, np.add, 0)


@value("CumProd", error=SUMMATION, exact_integers=True)
def cumulative_product(e: Evaluation) -> Arrays:
    return _running(e, np.multiply, 1)


def _running(e: Evaluation, combine: np.ufunc, identity: int) -> Arrays:
    x, axis = e.array(0), (e.integers_of(1) or (0,))[0]
    wide = widen(x, False)
    reverse = e.integer("reverse", 0) != 0
    y = np.flip(wide, axis) if reverse else wide
    with np.errstate(all="ignore"):
        y = combine.accumulate(y, axis, dtype=wide.dtype)
    if e.integer("exclusive", 0):
        y = np.roll(y, 1, axis)
        first: list[slice] = [slice(None)] * x.ndim
        first[axis] = slice(0, 1)
        y[tuple(first)] = identity
    y = np.flip(y, axis) if reverse else y
    return (np.asarray(y).astype(x.dtype, order="C"),)


# --- the k largest ----------------------------------------------------------------------------


@op("TopK", kind="reduction")
def top_k(call: Call) -> Types:
    """The k largest or smallest elements along an axis, and their indices"""
    x = call.type(0)
    if x.shape is None:
        return (x, Type("s64", None))
    axis = call.axis(call.integer("axis", -1), len(x.shape))
    given = call.sizes_of(1)
    k: Dim = call.fresh() if not given else given[0]
    if isinstance(k, int) and isinstance(size := x.shape[axis], int) and k > size:
        call.fail(f"the {k} largest of {size} elements")
    shape = (*x.shape[:axis], k, *x.shape[axis + 1 :])
    return (Type(x.dtype, shape), Type("s64", shape))


@value("TopK")
def top_k_value(e: Evaluation) -> Arrays | None:
    x, axis, k = e.array(0), e.integer("axis", -1), (e.integers_of(1) or (0,))[0]
    keys = widen(x, True)
    if not e.integer("sorted", 1) or (keys.dtype.kind == "f" and np.isnan(keys).any()):
        return None
    if e.integer("largest", 1):
        # Of equal elements the one with the lower index comes first, so the keys are mirrored
        # rather than the order.
        flipped = np.flip(np.argsort(np.flip(keys, axis), axis, kind="stable"), axis)
        order = keys.shape[axis] - 1 - flipped
    else:
        order = np.argsort(keys, axis, kind="stable")
    index = np.take(order, np.arange(k), axis)
    return (np.take_along_axis(x, index, axis), index.astype(np.int64))
