"""Products of matrices of bytes with zero points, exact in 32 bits.

In: operands of an instance, a tail. Out: a product whose value 0 is the sum of
(a - a_zero) (b - b_zero), modulo 2^32.

With the sums R of rows of a and C of columns of b, over K elements, it is

    sum of a b  -  b_zero (R - K a_zero)  -  a_zero C

where terms of zero points that are known to be 0 vanish, and C and what follows from it are known
where b is. An instruction that wants other signs gets its operand xored with 128: element and zero
point are 128 more or less, and the differences are the same.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from rewrite.ops.dtypes import to_numpy
from rewrite.plan.lower.matmul import destination, left_factor, right_factor
from rewrite.plan.lower.matmul_factors import Factor, Right, Scheme, in_panels, rows
from rewrite.plan.lower.matmul_product import multiply_panels
from rewrite.plan.lower.matmul_tail import Arg, Tail
from rewrite.plan.lowering import Lowering
from rewrite.plan.machine import Machine
from rewrite.plan.spec import Constant
from rewrite.plan.tensor import Tensor
from rewrite.quant.accumulator import pair_sums

Array = np.ndarray[Any, np.dtype[Any]]


@dataclass(frozen=True, slots=True)
class Places:
    """Which operands of an operator are the factors and their zero points."""

    a: int
    b: int
    a_zero: int
    b_zero: int
    transposed: tuple[bool, bool] = (False, False)


@dataclass(frozen=True, slots=True)
class Zero:
    """A zero point: known (int64, broadcastable to the output), or a tensor and what to add."""

    known: Array | None
    tensor: Tensor | None = None
    shift: int = 0

    @property
    def vanishes(self) -> bool:
        return self.known is not None and not self.known.any()

    @property
    def number(self) -> int | None:
        """The same for all rows and columns, and known."""
        if self.known is None or self.known.size != 1:
            return None
        return int(self.known.reshape(-1)[0])


@dataclass(frozen=True, slots=True)
class Factors:
    """Both factors as the kernel reads them, and where the product goes."""

    scheme: Scheme
    left: Tensor
    right: Factor
    out: Tensor
    depth: int
    weights: Array | None  # the right factor [..., K, N], if it is known
    a_zero: Zero
    b_zero: Zero


def factors(low: Lowering, places: Places) -> Factors:
    """The instruction for the operands at hand, and the operands in its form."""
    op = low.op
    left = left_factor(low, places.a, places.transposed[0])
    right = right_factor(low, places.b, places.transposed[1])
    known = low.known(places.b)
    weights = None if known is None or right.form is None else right.form(known)
    zero = _known_zero(low, places.b_zero, rows=False)
    scheme = scheme_of(low.machine, op.dtype(places.a), op.dtype(places.b), weights, zero)
    return Factors(
        scheme,
        rows(low, left, scheme),
        in_panels(low, right, scheme),
        destination(low, left, right),
        left.shape[-1],
        weights,
        _zero(low, places.a_zero, _shift(op.dtype(places.a), scheme.flip_a), rows=True),
        _zero(low, places.b_zero, _shift(op.dtype(places.b), scheme.flip_b), rows=False),
    )


def emit(low: Lowering, given: Factors, tail: Tail, bias: Array | None) -> None:
    """The calls, once the tail is complete."""
    multiply_panels(low, given.left, given.right, given.out, tail, given.scheme, bias)


def corrected(low: Lowering, given: Factors, tail: Tail, row: Array | None = None) -> Array | None:
    """Steps for the zero points; gives what sums start from: `row`, and terms that are known."""
    a, b, k = given.a_zero, given.b_zero, given.depth
    start = np.zeros(1, np.int64) if row is None else row.astype(np.int64)
    whole = a.number is not None and given.weights is not None and given.weights.ndim == 2
    if whole and given.weights is not None and not a.vanishes:
        start = start - int(a.number or 0) * _column_sums(given)[0]
        if b.known is not None:
            start = start + k * int(a.number or 0) * b.known.reshape(-1)
    elif not a.vanishes:
        tail.then("Sub", tail.value("Mul", _argument(low, tail, a), _columns(low, given, tail)))
    if not b.vanishes:
        sums = tail.operand(_row_sums(low, given))
        if not a.vanishes and not (whole and b.known is not None):
            term = tail.value("Mul", _argument(low, tail, a), Constant("s32", k))
            sums = tail.value("Sub", sums, term)
        tail.then("Sub", tail.value("Mul", _argument(low, tail, b), sums))
    if not start.any():
        return None
    n = given.out.shape[-1]
    return np.broadcast_to(start, (n,)).astype(np.int32)


# --- zero points and sums ----------------------------------------------------------------------


def _shift(dtype: str, flipped: bool) -> int:
    return 0 if not flipped else 128 if dtype == "s8" else -128


def _known_zero(low: Lowering, index: int, rows: bool) -> Array | None:
    if not low.op.has(index):
        return np.zeros(1, np.int64)
    known = low.known(index)
    if known is None:
        return None
    wide = known.astype(np.int64)
    return wide.reshape(-1, 1) if rows and wide.ndim == 1 else wide


def _zero(low: Lowering, index: int, shift: int, rows: bool) -> Zero:
    known = _known_zero(low, index, rows)
    if known is not None:
        return Zero(known + shift)
    tensor = low.view(index)
    if rows and len(tensor.shape) == 1:
        made = tensor.reshaped((tensor.shape[0], 1))
        assert made is not None, "a vector of any stride is a matrix"
        tensor = made
    return Zero(None, tensor, shift)


def _argument(low: Lowering, tail: Tail, zero: Zero) -> Arg:
    """A zero point as an argument of type s32."""
    if zero.number is not None:
        return Constant("s32", zero.number)
    if zero.known is not None:
        return tail.operand(low.constant(zero.known.astype(np.int32)))
    assert zero.tensor is not None, "a zero point is known or lies somewhere"
    wide = tail.cast(tail.operand(zero.tensor), "s32")
    return tail.value("Add", wide, Constant("s32", zero.shift)) if zero.shift else wide


def _column_sums(given: Factors) -> Array:
    """Of the known right factor in the kernel's form: [..., 1, N]."""
    assert given.weights is not None
    weights = given.weights
    shift = _shift("u8" if weights.dtype == np.uint8 else "s8", given.scheme.flip_b)
    sums = weights.sum(axis=-2, keepdims=True, dtype=np.int64)
    return np.asarray(sums + shift * weights.shape[-2])


def _columns(low: Lowering, given: Factors, tail: Tail) -> Arg:
    """The sums of columns as an argument, known or computed."""
    if given.weights is not None:
        return tail.operand(low.constant(_column_sums(given).astype(np.int32)))
    *batch, _, n = given.right.shape
    ones = np.ones((1, given.left.shape[-1]), to_numpy(given.scheme.a))
    sums = low.new("s32", (*batch, 1, n))
    inner = Tail("s32", "s32", inner=True)
    multiply_panels(low, low.constant(ones), given.right, sums, inner, given.scheme)
    return tail.operand(sums)


def _row_sums(low: Lowering, given: Factors) -> Tensor:
    """The sums of the left factor's rows: [..., M, 1], its product with a column of ones."""
    scheme = replace(given.scheme, flip_b=False)
    ones = np.ones((given.depth, 1), to_numpy(scheme.b))
    column = in_panels(low, Right(ones.shape, array=ones), scheme)
    sums = low.new("s32", (*given.left.shape[:-1], 1))
    multiply_panels(low, given.left, column, sums, Tail("s32", "s32", inner=True), scheme)
    return sums


# --- schemes -----------------------------------------------------------------------------------


def scheme_of(
    machine: Machine, a: str, b: str, weights: Array | None, zero: Array | None
) -> Scheme:
    """The instruction for these element types. `weights` [..., K, N] and the zero points of the
    right factor, where they are known."""
    wide = machine.vector_bytes
    if machine.arch == "aarch64" and machine.has("dotprod"):
        flip_a, flip_b = (False, False) if a == b else _flip_one(a, b, zero)
        return _quads("arm_dot", a, b, flip_a, flip_b)
    if machine.arch != "x86_64":
        return Scheme("plain", a, b, "s32")
    flip_a, flip_b = _flip_one(a, b, zero) if a == b else (False, False)
    quick = (
        machine.has("avx512vnni")
        if wide == 64
        else (wide == 32 and (machine.has("avxvnni") or machine.has("avx512vnni")))
    )
    if quick:
        return _quads("dot", a, b, flip_a, flip_b)
    made = _quads("pairs16", a, b, flip_a, flip_b)
    if weights is not None and _never_saturates(weights, made):
        return made
    return Scheme("pairs", "s16", b, "s32", 2)


def _flip_one(a: str, b: str, zero: Array | None) -> tuple[bool, bool]:
    """Which factor changes its sign: the right one where its zero points then vanish or are
    there anyway, else the left one, whose sums of rows are then not needed."""
    kept = zero is not None and not zero.any()
    return (True, False) if kept else (False, True)


def _quads(form: str, a: str, b: str, flip_a: bool, flip_b: bool) -> Scheme:
    other = {"u8": "s8", "s8": "u8"}
    return Scheme(
        form, other[a] if flip_a else a, other[b] if flip_b else b, "s32", 4, flip_a, flip_b
    )


def _never_saturates(weights: Array, scheme: Scheme) -> bool:
    """Whether no pair of products can leave 16 bits, for any left factor."""
    if weights.size == 0:
        return True
    flipped = (weights.view(np.uint8) ^ 0x80).view(to_numpy(scheme.b)) if scheme.flip_b else weights
    matrix = np.moveaxis(flipped, -2, -1).reshape(-1, weights.shape[-2])
    low, high = (0, 255) if scheme.a == "u8" else (-128, 127)
    return bool(pair_sums(matrix, low, high).safe.all())
