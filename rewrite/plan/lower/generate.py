"""Operators that make tensors out of sizes and numbers known when the plan is made.

In: instances. Out: constants, or views of one element where all are the same. Small ones are values
of the plan already (rewrite/plan/known.py).
"""

from __future__ import annotations

import numpy as np

from rewrite.ops.dtypes import to_numpy
from rewrite.plan.lowering import Instance, Lowering, lowers


@lowers("ConstantOfShape")
def constant_of_shape(low: Lowering, op: Instance) -> None:
    value = op.tensor("value")
    one = np.zeros((), np.float32) if value is None else value.reshape(())
    low.alias(0, low.constant(np.array(one)).broadcast(op.out_shape()))


@lowers("EyeLike")
def eye_like(low: Lowering, op: Instance) -> None:
    rows, columns = op.out_shape()
    eye = np.eye(rows, columns, op.integer("k", 0), to_numpy(op.out_dtype()))
    low.alias(0, low.constant(eye))


@lowers("Range", needs=(0, 1, 2))
def range_(low: Lowering, op: Instance) -> None:
    """Start plus a multiple of the step, in float64 or int64, then rounded."""
    start, _, step = (op.known(i) for i in range(3))
    assert start is not None
    assert step is not None
    (count,) = op.out_shape()
    places = np.arange(count)
    if start.dtype.kind not in "iu":
        places = places.astype(np.float64)
    first, by = start.reshape(()).item(), step.reshape(()).item()
    low.alias(0, low.constant((first + by * places).astype(start.dtype)))
