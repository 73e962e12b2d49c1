"""Attention written as products and Softmax, recognised.

In: operators, in order. Out: `Found`, which operands are queries, keys, values and mask, and how
scores are made; or the reason why they are not attention. `lower_attention` makes the call, within
a cluster that has these operators as members and their last result as output.

    softmax(s (a q) (b k)' + mask) v

Factors may stand on q, k or the product. The mask is added, or a Where puts a number where keys are
hidden, which is added, too: next to such a number the score is lost in rounding. NaN of rows whose
keys are all hidden may be replaced by zero.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING

from rewrite.plan.instance import Instance
from rewrite.plan.lower.attention_call import HIDES, TYPES, Scores, attend, causal_offset
from rewrite.plan.spec import Body, Constant, Step
from rewrite.plan.tensor import Tensor

if TYPE_CHECKING:
    from rewrite.plan.lowering import Lowering

Operand = tuple[Instance, int]


@dataclass(frozen=True)
class Found:
    """Operands as (operator, which of its operands); `turn`: how that of k is transposed first."""

    q: Operand
    k: Operand
    v: Operand
    turn: tuple[int, ...] | None
    scale: float
    mask: Operand | None
    blank: float | None  # of a Where: what stands where its mask holds
    hidden: bool  # whether the mask holds where keys are hidden, or where they are seen
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
        mask, blank, hidden, scores = self.mask((softmax, 0))
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
            q, k, (last, 1), turn, scale * left * right, mask, blank, hidden, empty_is_zero,
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

    def mask(self, scores: Operand) -> tuple[Operand | None, float | None, bool, Operand]:
        """The mask, what it stands for, and the scores before it."""
        op = self.maker_or_none(scores)
        if op is None or op.domain or op.name not in ("Add", "Where"):
            return None, None, False, scores
        self.take(op)
        if op.name == "Add":
            inner = 0 if self.leads_to_product((op, 0)) else 1
            return (op, 1 - inner), None, False, (op, inner)
        inner = 1 if self.leads_to_product((op, 1)) else 2
        blank = _number(op, 3 - inner)
        if blank is None or not blank < HIDES:
            raise _UnfitError("a Where that hides nothing")
        return (op, 0), blank, inner == 2, (op, inner)

    def leads_to_product(self, operand: Operand) -> bool:
        op = self.maker_or_none(operand)
        while op is not None and op.name in ("Mul", "Div"):
            index = 0 if _number(op, 0) is None else 1
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
    known = op.known(index)
    return None if known is None or known.size != 1 else float(known.reshape(-1)[0])


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
    offset = _causal(found)
    mask = None if offset is not None else _mask(low, found)
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


def _causal(found: Found) -> int | None:
    """The offset of a known mask that hides later keys and does nothing else."""
    if found.mask is None:
        return None
    op, index = found.mask
    known = op.known(index)
    if (
        known is None
        or known.shape[-1:] != (found.keys,)
        or known.shape[-2:-1] != found.shape[-2:-1]
    ):
        return None
    if found.blank is not None:
        return causal_offset(known if found.hidden else ~known)
    hidden = known < HIDES
    return causal_offset(hidden) if not known[~hidden].any() else None


def _mask(low: Lowering, found: Found) -> Tensor | None:
    """What is added to scores, over all keys; its other dimensions may be broadcast."""
    if found.mask is None:
        return None
    given = low.tensor_of(*found.mask)
    full = (*found.shape[:-1], found.keys)
    if found.blank is not None:
        made = low.new("f32", given.shape)
        numbers = (Constant("f32", found.blank), Constant("f32", 0.0))
        first, second = numbers if found.hidden else numbers[::-1]
        step = Step("", "Where", (0, first, second), "f32")
        low.pointwise(Body(("bool",), (step,), (1,)), [given], [made])
        given = made
    if len(given.shape) == 0 or (given.shape[-1] == 1 and found.keys != 1):
        whole = low.new(given.dtype, (*given.shape[:-1], found.keys))
        low.copy(given, whole)
        given = whole
    return given.broadcast(full)
