"""The values that expressions compute with, and the environment they are computed in.

In: model constants, numbers, lists. Out: `Tensor` (a constant), `Env`, and `Unknown`, raised where
something is not known or not computable.

Constants are computed in float64 (int64 for integers) and rounded once, by `Tensor.rounded`, to the
element type of the tensors they come from. What only moves elements keeps them as they are stored.
A number has no element type of its own: it takes the type of the tensor that it meets.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeGuard

import numpy as np

from rewrite.match.deferred import Deferred, stored
from rewrite.ops import dtypes
from rewrite.ops.call import Array
from rewrite.ops.dtypes import of_numpy, to_numpy
from rewrite.schema import DTYPE_CLASSES

if TYPE_CHECKING:
    import onnx_ir as ir

    from rewrite.graph.facts import Facts
    from rewrite.target.target import Target

# The most elements that one computed constant may have; `element_limit.set` changes it.
MOST_ELEMENTS = 1 << 28
element_limit: ContextVar[int] = ContextVar("element_limit", default=MOST_ELEMENTS)

_INT64 = 1 << 63
_WORKING = frozenset(map(np.dtype, (np.float64, np.int64, np.bool_, np.complex128)))
_MISSING = object()


class Unknown(Exception):  # noqa: N818 - a state of knowledge, not an error of the user
    """Something an expression needs is not known or not computable. `reason` is for people."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class OverBudget(Unknown):
    """The expression would compute a tensor with more elements than allowed."""


class Symbol(str):
    """The name of a size that is not known: equal names are equal sizes, nothing else is known."""

    __slots__ = ()


class ElementType(str):
    """An element type as a value: `f32`. Equal to the same word as a string."""

    __slots__ = ()


class Tensor:
    """A constant: its elements as they are stored, or in working precision (float64, int64, bool,
    complex128, object for strings).

    `dtype` is the element type it will be rounded to; None where it came from numbers alone.
    """

    __slots__ = ("_elements", "_wide", "dtype", "shape")

    def __init__(self, elements: Array | Deferred, dtype: str | None) -> None:
        self._elements = elements
        self.dtype = dtype
        self.shape: tuple[int, ...] = elements.shape
        self._wide: Array | None = None

    def __repr__(self) -> str:
        return f"Tensor({self.array!r}, {self.dtype!r})"

    @property
    def elements(self) -> Array:
        """The elements, computed when first asked for."""
        if isinstance(self._elements, Deferred):
            self._elements = self._elements.wide()
        return self._elements

    @property
    def late(self) -> Array | Deferred:
        """The elements, or how they are computed."""
        return self._elements

    @property
    def array(self) -> Array:
        """The elements in working precision, widened when first asked for."""
        if self._wide is None:
            self._wide = _widened(self.elements)
        return self._wide

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    @property
    def ndim(self) -> int:
        return len(self.shape)

    def reals(self) -> Array:
        """The elements as float64."""
        if self.array.dtype.kind not in "bif":
            raise Unknown("a string or a complex number is not a real number")
        return self.array.astype(np.float64, copy=False)

    def rounded(self, dtype: str | None = None) -> Array:
        """The array in its element type (`dtype` for a tensor without one), rounded once."""
        name = self.dtype or dtype
        if name is None:
            raise Unknown("the element type of this constant is not known")
        target = to_numpy(name)
        if isinstance(self._elements, Deferred):
            found = stored(self._elements, target)
            if found is not None:
                return found
        if self.elements.dtype == target:
            # An array of its own: a part would keep the whole in memory.
            return self.elements if self.elements.flags.owndata else self.elements.copy()
        return _round(self.array, name)


def working(array: Array) -> Tensor:
    """A model's constant."""
    name = of_numpy(array.dtype)
    if name is None:
        raise Unknown(f"constants of type {array.dtype} are not computed with")
    check_size(array.shape)
    if name == "u64" and array.size and int(array.max()) >= _INT64:
        raise Unknown("a u64 constant does not fit int64")
    return Tensor(array, name)


def _widened(array: Array) -> Array:
    """The elements in working precision."""
    if array.dtype in _WORKING or array.dtype.kind in "OUST":
        return array
    name = of_numpy(array.dtype)
    if name in DTYPE_CLASSES["f"]:
        wide: np.dtype[Any] = np.dtype(np.float64)
    else:
        wide = np.dtype(np.complex128 if array.dtype.kind == "c" else np.int64)
    with np.errstate(all="ignore"):  # a signalling NaN becomes a quiet one
        return array.astype(wide)


def weak(value: object) -> Tensor:
    """A number or a list of numbers as a tensor that takes the type of the one it meets."""
    if isinstance(value, (bool, int, float)):
        return Tensor(_plain(value), None)
    if isinstance(value, tuple):
        for item in value:
            if not isinstance(item, (bool, int, float)):
                raise Unknown(f"{describe(item)} is not a number")
        if not value:
            return Tensor(np.zeros(0, np.int64), None)
        return Tensor(_plain(value), None)
    raise Unknown(f"{describe(value)} is not a constant")


def _plain(value: object) -> Array:
    array = np.asarray(value)
    if array.dtype == np.bool_ or array.dtype == np.int64:
        return array
    return array.astype(np.float64)


def join_dtypes(a: Tensor, b: Tensor) -> str | None:
    """The element type of a result of both: a tensor without one takes that of the other."""
    if a.dtype == b.dtype or b.dtype is None:
        return a.dtype
    if a.dtype is None:
        return b.dtype
    raise Unknown(f"element types {a.dtype} and {b.dtype} differ")


def check_size(shape: tuple[int, ...]) -> None:
    """Refuse a tensor that has more elements than allowed."""
    count = math.prod(shape)
    if count > element_limit.get():
        raise OverBudget(f"a constant of {count} elements is over the limit")


def check_int(value: int) -> int:
    """Numbers stay within int64, so that no expression grows without bound."""
    if not -_INT64 <= value < _INT64:
        raise Unknown("a number is out of the range of int64")
    return value


def describe(value: object) -> str:
    """A value in words, for reasons."""
    if value is None:
        return "an absent operand"
    if isinstance(value, Tensor):
        return "a constant"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Symbol):
        return f"the size {value}, which is not known,"
    if isinstance(value, (int, float)):
        return f"the number {value}"
    if isinstance(value, str):
        return f'"{value}"'
    if isinstance(value, tuple):
        return "a list"
    name = getattr(value, "name", None)
    return f"value `{name}`" if name else "a value"


def _round(array: Array, name: str) -> Array:
    if name in ("string", "bool"):
        if array.dtype.kind != ("O" if name == "string" else "b") and array.size:
            raise Unknown(f"the computed constant is not of type {name}")
        return array if name == "string" else array.astype(np.bool_)
    if array.dtype.kind == "O":
        raise Unknown("a string is not a number")
    if name in DTYPE_CLASSES["f"]:
        return _round_float(array, name)
    if name in ("c64", "c128"):
        return array.astype(to_numpy(name))
    return _round_int(array, name)


def _round_float(array: Array, name: str) -> Array:
    if array.dtype.kind == "c":
        raise Unknown("a complex number is not real")
    target = to_numpy(name)
    wide = array.astype(np.float64, copy=False)
    with np.errstate(all="ignore"):
        native = target.isbuiltin == 1
        narrow = wide.astype(target) if native else _to_odd(wide).astype(target)
        if not np.isfinite(narrow).all() and _overflows(wide, narrow):
            raise Unknown(f"the computed constant overflows {name}")
    return narrow


def _overflows(wide: Array, narrow: Array) -> bool:
    return bool((np.isfinite(wide) & ~np.isfinite(narrow.astype(np.float64))).any())


def _to_odd(wide: Array) -> Array:
    """float64 to float32, inexact results made odd.

    Types of ml_dtypes convert from float64 by way of float32, which would round twice; a sticky
    last bit makes the second rounding give what one would (Boldo and Melquiond, 2008).
    """
    single = wide.astype(np.float32)
    inexact = np.isfinite(wide) & np.isfinite(single) & (single.astype(np.float64) != wide)
    if not inexact.any():
        return single
    larger = np.abs(single.astype(np.float64)) > np.abs(wide)
    truncated = np.where(inexact & larger, np.nextafter(single, np.float32(0)), single)
    bits = np.array(truncated, np.float32).view(np.int32)
    return np.asarray(np.where(inexact, bits | 1, bits), np.int32).view(np.float32)


def _round_int(array: Array, name: str) -> Array:
    low, high = integer_range(name)
    if array.dtype.kind == "f":
        if not np.isfinite(array).all() or (array != np.trunc(array)).any():
            raise Unknown(f"the computed constant is not an integer, as {name} needs")
        if array.size and np.abs(array).max() > 2.0**53:
            raise Unknown("the computed integer is too large to be exact")
    if array.size and not low <= int(array.min()) <= int(array.max()) <= high:
        raise Unknown(f"the computed constant is out of the range of {name}")
    return array.astype(np.int64).astype(to_numpy(name))


def integer_range(name: str) -> tuple[int, int]:
    """The least and the largest value of an integer type."""
    if name not in DTYPE_CLASSES["int"]:
        raise Unknown(f"{name} is not an integer type")
    return dtypes.integer_range(name)


@dataclass(slots=True)
class Env:
    """What names mean in an expression: the bindings of one match, and whom to ask about values.

    `lets` are computed when first asked for and kept: one that cannot be computed matters only
    where it is used.
    """

    names: dict[str, object]
    facts: Facts
    target: Target | None = None
    branches: frozenset[str] = frozenset()
    nodes: tuple[ir.Node, ...] = ()
    lets: Mapping[str, Callable[[Env], object]] = field(default_factory=dict)
    _tensors: dict[object, Tensor] = field(default_factory=dict)
    _failed: dict[str, str] = field(default_factory=dict)  # lets, and why they are unknown

    def bound(self, name: str, value: object) -> Env:
        """The same environment with one more name."""
        return self._with({**self.names, name: value}, self.lets)

    def _with(self, names: dict[str, object], lets: Mapping[str, Callable[[Env], object]]) -> Env:
        """The same environment with other names and definitions."""
        return Env(
            names,
            self.facts,
            self.target,
            self.branches,
            self.nodes,
            lets,
            self._tensors,
            self._failed,
        )

    def lookup(self, name: str) -> object:
        """What the name is bound to."""
        found = self.names.get(name, _MISSING)
        if found is not _MISSING:
            return found
        definition = self.lets.get(name)
        if definition is None:
            raise Unknown(f"`{name}` is not bound")
        if name in self._failed:
            raise Unknown(self._failed[name])
        lets = {k: v for k, v in self.lets.items() if k != name}
        try:
            value = self.names[name] = definition(self._with(self.names, lets))
        except Unknown as unknown:
            self._failed[name] = unknown.reason
            raise
        return value

    def tensor(self, value: object) -> Tensor:
        """The value as a constant; `Unknown` where it is none."""
        if isinstance(value, Tensor):
            return value
        if not is_graph_value(value):
            return weak(value)
        found = self._tensors.get(value)
        if found is None:
            found = self._load(value)
            self._tensors[value] = found
        return found

    def _load(self, value: ir.Value) -> Tensor:
        tensor = self.facts.constant(value)
        if tensor is None:
            raise Unknown(f"{describe(value)} is not constant")
        check_size((tensor.size,))
        array = self.facts.array(value)
        if array is None:
            raise Unknown(f"{describe(value)} is not constant")
        return working(array)

    def holds(self, name: str) -> bool:
        """Whether the alternative was taken, the operand is present, or the condition is true."""
        if name in self.branches:
            return True
        if name not in self.names and name not in self.lets:
            return False
        value = self.lookup(name)
        if isinstance(value, bool):
            return value
        if name in self.lets and isinstance(value, Tensor) and value.array.dtype == np.bool_:
            return bool(value.array.all())  # a comparison of constants
        return value is not None


def is_graph_value(value: object) -> TypeGuard[ir.Value]:
    """Whether it is a value of the model's graph."""
    return hasattr(value, "producer")
