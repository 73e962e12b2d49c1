"""Attention written as products and Softmax, recognised.

In: operators, in order. Out: `Found`, which operands are queries, keys, values and mask, and how
scores are made; or the reason why they are not attention. `lower_attention` makes the call, within
a cluster that has these operators as members and their last result as output.

    softmax(s (a q) (b k)' + mask) v

Factors may stand on q, k or the product. A Where may put a number where keys are hidden, which is
added, too: next to such a number the score is lost in rounding. NaN of rows whose keys are all
hidden may be replaced by zero.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from rewrite.plan.instance import Instance
from rewrite.plan.lower.attention_call import HIDES, TYPES, Scores, attend, causal_offset
from rewrite.plan.spec import Body, Constant, Step
from rewrite.plan.tensor import Tensor

if TYPE_CHECKING:
    from rewrite.plan.lowering import Lowering

Array = np.ndarray[Any, np.dtype[Any]]
Operand = tuple[Instance, int]


@dataclass(frozen=True)
class Found:
    """Operands as (operator, which of its operands); `turn`: how that of k is transposed first."""

    q: Operand
    k: Operand
    v: Operand
    turn: tuple[int, ...] | None
    scale: float
    mask: Operand | None  # what is added
    gate: Operand | None  # the condition of a Where
    blank: float  # what the Where puts in place of a score
    hidden: bool  # whether its condition holds where keys are hidden, or where they are seen
    empty_is_zero: bool
    shape: tuple[int, ...]  # of the output
    keys: int


class _UnfitError(Exception):
    """The operators are not attention; the text says why."""


def attention_of(members: Sequence[Instance]) -> Found | str:
    """What the operators compute, all of them together; or why it is not attention."""
    try:
        return _Walk(members).found()
    except _UnfitError as problem:
        return str(problem)


class _Walk:
    """From the last operator to the first."""

    def __init__(self, members: Sequence[Instance]) -> None:
        self.members = members
        self.producer = {value: op for op in members for value in op.results if value is not None}
        self.seen: set[int] = set()

    def found(self) -> Found:
        last = self.members[-1]
        if last.name != "MatMul" or last.domain or last.dtype(0) not in TYPES:
            raise _UnfitError("the last operator is no product of floats")
        self.take(last)
        softmax, empty_is_zero = self.softmax(self.maker((last, 0)))
        mask, scores = self.added((softmax, 0))
        gate, blank, hidden, scores = self.gate(scores)
        scale, scores = self.scaled(scores)
        product = self.expect(scores, "MatMul")
        if softmax.out_shape() != product.out_shape():
            raise _UnfitError("the mask is larger than the scores")
        left, q = self.scaled((product, 0))
        right, k = self.scaled((product, 1))
        turn = None
        if self.maker_or_none(k) is not None:
            transpose = self.expect(k, "Transpose")
            rank = len(transpose.shape())
            turn = transpose.integers("perm") or tuple(range(rank))[::-1]
            k = (transpose, 0)
            again, k = self.scaled(k)
            right *= again
        self.finish()
        keys = product.out_shape()[-1]
        return Found(
            q, k, (last, 1), turn, scale * left * right, mask, gate, blank, hidden, empty_is_zero,
            last.out_shape(), keys,
        )  # fmt: skip

    # --- operators --------------------------------------------------------------------------

    def take(self, op: Instance) -> None:
        self.seen.add(id(op))

    def maker_or_none(self, operand: Operand) -> Instance | None:
        op, index = operand
        number = op.operands[index]
        return None if number is None else self.producer.get(number)

    def maker(self, operand: Operand) -> Instance:
        """The member that makes an operand."""
        found = self.maker_or_none(operand)
        if found is None:
            raise _UnfitError(f"operand {operand[1]} of {operand[0].name} comes from outside")
        self.take(found)
        return found

    def expect(self, operand: Operand, name: str) -> Instance:
        found = self.maker(operand)
        if found.name != name or found.domain:
            raise _UnfitError(f"{found.name} instead of {name}")
        return found

    def finish(self) -> None:
        for op in self.members:
            if id(op) not in self.seen:
                raise _UnfitError(f"{op.name} is no part of attention")

    # --- parts ------------------------------------------------------------------------------

    def softmax(self, op: Instance) -> tuple[Instance, bool]:
        """Softmax over the keys; whether NaN becomes zero behind it."""
        if op.name == "Where":
            test = self.expect((op, 0), "IsNaN")
            if _number(op, 1) != 0 or op.operands[2] != test.operands[0]:
                raise _UnfitError("a Where that is not about NaN")
            return self.softmax(self.maker((op, 2)))[0], True
        if op.name != "Softmax" or op.domain:
            raise _UnfitError(f"{op.name} instead of Softmax")
        rank = len(op.shape())
        if op.integer("axis", -1 if op.opset >= 13 else 1) % rank != rank - 1:
            raise _UnfitError("Softmax is not over the keys")
        return op, False

    def added(self, scores: Operand) -> tuple[Operand | None, Operand]:
        """What is added to the scores, and the scores before it."""
        op = self.maker_or_none(scores)
        if op is None or op.domain or op.name != "Add":
            return None, scores
        self.take(op)
        inner = 0 if self.leads_to_product((op, 0)) else 1
        return (op, 1 - inner), (op, inner)

    def gate(self, scores: Operand) -> tuple[Operand | None, float, bool, Operand]:
        """The condition of a Where, what it puts in place of scores, whether it holds for hidden
        keys, and the scores before it."""
        op = self.maker_or_none(scores)
        if op is None or op.domain or op.name != "Where":
            return None, 0.0, False, scores
        self.take(op)
        inner = 1 if self.leads_to_product((op, 1)) else 2
        blank = _number(op, 3 - inner)
        if blank is None or not blank < HIDES:
            raise _UnfitError("a Where that hides nothing")
        return (op, 0), blank, inner == 2, (op, inner)

    def leads_to_product(self, operand: Operand) -> bool:
        op = self.maker_or_none(operand)
        while op is not None and op.name in ("Mul", "Div", "Where"):
            index = 0 if _number(op, 0) is None else 1
            if op.name == "Where":
                index = 2 if _number(op, 1) is not None else 1
            op = self.maker_or_none((op, index))
        return op is not None and op.name == "MatMul"

    def scaled(self, operand: Operand) -> tuple[float, Operand]:
        """The product of all known factors on an operand, and what is behind them."""
        scale = 1.0
        while True:
            op = self.maker_or_none(operand)
            if op is None or op.domain or op.name not in ("Mul", "Div"):
                return scale, operand
            index = 1 if _number(op, 1) is not None else 0
            number = _number(op, index)
            if number is None or (op.name == "Div" and index == 0):
                raise _UnfitError(f"{op.name} by what is not one known number")
            if op.out_shape() != op.shape(1 - index):
                raise _UnfitError("a factor of higher rank")
            self.take(op)
            scale = scale * number if op.name == "Mul" else scale / number
            operand = (op, 1 - index)


def _number(op: Instance, index: int) -> float | None:
    """An operand that is one known number."""
    known = op.single(index)
    return None if known is None else float(known.reshape(-1)[0])


# --- the call ------------------------------------------------------------------------------------


def lower_attention(low: Lowering, found: Found) -> None:
    """One call of the attention kernel."""
    shape = found.shape
    rank = len(shape)
    # What follows most often puts the heads side by side.
    heads_last = rank > 3 and not low.delivers()
    order = (*range(rank - 3), rank - 2, rank - 3, rank - 1) if heads_last else None
    out = low.output(0, order)
    k = low.tensor_of(*found.k)
    if found.turn is not None:
        k = k.permuted(found.turn)
    axes = (*range(len(k.shape) - 2), len(k.shape) - 1, len(k.shape) - 2)
    k = k.permuted(axes)
    batch = shape[:-2]
    parts = [
        _of_rank_four(low, _broadcast(t, batch))
        for t in (low.tensor_of(*found.q), k, low.tensor_of(*found.v))
    ]
    offset, masks = _masks(low, found)
    mask = _total(low, masks, (*shape[:-1], found.keys))
    scores = Scores(
        scale=found.scale,
        mask=None if mask is None else _of_rank_four(low, mask),
        offset=offset or 0,
        right=None if offset is None else 0,
        empty_is_zero=found.empty_is_zero,
    )
    whole = _reshaped(out, _four(shape))
    attend(low, parts[0], parts[1], parts[2], whole, scores)


def _broadcast(tensor: Tensor, batch: tuple[int, ...]) -> Tensor:
    return tensor.broadcast((*batch, *tensor.shape[-2:]))


def _four(shape: tuple[int, ...]) -> tuple[int, ...]:
    """(batch, heads, rows, elements): dimensions in front are joined."""
    *front, heads, rows, elements = shape if len(shape) > 2 else (1, *shape)
    return (prod(front), heads, rows, elements)


def _of_rank_four(low: Lowering, tensor: Tensor) -> Tensor:
    wanted = _four(tensor.shape)
    found = tensor.reshaped(wanted)
    if found is None:
        made = low.new(tensor.dtype, tensor.shape)
        low.copy(tensor, made)
        found = _reshaped(made, wanted)
    return found


def _reshaped(tensor: Tensor, shape: tuple[int, ...]) -> Tensor:
    found = tensor.reshaped(shape)
    assert found is not None, "the order of the output keeps its outer dimensions together"
    return found


def _masks(low: Lowering, found: Found) -> tuple[int | None, list[Tensor]]:
    """What is added to scores; and the offset of a known mask that only hides later keys, which
    is a bound of the kernel instead."""
    offset: int | None = None
    masks: list[Tensor] = []
    if found.gate is not None:
        offset = _offset_of_gate(found)
        if offset is None:
            masks.append(_numbers(low, found))
    if found.mask is not None:
        later = _offset_of_mask(found) if offset is None else None
        if later is None:
            masks.append(low.tensor_of(*found.mask))
        else:
            offset = later
    return offset, masks


def _known_plane(operand: Operand, found: Found) -> Array | None:
    """A known mask with a row for each query."""
    op, index = operand
    plane = (found.shape[-2], found.keys)
    return op.known(index) if op.is_known(index) and op.shape(index)[-2:] == plane else None


def _offset_of_gate(found: Found) -> int | None:
    known = None if found.gate is None else _known_plane(found.gate, found)
    return None if known is None else causal_offset(known if found.hidden else ~known)


def _offset_of_mask(found: Found) -> int | None:
    known = None if found.mask is None else _known_plane(found.mask, found)
    if known is None:
        return None
    hidden = known < HIDES
    return causal_offset(hidden) if not known[~hidden].any() else None


def _numbers(low: Lowering, found: Found) -> Tensor:
    """The condition of the Where as numbers that are added."""
    assert found.gate is not None
    given = low.tensor_of(*found.gate)
    made = low.new("f32", given.shape)
    numbers = (Constant("f32", found.blank), Constant("f32", 0.0))
    first, second = numbers if found.hidden else numbers[::-1]
    step = Step("", "Where", (0, first, second), "f32")
    low.pointwise(Body(("bool",), (step,), (1,)), [given], [made])
    return made


def _total(low: Lowering, masks: Sequence[Tensor], full: tuple[int, ...]) -> Tensor | None:
    """The sum of what is added, over all keys; its other dimensions may be broadcast."""
    if not masks:
        return None
    total = masks[0]
    for other in masks[1:]:
        sizes = tuple(int(n) for n in np.broadcast_shapes(total.shape, other.shape))
        made = low.new("f32", sizes)
        steps = [Step("", "Add", (0, 1), "f32")]
        if other.dtype != "f32":
            steps = [
                Step("", "Cast", (1,), "f32", (("saturate", 1),), 22),
                Step("", "Add", (0, 2), "f32"),
            ]
        body = Body((total.dtype, other.dtype), tuple(steps), (1 + len(steps),))
        low.pointwise(body, [total.broadcast(sizes), other.broadcast(sizes)], [made])
        total = made
    if len(total.shape) == 0 or (total.shape[-1] == 1 and full[-1] != 1):
        whole = low.new(total.dtype, (*total.shape[:-1], full[-1]))
        low.copy(total, whole)
        total = whole
    return total.broadcast(full)
