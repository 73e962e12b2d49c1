"""A segment: kernels that run one after the other without anybody looking at data in between.

In: instances in order, the values that are asked for. Out: `Segment`: a `Plan`, the numbers of the
values that go in and come out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from rewrite.errors import error
from rewrite.plan import memory, registry
from rewrite.plan.cluster import Cluster
from rewrite.plan.fusion import clusters
from rewrite.plan.instance import Instance, sizes
from rewrite.plan.known import Known
from rewrite.plan.lowering import Lowering
from rewrite.plan.pointwise_lowering import lower_pointwise
from rewrite.plan.registry import Bound
from rewrite.plan.spec import Call, Place, Plan, Pointwise
from rewrite.plan.tensor import Buffer, Draft, Tensor
from rewrite.plan.view import BYTES, View, dense
from rewrite.plan.weights import Weights


@dataclass(frozen=True, slots=True)
class Trim:
    """An output that is larger than what counts: `count` is the output that says how much."""

    output: int
    count: int
    axis: int


@dataclass(frozen=True)
class Segment:
    """`inputs` and `outputs`: numbers of values, in the order of the plan's."""

    plan: Plan
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]  # -1: a count
    trims: tuple[Trim, ...]


def plan_segment(
    ops: Sequence[Instance],
    known: Mapping[int, Known],
    needed: set[int],
    bounds: Mapping[int, Bound],
    weights: Weights,
    fuse: bool,
    fast_math: bool = False,
) -> Segment:
    """Fuse, lower, place."""
    made = {v: k for op in ops for k, v in enumerate(op.results) if v is not None}
    low = Lowering(weights, fast_math)
    inputs = _inputs(ops, known, made)
    for index, number in enumerate(inputs):
        view = _view(known[number])
        low.define(number, Tensor(Buffer("input", view.bytes, index), view))
    outputs, views, trims = _outputs(low, made, known, needed, bounds)
    for cluster in clusters(ops, needed, fuse):
        with _refusing(cluster.head):
            low.lower(cluster, _lowering(cluster))
    low.finish()
    arena_bytes = memory.place(low.drafts)
    plan = Plan(
        calls=tuple(_call(draft) for draft in low.drafts if not _moves_nothing(draft)),
        arena_bytes=arena_bytes,
        constants=tuple(low.constants),
        inputs=tuple(_view(known[number]) for number in inputs),
        outputs=tuple(views),
    )
    return Segment(plan, tuple(inputs), tuple(outputs), tuple(trims))


@contextmanager
def _refusing(op: Instance) -> Iterator[None]:
    """Lowerings take for granted what an operator asks of its operands. A model need not keep to
    it, and what no check before has seen fails here in some way: an error of that node."""
    try:
        yield
    except (ArithmeticError, AssertionError, LookupError, TypeError, ValueError) as problem:
        raise error(
            "RW802",
            f"{op.name} does not take these operands: {problem or type(problem).__name__}",
            hint="look at the shapes of its operands and at its attributes",
            subject=op.node,
        ) from problem


def _lowering(cluster: Cluster) -> registry.Lower:
    if cluster.lower is not None:
        return cluster.lower
    found = registry.find(cluster.head.key)
    return lower_pointwise if found is None else found.lower


def _view(known: Known) -> View:
    assert known.type is not None
    assert known.type.dtype is not None
    return dense(known.type.dtype, sizes(known.type))


def _inputs(
    ops: Sequence[Instance], known: Mapping[int, Known], made: Mapping[int, int]
) -> list[int]:
    """Values from outside that are not known, in order of their first use."""
    found: dict[int, None] = {}
    for op in ops:
        for index, number in enumerate(op.operands):
            if number is not None and number not in made and not op.is_known(index):
                found[number] = None
    return list(found)


def _outputs(
    low: Lowering,
    made: Mapping[int, int],
    known: Mapping[int, Known],
    needed: set[int],
    bounds: Mapping[int, Bound],
) -> tuple[list[int], list[View], list[Trim]]:
    """The buffers of what is asked for; behind a bounded one comes its count."""
    numbers: list[int] = []
    views: list[View] = []
    trims: list[Trim] = []
    for number in (v for v in made if v in needed or v in bounds):
        view = _view(known[number])
        buffer = Buffer("output", view.bytes, len(numbers))
        numbers.append(number)
        views.append(view)
        count = None
        axis = bounds[number].axis if number in bounds else None
        if axis is not None:
            one = dense("s64", (1,))
            count = Tensor(Buffer("output", 8, len(numbers)), one)
            trims.append(Trim(len(numbers) - 1, len(numbers), axis))
            numbers.append(-1)
            views.append(one)
        low.deliver(number, buffer, count)
    return numbers, views, trims


def _moves_nothing(draft: Draft) -> bool:
    """A copy whose result has taken over the memory of its operand."""
    if not isinstance(draft.spec, Pointwise) or draft.spec.body.steps or len(draft.words) != 2:
        return False
    source, target = draft.words
    return (
        isinstance(source, Tensor)
        and isinstance(target, Tensor)
        and source.buffer.region == target.buffer.region == "arena"
        and memory.root(source.buffer) is memory.root(target.buffer)
        and source.view.strides == target.view.strides
        and source.byte_offset == target.byte_offset
    )


def _call(draft: Draft) -> Call:
    words = tuple(_place(w) if isinstance(w, Tensor) else w for w in draft.words)
    moved = sum(_touched(w.view) * BYTES[w.dtype] for w in draft.words if isinstance(w, Tensor))
    return Call(
        spec=draft.spec,  # type: ignore[arg-type]
        words=words,
        items=draft.items,
        grain=draft.grain,
        scratch=draft.scratch,
        nodes=draft.nodes,
        label=draft.label,
        bytes=moved,
        flops=draft.flops,
    )


def _touched(view: View) -> int:
    """Elements of memory that a view reaches: a repeated dimension counts once."""
    count = 1
    for n, s in zip(view.shape, view.strides, strict=True):
        count *= n if s != 0 else min(n, 1)
    return count


def _place(tensor: Tensor) -> Place:
    buffer = tensor.buffer
    start = buffer.offset if buffer.region == "arena" else 0
    index = 0 if buffer.region == "arena" else buffer.index
    return Place(buffer.region, index, start + tensor.byte_offset)
