"""TopK."""

from __future__ import annotations

from rewrite.plan.lower.scan import MOST, along
from rewrite.plan.lowering import Instance, Lowering, Tensor, lowers, refuses
from rewrite.plan.specs.sort import TopK, scratch_bytes

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
    """In order even where no order is asked for."""
    x = along(low, low.view(0), op.integer("axis", -1) % len(op.shape(0)))
    k = op.out_shape(0)[op.integer("axis", -1)]
    spec = TopK(op.dtype(), op.integer("largest", 1) != 0, x.inner == 1)
    words: list[Tensor | int]
    words = [x.tensor, low.output(0, x.order), low.output(1, x.order), x.n, x.inner, k]
    rows = x.outer * x.inner
    low.call(spec, words, rows, max(1, _GRAIN // max(1, x.n)), scratch_bytes(spec, k))
