"""TopK."""

from __future__ import annotations

from rewrite.plan.lower.scan import MOST
from rewrite.plan.lowering import Instance, Lowering, Tensor, lowers, refuses
from rewrite.plan.specs.sort import TopK, room_for, scratch_bytes

_ORDERED = frozenset(
    {"f16", "bf16", "f32", "f64", "s8", "s16", "s32", "s64", "u8", "u16", "u32", "u64"}
)
_GRAIN = 4096  # elements that are worth handing to a thread


@refuses("TopK")
def top_k_refusal(op: Instance) -> str | None:
    shape = op.shape(0)
    if op.dtype() not in _ORDERED:
        return f"TopK is not computed in {op.dtype()}"
    if not shape:
        return "TopK of a scalar"
    return None if shape[op.integer("axis", -1)] < MOST else "TopK of too many elements"


@lowers("TopK", needs=(1,))
def top_k(low: Lowering, op: Instance) -> None:
    """In order even where no order is asked for. The axis lies innermost, in the results too."""
    axis = op.integer("axis", -1) % len(op.shape(0))
    view = low.view(0).view
    around = view.order if view.dense and not view.contiguous else range(view.rank)
    order = (*(a for a in around if a != axis), axis)
    x = low.ordered(low.view(0), order)
    n, k = op.shape(0)[axis], op.out_shape(0)[axis]
    room = room_for(n, k, low.machine.lanes("s32"))
    spec = TopK(op.dtype(), op.integer("largest", 1) != 0)
    words: list[Tensor | int]
    words = [x, low.output(0, order), low.output(1, order), n, k, room]
    rows = view.size // max(1, n)
    low.call(spec, words, rows, max(1, _GRAIN // max(1, n)), scratch_bytes(spec, room))
