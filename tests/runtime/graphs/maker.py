"""A random graph as hypothesis draws it, operator by operator.

In: hypothesis' `draw`. Out: `Maker`, to which families of operators (pointwise.py, movement.py,
numeric.py, control.py) add nodes whose operands they pick among the values so far.

What is known of each value keeps graphs comparable: `exact`, whether every conforming runtime gives
the same bits (discontinuous operators take only such), and `limit`, a bound of the magnitude (so
that nothing overflows, and a difference stays a difference of rounding).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
from hypothesis import strategies as st
from onnx import helper, numpy_helper

from rewrite.ops.dtypes import to_numpy
from rewrite.schema import DTYPES

FLOATS = ("f32", "f64", "f16", "bf16")
INTEGERS = ("s64", "s32", "s8", "u8", "s16", "u16", "u32", "u64")
SIZES = (2, 3, 1, 4, 5, 7, 0, 17)
MOST_ELEMENTS = 4096
MOST = {"f32": 1e6, "f64": 1e6, "f16": 500.0, "bf16": 1e6}  # of magnitudes


@dataclass(frozen=True)
class Value:
    name: str
    dtype: str
    shape: tuple[int, ...]
    exact: bool = True
    limit: float = 4.0

    @property
    def rank(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        return int(np.prod(self.shape, dtype=np.int64))

    @property
    def floating(self) -> bool:
        return self.dtype in FLOATS

    @property
    def integer(self) -> bool:
        return self.dtype in INTEGERS


@dataclass
class Maker:
    """`draw` is hypothesis'; `outer` has the values of graphs around this one."""

    draw: Callable[..., Any]
    prefix: str = ""
    outer: tuple[Value, ...] = ()
    depth: int = 0
    values: list[Value] = field(default_factory=list)
    nodes: list[onnx.NodeProto] = field(default_factory=list)
    inputs: list[Value] = field(default_factory=list)
    weights: list[onnx.TensorProto] = field(default_factory=list)
    count: int = 0

    # --- drawing

    def choose(self, items: Sequence[Any]) -> Any:
        return items[self.draw(st.integers(0, len(items) - 1))]

    def number(self, low: int, high: int) -> int:
        return int(self.draw(st.integers(low, high)))

    def flag(self) -> bool:
        return bool(self.draw(st.booleans()))

    def pick(self, wanted: Callable[[Value], bool] = lambda v: True) -> Value | None:
        """One of the values so far that are wanted; the latest is the simplest choice."""
        found = [v for v in reversed((*self.outer, *self.values)) if wanted(v)]
        return self.choose(found) if found else None

    def shape(self, rank: int | None = None) -> tuple[int, ...]:
        count = self.choose((2, 1, 3, 0, 4)) if rank is None else rank
        shape: list[int] = []
        for _ in range(count):
            size = self.choose(SIZES)
            shape.append(size if np.prod([1, *shape]) * size <= MOST_ELEMENTS else 1)
        return tuple(shape)

    # --- making

    def fresh(self, hint: str) -> str:
        self.count += 1
        return f"{self.prefix}{hint}{self.count}"

    def input(self, dtype: str, shape: tuple[int, ...]) -> Value:
        value = Value(self.fresh("x"), dtype, shape, True, bound_of(dtype))
        self.inputs.append(value)
        self.values.append(value)
        return value

    def constant(self, array: Any, listed: bool = False) -> Value:
        """An initializer; `listed`: operators may pick it."""
        array = np.asarray(array)
        from rewrite.ops.dtypes import of_numpy

        dtype = of_numpy(array.dtype) or "f32"
        value = Value(self.fresh("c"), dtype, array.shape, True, _largest(array))
        self.weights.append(numpy_helper.from_array(array, value.name))
        if listed:
            self.values.append(value)
        return value

    def filled(self, dtype: str, shape: tuple[int, ...]) -> Value:
        """A constant of numbers that are exact in every type."""
        rng = np.random.default_rng(self.number(0, 9))
        return self.constant(numbers(rng, dtype, shape))

    def node(self, name: str, inputs: Sequence[Value | None], **attributes: Any) -> str:
        return self.many(name, inputs, 1, **attributes)[0]

    def many(
        self, name: str, inputs: Sequence[Value | None], outputs: int, **attributes: Any
    ) -> list[str]:
        made = [self.fresh("v") for _ in range(outputs)]
        given = ["" if v is None else v.name for v in inputs]
        while given and not given[-1]:
            given.pop()
        self.nodes.append(helper.make_node(name, given, made, **attributes))
        return made

    def add(
        self, name: str, dtype: str, shape: Sequence[int], exact: bool, limit: float
    ) -> Value | None:
        """A result that later operators may use."""
        value = Value(name, dtype, tuple(int(n) for n in shape), exact, limit)
        self.values.append(value)
        return value

    def tame(self, value: Value, most: float) -> Value:
        """The value, clipped to [-most, most] where it may be larger."""
        if not value.floating or value.limit <= most:
            return value
        dtype = to_numpy(value.dtype)
        ends = [self.constant(np.array(e, np.float32).astype(dtype)) for e in (-most, most)]
        name = self.node("Clip", [value, *ends])
        return Value(name, value.dtype, value.shape, value.exact, most)

    def positive(self, value: Value) -> Value:
        """The magnitude plus a half: a divisor, a radicand, the operand of a logarithm."""
        magnitude = Value(
            self.node("Abs", [value]), value.dtype, value.shape, value.exact, value.limit
        )
        half = self.constant(np.array(0.5, np.float32).astype(to_numpy(value.dtype)))
        name = self.node("Add", [magnitude, half])
        return Value(name, value.dtype, value.shape, value.exact, value.limit + 0.5)


def bound_of(dtype: str) -> float:
    return 4.0 if dtype in FLOATS else 2.0**63


def numbers(rng: np.random.Generator, dtype: str, shape: tuple[int, ...]) -> np.ndarray:
    """Eighths in [-4, 4]: exact in every float type; small integers; both truths."""
    if dtype == "bool":
        return rng.integers(0, 2, shape).astype(np.bool_)
    if dtype in INTEGERS:
        low = 0 if dtype[0] == "u" else -9
        return rng.integers(low, 10, shape).astype(to_numpy(dtype))
    eighths = rng.integers(-32, 33, shape) / 8
    return np.asarray(eighths).astype(np.float32).astype(to_numpy(dtype))


def _largest(array: np.ndarray) -> float:
    if not array.size or array.dtype.kind in "bOUS":
        return 1.0
    return float(np.abs(array.astype(np.float64)).max())


def info(value: Value) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(value.name, DTYPES[value.dtype], list(value.shape))
