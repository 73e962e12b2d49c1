"""Operators that move elements, select them, or only ask for a shape; Cast.

In: `Step`. Out: values that are as exact as the operand was.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from rewrite.audit.oracle import real as reals
from rewrite.audit.oracle import terms as exact
from rewrite.audit.oracle.pointwise import select
from rewrite.audit.oracle.real import Real, lift
from rewrite.audit.oracle.standard import standard
from rewrite.audit.oracle.step import OracleError, Step, Values, operator
from rewrite.ops.dtypes import integer_range, of_numpy, to_numpy
from rewrite.quant.codes import Array

MOVES = (
    "Reshape", "Transpose", "Slice", "Gather", "GatherElements", "GatherND", "Squeeze", "Unsqueeze",
    "Flatten", "Expand", "Tile", "DepthToSpace", "SpaceToDepth", "Identity", "Trilu",
    "ReverseSequence", "Compress",
)  # fmt: skip


def _moved(step: Step, k: int = 0) -> exact.Move:
    """The standard's own value of output k, as a function of the first operand."""

    def move(a: Array) -> Array:
        value = standard(step, (np.ascontiguousarray(a), *step.inputs[1:]))[k]
        assert isinstance(value, np.ndarray)
        return value

    return move


@operator(*MOVES)
def move(step: Step) -> Values:
    return (step.real(0).moved(_moved(step)),)


@operator("Split")
def split(step: Step) -> Values:
    x = step.real(0)
    return tuple(x.moved(_moved(step, k)) for k in range(step.n_outputs))


@operator("Dropout")
def dropout(step: Step) -> Values:
    """Nothing is dropped outside of training; the mask is true everywhere."""
    if step.has(2) and bool(step.array(2).any()):
        raise OracleError("a Dropout in training")
    x = step.real(0)
    return x, np.ones(x.shape, bool)


@operator("Concat")
def concat(step: Step) -> Values:
    axis = step.integer("axis", 0)
    return (joined([step.real(k) for k in range(len(step.inputs))], axis),)


def joined(given: list[Real], axis: int) -> Real:
    """Tensors one after another."""
    most = max(len(x.terms) for x in given)
    parts = []
    for k in range(most):
        row = []
        for x in given:
            term = x.terms[k] if k < len(x.terms) else exact.integers(np.zeros(x.shape))
            row.append(reals.widened(term, x.shape))
        parts.append(exact.joined(row, lambda arrays: np.concatenate(arrays, axis)))
    return reals.total(parts, max(x.err for x in given), given[0].dtype)


@operator("Where")
def where(step: Step) -> Values:
    return (select(step.array(0), step.real(1), step.real(2)),)


@operator("Pad")
def pad(step: Step) -> Values:
    """Padded with zeros, and with the constant where that is not 0."""
    x = step.real(0)
    rest = step.inputs[3:]
    if step.text("mode", "constant") != "constant" or not step.has(2):
        return (x.moved(_moved(step)),)
    inner = step.replaced("Pad", (x, step.value(1), None, *rest), step.attributes)
    moved = x.moved(_moved(inner))
    constant = step.real(2)
    if not np.any(constant.floats):
        return (moved,)
    ones = lift(np.ones(x.shape, np.float32)).moved(_moved(inner))
    return (select(ones.floats == 0, constant.moved(lambda a: a.reshape(())), moved),)


@operator("Resize", "Upsample")
def resize(step: Step) -> Values | None:
    """Nearest elements; other modes are weighted sums, left to float64."""
    if step.text("mode", "nearest") != "nearest":
        return None
    return (step.real(0).moved(_moved(step)),)


@operator("Shape", "Size")
def shape(step: Step) -> Values:
    x = step.value(0)
    return standard(step, (np.broadcast_to(np.float32(0), x.shape),))


@operator("Cast", "CastLike")
def cast(step: Step) -> Values:
    kind = _target(step)
    value = step.value(0)
    if kind.kind in "OUST" or (not isinstance(value, Real) and value.dtype.kind in "OUST"):
        raise OracleError("a Cast of real numbers and strings")
    return (_cast(step, lift(value), kind),)


def _target(step: Step) -> np.dtype[Any]:
    if step.op == "CastLike":
        like = step.value(1)
        return like.dtype
    name = step.element_type("to", None)
    if name is None:
        raise OracleError("a Cast without `to`")
    return to_numpy(name)


def _cast(step: Step, x: Real, kind: np.dtype[Any]) -> Real | Array:
    """To integers toward zero; to float32 and float64 the same number; to narrow floats rounded."""
    if kind.kind == "b":
        return np.asarray(reals.signs(x, step.notes.doubts) != 0) | np.isnan(x.floats)
    name = of_numpy(kind)
    if kind in (np.dtype(np.float32), np.dtype(np.float64)):
        return Real(x.terms, x.err, kind)
    if name is None or name[0] not in "us":
        with np.errstate(all="ignore"):
            return lift(x.floats.astype(kind))
    whole = reals.truncated(x, step.notes.doubts)
    low, high = integer_range(name)
    outside = ~((whole >= low) & (whole <= high))
    step.fault(f"a number outside of {name} is cast to it", int(outside.sum()))
    return np.clip(np.nan_to_num(whole), low, min(high, 2**63 - 1024)).astype(np.int64).astype(kind)


@operator("ArgMax", "ArgMin", "NonZero", "IsInf")
def asked_of_floats(step: Step) -> Values:
    """Answers that are indices or truth values, from the numbers in float64."""
    return standard(step, (step.real(0).floats, *step.inputs[1:]))


@operator("TopK")
def top_k(step: Step) -> Values:
    x = step.real(0)
    axis = step.integer("axis", -1)
    values, indices = standard(step, (x.floats, *step.inputs[1:]))
    del values
    assert isinstance(indices, np.ndarray)
    return x.moved(lambda a: np.take_along_axis(a, indices, axis)), indices


@operator("OneHot", "ScatterElements", "ScatterND", "CumSum")
def rearranged_floats(step: Step) -> None:
    """Left to float64."""
