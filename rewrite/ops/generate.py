"""Operators that make tensors: constants, shapes, ranges, window functions, random numbers.

In: `Call` or `Evaluation`. Out: types or arrays. Random operators have no reference value.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from rewrite.ops import dims
from rewrite.ops.call import Array, Arrays, Call, Evaluation, Types
from rewrite.ops.dtypes import of_numpy, to_numpy
from rewrite.ops.elementwise import ACTIVATION
from rewrite.ops.registry import op, value
from rewrite.schema import UNKNOWN, Dim, Shape, Type

# --- constants and shapes ---------------------------------------------------------------------


@op("Constant", kind="generate")
def constant(call: Call) -> Types:
    """The value in the attribute"""
    array = _constant_of(call.attributes)
    if array is not None:
        return (Type(of_numpy(array.dtype), tuple(array.shape)),)
    tensor = call.attributes.get("value")
    if tensor is not None and hasattr(tensor, "numpy"):
        array = np.asarray(tensor.numpy())
        return (Type(of_numpy(array.dtype), tuple(array.shape)),)
    return (UNKNOWN,)


@value("Constant")
def constant_value(e: Evaluation) -> Arrays | None:
    array = _constant_of(e.attributes)
    if array is None:
        array = e.tensor("value")
    return None if array is None else (array,)


def _constant_of(attributes: Any) -> Array | None:
    tensor = attributes.get("value")
    if isinstance(tensor, np.ndarray):
        return tensor
    for name, dtype in (("float", np.float32), ("int", np.int64)):
        for suffix in ("", "s"):
            found = attributes.get(f"value_{name}{suffix}")
            if found is not None:
                return np.array(found, dtype)
    for name in ("value_string", "value_strings"):
        found = attributes.get(name)
        if found is not None:
            return np.array(found, object)
    return None


@op("ConstantOfShape", kind="generate")
def constant_of_shape(call: Call) -> Types:
    """A tensor of the given shape, every element the same"""
    fill = call.tensor("value")
    dtype = "f32" if fill is None else of_numpy(fill.dtype)
    sizes = call.sizes_of(0)
    if sizes is None:
        rank = call.length_of(0)
        return (Type(dtype, None if rank is None else call.unknown(rank)),)
    if any(isinstance(size, int) and size < 0 for size in sizes):
        call.fail(f"a tensor of shape {list(sizes)}")
    return (Type(dtype, tuple(sizes)),)


@value("ConstantOfShape")
def constant_of_shape_value(e: Evaluation) -> Arrays:
    fill = e.tensor("value")
    fill = np.zeros(1, np.float32) if fill is None else fill
    return (np.full(e.integers_of(0) or (), fill.reshape(-1)[0], fill.dtype),)


@op("Shape", kind="generate")
def shape(call: Call) -> Types:
    """The sizes from `start` to `end`"""
    found = call.shape(0)
    if found is None:
        return (Type("s64", (call.fresh(),)),)
    return (Type("s64", (len(sizes_between(call, found)),)),)


def sizes_between(call: Call | Evaluation, found: Shape) -> Shape:
    start = call.integer("start", 0)
    end = call.attributes.get("end")
    return found[_bound(start, len(found)) : _bound(len(found) if end is None else end, len(found))]


def _bound(place: int, rank: int) -> int:
    return min(max(place + rank if place < 0 else place, 0), rank)


@value("Shape")
def shape_value(e: Evaluation) -> Arrays:
    return (np.array(sizes_between(e, e.array(0).shape), np.int64),)


@op("Size", kind="generate")
def size(call: Call) -> Types:
    """The number of elements"""
    return (Type("s64", ()),)


@value("Size")
def size_value(e: Evaluation) -> Arrays:
    return (np.array(e.array(0).size, np.int64),)


@op("Range", kind="generate")
def range_(call: Call) -> Types:
    """start, start + delta, ... up to the limit"""
    dtype = call.dtype_of(0, 1, 2)
    bounds = [call.constant(i) for i in range(3)]
    arrays = [b for b in bounds if b is not None]
    if len(arrays) == 3:
        if not all(np.isfinite(a.reshape(-1)[0].astype(np.float64)) for a in arrays):
            call.fail("start, limit and delta of a range are finite numbers")
        if arrays[2].reshape(-1)[0] == 0:
            call.fail("a range in steps of 0 has no end")
        count: Dim | None = range_length(*(a.reshape(-1)[0] for a in arrays))
    else:
        count = _symbolic_range(call)
    return (Type(dtype, (call.fresh() if count is None else count,)),)


def _symbolic_range(call: Call) -> Dim | None:
    """range(0, n, 1) has n elements."""
    ends = [call.sizes_of(i) for i in range(3)]
    if any(end is None or len(end) != 1 for end in ends):
        return None
    start, limit, delta = (end[0] for end in ends if end is not None)
    if start == 0 and delta == 1 and dims.is_nonnegative(limit):
        return limit
    return None


def range_length(start: Any, limit: Any, delta: Any) -> int | None:
    """max(ceil((limit - start) / delta), 0), None where rounding decides."""
    if delta == 0:
        return None
    if isinstance(start, np.integer):
        low, high, step = int(start), int(limit), int(delta)
        return max(0, -((low - high) // step))
    exact = (float(limit) - float(start)) / float(delta)
    if not math.isfinite(exact):
        return None
    if abs(exact - round(exact)) < 1e-5 * max(1.0, abs(exact)) and exact != round(exact):
        return None
    return max(0, math.ceil(exact))


@value("Range", error=ACTIVATION, exact_integers=True)
def range_value(e: Evaluation) -> Arrays | None:
    start, limit, delta = (e.array(i).reshape(-1)[0] for i in range(3))
    count = range_length(start, limit, delta)
    if count is None:
        return None
    wide = np.dtype(np.int64 if isinstance(start, np.integer) else np.float64)
    steps: Any = np.arange(count, dtype=wide)
    steps = steps * delta.astype(wide) + start.astype(wide)
    return (steps.astype(e.array(0).dtype),)


@op("EyeLike", kind="generate")
def eye_like(call: Call) -> Types:
    """Ones on a diagonal"""
    x = call.type(0)
    found = call.shape_of_rank(0, 2, "the operand of EyeLike")
    return (Type(call.element_type("dtype", x.dtype), call.unknown(2) if found is None else found),)


@value("EyeLike")
def eye_like_value(e: Evaluation) -> Arrays:
    x = e.array(0)
    name = e.element_type("dtype", None)
    dtype = x.dtype if name is None else to_numpy(name)
    return (np.eye(x.shape[0], x.shape[1], e.integer("k", 0)).astype(dtype),)


# --- window functions -------------------------------------------------------------------------


@op("HannWindow", "HammingWindow", "BlackmanWindow", kind="generate")
def window(call: Call) -> Types:
    """A sum of cosines over the window"""
    sizes = call.sizes_of(0)
    length: Dim = call.fresh() if not sizes else sizes[0]
    return (Type(call.element_type("output_datatype", "f32"), (length,)),)


# Coefficients of cos(0), -cos(2 pi n/N), cos(4 pi n/N): onnx/defs/math/defs.cc.
_WINDOWS = {
    "HannWindow": (0.5, 0.5, 0.0),
    "HammingWindow": (25 / 46, 21 / 46, 0.0),
    "BlackmanWindow": (0.42, 0.5, 0.08),
}


def _window_value(e: Evaluation, name: str) -> Arrays:
    count = (e.integers_of(0) or (0,))[0]
    period = count if e.integer("periodic", 1) else count - 1
    angle = 2 * np.pi * np.arange(count) / max(period, 1)
    a, b, c = _WINDOWS[name]
    result = a - b * np.cos(angle) + c * np.cos(2 * angle)
    return (result.astype(to_numpy(e.element_type("output_datatype", "f32") or "f32")),)


@value("HannWindow", error=ACTIVATION)
def hann_value(e: Evaluation) -> Arrays:
    return _window_value(e, "HannWindow")


@value("HammingWindow", error=ACTIVATION)
def hamming_value(e: Evaluation) -> Arrays:
    return _window_value(e, "HammingWindow")


@value("BlackmanWindow", error=ACTIVATION)
def blackman_value(e: Evaluation) -> Arrays:
    return _window_value(e, "BlackmanWindow")


# --- random -----------------------------------------------------------------------------------


@op("RandomNormal", "RandomUniform", kind="random")
def random_of_shape(call: Call) -> Types:
    """Random numbers in a tensor of the given shape"""
    return (Type(call.element_type("dtype", "f32"), call.integers("shape")),)


@op("RandomNormalLike", "RandomUniformLike", "Bernoulli", kind="random", shape_class="first")
def random_like(call: Call) -> Types:
    """Random numbers in a tensor of the shape of the operand"""
    x = call.type(0)
    return (Type(call.element_type("dtype", x.dtype), x.shape),)


@op("Multinomial", kind="random")
def multinomial(call: Call) -> Types:
    """Random classes for each row of log probabilities"""
    x = call.shape_of_rank(0, 2, "the operand of Multinomial")
    batch: Dim = call.fresh() if x is None else x[0]
    return (Type(call.element_type("dtype", "s32"), (batch, call.integer("sample_size", 1))),)


@op("Dropout", kind="random", shape_class="first")
def dropout(call: Call) -> Types:
    """Elements set to 0 at random, in training"""
    x = call.type(0)
    mask = "bool" if call.opset >= 10 else x.dtype
    return (x, Type(mask, x.shape))


@value("Dropout")
def dropout_value(e: Evaluation) -> Arrays | None:
    """Outside training the operand itself; before opset 12 its mask is not defined there."""
    x, training = e.array(0), e.optional(2)
    if training is not None and bool(training.reshape(-1)[0]):
        return None
    return (x, np.ones(x.shape, np.bool_)) if e.opset >= 12 else (x,)
