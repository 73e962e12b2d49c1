"""Sampling at places that are data: GridSample, AffineGrid, RoiAlign, MaxRoiPool.

In: instances. Out: kernels of rewrite/plan/specs/resize.py and window.py; AffineGrid is pointwise.
"""

from __future__ import annotations

from math import prod

import numpy as np

from rewrite.ops.dtypes import to_numpy
from rewrite.plan.lower.indexing import grain_of
from rewrite.plan.lowering import Instance, Lowering, Tensor, lowers, refuses
from rewrite.plan.spec import Body, Step
from rewrite.plan.specs.resize import GridSample, grid_scratch
from rewrite.plan.specs.window import ROI_SCRATCH, MaxRoiPool, RoiAlign

_MODES = {"bilinear": "linear", "bicubic": "cubic"}
_FLOATS = frozenset({"f16", "bf16", "f32", "f64"})


def _sums(dtype: str) -> str:
    return "f64" if dtype == "f64" else "f32"


@lowers("GridSample")
@lowers("GridSample", domain="com.microsoft")
def grid_sample(low: Lowering, op: Instance) -> None:
    x, grid = low.rows(0), low.rows(1)
    spatial = x.shape[2:]
    points = prod(grid.shape[1:-1])
    sums = "f64" if "f64" in (x.dtype, grid.dtype) else "f32"
    spec = GridSample(
        x.dtype,
        grid.dtype,
        sums,
        len(spatial),
        _mode(op),
        op.text("padding_mode", "zeros"),
        op.integer("align_corners", 0) != 0,
    )
    words: list[Tensor | int] = [x, grid, low.output(0), *x.shape[:2], *spatial, points]
    items = x.shape[0] * points if x.shape[1] else 0
    low.call(spec, words, items, grain_of(64 * x.shape[1]), scratch=grid_scratch(spec))


def _mode(op: Instance) -> str:
    mode = op.text("mode", "linear")
    return _MODES.get(mode, mode)


@refuses("GridSample")
@refuses("GridSample", domain="com.microsoft")
def grid_sample_refusal(op: Instance) -> str | None:
    if _mode(op) != "nearest" and op.dtype() not in _FLOATS:
        return f"elements of type {op.dtype()} are not interpolated"
    if op.dtype(1) not in _FLOATS:
        return f"places of type {op.dtype(1)}"
    if prod(op.shape()[2:]) == 0:
        return "there is nothing to take from"
    return None


@lowers("AffineGrid", needs=(1,))
def affine_grid(low: Lowering, op: Instance) -> None:
    """grid[n, …, :] = theta[n] (x, y, …, 1): products of tables along single dimensions."""
    theta = low.view(0)
    shape, dtype = op.out_shape(), op.out_dtype()
    sizes = shape[1:-1]
    rank = len(sizes)
    columns = [
        theta.sliced((0, 0, i), (shape[0], rank, 1)) for i in range(rank + 1)
    ]  # (n, rank, 1) each
    operands: list[Tensor] = []
    steps: list[Step] = []
    for i in range(rank):
        axis = rank - 1 - i  # x runs along the last dimension
        table = _places(sizes[axis], op.integer("align_corners", 0) != 0)
        place = low.constant(table.astype(to_numpy(dtype)).reshape(-1, *(1,) * i, 1))
        operands += [_along(columns[i], shape), place.broadcast(shape)]
    operands.append(_along(columns[rank], shape))
    count = len(operands)
    steps += [Step("", "Mul", (2 * i, 2 * i + 1), dtype, (), op.opset) for i in range(rank)]
    total = count
    for i in range(1, rank + 1):
        term = count + i if i < rank else count - 1
        steps.append(Step("", "Add", (total, term), dtype, (), op.opset))
        total = count + len(steps) - 1
    body = Body((dtype,) * count, tuple(steps), (total,))
    low.pointwise(body, operands, [low.output(0)])


def _along(column: Tensor, shape: tuple[int, ...]) -> Tensor:
    """(n, rank, 1) as (n, 1, …, rank), broadcast."""
    apart = column.reshaped((shape[0], *(1,) * (len(shape) - 2), shape[-1]))
    assert apart is not None, "sizes of 1 can be put anywhere"
    return apart.broadcast(shape)


def _places(size: int, align_corners: bool) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """Places from -1 to 1: of the pixels' corners, or of their centres."""
    index = np.arange(size, dtype=np.float64)
    if align_corners:
        return index * (2 / max(size - 1, 1)) - 1
    return (2 * index + 1) / size - 1


# --- regions -----------------------------------------------------------------------------------


@lowers("RoiAlign")
def roi_align(low: Lowering, op: Instance) -> None:
    x, rois, batches, result = low.rows(0), low.rows(1), low.rows(2), low.output(0)
    old = "output_half_pixel" if op.opset < 16 else "half_pixel"
    spec = RoiAlign(
        x.dtype,
        batches.dtype,
        op.text("mode", "avg") == "max",
        op.text("coordinate_transformation_mode", old) == "half_pixel",
    )
    words: list[Tensor | int] = [
        x, rois, batches, _scale(low, op, x.dtype), result, *x.shape, *result.shape[2:],
        op.integer("sampling_ratio", 0),
    ]  # fmt: skip
    items = rois.shape[0] if prod(result.shape) else 0
    low.call(spec, words, items, scratch=ROI_SCRATCH)


@lowers("MaxRoiPool")
def max_roi_pool(low: Lowering, op: Instance) -> None:
    x, rois, result = low.rows(0), low.rows(1), low.output(0)
    words: list[Tensor | int] = [
        x, rois, _scale(low, op, x.dtype), result, *x.shape, *result.shape[2:],
    ]  # fmt: skip
    low.call(MaxRoiPool(x.dtype), words, rois.shape[0] if prod(result.shape) else 0)


def _scale(low: Lowering, op: Instance, dtype: str) -> Tensor:
    return low.constant(np.array(op.float32("spatial_scale", 1.0), to_numpy(_sums(dtype))))


@refuses("RoiAlign", "MaxRoiPool")
def regions_refusal(op: Instance) -> str | None:
    return "there is nothing to take from" if prod(op.shape()[2:]) == 0 else None
