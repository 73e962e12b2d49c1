"""Functions that move, join and reduce constants.

In: constants. Out: the same, of a new shape; what only moves elements keeps them as they are
stored. Axes may be negative.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from rewrite.match import budget
from rewrite.match.builtins import lists
from rewrite.match.builtins.registry import Dtype, Ints, Items, Tensors, builtin
from rewrite.match.deferred import MANY, Deferred, Joined, is_native
from rewrite.match.values import Env, Tensor, Unknown, check_size, join_dtypes, working
from rewrite.ops.call import Array
from rewrite.ops.dtypes import to_numpy

MOST_RANK = 64  # numpy's
_CONTRACTED = 8  # multiply-adds in the time that an element takes elsewhere


def _same(x: Tensor, array: Array) -> Tensor:
    return Tensor(np.asarray(array), x.dtype)


@builtin
def tensor(x: Tensor) -> Tensor:
    """A number or a list of numbers as a constant, so that `+` adds its elements."""
    return x


@builtin
def along(v: Tensor, axis: int, rank: int) -> Tensor:
    """A vector laid along one axis of a tensor of that rank: shape [1, ..., n, ..., 1]."""
    if not 0 <= rank <= MOST_RANK:
        raise Unknown(f"there is no constant of rank {rank}")
    if v.size == 1:
        return _same(v, v.elements.reshape((1,) * rank))
    if v.ndim != 1:
        raise Unknown(f"a constant of rank {v.ndim} is not a vector")
    shape = [1] * rank
    shape[lists.axis(axis, rank)] = v.size
    return _same(v, v.elements.reshape(shape))


@builtin
def reshape(v: Tensor, shape: Ints) -> Tensor:
    """The elements in another shape; one size may be -1."""
    return _same(v, v.elements.reshape(shape))


@builtin
def flatten(v: Tensor) -> Tensor:
    """The elements as a vector."""
    return _same(v, v.elements.reshape(-1))


@builtin
def transpose(v: Tensor, perm: Ints | None = None) -> Tensor:
    """Axes in the order of `perm`; without it, reversed."""
    return _same(v, np.transpose(v.elements, perm))


@builtin
def permute(v: Tensor, perm: Ints) -> Tensor:
    """Axes in the order of `perm`."""
    return _same(v, np.transpose(v.elements, perm))


@builtin
def swap_last(v: Tensor) -> Tensor:
    """The last two axes exchanged, as a transposed matrix."""
    return _same(v, np.swapaxes(v.elements, -1, -2))


@builtin
def squeeze(v: Tensor, axes: Ints | None = None) -> Tensor:
    """Without the axes of size 1 named, or without all of them."""
    return _same(v, np.squeeze(v.elements, axes))


@builtin
def unsqueeze(v: Tensor, axes: Ints) -> Tensor:
    """With new axes of size 1 at these places of the result."""
    return _same(v, np.expand_dims(v.elements, axes))


@builtin
def expand(v: Tensor, shape: Ints) -> Tensor:
    """As ONNX's Expand: repeated along axes of size 1, of the constant or of the shape."""
    met = np.broadcast_shapes(v.shape, shape)
    check_size(met)
    return _same(v, np.broadcast_to(v.elements, met))


@builtin
def broadcast_to(v: Tensor, shape: Ints) -> Tensor:
    """Repeated until it has the shape, axes of size 1 that are too many in front dropped."""
    extra = max(0, v.ndim - len(shape))
    if any(n != 1 for n in v.shape[:extra]):
        raise Unknown("the constant has a larger rank than the shape")
    check_size(shape)
    return _same(v, np.broadcast_to(v.elements.reshape(v.shape[extra:]), shape))


@builtin
def repeat(v: Tensor, n: int, axis: int = 0) -> Tensor:
    """Every entry of an axis n times in a row."""
    check_size((v.size, n))
    return _same(v, np.repeat(v.elements, n, axis))


@builtin
def varies_along(v: Tensor, axis: int, rank: int) -> bool:
    """Whether the constant, met with a tensor of that rank, differs along this axis only."""
    if v.ndim > rank:
        return False
    padded = (1,) * (rank - v.ndim) + v.shape
    place = lists.axis(axis, rank)
    return all(n == 1 for i, n in enumerate(padded) if i != place)


@builtin
def per_axis(v: Tensor, axis: int, rank: int) -> Tensor:
    """A constant that differs along this axis only, as a vector."""
    if not varies_along(v, axis, rank):
        raise Unknown("the constant does not lie along one axis")
    return _same(v, v.elements.reshape(-1))


@builtin
def tile(v: Tensor, repeats: Ints) -> Tensor:
    """Repeated so many times along each axis."""
    padded = (1,) * (len(repeats) - v.ndim) + v.shape
    if len(padded) != len(repeats):
        raise Unknown("tile needs one count for each axis")
    if min(repeats, default=0) < 0:
        raise Unknown("tile cannot repeat less than no time")
    # numpy goes axis by axis: a last count of 0 does not spare it the ones before
    check_size(tuple(max(1, n) * max(1, r) for n, r in zip(padded, repeats, strict=True)))
    return _same(v, np.tile(v.elements, repeats))


@builtin
def pad(v: Tensor, pads: Ints, value: float = 0) -> Tensor:
    """Padded as ONNX's Pad does: all starts, then all ends; negative counts crop."""
    rank = v.ndim
    if len(pads) != 2 * rank:
        raise Unknown("pad needs a start and an end for each axis")
    starts, ends = pads[:rank], pads[rank:]
    for n, a, b in zip(v.shape, starts, ends, strict=True):
        if max(0, -a) + max(0, -b) > n:
            raise Unknown(f"an axis of {n} cannot be cropped by {max(0, -a)} and {max(0, -b)}")
    check_size(tuple(n + a + b for n, a, b in zip(v.shape, starts, ends, strict=True)))
    keep = tuple(
        slice(max(0, -a), n - max(0, -b)) for n, a, b in zip(v.shape, starts, ends, strict=True)
    )
    widths = [(max(0, a), max(0, b)) for a, b in zip(starts, ends, strict=True)]
    if type(value) is int and value == 0:  # of any type as it is stored
        return _same(v, np.pad(v.elements[keep], widths))
    array = v.array[keep]
    if isinstance(value, float) and array.dtype.kind == "i":
        array = array.astype(np.float64)
    return _same(v, np.pad(array, widths, constant_values=value))


@builtin
def flip(v: Tensor, axes: Ints) -> Tensor:
    """In reverse order along the axes."""
    return _same(v, np.flip(v.elements, axes))


@builtin
def concat(env: Env, *parts: object, axis: int = 0) -> object:
    """Lists one after the other, or constants along an axis (of one list, its constants)."""
    if len(parts) == 1 and isinstance(parts[0], tuple):
        parts = parts[0]
    lists = [p for p in parts if isinstance(p, tuple)]
    if len(lists) == len(parts):
        check_size((sum(map(len, lists)),))
        return tuple(item for part in lists for item in part)
    tensors = tuple(env.tensor(p) for p in parts)
    _check_joined(tensors)
    return Tensor(_joined(tensors, axis), _joint(tensors))


@builtin
def stack(list_: Tensors, axis: int = 0) -> Tensor:
    """The constants of a list side by side along a new axis."""
    _check_joined(list_)
    return Tensor(np.stack(_alike(list_), axis), _joint(list_))


def _joined(tensors: Tensors, axis: int) -> Array | Joined:
    """Floats of which some are computed, and many floats, are joined where they are stored."""
    shapes = [t.shape for t in tensors]
    first = shapes[0]
    late = any(isinstance(t.late, Deferred) for t in tensors)
    late = late or sum(t.size for t in tensors) >= MANY
    floats = all(isinstance(t.late, Deferred) or is_native(t.late.dtype) for t in tensors)
    if not (late and floats and -len(first) <= axis < len(first)):
        return np.concatenate(_alike(tensors), axis)
    place = axis % len(first)
    around = {(*shape[:place], -1, *shape[place + 1 :]) for shape in shapes}
    if len(around) > 1:  # numpy says what does not fit
        return np.concatenate(_alike(tensors), axis)
    return Joined(tuple(t.late for t in tensors), place)


def _alike(tensors: Tensors) -> list[Array]:
    """The elements as they are stored; in working precision where that differs."""
    first = tensors[0].elements.dtype
    same = all(t.elements.dtype == first for t in tensors)
    return [t.elements if same else t.array for t in tensors]


def _check_joined(tensors: Tensors) -> None:
    check_size((sum(t.size for t in tensors),))


def _joint(tensors: Tensors) -> str | None:
    joint = tensors[0]
    for tensor in tensors[1:]:
        joint = Tensor(joint.late, join_dtypes(joint, tensor))
    return joint.dtype


@builtin
def split(v: Tensor, sizes: Ints, axis: int = 0) -> Items:
    """Cut along an axis into parts of these sizes."""
    if sum(sizes) != v.shape[axis] or min(sizes, default=0) < 0:
        raise Unknown("the sizes do not add up to the axis")
    budget.spend(8 * budget.PER_ITEM * len(sizes))
    cuts = np.cumsum(sizes)[:-1]
    return tuple(_same(v, part) for part in np.split(v.elements, cuts, axis))


@builtin
def slice_(v: Tensor, axis: int, start: int, stop: int, step: int = 1) -> Tensor:
    """The elements from `start` to before `stop` of one axis."""
    keep = [slice(None)] * v.ndim
    keep[axis] = slice(start, stop, step)
    return _same(v, v.elements[tuple(keep)])


@builtin
def gather(v: Tensor, indices: Tensor, axis: int = 0) -> Tensor:
    """The entries of one axis at these indices, as ONNX's Gather."""
    if indices.array.dtype.kind != "i":
        raise Unknown("indices are integers")
    rest = v.size // max(1, v.shape[axis])
    check_size((indices.size, rest))
    return _same(v, np.take(v.elements, indices.array, axis))


@builtin
def take(env: Env, data: object, indices: Tensor) -> object:
    """The entries of the first axis at these indices; of a list, its items."""
    if not isinstance(data, tuple):
        return gather(env.tensor(data), indices)
    if indices.ndim == 0:
        return data[int(indices.array)]
    if indices.ndim > 1:
        return gather(env.tensor(data), indices)
    return tuple(data[i] for i in indices.array.tolist())


@builtin
def cumsum(v: Tensor, axis: int) -> Tensor:
    """Running sums along an axis."""
    _check_sum(v)
    return _same(v, np.cumsum(v.array, axis))


@builtin
def matmul(a: Tensor, b: Tensor) -> Tensor:
    """The matrix product, as ONNX's MatMul."""
    if a.ndim == 0 or b.ndim == 0:
        raise Unknown("matmul takes no constant of rank 0")
    batch = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    shape = (*batch, *a.shape[-2:-1], *b.shape[-1:])
    check_size(shape)
    budget.spend(math.prod(shape) * a.shape[-1] // _CONTRACTED)
    return Tensor(_product(np.matmul, a, b), join_dtypes(a, b))


def _product(function: Callable[[Array, Array], Array], a: Tensor, b: Tensor) -> Array:
    """A sum of products; of integers exact, or not at all."""
    if "O" in (a.array.dtype.kind, b.array.dtype.kind):
        raise Unknown("a string is not a number")
    if a.array.dtype.kind not in "bi" or b.array.dtype.kind not in "bi":
        return np.asarray(function(a.array, b.array))
    wide = a.array.astype(np.float64), b.array.astype(np.float64)
    most = np.max(function(np.abs(wide[0]), np.abs(wide[1])), initial=0.0)
    if most < 2.0**53:  # every partial sum is a float64, and float64 is faster
        return np.asarray(function(*wide)).astype(np.int64)
    if most >= 2.0**62:
        raise Unknown("a number is out of the range of int64")
    return np.asarray(function(a.array.astype(np.int64), b.array.astype(np.int64)))


def _check_sum(x: Tensor) -> None:
    """Sums of integers stay within int64."""
    if x.array.dtype.kind == "i" and np.sum(np.abs(x.array.astype(np.float64))) >= 2.0**62:
        raise Unknown("a number is out of the range of int64")


@builtin
def dot(a: Tensor, b: Tensor) -> Tensor:
    """The inner product of two vectors."""
    if a.ndim != 1 or b.ndim != 1:
        raise Unknown("dot takes two vectors")
    return Tensor(_product(np.dot, a, b), join_dtypes(a, b))


@builtin
def outer(a: Tensor, b: Tensor) -> Tensor:
    """The matrix of products of the elements of two vectors."""
    check_size((a.size, b.size))
    return Tensor(_product(np.outer, a, b), join_dtypes(a, b))


@builtin
def diag(v: Tensor) -> Tensor:
    """The diagonal of a matrix, or the matrix with this diagonal."""
    if v.ndim == 1:
        check_size((v.size, v.size))
    return _same(v, np.diag(v.elements))


@builtin
def norm(v: Tensor) -> Tensor:
    """The square root of the sum of squares."""
    return _same(v, np.sqrt(np.sum(np.square(v.reals()))))


@builtin
def sum_(x: Tensor, axis: Ints | None = None, keep: bool = False) -> Tensor:
    """The sum of all elements, or along the axes; the sum of a list of numbers."""
    _check_sum(x)
    return _same(x, np.sum(x.array, axis, keepdims=keep))


@builtin
def prod(x: Tensor, axis: Ints | None = None, keep: bool = False) -> Tensor:
    """The product of all elements, or along the axes; the product of a list of numbers."""
    exact = np.prod(x.reals(), axis, keepdims=keep)
    if x.array.dtype.kind == "f":
        return _same(x, exact)
    if np.abs(exact).max(initial=0) > 2.0**62:
        raise Unknown("a number is out of the range of int64")
    return _same(x, np.prod(x.array, axis, keepdims=keep))


@builtin
def mean(x: Tensor, axis: Ints | None = None, keep: bool = False) -> Tensor:
    """The mean of all elements, or along the axes."""
    if x.size == 0:
        raise Unknown("nothing has no mean")
    return _same(x, np.mean(x.array, axis, keepdims=keep))


@builtin
def reduce_min(x: Tensor, axis: Ints | None = None, keep: bool = False) -> Tensor:
    """The least element, or along the axes."""
    return _same(x, np.min(x.array, axis, keepdims=keep))


@builtin
def reduce_max(x: Tensor, axis: Ints | None = None, keep: bool = False) -> Tensor:
    """The largest element, or along the axes."""
    return _same(x, np.max(x.array, axis, keepdims=keep))


@builtin
def argmax(x: Tensor) -> int:
    """The place of the largest element of a vector, the first of several."""
    return int(np.argmax(x.array))


@builtin
def full(shape: Ints, value: Tensor) -> Tensor:
    """A constant of this shape, every element the value."""
    check_size(shape)
    if value.size != 1:
        raise Unknown("full takes one number")
    return _same(value, np.full(shape, value.array.reshape(())))


@builtin
def zeros(shape: Ints, dtype: Dtype | None = None) -> Tensor:
    """Zeros of this shape."""
    check_size(shape)
    return Tensor(_zeros(shape, dtype), dtype)


@builtin
def ones(shape: Ints, dtype: Dtype | None = None) -> Tensor:
    """Ones of this shape."""
    check_size(shape)
    return Tensor(_zeros(shape, dtype) + _zeros((), dtype).dtype.type(1), dtype)


@builtin
def eye(n: int, dtype: Dtype | None = None) -> Tensor:
    """The identity matrix."""
    check_size((n, n))
    return Tensor(np.eye(n, dtype=_zeros((), dtype).dtype), dtype)


def _zeros(shape: Ints, dtype: str | None) -> Array:
    return working(np.zeros(shape, to_numpy(dtype or "s64"))).array


@builtin
def arange(start: int, stop: int, step: int = 1) -> Tensor:
    """The integers from `start` to before `stop` as a vector."""
    check_size((max(0, math.ceil((stop - start) / step)),))
    return Tensor(np.arange(start, stop, step, dtype=np.int64), None)
