"""Other shapes: sizes 0 and 1, names for sizes, other ranks, operands that are broadcast."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import partial

import numpy as np

from rewrite.audit.feeds import Array
from rewrite.audit.instances.draft import (
    MOST_ELEMENTS,
    Draft,
    array_of,
    dims_of,
    value_info,
)
from rewrite.audit.instances.hints import Hints
from rewrite.audit.instances.registry import Change, variation

SIZES = (0, 1, 2, 3, 5)
_LARGE = 4096  # constants above this many elements keep their shape


@variation("dim everywhere")
def everywhere(draft: Draft, _: Hints) -> Iterator[Change]:
    """One size becomes another wherever it stands, in constants that hold sizes too."""
    for old in _sizes(draft):
        for new in SIZES:
            if new != old:
                yield Change(f"size {old} to {new}", partial(resize, old=old, new=new))


@variation("dim of one")
def of_one(draft: Draft, _: Hints) -> Iterator[Change]:
    """One size of one input is 1 or 0: it may be broadcast then, or empty."""
    for given in draft.open_inputs():
        for place, size in enumerate(dims_of(given) or ()):
            for new in (1, 0, 2):
                if new != size:
                    label = f"{given.name} has size {new} at {place}"
                    yield Change(label, partial(set_dim, name=given.name, place=place, dim=new))


@variation("names of sizes")
def names(draft: Draft, _: Hints) -> Iterator[Change]:
    """Sizes that nobody knows before the run."""
    yield Change("leading sizes are names", partial(_name, how="leading"))
    yield Change("equal sizes have equal names", partial(_name, how="equal"))
    yield Change("all sizes have other names", partial(_name, how="distinct"))
    yield Change("sizes have no names", partial(_name, how="unknown"))
    for given in draft.open_inputs():
        yield Change(f"{given.name} has no rank", partial(_forget_rank, name=given.name))


@variation("rank")
def ranks(draft: Draft, _: Hints) -> Iterator[Change]:
    """A size more or less in front, of all inputs or of one."""
    given = [v.name for v in draft.open_inputs()]
    for size in (1, 2):
        yield Change(f"size {size} in front", partial(_prepend, names=given, size=size))
    yield Change("one size less in front", partial(_drop_first, names=given))
    for name in given if len(given) > 1 else ():
        yield Change(f"{name} has size 1 in front", partial(_prepend, names=[name], size=1))
        yield Change(f"{name} has size 2 in front", partial(_prepend, names=[name], size=2))
        yield Change(f"{name} has one size less", partial(_drop_first, names=[name]))
    for name in given:
        yield Change(f"{name} is a scalar", partial(reshape, name=name, dims=()))


@variation("shape of a constant")
def constants(draft: Draft, _: Hints) -> Iterator[Change]:
    """A constant with more or fewer sizes: scalars, vectors, sizes of 1, expanded ones."""
    for constant in draft.constants():
        array = array_of(constant)
        if not 0 < array.size <= _LARGE:
            continue
        for label, made in _reshaped(array):
            yield Change(
                f"{constant.name} {label}",
                partial(Draft.set_constant, name=constant.name, array=made),
            )


def _reshaped(array: Array) -> Iterator[tuple[str, Array]]:
    yield "has size 1 in front", array[np.newaxis]
    if array.size == 1:
        for rank in (0, 1, 2, 4):
            if rank != array.ndim:
                yield f"has rank {rank}", array.reshape((1,) * rank)
        for size in (2, 3, 4) if array.dtype != object else ():  # there are no sums of texts
            spread = np.arange(size).astype(array.dtype) + array.reshape(())
            yield f"is a vector of {size}", spread.astype(array.dtype)
        yield "is empty", array.reshape(-1)[:0]
        return
    if array.ndim > 1 and array.shape[0] == 1:
        yield "has one size less", array[0]
    yield "is one of its elements", array.reshape(-1)[0]
    yield "is uniform", np.full_like(array, array.reshape(-1)[0])
    for axis in range(array.ndim):
        if array.shape[axis] > 1:
            yield f"has size 1 at {axis}", np.take(array, [0], axis)


def _sizes(draft: Draft) -> list[int]:
    """Sizes of inputs, then of constants."""
    found: list[int] = []
    for given in draft.open_inputs():
        found += [d for d in dims_of(given) or () if isinstance(d, int)]
    for constant in draft.constants():
        found += list(constant.dims)
    return [size for size in dict.fromkeys(found) if size <= 64]


def resize(draft: Draft, old: int, new: int) -> bool:
    """Every size `old` becomes `new`: of inputs, of constants, inside vectors of integers."""
    for given in draft.graph.input:
        for dim in given.type.tensor_type.shape.dim:
            if dim.HasField("dim_value") and dim.dim_value == old:
                dim.dim_value = new
    for constant in draft.constants():
        array = array_of(constant)
        made = resized(array, old, new)
        if made is None:
            return False
        if array.dtype == np.int64 and array.ndim == 1 and constant.name not in _counts(draft):
            made = np.where(made == old, new, made).astype(array.dtype) if made.size else made
        if made is not array:
            draft.set_constant(constant.name, made)
    return True


def _counts(draft: Draft) -> frozenset[str]:
    """Operands that are axes and not sizes."""
    names = {"Squeeze", "Unsqueeze", "Gather"}
    found = {
        n.input[1]
        for n in draft.nodes
        if len(n.input) > 1 and (n.op_type in names or n.op_type.startswith("Reduce"))
    }
    return frozenset(found)


def resized(array: Array, old: int, new: int) -> Array | None:
    """The array with `new` in place of `old` in its shape, its elements repeated or left out."""
    if old not in array.shape:
        return array
    shape = tuple(new if n == old else n for n in array.shape)
    if math.prod(shape) > MOST_ELEMENTS:
        return None
    for axis, (before, after) in enumerate(zip(array.shape, shape, strict=True)):
        if before != after:
            if before == 0:
                return np.ones(shape, array.dtype)
            array = np.take(array, np.arange(after) % before, axis)
    return array


def set_dim(draft: Draft, name: str, place: int, dim: int) -> None:
    given = draft.input(name)
    assert given is not None
    given.type.tensor_type.shape.dim[place].dim_value = dim


def _name(draft: Draft, how: str) -> None:
    number = 0
    for given in draft.open_inputs():
        for place, dim in enumerate(given.type.tensor_type.shape.dim):
            number += 1
            if how == "leading" and place == 0:
                dim.dim_param = "N"
            elif how == "equal" and dim.HasField("dim_value"):
                dim.dim_param = f"D{dim.dim_value}"
            elif how == "distinct":
                dim.dim_param = f"D{number}"
            elif how == "unknown":
                dim.Clear()


def _forget_rank(draft: Draft, name: str) -> None:
    given = draft.input(name)
    assert given is not None
    given.type.tensor_type.ClearField("shape")


def _prepend(draft: Draft, names: list[str], size: int) -> bool:
    for name in names:
        given = draft.input(name)
        dims = None if given is None else dims_of(given)
        if given is None or dims is None:
            return False
        reshape(draft, name, [size, *dims])
    return True


def _drop_first(draft: Draft, names: list[str]) -> bool:
    for name in names:
        given = draft.input(name)
        dims = None if given is None else dims_of(given)
        if given is None or not dims:
            return False
        reshape(draft, name, dims[1:])
    return True


def reshape(draft: Draft, name: str, dims: Sequence[int | str | None]) -> None:
    """The input has other sizes."""
    given = draft.input(name)
    assert given is not None
    given.CopyFrom(value_info(name, given.type.tensor_type.elem_type, dims))
