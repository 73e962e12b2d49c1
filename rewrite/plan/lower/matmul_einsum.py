"""Einsum: any equation, as diagonals, sums, and products of matrices.

In: instances. Out: views, and calls of pointwise kernels and matrix products. Operands are joined
from left to right. In a join, a label is of the batch (both operands have it and it is needed
later), of rows or columns (one has it and it is needed), or summed: in both, the inner dimension of
a product; in one, away beforehand.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

import numpy as np

from rewrite.ops.contraction import parse_equation
from rewrite.ops.dtypes import to_numpy
from rewrite.plan.lower.matmul_factors import TOTALS, Right, plain
from rewrite.plan.lower.matmul_product import multiply
from rewrite.plan.lower.matmul_tail import Tail
from rewrite.plan.lowering import Instance, Lowering, lowers
from rewrite.plan.spec import Body, Step
from rewrite.plan.tensor import Tensor
from rewrite.plan.view import View

Labels = tuple[str, ...]

# Integers narrower than 32 bits are summed in 32: the low bits are the same.
_NARROW = {"s8": "s32", "u8": "u32", "s16": "s32", "u16": "u32"}


@dataclass(frozen=True, slots=True)
class Term:
    """A tensor and a label for each of its dimensions, none of them twice."""

    labels: Labels
    tensor: Tensor

    def arranged(self, labels: Labels) -> Tensor:
        return self.tensor.permuted(tuple(self.labels.index(label) for label in labels))


@lowers("Einsum")
def einsum(low: Lowering, op: Instance) -> None:
    """Sums of products over labels that the result does not have."""
    written, result = parse_equation(op.text("equation", ""))
    shapes = [op.shape(i) for i in range(len(op.inputs))]
    named = [_labels(term, len(shape)) for term, shape in zip(written, shapes, strict=True)]
    extra = max((sum(1 for c in labels if c[0] == "~") for labels in named), default=0)
    target = _labels(result, len(result.replace(".", "")) + (extra if "." in result else 0))
    sizes: dict[str, int] = {}
    for labels, shape in zip(named, shapes, strict=True):
        for label, n in zip(labels, shape, strict=True):
            sizes[label] = n if sizes.get(label, 1) == 1 else sizes[label]
    terms = [_diagonal(low.view(i), labels, sizes) for i, labels in enumerate(named)]
    if len(terms) == 1 and set(terms[0].labels) == set(target):
        low.alias(0, terms[0].arranged(target))
        return
    dtype = op.out_dtype()
    total = TOTALS.get(dtype) or _NARROW.get(dtype, dtype)
    _join_all(low, [_widened(low, t, total) for t in terms], target, sizes, total)


def _labels(term: str, rank: int) -> Labels:
    """A label for each dimension; those of "..." are numbered from the last one."""
    before, dots, after = term.partition(".")
    middle = rank - len(before) - len(after) if dots else 0
    return (*before, *(f"~{i}" for i in range(middle, 0, -1)), *after)


def _diagonal(tensor: Tensor, labels: Labels, sizes: dict[str, int]) -> Term:
    """A label that stands twice walks along both dimensions; sizes of 1 are repeated."""
    kept = tuple(dict.fromkeys(labels))
    strides = dict.fromkeys(kept, 0)
    for label, n, stride in zip(labels, tensor.shape, tensor.view.strides, strict=True):
        strides[label] += stride if n != 1 else 0
    shape = tuple(sizes[label] for label in kept)
    view = View(tensor.dtype, shape, tuple(strides[label] for label in kept))
    return Term(kept, tensor.like(view))


def _widened(low: Lowering, term: Term, total: str) -> Term:
    if term.tensor.dtype == total:
        return term
    made = low.new(total, term.tensor.shape)
    body = Body((term.tensor.dtype,), (_cast(total),), (1,))
    low.pointwise(body, [term.tensor], [made])
    return Term(term.labels, made)


def _cast(dtype: str) -> Step:
    return Step("", "Cast", (0,), dtype, (("saturate", 1),), 21)


def _join_all(
    low: Lowering, terms: Sequence[Term], target: Labels, sizes: dict[str, int], total: str
) -> None:
    """The terms multiplied and summed into the output."""
    left = terms[0]
    if len(terms) == 1:
        _store(low, _summed(low, left, target, sizes, total), target)
        return
    for i, right in enumerate(terms[1:], 1):
        later = {label for term in terms[i + 1 :] for label in term.labels} | set(target)
        left = _joined(low, left, right, later, sizes, total, target if i + 1 == len(terms) else ())
    _store(low, left, target)


def _store(low: Lowering, term: Term, target: Labels) -> None:
    """The result as it lies, or as the output's element type."""
    found = term.arranged(target)
    dtype = low.op.out_dtype()
    if found.dtype == dtype:
        low.alias(0, found)
        return
    out = low.output(0, found.view.order if found.view.dense else None)
    low.pointwise(Body((found.dtype,), (_cast(dtype),), (1,)), [found], [out])


def _summed(low: Lowering, term: Term, kept: Labels, sizes: dict[str, int], total: str) -> Term:
    """Labels that nobody needs, away: the product with a column of ones."""
    gone = tuple(label for label in term.labels if label not in kept)
    if not gone:
        return term
    rest = tuple(label for label in term.labels if label in kept)
    depth = prod(sizes[label] for label in gone)
    left = _matrix(low, term.arranged((*rest, *gone)), len(rest), (-1, depth))
    out = low.new(total, tuple(sizes[label] for label in rest))
    ones = np.ones((depth, 1), to_numpy(total))
    column = out.reshaped((prod(out.shape), 1))
    assert column is not None, "a new tensor is dense"
    inner = Tail(total, total, inner=True)
    multiply(low, left, Right(ones.shape, array=ones), column, inner, plain(total))
    return Term(rest, out)


def _matrix(low: Lowering, tensor: Tensor, lead: int, shape: tuple[int, ...]) -> Tensor:
    """A tensor with dimensions joined; `lead` of them into a first one of size -1."""
    first = prod(tensor.shape[:lead])
    wanted = tuple(first if n == -1 else n for n in shape)
    found = tensor.reshaped(wanted)
    if found is None:
        dense = low.new(tensor.dtype, tensor.shape)
        low.copy(tensor, dense)
        found = dense.reshaped(wanted)
    assert found is not None, "a dense tensor has any shape"
    return found


def _joined(
    low: Lowering,
    left: Term,
    right: Term,
    later: set[str],
    sizes: dict[str, int],
    total: str,
    target: Labels,
) -> Term:
    """The product of two terms, over the labels that are needed later."""
    mine, theirs = set(left.labels), set(right.labels)
    left = _summed(low, left, tuple(c for c in left.labels if c in later | theirs), sizes, total)
    right = _summed(low, right, tuple(c for c in right.labels if c in later | mine), sizes, total)
    inner = tuple(c for c in left.labels if c in right.labels and c not in later)
    batch = tuple(c for c in left.labels if c in right.labels and c in later)
    rows = tuple(c for c in left.labels if c not in right.labels)
    columns = tuple(c for c in right.labels if c not in left.labels)
    if not inner:
        return _scaled(low, left, right, target or (*batch, *rows, *columns), sizes, total)
    lead = tuple(sizes[c] for c in batch)
    m, k, n = (prod(sizes[c] for c in part) for part in (rows, inner, columns))
    a = _matrix(low, left.arranged((*batch, *rows, *inner)), 0, (*lead, m, k))
    b = _matrix(low, right.arranged((*batch, *inner, *columns)), 0, (*lead, k, n))
    made = (*batch, *rows, *columns)
    out = low.new(total, tuple(sizes[c] for c in made))
    if target and total == low.op.out_dtype():
        order = tuple(target.index(c) for c in made)
        out = low.output(0, order).permuted(order)
    flat = out.reshaped((*lead, m, n))
    if flat is None:  # the output's memory is not free to choose
        out = low.new(total, out.shape)
        flat = out.reshaped((*lead, m, n))
    assert flat is not None, "a new tensor is dense"
    multiply(low, a, Right(b.shape, b), flat, Tail(total, total, inner=True), plain(total))
    return Term(made, out)


def _scaled(
    low: Lowering, left: Term, right: Term, labels: Labels, sizes: dict[str, int], total: str
) -> Term:
    """A product without a sum, element by element."""
    shape = tuple(sizes[c] for c in labels)
    given = []
    for term in (left, right):
        held = tuple(c for c in labels if c in term.labels)
        view = term.arranged(held).view
        strides = dict(zip(held, view.strides, strict=True))
        spread = View(total, shape, tuple(strides.get(c, 0) for c in labels))
        given.append(term.tensor.like(spread))
    out = low.new(total, shape)
    body = Body((total, total), (Step("", "Mul", (0, 1), total),), (2,))
    low.pointwise(body, given, [out])
    return Term(labels, out)
