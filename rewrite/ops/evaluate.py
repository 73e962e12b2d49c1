"""The reference value of a node whose operands are known.

In: operator, opset, operand arrays in newest form, attributes as plain values. Out: the arrays of
its outputs; `OPEN`, an empty tuple, where a value is declared but the standard leaves it open for
these operands (integer division by zero, a float cast out of range, two updates of one element,
NaN in a comparison of order) or does not take them; None where no value is declared here. Only
in the last case may another evaluator be asked: where it is open, runtimes disagree.

Exactness. `registry.find(...).evaluation` is "exact" where every conforming runtime gives the
same bits: moved elements, integer arithmetic, comparisons, correctly rounded + - * / and square
root, conversions. NaN payloads, and the sign of a zero that min or max picked among zeros, are not
part of the promise. Otherwise it is the relative error, against the largest magnitude of the
output, by which a float32 runtime may differ; `tolerance` scales it to other element types.

float16 and bfloat16 are computed in a wider type and rounded once, as ONNX Runtime's CPU provider
does, which has no kernels of its own for most of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from rewrite.ops import registry, schemas
from rewrite.ops.call import ILL_TYPED, Array, Arrays, Evaluation, InferenceError
from rewrite.ops.dtypes import of_numpy
from rewrite.ops.infer import infer
from rewrite.schema import Type

OPEN: Arrays = ()

# How much coarser than float32 a type is. float64 counts as float32: runtimes use float32
# constants and approximations for it.
_COARSENESS = {"f16": 2.0**13, "bf16": 2.0**16}


def evaluate(
    domain: str,
    name: str,
    opset: int,
    inputs: Sequence[Array | None],
    attributes: Mapping[str, Any],
    n_outputs: int | None = None,
) -> Arrays | None:
    """The first `n_outputs` outputs, or all that are computed here; `OPEN`; or None.

    Split without sizes has to be told how many outputs its node has.
    """
    definition = registry.find(domain, name)
    if definition is None or definition.evaluate is None:
        return None
    if schemas.lookup(domain, name, opset) is None:
        return None
    try:
        if not _well_typed(domain, name, opset, inputs, attributes, n_outputs or 1):
            return OPEN
        found = definition.evaluate(Evaluation(opset, inputs, attributes, n_outputs or 1))
    except (InferenceError, MemoryError, *ILL_TYPED):
        return OPEN
    if found is None or len(found) < (n_outputs or 1):
        return OPEN
    return found[:n_outputs]


def _well_typed(
    domain: str,
    name: str,
    opset: int,
    inputs: Sequence[Array | None],
    attributes: Mapping[str, Any],
    n_outputs: int,
) -> bool:
    """Whether inference accepts the operands, so that declarations may rely on their types."""
    types = [None if x is None else Type(of_numpy(x.dtype), tuple(x.shape)) for x in inputs]
    if any(t is not None and t.dtype is None for t in types):
        return False

    def constant(index: int) -> Array | None:
        return inputs[index]

    return infer(domain, name, opset, types, attributes, constant, n_outputs) is not None


def tolerance(domain: str, name: str, dtype: str) -> float | None:
    """The relative error in the element type of the output; 0 where exact, None if no value."""
    definition = registry.find(domain, name)
    evaluation = None if definition is None else definition.evaluation_of(dtype)
    if evaluation is None:
        return None
    return 0.0 if evaluation == registry.EXACT else float(evaluation) * _COARSENESS.get(dtype, 1.0)


def differs(expected: Array, found: Array, relative: float) -> str | None:
    """Why `found` is not `expected` within the error, or None: the comparison that tests use."""
    if expected.dtype != found.dtype or expected.shape != found.shape:
        return f"{found.dtype}{found.shape} is not {expected.dtype}{expected.shape}"
    if expected.dtype.kind in "iubOUS":
        return None if np.array_equal(expected, found) else "different elements"
    a, b = expected.astype(np.float64), found.astype(np.float64)
    if not np.array_equal(np.isnan(a), np.isnan(b)):
        return "NaN at different places"
    finite = np.isfinite(a) & np.isfinite(b)
    if not np.array_equal(a[~finite & ~np.isnan(a)], b[~finite & ~np.isnan(a)]):
        return "infinite at different places"
    if not finite.any():
        return None
    scale = float(np.max(np.abs(a[finite])))
    worst = float(np.max(np.abs(a[finite] - b[finite])))
    return (
        None if worst <= relative * scale else f"off by {worst:.3g} at a magnitude of {scale:.3g}"
    )
