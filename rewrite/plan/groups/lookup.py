"""Groups that are tables: a code is looked up in all the results that there are.

In: the members of a group, [Cast, (Add,) Gather]: the code as an integer, an offset that is one
number or one for each channel, a known table. Out: a cluster for the lookup kernel.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from rewrite.plan.cluster import Cluster, Output
from rewrite.plan.instance import Instance
from rewrite.plan.lower.lookup import look_up
from rewrite.plan.lowering import Lowering
from rewrite.plan.recognize import recognizes

Array = np.ndarray[Any, np.dtype[Any]]


def table_of(members: Sequence[Instance]) -> tuple[Array, int] | str:
    """Entries by the bits of the code, [256] or [channels, 256], and which dimension has the
    channels; or why they are no table."""
    names = [op.name for op in members]
    if names not in (["Cast", "Gather"], ["Cast", "Add", "Gather"]):
        return "not Cast, Add, Gather"
    cast, gather = members[0], members[-1]
    if cast.dtype(0) not in ("u8", "s8") or cast.out_dtype() not in ("s32", "s64"):
        return f"codes of {cast.dtype(0)}"
    entries = gather.known(0) if len(gather.shape(0)) == 1 else None
    if entries is None or gather.integer("axis", 0) not in (0, -1):
        return "a table that is not known"
    if gather.operands[1] != members[-2].results[0]:
        return "the table is looked up by something else"
    offset, axis = np.zeros(1, np.int64), 0
    if len(members) == 3:
        found = _offset(members[1], cast)
        if isinstance(found, str):
            return found
        offset, axis = found
    signed = cast.dtype(0) == "s8"
    codes = np.arange(256, dtype=np.uint8)
    places = (codes.view(np.int8) if signed else codes).astype(np.int64) + offset[:, None]
    if places.min() < -len(entries) or places.max() >= len(entries):
        return "codes that the table does not have"
    made: Array = entries[places]
    return (np.asarray(made[0]) if len(offset) == 1 else made), axis


def _offset(add: Instance, cast: Instance) -> tuple[Array, int] | str:
    """What is added to a code: one number, or one for each index of a dimension."""
    code = cast.results[0]
    if code not in add.operands or add.operands[0] == add.operands[1]:
        return "the sum is not of the code"
    known = add.known(1 if add.operands[0] == code else 0)
    if known is None:
        return "an offset that is not known"
    shape, sizes = known.shape, cast.out_shape()
    if len(shape) > len(sizes):
        return "an offset of higher rank"
    full = (1,) * (len(sizes) - len(shape)) + shape
    along = [axis for axis, n in enumerate(full) if n != 1]
    if len(along) > 1 or any(full[axis] != sizes[axis] for axis in along):
        return "an offset along several dimensions"
    return known.astype(np.int64).reshape(-1), along[0] if along else 0


@recognizes
def lookup(members: Sequence[Instance], wanted: Sequence[Output]) -> Cluster | None:
    found = table_of(members)
    if isinstance(found, str) or [o.value for o in wanted] != [members[-1].results[0]]:
        return None
    entries, axis = found

    def lower(low: Lowering, op: Instance) -> None:
        del op
        look_up(low, low.tensor_of(members[0], 0), entries, axis=axis)

    return Cluster(members[-1], tuple(members), tuple(wanted), lower=lower)
