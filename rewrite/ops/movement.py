"""Operators that move elements without computing on them: shape changes, concatenation, slices.

In: `Call` or `Evaluation`. Out: types or arrays; every value is exact.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from rewrite.ops import dims
from rewrite.ops.call import Arrays, Call, Evaluation, Types
from rewrite.ops.registry import op, value
from rewrite.ops.scalar import infer_first
from rewrite.schema import Dim, Shape, Type

# Exporters write "to the end" as a number at least this large.
TO_THE_END = 2**31 - 1


@op("Identity", kind="movement", pointwise=True, shape_class="first")
def identity(call: Call) -> Types:
    """x"""
    return infer_first(call)


@value("Identity")
def identity_value(e: Evaluation) -> Arrays:
    return (e.array(0),)


# --- shape ------------------------------------------------------------------------------------


@op("Reshape", kind="movement")
def reshape(call: Call) -> Types:
    """The same elements in another shape: 0 keeps a size, -1 takes what is left"""
    x = call.type(0)
    target = call.sizes_of(1)
    if target is None:
        rank = call.length_of(1)
        return (Type(x.dtype, None if rank is None else call.unknown(rank)),)
    return (Type(x.dtype, _reshaped(call, x.shape, target)),)


def _reshaped(call: Call, shape: Shape | None, target: Sequence[Dim]) -> Shape:
    result: list[Dim] = []
    free: int | None = None
    keep_zero = call.integer("allowzero", 0) != 0
    for i, size in enumerate(target):
        if size == -1:
            if free is not None:
                call.fail("a reshape has two sizes of -1")
            free = i
            result.append(1)
        elif isinstance(size, int) and size < 0:
            call.fail(f"a reshape to the size {size}")
        elif size == 0 and not keep_zero:
            if shape is not None and i >= len(shape):
                call.fail(f"a reshape keeps dimension {i} of a tensor of rank {len(shape)}")
            result.append(call.fresh() if shape is None else shape[i])
        else:
            result.append(size)
    if free is None:
        _check_count(call, shape, result)
        return tuple(result)
    others = result[:free] + result[free + 1 :]
    if shape is None or 0 in others:
        result[free] = call.fresh()
    else:
        result[free] = dims.quotient(shape, others)
    return tuple(result)


def _check_count(call: Call, shape: Shape | None, result: Sequence[Dim]) -> None:
    if shape is None:
        return
    before, after = dims.product(shape), dims.product(result)
    if isinstance(before, int) and isinstance(after, int) and before != after:
        call.fail(f"a reshape of {before} elements to {after}")


@value("Reshape")
def reshape_value(e: Evaluation) -> Arrays | None:
    x, target = e.array(0), list(e.integers_of(1) or ())
    if not e.integer("allowzero", 0):
        if any(size == 0 and i >= x.ndim for i, size in enumerate(target)):
            return None
        target = [x.shape[i] if size == 0 else size for i, size in enumerate(target)]
    if -1 in target and 0 in target:
        return None
    return (x.reshape(target),)


@op("Flatten", kind="movement")
def flatten(call: Call) -> Types:
    """Two dimensions: the product of the sizes before the axis, and that of the others"""
    x = call.type(0)
    if x.shape is None:
        return (Type(x.dtype, call.unknown(2)),)
    axis = call.integer("axis", 1)
    rank = len(x.shape)
    if not -rank <= axis <= rank:
        call.fail(f"axis {axis} is outside a tensor of rank {rank}")
    axis = axis + rank if axis < 0 else axis
    return (Type(x.dtype, (dims.product(x.shape[:axis]), dims.product(x.shape[axis:]))),)


@value("Flatten")
def flatten_value(e: Evaluation) -> Arrays:
    x, axis = e.array(0), e.integer("axis", 1)
    axis = axis + x.ndim if axis < 0 else axis
    rows = int(np.prod(x.shape[:axis], dtype=np.int64))
    columns = int(np.prod(x.shape[axis:], dtype=np.int64))
    return (x.reshape(rows, columns),)


@op("Squeeze", kind="movement")
def squeeze(call: Call) -> Types:
    """Dimensions of size 1 removed"""
    x = call.type(0)
    if x.shape is None:
        return (Type(x.dtype, None),)
    if not call.has(1):
        if any(isinstance(size, str) for size in x.shape):
            return (Type(x.dtype, None),)
        return (Type(x.dtype, tuple(size for size in x.shape if size != 1)),)
    axes = call.integers_of(1)
    if not axes:  # unknown, or empty: runtimes disagree on what an empty list means
        return (Type(x.dtype, None),)
    gone = set(call.axes(axes, len(x.shape)))
    for axis in gone:
        dims.same_dim(x.shape[axis], 1)
    return (Type(x.dtype, tuple(size for i, size in enumerate(x.shape) if i not in gone)),)


@value("Squeeze")
def squeeze_value(e: Evaluation) -> Arrays | None:
    x, axes = e.array(0), e.integers_of(1)
    if axes is None:
        return (np.squeeze(x),)
    return (np.squeeze(x, tuple(axes)),) if axes else None


@op("Unsqueeze", kind="movement")
def unsqueeze(call: Call) -> Types:
    """Dimensions of size 1 inserted at places counted in the result"""
    x = call.type(0)
    axes = call.integers_of(1)
    if x.shape is None:
        return (Type(x.dtype, None),)
    if axes is None:
        added = call.length_of(1)
        return (Type(x.dtype, None if added is None else call.unknown(len(x.shape) + added)),)
    rank = len(x.shape) + len(axes)
    places = call.axes(axes, rank)
    if len(set(places)) != len(places):
        call.fail(f"the axes {axes} name one dimension twice")
    rest = iter(x.shape)
    return (Type(x.dtype, tuple(1 if i in places else next(rest) for i in range(rank))),)


@value("Unsqueeze")
def unsqueeze_value(e: Evaluation) -> Arrays:
    x, axes = e.array(0), e.integers_of(1) or ()
    return (np.expand_dims(x, tuple(axes)) if axes else x,)


@op("Transpose", kind="movement")
def transpose(call: Call) -> Types:
    """Dimensions in another order; reversed by default"""
    x = call.type(0)
    perm = call.integers("perm")
    if x.shape is None:
        return (Type(x.dtype, None if not perm else call.unknown(len(perm))),)
    if perm is None:
        return (Type(x.dtype, x.shape[::-1]),)
    if sorted(perm) != list(range(len(x.shape))):
        call.fail(f"perm {list(perm)} does not permute {len(x.shape)} dimensions")
    return (Type(x.dtype, tuple(x.shape[i] for i in perm)),)


@value("Transpose")
def transpose_value(e: Evaluation) -> Arrays:
    return (np.asarray(np.transpose(e.array(0), e.integers("perm")), order="C"),)


# --- joining and cutting ----------------------------------------------------------------------


@op("Concat", kind="movement")
def concat(call: Call) -> Types:
    """The operands one after another along an axis"""
    dtype = call.dtype_of(*range(len(call.inputs)))
    shapes = [operand.shape for operand in call.inputs if operand is not None]
    return (Type(dtype, joined(call, shapes, call.integer("axis", 1))),)


def joined(call: Call, shapes: Sequence[Shape | None], axis: int) -> Shape | None:
    """The shape of tensors one after another along an axis; they agree in the other sizes."""
    known = [shape for shape in shapes if shape is not None]
    if not known:
        return None
    rank = len(known[0])
    axis = call.axis(axis, rank)
    result = list(known[0])
    for shape in known[1:]:
        if len(shape) != rank:
            call.fail(f"a concatenation of tensors of rank {rank} and {len(shape)}")
        for i, size in enumerate(shape):
            if i != axis:
                result[i] = dims.same_dim(result[i], size)
    complete = len(known) == len(shapes)
    result[axis] = dims.total(shape[axis] for shape in known) if complete else call.fresh()
    return tuple(result)


@value("Concat")
def concat_value(e: Evaluation) -> Arrays:
    arrays = [x for x in e.inputs if x is not None]
    return (np.concatenate(arrays, e.integer("axis", 1)),)


@op("Split", kind="movement")
def split(call: Call) -> Types:
    """Consecutive parts along an axis"""
    x = call.type(0)
    if x.shape is None:
        return (Type(x.dtype, None),) * call.n_outputs
    axis = call.axis(call.integer("axis", 0), len(x.shape))
    sizes = _parts(call, x.shape[axis])
    return tuple(Type(x.dtype, (*x.shape[:axis], s, *x.shape[axis + 1 :])) for s in sizes)


def _parts(call: Call, size: Dim) -> list[Dim]:
    count = call.n_outputs
    if call.has(1):
        given = call.sizes_of(1)
        if given is None:
            return [call.fresh() for _ in range(count)]
        if len(given) != count:
            call.fail(f"a split into {len(given)} parts has {count} outputs")
        dims.same_dim(size, dims.total(given))
        return list(given)
    if call.opset < 18 or call.integer("num_outputs", 0) == 0:
        return [dims.quotient([size], [count])] * count
    part = dims.ceildiv(size, count)
    last = dims.sub(size, dims.mul(part, count - 1))
    if isinstance(last, int) and last < 0:
        return [call.fresh() for _ in range(count)]
    return [part] * (count - 1) + [last]


@value("Split")
def split_value(e: Evaluation) -> Arrays | None:
    x, axis, sizes = e.array(0), e.integer("axis", 0), e.integers_of(1)
    size, count = x.shape[axis], e.n_outputs
    if sizes is None:
        if size % count and not e.integer("num_outputs", 0):
            return None
        part = -(-size // count)
        sizes = (*(part,) * (count - 1), size - part * (count - 1))
    if min(sizes) < 0 or sum(sizes) != size:
        return None
    return tuple(np.split(x, np.cumsum(sizes)[:-1].tolist(), axis))


@op("Slice", kind="movement")
def slice_(call: Call) -> Types:
    """A range with a step along each of some axes"""
    x = call.type(0)
    if x.shape is None:
        return (Type(x.dtype, None),)
    starts, ends = call.sizes_of(1), call.sizes_of(2)
    axes = call.integers_of(3)
    if not call.has(3):
        count = len(starts) if starts is not None else call.length_of(1)
        axes = None if count is None else tuple(range(count))
    if axes is None:
        return (Type(x.dtype, call.unknown(len(x.shape))),)
    steps = call.integers_of(4) if call.has(4) else (1,) * len(axes)
    result = list(x.shape)
    for i, axis in enumerate(call.axes(axes, len(x.shape))):
        if starts is None or ends is None or steps is None:
            result[axis] = call.fresh()
        else:
            size = sliced(result[axis], starts[i], ends[i], steps[i])
            result[axis] = call.fresh() if size is None else size
    return (Type(x.dtype, tuple(result)),)


def sliced(size: Dim, start: Dim, end: Dim, step: int) -> Dim | None:
    """The number of elements that a slice takes of `size`; None where that is not known."""
    if step == 0:
        raise dims.SizeError("a slice with step 0")
    if isinstance(size, int) and isinstance(start, int) and isinstance(end, int):
        first, last = slice_bounds(size, start, end, step)
        return max(0, -((first - last) // step))
    if step < 0:
        whole = start in (-1, TO_THE_END) and isinstance(end, int) and end <= -TO_THE_END
        return size if whole and step == -1 else None
    low, high = _from(size, start), _to(size, end)
    if low is None or high is None:
        return None
    if low == 0:
        return dims.ceildiv(high, step)
    if high == size and isinstance(start, int) and start >= 0:
        return dims.ceildiv(dims.larger(0, dims.sub(size, start)), step)
    return dims.ceildiv(dims.larger(0, dims.sub(high, low)), step)


def slice_bounds(size: int, start: int, end: int, step: int) -> tuple[int, int]:
    """Start and end clamped as the Slice operator says (not quite Python's way for step < 0)."""
    start = start + size if start < 0 else start
    end = end + size if end < 0 else end
    if step > 0:
        return min(max(start, 0), size), min(max(end, 0), size)
    return min(max(start, 0), size - 1), min(max(end, -1), size - 1)


def _from(size: Dim, start: Dim) -> Dim | None:
    if isinstance(start, int) and start < 0:
        return dims.larger(0, dims.add(size, start))
    if not dims.is_nonnegative(start):
        return None
    return 0 if start == 0 else dims.smaller(size, start)


def _to(size: Dim, end: Dim) -> Dim | None:
    if isinstance(end, int):
        if end >= TO_THE_END:
            return size
        if end < 0:
            return dims.larger(0, dims.add(size, end))
    if not dims.is_nonnegative(end):
        return None
    return dims.smaller(size, end)


@value("Slice")
def slice_value(e: Evaluation) -> Arrays:
    x = e.array(0)
    starts, ends = e.integers_of(1) or (), e.integers_of(2) or ()
    axes = e.integers_of(3) or tuple(range(len(starts)))
    steps = e.integers_of(4) or (1,) * len(starts)
    index: list[slice] = [slice(None)] * x.ndim
    for axis, start, end, step in zip(axes, starts, ends, steps, strict=True):
        first, last = slice_bounds(x.shape[axis], start, end, step)
        index[axis] = slice(first, None if last < 0 else last, step)
        if step < 0 and last >= first:
            index[axis] = slice(0, 0)
    return (np.asarray(x[tuple(index)], order="C"),)
