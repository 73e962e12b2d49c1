"""Which operators form one row program, and its kernel.

In: operators in an order in which they can run: pointwise ones, reductions and normalizations over
the same dimensions (what each becomes: rewrite/plan/rows_reduce.py, rows_normalize.py). Out: a
`RowGroup`, or the reason why they are not one kernel; `lower_rows` makes the call.

    found = rows_of(ops, wanted)          # wanted: numbers of the values needed outside, in order
    if isinstance(found, str): ...        # why not
    lower_rows(low, found)                # within a cluster whose outputs are the wanted values

All values are seen in one shape, that of what is reduced. A value of lower rank lies along some of
its dimensions: the last ones where it is broadcast, those that are left where dimensions were
reduced without being kept.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeGuard

from rewrite.plan.body import join
from rewrite.plan.instance import Instance
from rewrite.plan.pointwise import is_pointwise
from rewrite.plan.rows_draft import Built, Draft, Ref
from rewrite.plan.rows_layout import lay
from rewrite.plan.spec import Constant, Step
from rewrite.plan.specs.rows import SAME, Access, Rows, levels_of
from rewrite.plan.specs.rows_passes import first_write, passes_of
from rewrite.plan.tensor import Tensor
from rewrite.plan.view import View

if TYPE_CHECKING:
    from rewrite.plan.lowering import Lowering

Axes = tuple[int, ...]
# Element types that are not computed with; division of integers may fail, and has to be reported.
_REFUSED = frozenset({"string", "c64", "c128"})
_FAILS = frozenset({"Div", "Mod"})


class UnfitError(Exception):
    """The operators are not one row program; the text says why."""


@dataclass(frozen=True, slots=True)
class Taken:
    """An operand from outside: whose it is, and how it lies. `shape`: what the operator sees."""

    op: Instance
    index: int
    axes: Axes
    shape: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Given:
    """A value needed outside."""

    value: int
    dtype: str
    shape: tuple[int, ...]
    axes: Axes
    element: bool


@dataclass(frozen=True)
class RowGroup:
    """A row program over `shape`, whose dimensions `axes` form a row. `split`: (dimension, parts):
    that dimension is seen as two, of which the first, of so many parts, is not in the row."""

    built: Built
    shape: tuple[int, ...]
    axes: Axes
    split: tuple[int, int] | None
    operands: tuple[Taken, ...]
    outputs: tuple[Given, ...]


@dataclass(frozen=True, slots=True)
class Region:
    """What a reduction or normalization works on."""

    shape: tuple[int, ...]
    axes: Axes
    split: tuple[int, int] | None = None


# --- the operators that have folds -------------------------------------------------------------

Expand = Callable[["Builder", Instance], None]
Where = Callable[[Instance], "Region | str"]


@dataclass(frozen=True, slots=True)
class RowOp:
    """`where` says what an operator reduces (or why it cannot be said), `expand` writes it down."""

    where: Where
    expand: Expand


def row_op(op: Instance) -> RowOp | None:
    """How an operator is a row program; None where it is none."""
    from rewrite.plan import rows_normalize, rows_reduce

    return rows_reduce.OPERATORS.get(op.key) or rows_normalize.OPERATORS.get(op.key)


# --- building ----------------------------------------------------------------------------------


class Builder:
    """The draft of a group: expansions ask for operands and give results."""

    def __init__(self, region: Region, inside: frozenset[int]) -> None:
        self.region = region
        self.draft = Draft()
        self._inside = inside
        self._values: dict[int, tuple[Ref, Axes]] = {}

    @property
    def rank(self) -> int:
        return len(self.region.shape)

    def trailing(self, rank: int) -> Axes:
        """The last dimensions: where a value of lower rank lies by broadcasting."""
        return tuple(range(self.rank - rank, self.rank))

    def arg(self, op: Instance, index: int, axes: Axes | None = None) -> Ref:
        """An operand; `axes`: along which dimensions of the group it lies."""
        number = op.operands[index]
        shape = op.shape(index)
        seen = self.trailing(len(shape)) if axes is None else axes
        if self.is_inside(number):
            ref, found = self._values[number]
            if seen != found:
                raise UnfitError(f"operand {index} of {op.name} lies along other dimensions")
            return ref
        if len(shape) > self.rank or not self.fits(shape, seen):
            raise UnfitError(f"operand {index} of {op.name} is larger than the rows")
        element = self.is_element(shape, seen)
        if op.dtype(index) in _REFUSED:
            raise UnfitError(f"{op.name} is not computed in {op.dtype(index)}")
        key = _Key(number, id(op.content(index)), Taken(op, index, seen, shape))
        return self.draft.operand(key, op.dtype(index), element)

    def is_inside(self, number: int | None) -> TypeGuard[int]:
        """Whether an operator of the group computes the value."""
        return number is not None and number in self._inside

    def has(self, value: int) -> bool:
        """Whether an expansion has given the value."""
        return value in self._values

    def axes_of(self, value: int) -> Axes:
        return self._values[value][1]

    def put(self, op: Instance, index: int, ref: Ref, axes: Axes | None = None) -> None:
        """A result; rounded to the element type that the operator has."""
        if not op.wants(index):
            return
        number = op.results[index]
        assert number is not None
        seen = self.trailing(len(op.out_shape(index))) if axes is None else axes
        self._values[number] = (self.draft.cast(ref, op.out_dtype(index)), seen)

    def ref(self, value: int) -> Ref:
        return self._values[value][0]

    def fits(self, shape: Sequence[int], axes: Axes) -> bool:
        return all(n in (1, self.region.shape[a]) for n, a in zip(shape, axes, strict=True))

    def is_element(self, shape: Sequence[int], axes: Axes) -> bool:
        """Whether a value differs from element to element of a row."""
        return any(n != 1 for n, a in zip(shape, axes, strict=True) if self.in_row(a))

    def in_row(self, axis: int) -> bool:
        """Whether elements of one row differ along a dimension."""
        split = self.region.split
        return axis in self.region.axes or (split is not None and split[0] == axis)


@dataclass(frozen=True, slots=True)
class _Key:
    """Operands are one where they are the same value, or the same array, and lie the same way."""

    number: int | None
    array: int
    taken: Taken

    def __hash__(self) -> int:
        return hash((self.number, self.taken.axes))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, _Key):
            return False
        same = self.number == other.number and (
            self.number is not None or self.array == other.array
        )
        alike = self.taken.axes == other.taken.axes and self.taken.shape == other.taken.shape
        return same and alike


def rows_of(ops: Sequence[Instance], wanted: Sequence[int]) -> RowGroup | str:
    """The operators as one row program that gives the values `wanted`; or why they are none."""
    try:
        return _group(ops, wanted)
    except UnfitError as unfit:
        return str(unfit)


def _group(ops: Sequence[Instance], wanted: Sequence[int]) -> RowGroup:
    region = _region(ops)
    inside = frozenset(v for op in ops for v in op.results if v is not None)
    builder = Builder(region, inside)
    for op in ops:
        entry = row_op(op)
        if entry is None:
            _pointwise(builder, op)
        else:
            entry.expand(builder, op)
    outputs = tuple(_given(builder, ops, value) for value in wanted)
    built = builder.draft.finish([builder.ref(v) for v in wanted])
    if not built.keys:
        raise UnfitError("there is no operand")
    taken = tuple(key.taken for key in built.keys if isinstance(key, _Key))
    levels = levels_of(built.elements, built.steps)
    for given, result in zip(outputs, built.results, strict=True):
        if levels.element[result] and not given.element:
            raise UnfitError("a value of every element is wanted once per row")
    return RowGroup(built, region.shape, region.axes, region.split, taken, outputs)


def _region(ops: Sequence[Instance]) -> Region:
    """The one shape and the dimensions that all folds of the group share."""
    found: Region | None = None
    for op in ops:
        entry = row_op(op)
        if entry is None:
            continue
        region = entry.where(op)
        if isinstance(region, str):
            raise UnfitError(region)
        if found is not None and region != found:
            raise UnfitError(f"{op.name} has rows of another kind")
        found = region
    if found is None:
        raise UnfitError("nothing is reduced")
    return found


def _given(builder: Builder, ops: Sequence[Instance], value: int) -> Given:
    for op in ops:
        for k, number in enumerate(op.results):
            if number != value:
                continue
            if not builder.has(value):
                raise UnfitError(f"output {k} of {op.name} is not computed")
            shape, axes = op.out_shape(k), builder.axes_of(value)
            element = (
                all(n == builder.region.shape[a] for n, a in zip(shape, axes, strict=True))
                and len(shape) == builder.rank
            )
            if not element and (
                builder.is_element(shape, axes) or not _per_row(builder, shape, axes)
            ):
                raise UnfitError("a wanted value has neither all elements nor one per row")
            return Given(value, op.out_dtype(k), shape, axes, element)
    raise UnfitError("a wanted value is not computed here")


def _per_row(builder: Builder, shape: Sequence[int], axes: Axes) -> bool:
    """Whether a value has one element for each row."""
    sizes = dict(zip(axes, shape, strict=True))
    return all(
        builder.in_row(a) or sizes.get(a, 1) == n for a, n in enumerate(builder.region.shape)
    )


# --- pointwise operators -----------------------------------------------------------------------


def _pointwise(b: Builder, op: Instance) -> None:
    """One step."""
    dtypes = [t.dtype for t in op.inputs if t is not None]
    if not is_pointwise(op.domain, op.name, op.attributes, dtypes) or op.integer("block_size", 0):
        raise UnfitError(f"{op.name} is not pointwise")
    if len([v for v in op.results if v is not None]) != 1 or op.results[0] is None:
        raise UnfitError(f"{op.name} has several results")
    if op.name in _FAILS and op.out_dtype()[0] in "su":
        raise UnfitError("division of integers may fail")
    body, external = join((op,))
    seen = _axes_of_result(b, op)
    refs = [_operand(b, op, index, seen) for _, index in external]
    step = body.steps[0]
    args = tuple(refs[a] if isinstance(a, int) else a for a in step.args)
    b.put(op, 0, _simplified(b.draft, step, args), seen)


def _operand(b: Builder, op: Instance, index: int, seen: Axes) -> Ref:
    number, shape = op.operands[index], op.shape(index)
    if b.is_inside(number):
        if b.axes_of(number) != seen[len(seen) - len(shape) :]:
            raise UnfitError(f"operands of {op.name} lie along different dimensions")
        return b.ref(number)
    # Along the operator's axis, where it has one: seen in the full shape of the result.
    if op.name in ("QuantizeLinear", "DequantizeLinear") and index and shape not in ((), (1,)):
        axis = op.integer("axis", 1) % len(op.shape(0))
        return b.arg(op, index, (seen[axis],))
    return b.arg(op, index, seen[len(seen) - len(shape) :])


def _axes_of_result(b: Builder, op: Instance) -> Axes:
    rank = len(op.out_shape())
    if rank > b.rank:
        raise UnfitError(f"{op.name} has more dimensions than the rows")
    for index, number in enumerate(op.operands):
        if b.is_inside(number) and len(op.shape(index)) == rank:
            return b.axes_of(number)
    return b.trailing(rank)


def _simplified(d: Draft, step: Step, args: tuple[Ref | Constant | None, ...]) -> Ref:
    """The step, or a cheaper one of the same value."""
    if step.name == "Pow" and step.domain == "" and isinstance(args[0], int):
        exponent = args[1]
        if isinstance(exponent, Constant) and exponent.number == 2:
            return d.step("Mul", args[0], args[0], dtype=step.dtype)
    return d.step(
        step.name,
        *args,
        dtype=step.dtype,
        attributes=step.attributes,
        domain=step.domain,
        opset=step.opset,
    )


# --- the call ----------------------------------------------------------------------------------


def lower_rows(low: Lowering, group: RowGroup, outputs: Sequence[int] | None = None) -> None:
    """The kernel of a group. `outputs`: which outputs of the cluster its values are."""
    numbers = range(len(group.outputs)) if outputs is None else outputs
    tensors = [row_operand(low, taken) for taken in group.operands]
    order = _order(group, tensors)
    results = [
        low.output(k, order if g.element and order is not None else None)
        for k, g in zip(numbers, group.outputs, strict=True)
    ]
    call_rows(low, group, tensors, results)


def call_rows(
    low: Lowering, group: RowGroup, tensors: Sequence[Tensor], results: Sequence[Tensor]
) -> None:
    """The kernel of a group over tensors: its operands as the operators see them, its outputs."""
    operands = [
        _spread(group, t.view, taken.axes) for t, taken in zip(tensors, group.operands, strict=True)
    ]
    targets = [
        _spread(group, t.view, given.axes) for t, given in zip(results, group.outputs, strict=True)
    ]
    shape, axes = _full(group)
    if any(n == 0 for a, n in enumerate(shape) if a not in axes):
        return
    elements = [given.element for given in group.outputs]
    laid = lay(group.built, shape, axes, operands, targets, elements)
    low.call(
        laid.spec,
        [*tensors, *results, *laid.integers],
        laid.items,
        laid.grain,
        laid.scratch,
        laid.flops,
        overwrites=overwrites(laid.spec),
    )


def row_operand(low: Lowering, taken: Taken) -> Tensor:
    """Where an operand from outside lies."""
    tensor = low.tensor_of(taken.op, taken.index)
    if tensor.shape != taken.shape:
        reshaped = tensor.reshaped(taken.shape)
        assert reshaped is not None
        return reshaped
    return tensor


def _spread(group: RowGroup, view: View, axes: Axes) -> View:
    """A view of the group's shape, with dimensions split where the group splits them."""
    strides = [0] * len(group.shape)
    for size, stride, axis in zip(view.shape, view.strides, axes, strict=True):
        strides[axis] = 0 if size == 1 else stride
    full = list(group.shape)
    if group.split is not None:
        axis, parts = group.split
        inner = full[axis] // parts
        full[axis : axis + 1] = [parts, inner]
        strides[axis : axis + 1] = [strides[axis] * inner, strides[axis]]
    return View(view.dtype, tuple(full), tuple(strides))


def _full(group: RowGroup) -> tuple[tuple[int, ...], Axes]:
    """The shape and the row's dimensions, one of them split."""
    if group.split is None:
        return group.shape, group.axes
    axis, parts = group.split
    shape = list(group.shape)
    shape[axis : axis + 1] = [parts, shape[axis] // parts]
    moved = tuple(a + 1 if a > axis else a for a in group.axes)
    return tuple(shape), tuple(sorted({*moved, axis + 1}))


def _order(group: RowGroup, tensors: Sequence[Tensor]) -> Axes | None:
    """The order in memory of the largest operand, which outputs take over."""
    whole = [t for t in tensors if t.shape == group.shape and t.view.dense]
    return tuple(whole[0].view.order) if whole else None


def overwrites(spec: Rows) -> frozenset[int]:
    """Words of outputs that may lie on an operand: no element of an operand that can lie as the
    output does is read in a later pass than that in which the output's memory is first written."""
    n = len(spec.operands)
    return frozenset(
        n + k
        for k, access in enumerate(spec.outputs)
        if access.element and first_write(spec, k) >= _last_read(spec, access)
    )


def _last_read(spec: Rows, like: Access) -> int:
    """The last pass that reads an operand that is broadcast as little as `like`."""
    classes = (*like.row, *like.outer)
    alike = {
        k
        for k, access in enumerate(spec.operands)
        if [c != SAME for c in (*access.row, *access.outer)] == [c != SAME for c in classes]
    }
    return max((p.level for p in passes_of(spec) if alike.intersection(p.reads)), default=0)


__all__ = [
    "Builder", "Given", "Region", "RowGroup", "RowOp", "Taken", "call_rows", "lower_rows",
    "overwrites", "row_operand", "rows_of",
]  # fmt: skip
