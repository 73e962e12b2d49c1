"""Other element types and shapes than those that rewrite/audit/instances tries.

In: a `Draft`. Out: `Change`s: an element type that no rule of the family names, a constant of a
lower rank, a column or nothing, inputs of higher ranks.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np

from rewrite.audit.instances.draft import Draft, array_of, cast, dims_of, dtype_of
from rewrite.audit.instances.registry import Change
from rewrite.audit.instances.variations.shapes import reshape
from rewrite.schema import DTYPES

_MOST_ELEMENTS = 4096


def any_dtype(draft: Draft) -> Iterator[Change]:
    """One element type becomes another one wherever it stands, whatever the rule names."""
    present = [dtype_of(v) for v in (*draft.graph.input, *draft.constants())]
    for old in dict.fromkeys(t for t in present if t in _EXCHANGED):
        for new in _EXCHANGED:
            if new != old:
                yield Change(f"{old} to {new}", partial(_exchange_dtype, old=old, new=new))


_EXCHANGED = ("f32", "s32", "s64", "f16", "f64", "u8", "s8", "u16", "s16", "u32", "u64", "bool")


def _exchange_dtype(draft: Draft, old: str, new: str) -> None:
    for constant in draft.constants():
        if dtype_of(constant) == old:
            draft.set_constant(constant.name, cast(array_of(constant), new))
    for given in draft.graph.input:
        if dtype_of(given) == old:
            given.type.tensor_type.elem_type = DTYPES[new]


def slices(draft: Draft) -> Iterator[Change]:
    """A constant without one of its axes."""
    for constant in draft.constants():
        array = array_of(constant)
        for axis in range(array.ndim if 0 < array.size <= _MOST_ELEMENTS else 0):
            label = f"{constant.name} without axis {axis}"
            part = np.take(array, 0, axis)
            yield Change(label, partial(Draft.set_constant, name=constant.name, array=part))
        for size in (2, 3, 4) if array.size == 1 else ():
            column = cast(np.arange(size).reshape(size, 1) + 1, str(dtype_of(constant)))
            label = f"{constant.name} is a column of {size}"
            yield Change(label, partial(Draft.set_constant, name=constant.name, array=column))
        if array.ndim == 1 and array.size:
            label = f"{constant.name} is empty"
            yield Change(label, partial(Draft.set_constant, name=constant.name, array=array[:0]))
        if array.ndim == 1 and array.size > 1:
            label = f"{constant.name} is a column"
            made = array.reshape(-1, 1)
            yield Change(label, partial(Draft.set_constant, name=constant.name, array=made))


def ranks(draft: Draft) -> Iterator[Change]:
    """Several sizes more in front, of all inputs or of one."""
    names = [v.name for v in draft.open_inputs()]
    for count in (2, 3):
        for some in [names, *([name] for name in names if len(names) > 1)]:
            label = f"{count} sizes in front of {' and '.join(some)}"
            yield Change(label, partial(_deepen, names=some, count=count))


def _deepen(draft: Draft, names: list[str], count: int) -> bool:
    for name in names:
        given = draft.input(name)
        dims = None if given is None else dims_of(given)
        if given is None or dims is None:
            return False
        reshape(draft, name, [*range(1, count + 1), *dims])
    return True
