"""What an operator declaration sees of one node: `Call` to infer types, `Evaluation` to compute.

In: operands in newest form and attributes as plain values (int, float, str, tuples or lists of
them; a tensor attribute as a numpy array or as anything with `.numpy()`). Attributes not given
are absent from the mapping: declarations state the default, which may depend on the opset.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn

import numpy as np

from rewrite.schema import DTYPE_OF, UNKNOWN, Dim, Shape, Type

Array = np.ndarray[Any, np.dtype[Any]]
Types = tuple[Type, ...]
Arrays = tuple[Array, ...]
Constants = Callable[[int], Array | None]
Symbols = Callable[[int], tuple[Dim, ...] | None]

BOOL = Type("bool", None)

_counter = itertools.count()


class InferenceError(Exception):
    """The node is ill-typed: no run of it can succeed."""


# What a declaration runs into where a model is not what the schema promises (a scale that is NaN,
# an operand of too few dimensions): declarations are written for nodes that are right.
ILL_TYPED = (ArithmeticError, LookupError, TypeError, ValueError)


def no_constant(index: int) -> None:
    """The `constant` of a node none of whose operands is known."""


def fresh_name() -> str:
    """A new name for a size about which nothing is known; unique in this process."""
    return f"?~{next(_counter)}"


class Attributes:
    """Typed reading of attributes, shared by inference and evaluation."""

    __slots__ = ("attributes", "opset")

    opset: int
    attributes: Mapping[str, Any]

    def integer(self, name: str, default: int) -> int:
        value = self.attributes.get(name)
        return default if value is None else int(value)

    def number(self, name: str, default: float) -> float:
        value = self.attributes.get(name)
        return default if value is None else float(value)

    def float32(self, name: str, default: float) -> float:
        """The same as runtimes read it: rounded to float32, in which attributes are stored."""
        return float(np.float32(self.number(name, default)))

    def text(self, name: str, default: str) -> str:
        value = self.attributes.get(name)
        if value is None:
            return default
        return value.decode() if isinstance(value, bytes) else str(value)

    def integers(self, name: str) -> tuple[int, ...] | None:
        value = self.attributes.get(name)
        return None if value is None else tuple(int(v) for v in value)

    def tensor(self, name: str) -> Array | None:
        value = self.attributes.get(name)
        if value is None or isinstance(value, np.ndarray):
            return value
        return np.asarray(value.numpy())

    def element_type(self, name: str, default: str | None) -> str | None:
        """An attribute that holds a value of onnx.TensorProto.DataType; 0 means not given."""
        value = self.attributes.get(name)
        return default if not value else DTYPE_OF.get(int(value))


class Call(Attributes):
    """One node whose output types are wanted."""

    __slots__ = ("constant", "fresh", "inputs", "n_outputs", "symbols")

    def __init__(
        self,
        opset: int,
        inputs: Sequence[Type | None],
        attributes: Mapping[str, Any],
        constant: Constants,
        n_outputs: int,
        fresh: Callable[[], str],
        symbols: Symbols | None,
    ) -> None:
        self.opset = opset
        self.inputs = inputs
        self.attributes = attributes
        self.constant = constant
        self.n_outputs = n_outputs
        self.fresh = fresh
        self.symbols = symbols

    def has(self, index: int) -> bool:
        return index < len(self.inputs) and self.inputs[index] is not None

    def type(self, index: int) -> Type:
        """The operand's type; UNKNOWN where it is absent."""
        if index < len(self.inputs):
            return self.inputs[index] or UNKNOWN
        return UNKNOWN

    def shape(self, index: int) -> Shape | None:
        return self.type(index).shape

    def shape_of_rank(self, index: int, rank: int, what: str) -> Shape | None:
        """The operand's shape, which must have `rank` dimensions where it is known."""
        shape = self.type(index).shape
        if shape is not None and len(shape) != rank:
            self.fail(f"{what} has rank {len(shape)}, not {rank}")
        return shape

    def dtype_of(self, *indices: int) -> str | None:
        """The first element type known among operands that share one."""
        for index in indices:
            dtype = self.type(index).dtype
            if dtype is not None:
                return dtype
        return None

    def integers_of(self, index: int) -> tuple[int, ...] | None:
        """The elements of a constant integer operand; None where it is absent or not known."""
        if not self.has(index):
            return None
        array = self.constant(index)
        if array is None:
            return None
        return tuple(int(v) for v in array.reshape(-1).tolist())

    def sizes_of(self, index: int) -> tuple[Dim, ...] | None:
        """The same where elements may also be names of sizes."""
        found: tuple[Dim, ...] | None = self.integers_of(index)
        if found is None and self.symbols is not None and self.has(index):
            found = self.symbols(index)
        return found

    def length_of(self, index: int) -> int | None:
        """The number of elements of a one-dimensional operand, where known."""
        shape = self.shape(index)
        if shape is None or len(shape) != 1 or isinstance(shape[0], str):
            return None
        return shape[0]

    def unknown(self, rank: int) -> Shape:
        """A shape of known rank and unknown sizes."""
        return tuple(self.fresh() for _ in range(rank))

    def axis(self, axis: int, rank: int) -> int:
        """The axis counted from the front."""
        if not -rank <= axis < rank:
            self.fail(f"axis {axis} is outside a tensor of rank {rank}")
        return axis + rank if axis < 0 else axis

    def axes(self, axes: Sequence[int], rank: int) -> tuple[int, ...]:
        return tuple(self.axis(a, rank) for a in axes)

    def fail(self, message: str) -> NoReturn:
        raise InferenceError(message)


class Evaluation(Attributes):
    """One node whose output values are wanted."""

    __slots__ = ("inputs", "n_outputs")

    def __init__(
        self,
        opset: int,
        inputs: Sequence[Array | None],
        attributes: Mapping[str, Any],
        n_outputs: int,
    ) -> None:
        self.opset = opset
        self.inputs = inputs
        self.attributes = attributes
        self.n_outputs = n_outputs

    def optional(self, index: int) -> Array | None:
        return self.inputs[index] if index < len(self.inputs) else None

    def array(self, index: int) -> Array:
        """A required operand."""
        found = self.optional(index)
        if found is None:
            raise InferenceError(f"operand {index} is missing")
        return found

    def integers_of(self, index: int) -> tuple[int, ...] | None:
        found = self.optional(index)
        return None if found is None else tuple(int(v) for v in found.reshape(-1).tolist())
