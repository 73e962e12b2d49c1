"""Random inputs for a model, from its declared input types.

In: a `ModelProto` and a seed. Out: name -> array. A symbolic dim has one size in all inputs;
which size, and which range integers have, is the `Plan`: callers try plans until the model runs.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from onnx import TensorProto

from rewrite.ops.dtypes import finfo, integer_range, to_numpy
from rewrite.schema import DTYPE_CLASSES, DTYPE_OF

Array = npt.NDArray[Any]
Feeds = dict[str, Array]

FLOATS = frozenset(
    {TensorProto.FLOAT, TensorProto.DOUBLE, TensorProto.FLOAT16, TensorProto.BFLOAT16}
)
_WIDE_INTEGERS = frozenset({"s64", "s32", "u64", "u32"})


@dataclass(frozen=True, slots=True)
class Plan:
    """Sizes for dims that the model does not fix, and an exclusive bound for wide integers."""

    first: int  # a leading dim, usually the batch
    other: int
    integers: int
    last: bool = False  # `other` for the last dim alone: a batch may stand in the middle

    def __str__(self) -> str:
        return f"sizes {self.first} and {self.other}, integers below {self.integers}"


PLANS: tuple[Plan, ...] = (
    Plan(2, 4, 8),
    Plan(1, 4, 2),
    Plan(1, 1, 2),
    Plan(1, 32, 8),
    Plan(1, 64, 2),
    Plan(1, 256, 2, last=True),
    Plan(1, 512, 2, last=True),
    Plan(1, 224, 2),
    Plan(3, 3, 1),
    Plan(1, 512, 2),
    Plan(1, 16000, 2, last=True),
)
MOST_ELEMENTS = 1 << 24  # of all inputs under one plan


class NoFeedsError(Exception):
    """An input whose values cannot be made up: a sequence, an optional, a map, one too large."""


def open_inputs(model: onnx.ModelProto) -> list[onnx.ValueInfoProto]:
    """Inputs that the caller must give; those with a default keep it."""
    defaults = {tensor.name for tensor in model.graph.initializer}
    defaults |= {tensor.values.name for tensor in model.graph.sparse_initializer}
    return [value for value in model.graph.input if value.name not in defaults]


def make_feeds(model: onnx.ModelProto, plan: Plan, seed: int, style: str = "normal") -> Feeds:
    """One set of inputs in a style of `_STYLES`."""
    sizes: dict[str, int] = {}
    feeds: Feeds = {}
    left = MOST_ELEMENTS
    for value in open_inputs(model):
        if not value.type.HasField("tensor_type"):
            kind = value.type.WhichOneof("value")
            raise NoFeedsError(f"input {value.name!r} is not a tensor ({kind})")
        tensor = value.type.tensor_type
        shape = _shape(tensor, plan, sizes)
        left -= math.prod(shape)
        if left < 0:
            raise NoFeedsError(f"input {value.name!r} would be too large ({plan})")
        rng = np.random.default_rng([seed, zlib.crc32(value.name.encode())])
        feeds[value.name] = np.asarray(_array(rng, tensor.elem_type, shape, plan, style))
    return feeds


def _shape(tensor: Any, plan: Plan, sizes: dict[str, int]) -> tuple[int, ...]:
    if not tensor.HasField("shape"):
        return (plan.first, plan.other)
    dims = []
    rank = len(tensor.shape.dim)
    for position, dim in enumerate(tensor.shape.dim):
        if dim.WhichOneof("value") == "dim_value" and dim.dim_value >= 0:
            dims.append(int(dim.dim_value))
            continue
        leading = position < rank - 1 if plan.last else position == 0
        size = plan.first if leading else plan.other
        name = dim.dim_param
        dims.append(sizes.setdefault(name, size) if name else size)
    return tuple(dims)


def _array(
    rng: np.random.Generator, elem: int, shape: tuple[int, ...], plan: Plan, style: str
) -> Array:
    name = DTYPE_OF.get(elem)
    if name is None:
        raise NoFeedsError(f"an input has the element type {elem}")
    dtype = to_numpy(name)
    if name in DTYPE_CLASSES["f"]:
        values = _STYLES[style](rng, shape)
        with np.errstate(over="ignore"):  # what a type cannot hold is infinite
            return (np.abs(values) if name == "f8e8m0" else values).astype(dtype)
    if name in ("c64", "c128"):
        parts = rng.standard_normal(shape) + 1j * rng.standard_normal(shape)
        return parts.astype(dtype)
    if name == "bool":
        return rng.integers(0, 2, shape).astype(dtype)
    if name == "string":
        words = np.array(["a", "bc", "def", "", "1.5", "été"], dtype=object)
        return words[rng.integers(0, len(words), shape)]
    if name in _WIDE_INTEGERS:
        return rng.integers(0, plan.integers, shape).astype(dtype)
    low, high = integer_range(name)
    return rng.integers(low, high + 1, shape).astype(dtype)


def _special(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    """Every class of float value: infinities, NaN, both zeros, halves, the smallest and largest."""
    pool = np.array(
        [np.inf, -np.inf, np.nan, 0.0, -0.0, 0.5, -1.5, 2.5, 1.0, -1.0, 1e-45, -1e-40, 3e38, -3e38]
    )
    return np.asarray(pool[rng.integers(0, len(pool), shape)])


_STYLES: Mapping[str, Callable[[np.random.Generator, tuple[int, ...]], Array]] = {
    "normal": lambda rng, shape: rng.standard_normal(shape),
    "unit": lambda rng, shape: rng.random(shape),
    "large": lambda rng, shape: rng.standard_normal(shape) * 30.0,
    "tiny": lambda rng, shape: rng.standard_normal(shape) * 1e-4,
    "zero": lambda rng, shape: np.zeros(shape),
    "negative": lambda rng, shape: -np.abs(rng.standard_normal(shape)) - 0.25,
    "special": _special,
    "infinite": lambda rng, shape: np.nan_to_num(
        _special(rng, shape), nan=0.5, posinf=np.inf, neginf=-np.inf
    ),
}


def perturbed(feeds: Feeds, relative: float, seed: int) -> Feeds:
    """Each float input times 1 ± `relative` (at least two units in its last place)."""
    changed: Feeds = {}
    for name, array in feeds.items():
        if not is_float(array):
            changed[name] = array
            continue
        step = max(relative, 2 * epsilon(array))
        rng = np.random.default_rng([seed, zlib.crc32(name.encode())])
        signs = rng.integers(0, 2, array.shape) * 2.0 - 1.0
        changed[name] = (array.astype(np.float64) * (1.0 + step * signs)).astype(array.dtype)
    return changed


def is_float(array: Array) -> bool:
    """Real floats of numpy and ml_dtypes (whose kind is "V" or "f")."""
    try:
        return array.dtype.kind != "c" and bool(finfo(array.dtype))
    except (ValueError, TypeError, KeyError):
        return False


def epsilon(array: Array) -> float:
    """The distance from 1 to the next larger value of the array's type."""
    return float(finfo(array.dtype).eps)


def coarsest(model: onnx.ModelProto) -> float:
    """The largest eps among the float types of the model's weights, inputs and outputs."""
    elems = {tensor.data_type for tensor in model.graph.initializer}
    values = (*model.graph.input, *model.graph.output, *model.graph.value_info)
    elems |= {value.type.tensor_type.elem_type for value in values}
    found = (float(finfo(to_numpy(DTYPE_OF[e])).eps) for e in elems & FLOATS)
    return max(found, default=2.0**-23)


def styles(model: onnx.ModelProto, exact: bool) -> Iterator[str]:
    """The styles to run in turn; infinities and NaN only where a claim speaks of them.

    ONNX does not define the code of a quantized NaN, nor the integer that a float outside of its
    range is cast to (onnx/defs: Cast, QuantizeLinear).
    """
    yield from ("normal", "unit", "large", "negative", "tiny", "zero")
    operators = set(_operators(model.graph))
    if exact and not operators & {"Cast", "CastLike", "DynamicQuantizeLinear"}:
        yield "infinite" if "QuantizeLinear" in operators else "special"


def _operators(graph: onnx.GraphProto) -> Iterator[str]:
    """Of the graph and of all bodies inside."""
    for node in graph.node:
        yield node.op_type
        for attribute in node.attribute:
            for inner in (attribute.g, *attribute.graphs):
                yield from _operators(inner)
