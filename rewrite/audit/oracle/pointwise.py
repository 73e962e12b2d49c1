"""Elementwise operators on real numbers, by the scalar bodies that `rewrite.ops` declares.

In: `Step`. Out: `Real`s or truth values. Sums, products, comparisons and selections are exact;
other steps (exp, erf, square roots) make the whole body a float64 computation with a bound.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np

from rewrite.audit.oracle import real as reals
from rewrite.audit.oracle import terms as exact
from rewrite.audit.oracle.real import EPS, Real
from rewrite.audit.oracle.step import OracleError, Step, Values
from rewrite.audit.oracle.terms import ONE, Term
from rewrite.ops import registry, scalar
from rewrite.quant.codes import Array

Truth = Array
Operand = Real | float | int

# Steps that lose nothing, or answer a question.
EXACT_STEPS = frozenset(
    {"add", "sub", "mul", "div", "min", "max", "neg", "abs", "sign", "floor", "ceil", "rint",
     "less", "less_equal", "equal", "is_nan", "select"}
)  # fmt: skip

# The largest magnitude of the derivative of functions where it is not large.
SLOPES = {
    "Sigmoid": 0.25, "Tanh": 1.0, "Erf": 1.1284, "Gelu": 1.13, "Mish": 1.1, "Softplus": 1.0,
    "Swish": 1.1, "Sin": 1.0, "Cos": 1.0, "Atan": 1.0, "QuickGelu": 1.1,
}  # fmt: skip


class RealBuilder:
    """The steps of scalar bodies on reals; truth values are boolean arrays."""

    def __init__(self, step: Step) -> None:
        self.step = step

    def add(self, x: Operand, y: Operand) -> Real:
        return reals.add(as_real(x), as_real(y))

    def sub(self, x: Operand, y: Operand) -> Real:
        return reals.subtract(as_real(x), as_real(y))

    def mul(self, x: Operand, y: Operand) -> Real:
        return reals.multiply(as_real(x), as_real(y))

    def div(self, x: Operand, y: Operand) -> Real:
        return reals.divide(as_real(x), as_real(y))

    def neg(self, x: Operand) -> Real:
        return reals.negate(as_real(x))

    def abs(self, x: Operand) -> Real:
        real = as_real(x)
        return self.select(self.less(real, 0.0), reals.negate(real), real)

    def min(self, x: Operand, y: Operand) -> Real:
        return self.select(self.less(y, x), y, x)

    def max(self, x: Operand, y: Operand) -> Real:
        return self.select(self.less(x, y), y, x)

    def sign(self, x: Operand) -> Real:
        return _integers(self._sign(as_real(x)).astype(np.float64))

    def rint(self, x: Operand) -> Real:
        one = Term(np.ones(()), ONE, None, 0, 1.0)
        limit = 2.0**exact.DIGITS
        return _integers(reals.nearest(as_real(x), one, -limit, limit, self.step.notes.doubts))

    def floor(self, x: Operand) -> Real:
        return self._toward(as_real(x), -1)

    def ceil(self, x: Operand) -> Real:
        return self._toward(as_real(x), 1)

    def _toward(self, x: Real, direction: int) -> Real:
        whole = reals.truncated(x, self.step.notes.doubts)
        rest = self._sign(reals.subtract(x, reals.lift(whole)))
        return _integers(whole + np.where(rest == direction, direction, 0))

    def less(self, x: Operand, y: Operand) -> Truth:
        return np.asarray(self._difference(x, y) < 0)

    def less_equal(self, x: Operand, y: Operand) -> Truth:
        return np.asarray(self._difference(x, y) <= 0) & ~self._unordered(x, y)

    def equal(self, x: Operand, y: Operand) -> Truth:
        return np.asarray(self._difference(x, y) == 0) & ~self._unordered(x, y)

    def is_nan(self, x: Operand) -> Truth:
        return np.isnan(as_real(x).floats)

    def select(self, condition: Truth, x: Operand, y: Operand) -> Real:
        return select(condition, as_real(x), as_real(y))

    def _difference(self, x: Operand, y: Operand) -> Array:
        a, b = as_real(x), as_real(y)
        if not isinstance(y, Real) and y == 0:
            return self._sign(a)
        with np.errstate(all="ignore"):
            if np.isinf(a.floats).any() or np.isinf(b.floats).any():
                return np.sign(np.nan_to_num(np.clip(a.floats, -1e300, 1e300) - b.floats))
        return self._sign(reals.subtract(a, b))

    def _unordered(self, x: Operand, y: Operand) -> Truth:
        return np.asarray(np.isnan(as_real(x).floats) | np.isnan(as_real(y).floats))

    def _sign(self, x: Real) -> Array:
        return reals.signs(x, self.step.notes.doubts)


def as_real(x: Operand | Array) -> Real:
    """A number of a body means the float32 number that a runtime has in its place."""
    if isinstance(x, Real):
        return x
    return reals.lift(np.asarray(x, np.float32) if isinstance(x, float | int) else x)


def _integers(x: Array) -> Real:
    if not np.isfinite(x).all():
        return reals.known(np.asarray(x), 0.0, np.float32)
    return Real([exact.integers(x)])


def select(condition: Truth, x: Real, y: Real) -> Real:
    """x where the condition holds, else y."""
    shape = np.broadcast_shapes(condition.shape, x.shape, y.shape)
    mask = np.broadcast_to(condition, shape)
    if mask.all():
        return x.moved(lambda a: np.broadcast_to(a, shape))
    if not mask.any():
        return y.moved(lambda a: np.broadcast_to(a, shape))
    parts = [exact.masked(_ranked(t, len(shape)), mask) for t in x.terms]
    parts += [exact.masked(_ranked(t, len(shape)), ~mask) for t in y.terms]
    return reals.total(parts, max(x.err, y.err), x.dtype)


def _ranked(term: Term, rank: int) -> Term:
    """The term with axes of size 1 in front, and its index with it."""
    if term.index is None or term.x.ndim == rank:
        return term
    shape = (1,) * (rank - term.x.ndim) + term.x.shape
    return exact.moved(term, lambda a: a.reshape(shape))


def pointwise(step: Step) -> Values | None:
    """The operator's body on reals; None where it has none."""
    definition = registry.find(step.domain, step.op)
    body: Any = None if definition is None else definition.body
    if definition is None or not callable(body) or not definition.pointwise:
        return None
    attributes = {
        name: scalar._attribute(step, name, default)  # type: ignore[arg-type]
        for name, default in (body.__kwdefaults__ or {}).items()
    }
    operands: list[Any] = [
        None if v is None else v if v_is_truth(v) else step.real(k)
        for k, v in enumerate(step.inputs)
    ]
    missing = body.__code__.co_argcount - 1 - len(operands)
    operands += [None] * max(0, missing)
    if _steps(body, operands, attributes) <= EXACT_STEPS:
        return (body(RealBuilder(step), *operands, **attributes),)
    return (_in_floats(step, body, operands, attributes),)


def v_is_truth(value: Real | Array) -> bool:
    return not isinstance(value, Real) and value.dtype.kind == "b"


def _steps(body: Callable[..., Any], operands: list[Any], attributes: dict[str, Any]) -> set[str]:
    counter = scalar.CountingBuilder()
    body(counter, *operands, **attributes)
    return set(counter.steps)


def _in_floats(
    step: Step, body: Callable[..., Any], operands: list[Any], attributes: dict[str, Any]
) -> Real:
    """The body in float64. Its error: that of the operands times the slope, and of its own."""
    builder = scalar.NumpyBuilder()

    def compute(shift: float) -> Array:
        floats = [x.floats + shift if isinstance(x, Real) else x for x in operands]
        with np.errstate(all="ignore"):
            return np.asarray(body(builder, *floats, **attributes), np.float64)

    y = compute(0.0)
    given = [x for x in operands if isinstance(x, Real)]
    if not given:
        raise OracleError("no operand of real numbers")
    slack = max(x.slack for x in given)
    err = 16 * EPS * exact.magnitude(y)
    if slack:
        slope = SLOPES.get(step.op)
        err += slack * (_slope(compute, y, given) if slope is None else slope)
    return reals.known(y, err, given[0].dtype)


def _slope(compute: Callable[[float], Array], y: Array, given: list[Real]) -> float:
    """How fast the result changes where it is finite, measured."""
    width = 2.0**-24 * max(1.0, *(x.largest for x in given))
    with np.errstate(all="ignore"):
        change = (compute(width) - y) / width
    return 2 * exact.magnitude(change)


def mean_factor(count: int) -> Real:
    """1 / count."""
    return Real([Term(np.ones(()), (Fraction(1, count),), None, 0, 1.0)])
