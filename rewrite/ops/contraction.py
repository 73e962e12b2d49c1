"""Operators that sum products over shared indices: MatMul, Gemm, Einsum, Det.

In: `Call` or `Evaluation`. Out: types or arrays. Floats are contracted in float64 and rounded
once, integers in int64 and wrapped to their type, which is what every order of summation gives.
"""

from __future__ import annotations

import re

import numpy as np

from rewrite.ops import dims
from rewrite.ops.call import Array, Arrays, Call, Evaluation, Types
from rewrite.ops.reduction import SUMMATION
from rewrite.ops.registry import op, value
from rewrite.ops.scalar import widen
from rewrite.schema import Dim, Shape, Type


def matmul_shape(call: Call, a: Shape | None, b: Shape | None) -> Shape | None:
    """numpy's rule: batch dimensions broadcast, a vector has its other dimension added."""
    if a is None or b is None:
        return _partial_matmul(call, a, b)
    if not a or not b:
        call.fail("a matrix product with a scalar")
    inner_b = b[-2] if len(b) > 1 else b[0]
    dims.same_dim(a[-1], inner_b)
    batch = dims.broadcast(a[:-2], b[:-2])
    rows = a[-2:-1]
    columns = b[-1:] if len(b) > 1 else ()
    return batch + rows + columns


def _partial_matmul(call: Call, a: Shape | None, b: Shape | None) -> Shape | None:
    """With a matrix on the right, the rank of the left side is that of the result: not known."""
    if a == () or b == ():
        call.fail("a matrix product with a scalar")
    return None


def contract(a: Array, b: Array) -> Array:
    """The matrix product, integers exact modulo 2^64."""
    with np.errstate(all="ignore"):
        return np.asarray(np.matmul(_wide(a), _wide(b)))


def _wide(x: Array) -> Array:
    return x.astype(np.int64) if x.dtype.kind in "iub" else widen(x, False)


@op("MatMul", kind="contraction")
def matmul(call: Call) -> Types:
    """The matrix product"""
    shape = matmul_shape(call, call.shape(0), call.shape(1))
    return (Type(call.dtype_of(0, 1), shape),)


@value("MatMul", error=SUMMATION, exact_integers=True)
def matmul_value(e: Evaluation) -> Arrays:
    a, b = e.array(0), e.array(1)
    return (contract(a, b).astype(a.dtype),)


@op("Gemm", kind="contraction")
def gemm(call: Call) -> Types:
    """alpha A B + beta C, either matrix transposed if wanted"""
    a = call.shape_of_rank(0, 2, "the first operand of Gemm")
    b = call.shape_of_rank(1, 2, "the second operand of Gemm")
    shape = gemm_shape(call, a, b)
    bias = call.shape(2)
    if bias is not None and len(bias) > 2:
        call.fail(f"the bias of Gemm has rank {len(bias)}")
    if bias is not None:
        wider = dims.broadcast(shape, bias)
        if any(isinstance(m, int) and m != n for m, n in zip(shape, wider, strict=True)):
            call.fail(f"the bias {bias} does not broadcast to {shape}")
    return (Type(call.dtype_of(0, 1, 2), shape),)


def gemm_shape(call: Call, a: Shape | None, b: Shape | None) -> Shape:
    if a is not None and call.integer("transA", 0):
        a = a[::-1]
    if b is not None and call.integer("transB", 0):
        b = b[::-1]
    if a is not None and b is not None:
        dims.same_dim(a[1], b[0])
    rows: Dim = call.fresh() if a is None else a[0]
    columns: Dim = call.fresh() if b is None else b[1]
    return (rows, columns)


@value("Gemm", error=SUMMATION)
def gemm_value(e: Evaluation) -> Arrays:
    a, b, c = e.array(0), e.array(1), e.optional(2)
    y = contract(a.T if e.integer("transA", 0) else a, b.T if e.integer("transB", 0) else b)
    y = y * _factor(e, "alpha", y)
    if c is not None:
        y = y + _wide(c) * _factor(e, "beta", y)
    return (y.astype(a.dtype),)


def _factor(e: Evaluation, name: str, y: Array) -> float | int:
    factor = e.float32(name, 1.0)
    return int(factor) if y.dtype.kind in "iu" and factor.is_integer() else factor


@op("Det", kind="contraction")
def determinant(call: Call) -> Types:
    """The determinant of each matrix"""
    x = call.type(0)
    if x.shape is None:
        return (Type(x.dtype, None),)
    if len(x.shape) < 2:
        call.fail(f"the determinant of a tensor of rank {len(x.shape)}")
    return (Type(x.dtype, x.shape[:-2]),)


@value("Det", error=SUMMATION)
def determinant_value(e: Evaluation) -> Arrays:
    x = e.array(0)
    return (np.asarray(np.linalg.det(x.astype(np.float64))).astype(x.dtype),)


# --- Einsum -----------------------------------------------------------------------------------


@op("Einsum", kind="contraction")
def einsum(call: Call) -> Types:
    """Sums of products with named indices"""
    dtype = call.dtype_of(*range(len(call.inputs)))
    terms, result = parse_equation(call.text("equation", ""))
    if len(terms) != len(call.inputs):
        call.fail(f"an equation of {len(terms)} terms for {len(call.inputs)} operands")
    sizes: dict[str, Dim] = {}
    ellipsis: Shape | None = ()
    for i, term in enumerate(terms):
        shape = call.shape(i)
        if shape is not None:
            part = _bind_term(call, term, shape, sizes)
            ellipsis = dims.broadcast(ellipsis, part) if ellipsis is not None else None
        elif "." in term:
            ellipsis = None
    if "." in result and ellipsis is None:
        return (Type(dtype, None),)
    before, dots, after = result.partition(".")
    middle = ellipsis if dots and ellipsis is not None else ()
    head = tuple(sizes[c] if c in sizes else call.fresh() for c in before)
    tail = tuple(sizes[c] if c in sizes else call.fresh() for c in after)
    return (Type(dtype, head + middle + tail),)


def _bind_term(call: Call, term: str, shape: Shape, sizes: dict[str, Dim]) -> Shape:
    """Sizes of the letters of one term; returns the dimensions that its ellipsis stands for."""
    before, dots, after = term.partition(".")
    extra = len(shape) - len(before) - len(after)
    if extra < 0 or (extra and not dots):
        call.fail(f"the term {term} for a tensor of rank {len(shape)}")
    cut = len(before) + extra
    letters = zip(before + after, shape[: len(before)] + shape[cut:], strict=True)
    for letter, size in letters:
        sizes[letter] = dims.broadcast_dim(sizes[letter], size) if letter in sizes else size
    return shape[len(before) : cut]


def parse_equation(equation: str) -> tuple[list[str], str]:
    """Input terms and output term, "..." written as "."; the output made explicit."""
    text = equation.replace(" ", "").replace("...", ".")
    left, arrow, right = text.partition("->")
    terms = left.split(",")
    if arrow:
        return terms, right
    letters = re.sub(r"[^A-Za-z]", "", left)
    once = sorted(c for c in set(letters) if letters.count(c) == 1)
    return terms, ("." if "." in left else "") + "".join(once)


@value("Einsum", error=SUMMATION, exact_integers=True)
def einsum_value(e: Evaluation) -> Arrays:
    arrays = [x for x in e.inputs if x is not None]
    wide = [_wide(x) for x in arrays]
    with np.errstate(all="ignore"):
        result = np.asarray(np.einsum(e.text("equation", "").replace(" ", ""), *wide))
    return (result.astype(arrays[0].dtype),)
