"""Elementwise operators: one scalar body, read by different builders.

In: a body over a `Builder`, one operation of the builder per arithmetic step:

    @pointwise("HardSwish", error=1e-6)
    def hard_swish(b: Builder[V], x: V) -> V:
        return b.mul(x, b.max(0.0, b.min(1.0, b.add(b.mul(x, 1 / 6), 0.5))))

Out: its type inference, its reference value (`NumpyBuilder`) and its cost (`CountingBuilder`).
Positional parameters are operands (a default of None: the operand may be absent; `*xs`: any
number), keyword parameters are attributes with their defaults.

Width of arithmetic. A body declared exact is computed in the element type itself, float16 and
bfloat16 in float32 and rounded once: for one + - * / or square root this is the correctly
rounded result (24 >= 2 p + 2 bits), and it is what ONNX Runtime's CPU provider does, which runs
float16 operators in float32. Other bodies are computed in float64 and rounded once, so that the
error they state is the runtime's alone.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from typing import Any, Literal, Protocol, TypeVar

import numpy as np

from rewrite.ops import dims
from rewrite.ops.call import Array, Arrays, Call, Evaluation, Types
from rewrite.ops.dtypes import of_numpy
from rewrite.ops.registry import EXACT, ShapeClass, declare_scalar, declare_value
from rewrite.schema import UNKNOWN, Type

V = TypeVar("V")
Number = float | int


class UndefinedError(ArithmeticError):
    """The standard does not say what the value is: division of integers by zero and the like."""


class Builder(Protocol[V]):
    """The steps that bodies are made of. A Python number takes the element type of its partner.

    `min`, `max` give NaN if one side is. `div` of integers rounds toward zero. `rint` rounds
    half to even. Comparisons give truth values, on which the logical steps and `select` work.
    """

    def add(self, x: V | Number, y: V | Number) -> V: ...
    def sub(self, x: V | Number, y: V | Number) -> V: ...
    def mul(self, x: V | Number, y: V | Number) -> V: ...
    def div(self, x: V | Number, y: V | Number) -> V: ...
    def mod(self, x: V | Number, y: V | Number) -> V: ...
    def fmod(self, x: V | Number, y: V | Number) -> V: ...
    def pow(self, x: V | Number, y: V | Number) -> V: ...
    def min(self, x: V | Number, y: V | Number) -> V: ...
    def max(self, x: V | Number, y: V | Number) -> V: ...
    def neg(self, x: V) -> V: ...
    def abs(self, x: V) -> V: ...
    def sign(self, x: V) -> V: ...
    def floor(self, x: V) -> V: ...
    def ceil(self, x: V) -> V: ...
    def rint(self, x: V) -> V: ...
    def sqrt(self, x: V) -> V: ...
    def exp(self, x: V) -> V: ...
    def expm1(self, x: V) -> V: ...
    def log(self, x: V) -> V: ...
    def log1p(self, x: V) -> V: ...
    def sin(self, x: V) -> V: ...
    def cos(self, x: V) -> V: ...
    def tan(self, x: V) -> V: ...
    def asin(self, x: V) -> V: ...
    def acos(self, x: V) -> V: ...
    def atan(self, x: V) -> V: ...
    def sinh(self, x: V) -> V: ...
    def cosh(self, x: V) -> V: ...
    def tanh(self, x: V) -> V: ...
    def asinh(self, x: V) -> V: ...
    def acosh(self, x: V) -> V: ...
    def atanh(self, x: V) -> V: ...
    def erf(self, x: V) -> V: ...
    def less(self, x: V | Number, y: V | Number) -> V: ...
    def less_equal(self, x: V | Number, y: V | Number) -> V: ...
    def equal(self, x: V | Number, y: V | Number) -> V: ...
    def is_nan(self, x: V) -> V: ...
    def logical_and(self, x: V, y: V) -> V: ...
    def logical_or(self, x: V, y: V) -> V: ...
    def logical_xor(self, x: V, y: V) -> V: ...
    def logical_not(self, x: V) -> V: ...
    def bit_and(self, x: V, y: V) -> V: ...
    def bit_or(self, x: V, y: V) -> V: ...
    def bit_xor(self, x: V, y: V) -> V: ...
    def bit_not(self, x: V) -> V: ...
    def shift_left(self, x: V, y: V) -> V: ...
    def shift_right(self, x: V, y: V) -> V: ...
    def select(self, condition: V, x: V | Number, y: V | Number) -> V: ...


_UFUNCS: dict[str, Callable[..., Any]] = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "min": np.minimum, "max": np.maximum,
    "neg": np.negative, "abs": np.absolute, "sqrt": np.sqrt, "exp": np.exp,
    "expm1": np.expm1, "log": np.log, "log1p": np.log1p, "sin": np.sin, "cos": np.cos,
    "tan": np.tan, "asin": np.arcsin, "acos": np.arccos, "atan": np.arctan, "sinh": np.sinh,
    "cosh": np.cosh, "tanh": np.tanh, "asinh": np.arcsinh, "acosh": np.arccosh,
    "atanh": np.arctanh, "less": np.less, "less_equal": np.less_equal, "equal": np.equal,
    "is_nan": np.isnan, "logical_and": np.logical_and, "logical_or": np.logical_or,
    "logical_xor": np.logical_xor, "logical_not": np.logical_not, "bit_and": np.bitwise_and,
    "bit_or": np.bitwise_or, "bit_xor": np.bitwise_xor, "bit_not": np.invert,
    "select": np.where,
}  # fmt: skip


class NumpyBuilder:
    """Computes the body on whole arrays."""

    def __getattr__(self, name: str) -> Callable[..., Any]:
        function = _UFUNCS.get(name)
        if function is None:
            raise AttributeError(name)
        setattr(self, name, function)
        return function

    def erf(self, x: Any) -> Any:
        given = np.asarray(x)
        found = np.fromiter(map(math.erf, given.reshape(-1)), np.float64, given.size)
        return found.reshape(given.shape).astype(given.dtype)

    def floor(self, x: Any) -> Any:
        return x if np.asarray(x).dtype.kind in "iub" else np.floor(x)

    def ceil(self, x: Any) -> Any:
        return x if np.asarray(x).dtype.kind in "iub" else np.ceil(x)

    def rint(self, x: Any) -> Any:
        return x if np.asarray(x).dtype.kind in "iub" else np.rint(x)

    def sign(self, x: Any) -> Any:
        if np.asarray(x).dtype.kind == "f" and np.isnan(x).any():
            raise UndefinedError("the sign of NaN")
        return np.sign(x)

    def div(self, x: Any, y: Any) -> Any:
        if not _integers(x, y):
            return np.divide(x, y)
        self._check_division(x, y)
        quotient = np.floor_divide(x, y)
        toward_zero = (np.remainder(x, y) != 0) & ((np.less(x, 0)) != (np.less(y, 0)))
        return quotient + toward_zero.astype(quotient.dtype)

    def mod(self, x: Any, y: Any) -> Any:
        if _integers(x, y):
            self._check_division(x, y)
        return np.remainder(x, y)

    def fmod(self, x: Any, y: Any) -> Any:
        if _integers(x, y):
            self._check_division(x, y)
        return np.fmod(x, y)

    def pow(self, x: Any, y: Any) -> Any:
        return np.power(x, y)

    def shift_left(self, x: Any, y: Any) -> Any:
        _check_shift(x, y)
        return np.left_shift(x, y)

    def shift_right(self, x: Any, y: Any) -> Any:
        _check_shift(x, y)
        return np.right_shift(x, y)

    def _check_division(self, x: Any, y: Any) -> None:
        if np.any(np.equal(y, 0)):
            raise UndefinedError("integer division by zero")
        dtype = np.asarray(x).dtype
        if dtype.kind == "i":
            lowest = np.iinfo(dtype).min
            if np.any(np.equal(x, lowest) & np.equal(y, -1)):
                raise UndefinedError("the quotient does not fit")


def _integers(x: Any, y: Any) -> bool:
    return all(np.asarray(v).dtype.kind in "iub" for v in (x, y))


def _check_shift(x: Any, y: Any) -> None:
    bits = 8 * np.asarray(x).dtype.itemsize
    if np.any(np.less(y, 0) | np.greater_equal(y, bits)):
        raise UndefinedError("a shift by the width of the type or more")


class CountingBuilder:
    """Counts the steps of a body, by name: its cost, once a target says what a step costs."""

    def __init__(self) -> None:
        self.steps: Counter[str] = Counter()

    def __getattr__(self, name: str) -> Callable[..., None]:
        if name.startswith("_"):
            raise AttributeError(name)

        def step(*operands: object) -> None:
            self.steps[name] += 1

        return step


def count(body: Callable[..., Any], n_operands: int, **attributes: object) -> Counter[str]:
    """The steps that `body` takes for one element, with these attributes."""
    builder = CountingBuilder()
    body(builder, *([None] * n_operands), **attributes)
    return builder.steps


# --- declaration ------------------------------------------------------------------------------

Out = Literal["same", "first", "bool"]


def pointwise(
    name: str,
    *,
    domain: str = "",
    error: Literal["exact"] | float = EXACT,
    commutative: bool = False,
    out: Out = "same",
    shape: ShapeClass | None = None,
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Declares the operator that applies the body to each element.

    `shape`: that of the first operand, or of all broadcast against each other; by default the
    first for one operand, else the second. `out`: the element type that all operands have, that
    of the first, or bool. `error`: relative to the largest output, in float32.
    """

    def declare(body: Callable[..., Any]) -> Callable[..., Any]:
        unary = body.__code__.co_argcount == 2 and not body.__code__.co_flags & _VARARGS
        shape_class: ShapeClass = shape or ("first" if unary else "broadcast")
        infer = _INFER[shape_class, out]
        declare_scalar((domain, name), infer, body, commutative, shape_class)
        declare_value((domain, name), _evaluator(body, error, out), error)
        return body

    return declare


_VARARGS = 0x04  # inspect.CO_VARARGS


def infer_first(call: Call) -> Types:
    """Element type and shape of the first operand."""
    return (call.inputs[0] or UNKNOWN,)


def infer_first_bool(call: Call) -> Types:
    return (Type("bool", call.type(0).shape),)


def infer_broadcast(call: Call) -> Types:
    """The operands broadcast against each other; the element type they share."""
    first = call.inputs[0] or UNKNOWN
    dtype, shape = first.dtype, first.shape
    for operand in call.inputs[1:]:
        if operand is None:
            continue
        if dtype is None:
            dtype = operand.dtype
        other = operand.shape
        if other != shape:
            known = shape is not None and other is not None
            shape = dims.broadcast(shape, other) if known else None  # type: ignore[arg-type]
    if dtype is first.dtype and shape is first.shape:
        return (first,)
    return (Type(dtype, shape),)


def infer_broadcast_bool(call: Call) -> Types:
    return (Type("bool", infer_broadcast(call)[0].shape),)


def infer_broadcast_of_first(call: Call) -> Types:
    return (Type(call.type(0).dtype, infer_broadcast(call)[0].shape),)


_INFER: dict[tuple[str, str], Callable[[Call], Types]] = {
    ("first", "same"): infer_first,
    ("first", "bool"): infer_first_bool,
    ("broadcast", "same"): infer_broadcast,
    ("broadcast", "bool"): infer_broadcast_bool,
    ("broadcast", "first"): infer_broadcast_of_first,
}


def _evaluator(
    body: Callable[..., Any], error: Literal["exact"] | float, out: str
) -> Callable[[Evaluation], Arrays | None]:
    """The body computed by numpy, attributes read from the node."""
    defaults = dict(body.__kwdefaults__ or {})
    at_least = body.__code__.co_argcount - 1
    exact = error == EXACT

    def evaluate(e: Evaluation) -> Arrays | None:
        operands = list(e.inputs) + [None] * (at_least - len(e.inputs))
        result_type = np.dtype(bool) if out == "bool" else e.array(0).dtype
        attributes = {name: _attribute(e, name, d) for name, d in defaults.items()}
        wide = [None if x is None else widen(x, exact) for x in operands]
        try:
            with np.errstate(all="ignore"):
                result = body(_NUMPY, *wide, **attributes)
                return (np.asarray(result).astype(result_type, copy=False),)
        except UndefinedError:
            return None

    return evaluate


_NUMPY = NumpyBuilder()


def _attribute(e: Evaluation, name: str, default: object) -> object:
    if isinstance(default, float):
        # ONNX keeps a float attribute in float32; a default in the text means the same number.
        return e.float32(name, default)
    if isinstance(default, int):
        return e.integer(name, default)
    return e.text(name, str(default))


def widen(x: Array, exact: bool) -> Array:
    """The array in the type that arithmetic is done in."""
    name = of_numpy(x.dtype)
    if name is None or name[0] not in "fb" or name in ("f64", "bool"):
        return x
    if exact:
        return x if name == "f32" else x.astype(np.float32)
    return x.astype(np.float64)
