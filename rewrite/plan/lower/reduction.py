"""Reductions: one row program each, with the pointwise operators behind it."""

from __future__ import annotations

from rewrite.plan.lowering import Instance, Lowering, lowers, refuses
from rewrite.plan.rows import call_rows, lower_rows, row_operand, rows_of

_REDUCE = (
    "ReduceSum", "ReduceMean", "ReduceProd", "ReduceMax", "ReduceMin", "ReduceL1", "ReduceL2",
    "ReduceSumSquare", "ReduceLogSum", "ReduceLogSumExp",
)  # fmt: skip


def row_refusal(op: Instance) -> str | None:
    """Why the operator is no row program."""
    found = rows_of([op], [v for v in op.results if v is not None])
    return found if isinstance(found, str) else None


def row_program(low: Lowering, op: Instance) -> None:
    """The cluster as one row program."""
    cluster = low.cluster
    places = [k for k, output in enumerate(cluster.outputs) if output.value is not None]
    wanted = [v for k in places if (v := cluster.outputs[k].value) is not None]
    found = rows_of(cluster.members, wanted)
    if isinstance(found, str):
        _in_two(low, op)
    else:
        lower_rows(low, found, places)


def _in_two(low: Lowering, op: Instance) -> None:
    """A tail that the rows cannot take is a kernel of its own."""
    found = rows_of([op], [v for v in op.results[:1] if v is not None])
    epilogue = low.epilogue()
    assert not isinstance(found, str), f"{op.name}: {found}"
    assert epilogue is not None, f"{op.name} has another tail than its own"
    between = low.new(op.out_dtype(), op.out_shape())
    call_rows(low, found, [row_operand(low, taken) for taken in found.operands], [between])
    (tail, operands), target = epilogue, low.output(0)
    low.pointwise(tail.body, [between, *operands], [target])


lowers(*_REDUCE, epilogue=True, needs=(1,))(row_program)
refuses(*_REDUCE)(row_refusal)
lowers("QLinearReduceMean", domain="com.microsoft")(row_program)
refuses("QLinearReduceMean", domain="com.microsoft")(row_refusal)
