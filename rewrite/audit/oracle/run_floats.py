"""Operators in float64 on the numbers at hand, for functions that have no exact value here.

In: `Step`. Out: `Real`s with an allowance for rounding.
"""

from __future__ import annotations

import numpy as np

from rewrite.audit.oracle.real import EPS, Real, known
from rewrite.audit.oracle.standard import standard
from rewrite.audit.oracle.step import Step, Value, Values
from rewrite.audit.oracle.terms import magnitude
from rewrite.ops.dtypes import of_numpy
from rewrite.schema import DTYPE_CLASSES

FLOATS = DTYPE_CLASSES["f"]

# What is allowed for functions without a bound of their own, relative to the largest result:
# a normalization or a softmax of up to 2^12 terms in float64.
ALLOWANCE = 2.0**-40


def is_plain(value: Value | None) -> bool:
    """Integers, truth values, strings."""
    if value is None:
        return True
    return not isinstance(value, Real) and of_numpy(value.dtype) not in FLOATS


def in_floats(step: Step) -> Values:
    """The operator in float64 on the numbers at hand."""
    inputs: list[Value | None] = []
    slack = 0.0
    for k, value in enumerate(step.inputs):
        if value is None or is_plain(value):
            inputs.append(value)
            continue
        real = step.real(k)
        slack = max(slack, real.slack)
        inputs.append(real.floats)
    found: list[Value | None] = []
    for y in standard(step, inputs):
        if isinstance(y, np.ndarray) and y.dtype == np.float64:
            top = magnitude(y)
            y = known(y, top * ALLOWANCE + 16 * slack + EPS * top, np.float32)
        found.append(y)
    return tuple(found)
