"""Operators that move elements without computing: views where that is possible, else copies.

In: instances. Out: aliases of what exists, copies into parts of outputs. A view costs nothing; who
wants another order in memory copies for himself.
"""

from __future__ import annotations

from math import prod

import numpy as np

from rewrite.ops.dtypes import to_numpy
from rewrite.plan.lowering import Instance, Lowering, Tensor, lowers, refuses
from rewrite.plan.spec import Body, Constant, Step
from rewrite.plan.view import Sizes, dense

# --- the same elements under another shape -----------------------------------------------------


@lowers("Identity")
def identity(low: Lowering, op: Instance) -> None:
    del op
    low.alias(0, low.view(0))


@lowers("Dropout", needs=(1, 2))
def dropout(low: Lowering, op: Instance) -> None:
    """Nothing is dropped outside of training."""
    low.alias(0, low.view(0))
    if len(op.outputs) > 1:
        dtype = to_numpy(op.out_dtype(1))
        low.alias(1, low.constant(np.ones((), dtype)).broadcast(op.out_shape(1)))


@refuses("Dropout")
def dropout_refusal(op: Instance) -> str | None:
    training, ratio = op.known(2), op.known(1)
    if training is None or not training.any():
        return None
    if ratio is not None and float(ratio.reshape(())) == 0:
        return None
    return "what is dropped is drawn at random"


@lowers("ExpandDims", domain="com.microsoft")
@lowers("Reshape", "Flatten", "Squeeze", "Unsqueeze")
def reshape(low: Lowering, op: Instance) -> None:
    give_reshaped(low, low.view(0), op.out_shape())


def give_reshaped(low: Lowering, source: Tensor, shape: Sizes) -> None:
    """Output 0 is the source in row-major order under another shape: a view where it can be one."""
    view = source.reshaped(shape)
    if view is not None:
        low.alias(0, view)
        return
    low.copy(source, parted(low.output(0), source.shape))


def parted(tensor: Tensor, shape: Sizes) -> Tensor:
    """A dense row-major tensor under another shape."""
    found = tensor.reshaped(shape)
    assert found is not None, f"{tensor.shape} is not {shape} without copying"
    return found


@lowers("Transpose")
def transpose(low: Lowering, op: Instance) -> None:
    x = low.view(0)
    axes = op.integers("perm") or tuple(reversed(range(x.view.rank)))
    low.alias(0, x.permuted(axes))


@lowers("Expand")
def expand(low: Lowering, op: Instance) -> None:
    low.alias(0, low.view(0).broadcast(op.out_shape()))


# --- parts -------------------------------------------------------------------------------------


@lowers("Slice", needs=(1, 2, 3, 4))
def slice_(low: Lowering, op: Instance) -> None:
    """Steps backwards are copied, so that no kernel meets a negative stride but this copy."""
    x = low.view(0)
    starts, steps = _slices(op, x.shape)
    part = x.sliced(starts, op.out_shape(), steps)
    if min(steps, default=1) > 0:
        low.alias(0, part)
    else:
        low.copy(part, low.output(0))


def _slices(op: Instance, shape: Sizes) -> tuple[Sizes, Sizes]:
    """First places and steps of all dimensions."""
    starts, steps = [0] * len(shape), [1] * len(shape)
    begins = op.integers_at(1) or ()
    axes = op.integers_at(3) or tuple(range(len(begins)))
    for begin, axis, step in zip(
        begins, axes, op.integers_at(4) or (1,) * len(begins), strict=True
    ):
        size = shape[axis]
        begin += size if begin < 0 else 0
        starts[axis] = min(max(begin, 0), size if step > 0 else size - 1)
        steps[axis] = step
    return tuple(starts), tuple(steps)


@lowers("Split")
def split(low: Lowering, op: Instance) -> None:
    x = low.view(0)
    axis = op.integer("axis", 0) % x.view.rank
    at = 0
    for k in range(len(op.outputs)):
        shape = op.out_shape(k)
        starts = tuple(at if a == axis else 0 for a in range(x.view.rank))
        low.alias(k, x.sliced(starts, shape))
        at += shape[axis]


@lowers("Concat")
def concat(low: Lowering, op: Instance) -> None:
    """Each piece goes to its slice of the output, which lies as the largest piece does."""
    pieces = [low.view(i) for i in range(len(op.inputs)) if op.has(i)]
    axis = op.integer("axis", 0) % len(op.out_shape())
    largest = max(pieces, key=lambda t: t.view.size)
    target = low.output(0, order_of(largest))
    at = 0
    for piece in pieces:
        starts = tuple(at if a == axis else 0 for a in range(piece.view.rank))
        low.copy(piece, target.sliced(starts, piece.shape))
        at += piece.shape[axis]


def order_of(tensor: Tensor) -> Sizes | None:
    """How the dimensions lie, where that is without gaps; None: nothing to be kept."""
    return tensor.view.order if tensor.view.dense else None


@lowers("CenterCropPad")
def center_crop_pad(low: Lowering, op: Instance) -> None:
    """Cut where it is too large, zeros around where it is too small; the odd one at the end."""
    x, shape = low.view(0), op.out_shape()
    common = tuple(min(n, m) for n, m in zip(x.shape, shape, strict=True))
    cut = tuple((n - c) // 2 for n, c in zip(x.shape, common, strict=True))
    at = tuple((m - c) // 2 for m, c in zip(shape, common, strict=True))
    part = x.sliced(cut, common)
    if common == shape:
        low.alias(0, part)
        return
    target = low.output(0)
    low.fill(target, 0)
    low.copy(part, target.sliced(at, common))


# --- repetition and blocks ---------------------------------------------------------------------


@lowers("Tile")
def tile(low: Lowering, op: Instance) -> None:
    """The output as (repeats, size) in every dimension, of which the input fills the sizes."""
    x, shape = low.view(0), op.out_shape()
    if prod(shape) == 0:
        low.output(0)
        return
    repeats = tuple(m // n for m, n in zip(shape, x.shape, strict=True))
    pairs = tuple(s for r, n in zip(repeats, x.shape, strict=True) for s in (r, n))
    apart = tuple(s for n in x.shape for s in (1, n))
    source = x.reshaped(apart)
    assert source is not None, "sizes of 1 can be put anywhere"
    low.copy(source, parted(low.output(0), pairs))


@lowers("DepthToSpace")
def depth_to_space(low: Lowering, op: Instance) -> None:
    """(N, C, H, W) as blocks: channels (b, b, C/bb), or (C/bb, b, b), go beside the pixels."""
    x = low.view(0)
    b = op.integer("blocksize", 1)
    n, c, h, w = x.shape
    inner = c // (b * b)
    if op.text("mode", "DCR") == "DCR":
        source, axes = x.reshaped((n, b, b, inner, h, w)), (0, 3, 4, 1, 5, 2)
    else:
        source, axes = x.reshaped((n, inner, b, b, h, w)), (0, 1, 4, 2, 5, 3)
    _blocks(low, source, axes, order_of(x))


@lowers("SpaceToDepth")
def space_to_depth(low: Lowering, op: Instance) -> None:
    x = low.view(0)
    b = op.integer("blocksize", 1)
    n, c, h, w = x.shape
    source = x.reshaped((n, c, h // b, b, w // b, b))
    axes = (0, 3, 5, 1, 2, 4) if op.text("mode", "DCR") == "DCR" else (0, 1, 3, 5, 2, 4)
    _blocks(low, source, axes, order_of(x))


def _blocks(low: Lowering, source: Tensor | None, axes: Sizes, order: Sizes | None) -> None:
    """Output 0 is the source with its dimensions in another order, some of them joined."""
    assert source is not None, "a dimension can always be parted"
    moved = source.permuted(axes)
    target = low.output(0, order)
    low.copy(moved, parted(target, moved.shape))


# --- padding -----------------------------------------------------------------------------------


@lowers("Pad", needs=(1, 3))
def pad(low: Lowering, op: Instance) -> None:
    """Negative pads cut first; constants are filled in, other modes copy from inside."""
    x = low.view(0)
    before, after = pads_of(op, x.view.rank)
    starts = tuple(max(-b, 0) for b in before)
    kept = tuple(
        max(n - max(-b, 0) - max(-a, 0), 0) for n, b, a in zip(x.shape, before, after, strict=True)
    )
    inside = x.sliced(starts, kept)
    at = tuple(max(b, 0) for b in before)
    target = low.output(0, order_of(x))
    low.copy(inside, target.sliced(at, kept))
    mode = op.text("mode", "constant")
    if mode == "constant":
        _frame(low, target, at, kept, _pad_value(low, op, x.dtype))
    else:
        _repeat_edges(low, target, at, kept, mode)


def pads_of(op: Instance, rank: int) -> tuple[Sizes, Sizes]:
    """Elements before and behind in every dimension."""
    pads = op.integers_at(1) or ()
    axes = op.integers_at(3) or tuple(range(len(pads) // 2))
    before, after = [0] * rank, [0] * rank
    for i, axis in enumerate(axes):
        before[axis], after[axis] = pads[i], pads[i + len(axes)]
    return tuple(before), tuple(after)


def _pad_value(low: Lowering, op: Instance, dtype: str) -> Tensor:
    if op.has(2):
        value = low.view(2).reshaped(())
        assert value is not None
        return value
    return zero_of(low, dtype)


def zero_of(low: Lowering, dtype: str) -> Tensor:
    """One element of bits 0: zero in every type."""
    width = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64, 16: np.complex128}
    tensor = low.constant(np.zeros((), width[dense(dtype, ()).bytes]))
    return tensor.retyped(dtype)


def _frame(low: Lowering, target: Tensor, at: Sizes, kept: Sizes, value: Tensor) -> None:
    """Everything around the part at `at`: per dimension a slab before and one behind it, within
    the part in the dimensions before."""
    shape = target.shape
    if prod(kept) == 0:
        low.copy(value, target)
        return
    for axis in range(len(shape)):
        low_end, high_end = at[axis], at[axis] + kept[axis]
        for begin, end in ((0, low_end), (high_end, shape[axis])):
            if begin >= end:
                continue
            starts = (*at[:axis], begin, *(0,) * (len(shape) - axis - 1))
            sizes = (*kept[:axis], end - begin, *shape[axis + 1 :])
            low.copy(value, target.sliced(starts, sizes))


def _repeat_edges(low: Lowering, target: Tensor, at: Sizes, kept: Sizes, mode: str) -> None:
    """Dimension by dimension the places outside are copied from those inside."""
    at_now, sizes = list(at), list(kept)
    for axis in range(len(kept)):
        size, before = kept[axis], at[axis]
        behind = target.shape[axis] - before - size
        for begin, end in _runs(size, before, behind, mode):
            source, count, step = begin
            part_at, part_size = list(at_now), list(sizes)
            part_at[axis], part_size[axis] = before + source, count
            steps = tuple(step if a == axis else 1 for a in range(len(kept)))
            given = target.sliced(tuple(part_at), tuple(part_size), steps)
            part_at[axis] = end
            low.copy(given, target.sliced(tuple(part_at), tuple(part_size)))
        at_now[axis], sizes[axis] = 0, target.shape[axis]


Run = tuple[tuple[int, int, int], int]


def _runs(size: int, before: int, behind: int, mode: str) -> list[Run]:
    """Runs of places that are copied: ((first place inside, count, step), place in the target)."""
    places = np.arange(-before, size + behind)
    if mode == "edge":
        inside = np.clip(places, 0, size - 1)
    elif mode == "wrap":
        inside = places % size
    else:
        period = max(2 * (size - 1), 1)
        folded = places % period
        inside = np.where(folded < size, folded, period - folded)
    found: list[Run] = []
    for low, high in ((0, before), (before + size, before + size + behind)):
        found.extend(_split_runs(inside, low, high))
    return found


def _split_runs(
    inside: np.ndarray[tuple[int], np.dtype[np.int64]], low: int, high: int
) -> list[Run]:
    """Stretches of constant step."""
    found: list[Run] = []
    at = low
    while at < high:
        end = at + 1
        step = int(inside[end] - inside[at]) if end < high else 1
        while end < high and int(inside[end] - inside[end - 1]) == step and abs(step) <= 1:
            end += 1
        found.append(((int(inside[at]), end - at, step), at))
        at = end
    return found


@refuses("Pad")
def pad_refusal(op: Instance) -> str | None:
    if op.text("mode", "constant") == "constant" or prod(op.out_shape()) == 0:
        return None
    before, after = pads_of(op, len(op.shape()))
    for n, b, a in zip(op.shape(), before, after, strict=True):
        if n + min(b, 0) + min(a, 0) <= 0 and (b > 0 or a > 0):
            return "there is nothing to repeat"
    return None


# --- triangles, columns of images ---------------------------------------------------------------


@lowers("Trilu", domain="com.microsoft", needs=(1,))
@lowers("Trilu", needs=(1,))
def trilu(low: Lowering, op: Instance) -> None:
    """Elements of places whose column and row compare as wanted, zero elsewhere."""
    x = low.view(0)
    *_, rows, columns = x.shape
    diagonal = min(max((op.integers_at(1) or (0,))[0], -rows), columns)  # further: no difference
    row = low.constant(np.arange(rows)[:, None] + diagonal).broadcast(x.shape)
    column = low.constant(np.arange(columns)).broadcast(x.shape)
    low_high = (1, 2) if op.integer("upper", 1) else (2, 1)
    keeps = Step("", "LessOrEqual", low_high, "bool", (), op.opset)
    kept = Step("", "Where", (3, 0, Constant(x.dtype, 0)), x.dtype, (), op.opset)
    body = Body((x.dtype, "s64", "s64"), (keeps, kept), (4,))
    low.pointwise(body, [x, row, column], [low.output(0)])


@lowers("Col2Im")
def col2im(low: Lowering, op: Instance) -> None:
    """Every place of the kernel adds its image of columns to a strided part of a padded image."""
    x, shape = low.rows(0), op.out_shape()
    image, block = shape[2:], op.integers_at(2) or ()
    rank = len(image)
    pads = op.integers("pads") or (0,) * (2 * rank)
    steps = op.integers("strides") or (1,) * rank
    gaps = op.integers("dilations") or (1,) * rank
    padded = tuple(n + pads[i] + pads[rank + i] for i, n in enumerate(image))
    counts = tuple(
        (n - g * (b - 1) - 1) // s + 1
        for n, g, b, s in zip(padded, gaps, block, steps, strict=True)
    )
    columns = parted(x, (*shape[:2], *block, *counts))
    work = low.new(x.dtype, (*shape[:2], *padded)) if any(pads) else low.output(0)
    low.fill(work, 0)
    add = Body((x.dtype, x.dtype), (Step("", "Add", (0, 1), x.dtype, (), op.opset),), (2,))
    for place in np.ndindex(*block):
        starts = (0, 0, *(p * g for p, g in zip(place, gaps, strict=True)))
        part = work.sliced(starts, (*shape[:2], *counts), (1, 1, *steps))
        one = columns.sliced((0, 0, *place, *(0,) * rank), (*shape[:2], *(1,) * rank, *counts))
        low.pointwise(add, [part, parted(one, part.shape)], [part])
    if any(pads):
        inner = work.sliced((0, 0, *pads[:rank]), shape)
        low.copy(inner, low.output(0))


@refuses("Col2Im")
def col2im_refusal(op: Instance) -> str | None:
    return None if op.is_known(2) else "the shape of its blocks is not known"
