"""Operators along one axis: CumSum, CumProd, ArgMax, ArgMin, Hardmax.

Their kernels see x[outer, n, inner] without gaps. Which dimensions are outer and inner follows from
the order in memory, so that channels-last tensors are not moved.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from rewrite.plan.lowering import Instance, Lowering, Tensor, lowers, refuses
from rewrite.plan.specs.reduce import ArgExtreme
from rewrite.plan.specs.scan import RunningTotal

_GROUP = 64  # neighbours along inner per work item
_GRAIN = 16_384  # elements that are worth handing to a thread
_SUMMED = frozenset({"f16", "bf16", "f32", "f64", "s32", "s64", "u32", "u64"})
_ORDERED = _SUMMED | {"s8", "u8", "s16", "u16", "bool"}
MOST = 1 << 31  # places are kept in 32 bits


@dataclass(frozen=True, slots=True)
class Axis:
    """A tensor without gaps as [outer, n, inner]."""

    tensor: Tensor
    order: tuple[int, ...]
    outer: int
    n: int
    inner: int

    @property
    def items(self) -> int:
        return self.outer if self.inner == 1 else self.outer * -(-self.inner // _GROUP)

    @property
    def grain(self) -> int:
        width = 1 if self.inner == 1 else min(self.inner, _GROUP)
        return max(1, _GRAIN // max(1, self.n * width))


def along(low: Lowering, tensor: Tensor, axis: int) -> Axis:
    """The tensor as it lies, or in row-major order if it has gaps."""
    if not tensor.view.dense:
        tensor = low.ordered(tensor, range(tensor.view.rank))
    order = _order(tensor)
    at = order.index(axis)
    sizes = [tensor.shape[a] for a in order]
    return Axis(tensor, order, prod(sizes[:at]), sizes[at], prod(sizes[at + 1 :]))


def _order(tensor: Tensor) -> tuple[int, ...]:
    if tensor.view.contiguous:
        return tuple(range(tensor.view.rank))
    return tuple(tensor.view.order)


def without(order: Sequence[int], axis: int) -> tuple[int, ...]:
    """The order of the dimensions that are left when one is dropped."""
    return tuple(a - (a > axis) for a in order if a != axis)


# --- CumSum, CumProd ---------------------------------------------------------------------------


@refuses("CumSum", "CumProd")
def running_refusal(op: Instance) -> str | None:
    if op.dtype() not in _SUMMED:
        return f"{op.name} is not computed in {op.dtype()}"
    return None if op.shape(0) else f"{op.name} of a scalar"


@lowers("CumSum", "CumProd", needs=(1,))
def running(low: Lowering, op: Instance) -> None:
    axis = (op.integers_at(1) or (0,))[0] % len(op.shape(0))
    x = along(low, low.view(0), axis)
    spec = RunningTotal(
        dtype=op.dtype(),
        combine="add" if op.name == "CumSum" else "mul",
        exclusive=op.integer("exclusive", 0) != 0,
        reverse=op.integer("reverse", 0) != 0,
        inner_one=x.inner == 1,
    )
    words: list[Tensor | int]
    words = [x.tensor, low.output(0, x.order), x.n, x.inner, _GROUP]
    flops = x.tensor.view.size
    low.call(spec, words, x.items, x.grain, flops=flops, overwrites=frozenset({1}))


# --- ArgMax, ArgMin, Hardmax -------------------------------------------------------------------


@refuses("ArgMax", "ArgMin")
def arg_refusal(op: Instance) -> str | None:
    shape = op.shape(0)
    if op.dtype() not in _ORDERED:
        return f"{op.name} is not computed in {op.dtype()}"
    if not shape:
        return f"{op.name} of a scalar"
    n = shape[op.integer("axis", 0)]
    if n == 0 and 0 not in op.out_shape():
        return f"{op.name} of no element"
    return None if n < MOST else f"{op.name} of too many elements"


@lowers("ArgMax", "ArgMin")
def arg_extreme(low: Lowering, op: Instance) -> None:
    rank = len(op.shape(0))
    axis = op.integer("axis", 0) % rank
    x = along(low, low.view(0), axis)
    kept = op.integer("keepdims", 1) != 0
    target = low.output(0, x.order if kept else without(x.order, axis))
    spec = ArgExtreme(
        dtype=op.dtype(),
        largest=op.name == "ArgMax",
        last=op.integer("select_last_index", 0) != 0,
        inner_one=x.inner == 1,
    )
    low.call(spec, [x.tensor, target, x.n, x.inner, _GROUP], x.items, x.grain)


@refuses("Hardmax")
def hardmax_refusal(op: Instance) -> str | None:
    if op.dtype() not in _ORDERED:
        return f"Hardmax is not computed in {op.dtype()}"
    return None if op.shape(0) else "Hardmax of a scalar"


@lowers("Hardmax")
def hardmax(low: Lowering, op: Instance) -> None:
    """1 at the first largest element; before opset 13 all dimensions from the axis on are one."""
    shape, rank = op.shape(0), len(op.shape(0))
    if op.opset >= 13:
        x = along(low, low.view(0), op.integer("axis", -1) % rank)
    else:
        axis = op.integer("axis", 1)
        axis = axis + rank if axis < 0 else axis
        order = tuple(range(rank))
        x = Axis(low.rows(0), order, prod(shape[:axis]), prod(shape[axis:]), 1)
    target = low.output(0, x.order)
    spec = ArgExtreme(op.dtype(), True, False, x.inner == 1, hot=op.out_dtype())
    if x.n:
        low.call(spec, [x.tensor, target, x.n, x.inner, _GROUP], x.items, x.grain)
