"""Resize and Upsample.

In: instances whose sizes and scales are known. Out: a view where nothing changes, one kernel of
tables for nearest neighbours, else a pass per axis, those that shrink most first.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod

import numpy as np

from rewrite.ops.dtypes import to_numpy
from rewrite.plan.instance import Array
from rewrite.plan.lower.indexing import grain_of
from rewrite.plan.lower.movement import order_of
from rewrite.plan.lower.resize_tables import Axis, Method, blocks, nearest, spread, taps
from rewrite.plan.lowering import Instance, Lowering, Tensor, lowers, refuses
from rewrite.plan.specs.index import Take, short
from rewrite.plan.specs.resize import MOST_TAPS, ResizeLookup, ResizePass
from rewrite.plan.view import BYTES

_FLOATS = frozenset({"f16", "bf16", "f32", "f64"})
_WIDE = frozenset({"f64", "s32", "u32", "s64", "u64"})  # float32 does not hold them
_SUMMED = _FLOATS | _WIDE | {"s8", "u8", "s16", "u16"}
MOST_REPEATS = 8
_CROP = "tf_crop_and_resize"


@lowers("Resize", needs=(1, 2, 3))
def resize(low: Lowering, op: Instance) -> None:
    axes = _axes(op)
    method = Method(
        op.text("mode", "nearest"),
        op.text("coordinate_transformation_mode", "half_pixel"),
        op.text("nearest_mode", "round_prefer_floor"),
        op.number("cubic_coeff_a", -0.75),
        op.integer("exclude_outside", 0) != 0,
        op.integer("antialias", 0) != 0,
    )
    if op.opset < 11:
        method = replace(method, coordinates="asymmetric", nearest="floor")
    _lower(low, op, axes, method)


@lowers("Upsample", needs=(1,))
def upsample(low: Lowering, op: Instance) -> None:
    method = Method(op.text("mode", "nearest"), "asymmetric", "floor")
    _lower(low, op, _axes(op), method)


@refuses("Resize", "Upsample")
def resize_refusal(op: Instance) -> str | None:
    mode = op.text("mode", "nearest")
    if mode != "nearest" and op.dtype() not in _SUMMED:
        return f"elements of type {op.dtype()} are not interpolated"
    if prod(op.shape()) == 0 and prod(op.out_shape()) > 0:
        return "there is nothing to take from"
    return None


# --- what is asked for -------------------------------------------------------------------------


def _axes(op: Instance) -> list[Axis]:
    """Every dimension: sizes, scale, region."""
    shape, result = op.shape(), op.out_shape()
    rank = len(shape)
    chosen = tuple(a % rank for a in op.integers("axes") or range(rank))
    scales = _scales(op, chosen)
    roi = _regions(op, chosen)
    return [
        Axis(n, m, scales.get(a, 1.0), roi.get(a, (0.0, 1.0)))
        for a, (n, m) in enumerate(zip(shape, result, strict=True))
    ]


def _scales(op: Instance, chosen: Sequence[int]) -> dict[int, float]:
    shape, result = op.shape(), op.out_shape()
    given = op.known(2 if op.name == "Resize" and op.opset >= 11 else 1)
    if given is not None and given.size:
        return dict(zip(chosen, map(float, given.reshape(-1)), strict=True))
    exact = {a: result[a] / max(shape[a], 1) for a in chosen}
    policy = op.text("keep_aspect_ratio_policy", "stretch")
    if policy == "stretch":
        return exact
    wanted = op.integers_at(3) or ()
    ratios = [w / max(shape[a], 1) for a, w in zip(chosen, wanted, strict=True)]
    one = min(ratios) if policy == "not_larger" else max(ratios)
    return dict.fromkeys(chosen, one)


def _regions(op: Instance, chosen: Sequence[int]) -> dict[int, tuple[float, float]]:
    given = op.known(1) if op.name == "Resize" and op.opset >= 11 else None
    if given is None or given.size == 0 or op.text("coordinate_transformation_mode", "") != _CROP:
        return {}
    numbers = [float(v) for v in given.reshape(-1)]
    half = len(numbers) // 2
    return {a: (numbers[i], numbers[half + i]) for i, a in enumerate(chosen)}


# --- kernels -----------------------------------------------------------------------------------


def _lower(low: Lowering, op: Instance, axes: list[Axis], method: Method) -> None:
    x = low.view(0)
    if prod(op.out_shape()) == 0:
        low.output(0)
        return
    changed = [a for a, axis in enumerate(axes) if _changes(axis)]
    if not changed:
        low.alias(0, x)
        return
    order = order_of(x) or tuple(range(x.view.rank))
    x = low.ordered(x, order)
    fill = low.constant(np.array(op.number("extrapolation_value", 0.0)).astype(to_numpy(x.dtype)))
    if method.mode == "nearest":
        tables = {a: nearest(axes[a], method) for a in changed}
        _take(low, x, low.output(0, order), order, tables, fill)
        return
    changed.sort(key=lambda a: axes[a].result / axes[a].size)
    for a in changed:
        last = a == changed[-1]
        x = _pass(low, op, x, order, (a, axes[a]), method, fill, last)


def _changes(axis: Axis) -> bool:
    return not (axis.size == axis.result and axis.scale == 1 and axis.roi == (0.0, 1.0))


def _take(
    low: Lowering,
    x: Tensor,
    result: Tensor,
    order: Sequence[int],
    tables: dict[int, Array],
    fill: Tensor,
) -> None:
    """Dimensions before the first table are walked through as one, those behind the last are a
    row."""
    physical = [x.shape[a] for a in order]
    places = [order.index(a) for a in tables]
    first, end = min(places), max(places) + 1
    width = BYTES[x.dtype]
    row = prod(physical[end:]) * width
    offsets: list[Tensor] = []
    filled = False
    for p in range(first, end):
        table = tables.get(order[p], np.arange(physical[p]))
        pitch = prod(physical[p + 1 :]) * width
        filled = filled or bool((table < 0).any())
        offsets.append(low.constant(np.where(table < 0, -1, table * pitch).astype(np.int64)))
    outer = prod(physical[:first])
    sizes = [result.shape[a] for a in order[first:end]]
    pitch = prod(physical[first:]) * width
    words: list[Tensor | int] = [x, fill, *offsets, result, outer, pitch, row, *sizes]
    repeat = (
        0 if filled or row != width else _repeats(tables.get(order[end - 1]), physical[end - 1])
    )
    spec = Take(len(sizes), short(row), width, filled, repeat)
    # Repeated elements alone are one item per line.
    items = outer * (1 if repeat and len(sizes) == 1 else sizes[0])
    items = items if prod(result.shape) else 0
    low.call(spec, words, items, grain_of(prod(sizes[1:]) * row))


def _repeats(table: Array | None, size: int) -> int:
    """How often each place is repeated, where that is all that a table says; else 0."""
    if table is None or size == 0 or len(table) % size:
        return 0
    times = len(table) // size
    plain = np.array_equal(table, np.arange(len(table)) // times)
    return times if plain and 2 <= times <= MOST_REPEATS else 0


def _pass(
    low: Lowering,
    op: Instance,
    x: Tensor,
    order: Sequence[int],
    at: tuple[int, Axis],
    method: Method,
    fill: Tensor,
    last: bool,
) -> Tensor:
    """One axis; all results but the last are kept in the type in which sums are made."""
    a, axis = at
    sums = "f64" if op.dtype() in _WIDE else "f32"
    shape = tuple(axis.result if d == a else n for d, n in enumerate(x.shape))
    result = low.output(0, order) if last else low.new(sums, shape, order)
    places, weights = taps(axis, method)
    filled = bool((places < 0).any())
    if filled and not last:
        fill = low.constant(np.array(op.number("extrapolation_value", 0.0)).astype(to_numpy(sums)))
    physical = [x.shape[d] for d in order]
    position = order.index(a)
    outer, inner = prod(physical[:position]), prod(physical[position + 1 :])
    count = places.shape[1]
    narrow = 0 < inner < low.machine.lanes(sums) and sums == "f32" and not filled
    if narrow and _lookup(
        low, x, result, (axis.size * inner, outer), spread(places, weights, inner)
    ):
        return result
    table = low.constant(np.where(places < 0, -1, places * inner).astype(np.int64))
    weight = low.constant(weights.astype(to_numpy(sums)))
    spec = ResizePass(
        x.dtype,
        result.dtype,
        sums,
        count if count <= MOST_TAPS else 0,
        low.machine.lanes(sums) <= inner,
        filled,
    )
    words: list[Tensor | int] = [
        x, table, weight, fill, result, count, axis.result, inner, axis.size * inner,
    ]  # fmt: skip
    items = outer * axis.result if inner else 0
    low.call(spec, words, items, grain_of(inner * count * 4), flops=2 * items * inner * count)
    return result


def _lookup(
    low: Lowering, x: Tensor, result: Tensor, sizes: tuple[int, int], tables: tuple[Array, Array]
) -> bool:
    """Rows (`sizes`: of x, and how many) in vectors, where the machine permutes them by numbers
    and neighbours lie close."""
    size, rows = sizes
    count, taps_ = tables[0].shape
    lanes = low.machine.lanes("f32")
    permutes = {16: "avx512f", 8: "avx2"}.get(lanes)
    if permutes is None or not low.machine.has(permutes) or taps_ > MOST_TAPS:
        return False
    found = blocks(*tables, size, lanes)
    if found is None:
        return False
    constants = [low.constant(table) for table in found]
    words: list[Tensor | int] = [x, *constants, result, len(found[0]), count, size]
    spec = ResizeLookup(x.dtype, result.dtype, taps_, lanes)
    work = count * taps_
    low.call(spec, words, rows, grain_of(work * 4), flops=2 * rows * work)
    return True
