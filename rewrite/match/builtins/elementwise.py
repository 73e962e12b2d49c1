"""Functions of every element: `sqrt`, `max`, `clip`, constants of an element type.

In: tensors or numbers. Out: a tensor of the broadcast shape, in working precision; a plain number
where all arguments are plain numbers.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from rewrite.match import budget
from rewrite.match.builtins.registry import Dtype, builtin, register
from rewrite.match.values import Env, Tensor, Unknown, check_size, join_dtypes, working
from rewrite.ops.call import Array
from rewrite.schema import DTYPE_CLASSES, DTYPES

Ufunc = Callable[..., Array]


def met(*tensors: Tensor) -> None:
    """Tensors are about to meet under broadcasting."""
    shape = np.broadcast_shapes(*(t.shape for t in tensors))
    check_size(shape)
    budget.spend(math.prod(shape))


def apply(function: Ufunc, *tensors: Tensor) -> Tensor:
    """An elementwise function of tensors that meet under broadcasting."""
    met(*tensors)
    dtype = tensors[0].dtype
    for tensor in tensors[1:]:
        dtype = join_dtypes(Tensor(tensor.elements, dtype), tensor)
    for tensor in tensors:
        if tensor.array.dtype.kind == "O":
            raise Unknown("a string is not a number")
    return Tensor(np.asarray(function(*(t.array for t in tensors))), dtype)


def _erf(array: Array) -> Array:
    return np.asarray(np.vectorize(math.erf, otypes=[np.float64])(array))


def _sigmoid(array: Array) -> Array:
    # Both forms avoid exp of a large positive number: 1 / (1 + e^-x) and e^x / (1 + e^x).
    small = np.exp(-np.abs(array))
    return np.where(array >= 0, 1 / (1 + small), small / (1 + small))


def _within(function: Ufunc, array: Array) -> Array:
    """The function of integers, where float64 says that the results stay within int64."""
    if array.dtype.kind != "i":
        return function(array)
    if np.max(function(array.astype(np.float64)), initial=0.0) >= 2.0**62:
        raise Unknown("a number is out of the range of int64")
    return function(array)


_UNARY: tuple[tuple[str, Ufunc, str], ...] = (
    ("sqrt", np.sqrt, "Square root."),
    ("rsqrt", lambda a: 1 / np.sqrt(a), "One over the square root."),
    ("reciprocal", lambda a: 1 / a, "One over the value."),
    ("exp", np.exp, "e to the power of the value."),
    ("log", np.log, "Natural logarithm."),
    ("log2", np.log2, "Logarithm to base 2."),
    ("exp2", np.exp2, "2 to the power of the value."),
    ("abs", lambda a: _within(np.abs, a), "Magnitude."),
    ("square", lambda a: _within(np.square, a), "The value times itself."),
    ("sign", np.sign, "-1, 0 or 1."),
    ("floor", np.floor, "The largest integer not above the value."),
    ("ceil", np.ceil, "The least integer not below the value."),
    ("trunc", np.trunc, "The value without its fraction."),
    ("round", np.rint, "The nearest integer, ties to even."),
    ("rint", np.rint, "The nearest integer, ties to even."),
    ("sin", np.sin, "Sine."),
    ("cos", np.cos, "Cosine."),
    ("tanh", np.tanh, "Hyperbolic tangent."),
    ("erf", _erf, "Error function."),
    ("sigmoid", _sigmoid, "1 / (1 + exp(-x))."),
)


def _make_unary(function: Ufunc, doc: str) -> Callable[[Tensor], Tensor]:
    def unary(x: Tensor) -> Tensor:
        return apply(function, x)

    unary.__doc__ = doc + " Of every element."
    return unary


for _name, _function, _doc in _UNARY:
    register(_name, _make_unary(_function, _doc))


def _make_constant(dtype: str) -> Callable[[Tensor], Tensor]:
    def constant(x: Tensor) -> Tensor:
        return cast(x, dtype)

    constant.__doc__ = f"The number, list or constant as a constant of element type {dtype}."
    return constant


for _dtype in DTYPES:
    register(_dtype, _make_constant(_dtype))


@builtin
def cast(x: Tensor, dtype: Dtype) -> Tensor:
    """The constant rounded to an element type, as Cast does: fractions are cut off for integers."""
    array = x.rounded() if x.dtype else x.array
    array = array if array.dtype.kind in "bifcO" else working(array).array
    if dtype in DTYPE_CLASSES["int"] and array.dtype.kind == "f":
        array = np.asarray(np.trunc(array))  # of rank 0 numpy makes a scalar
    if dtype == "bool" and array.dtype.kind in "if":
        array = array != 0
    return working(Tensor(_in_working(array), dtype).rounded())


def _in_working(array: Array) -> Array:
    if array.dtype.kind == "f":
        return array.astype(np.float64)
    return array.astype(np.int64) if array.dtype.kind == "i" else array


@builtin
def like(env: Env, x: object, value: Tensor) -> Tensor:
    """The number as a constant of the element type of `x`."""
    from rewrite.match.builtins.queries import type_of

    dtype = type_of(env, x).dtype
    if dtype is None:
        raise Unknown("the element type is not known")
    return working(Tensor(value.array, dtype).rounded())


@builtin
def min_(*x: Tensor) -> Tensor:
    """The least of the arguments, element by element; of a list, its least item."""
    return _fold(np.minimum, x)


@builtin
def max_(*x: Tensor) -> Tensor:
    """The largest of the arguments, element by element; of a list, its largest item."""
    return _fold(np.maximum, x)


def _fold(function: Ufunc, tensors: tuple[Tensor, ...]) -> Tensor:
    if len(tensors) != 1:
        result = tensors[0]
        for tensor in tensors[1:]:
            result = apply(function, result, tensor)
        return result
    if tensors[0].array.dtype.kind in "OSU":
        raise Unknown("a string is not a number")
    reduce: Ufunc = np.min if function is np.minimum else np.max
    return Tensor(np.asarray(reduce(tensors[0].array)), tensors[0].dtype)


@builtin
def pow_(x: Tensor, y: Tensor) -> Tensor:
    """`x` to the power of `y`, element by element."""
    return apply(np.power, Tensor(x.reals(), x.dtype), y)


@builtin
def mod(x: Tensor, y: Tensor) -> Tensor:
    """The remainder with the sign of the divisor, element by element."""
    if y.array.dtype.kind in "bi" and (y.array == 0).any():
        raise Unknown("division by zero")
    return apply(np.mod, x, y)


@builtin
def select(condition: Tensor, x: Tensor, y: Tensor) -> Tensor:
    """`x` where the condition holds, else `y`, element by element."""
    met(condition, x, y)
    chosen = np.where(condition.array.astype(np.bool_), x.array, y.array)
    return Tensor(chosen, join_dtypes(x, y))


@builtin
def clip(x: Tensor, lo: Tensor, hi: Tensor) -> Tensor:
    """min(max(x, lo), hi), element by element."""
    return apply(np.minimum, apply(np.maximum, x, lo), hi)


@builtin
def is_nan(x: Tensor) -> Tensor:
    """Where the value is not a number."""
    return Tensor(np.isnan(x.array), "bool")


@builtin
def is_inf(x: Tensor) -> Tensor:
    """Where the value is infinite."""
    return Tensor(np.isinf(x.array), "bool")
