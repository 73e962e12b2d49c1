"""Quantization parameters of several values, and where they go when elements move.

In: values that DequantizeLinear or QuantizeLinear produces, shapes. Out: lists of codes, axes,
truth values; `Unknown` where the model does not say.
"""

from __future__ import annotations

import math

import numpy as np

from rewrite.match.builtins.quantized_checks import of_value
from rewrite.match.builtins.registry import Dtype, Items, Value, builtin
from rewrite.match.values import (
    Env,
    Symbol,
    Tensor,
    Unknown,
    describe,
    integer_range,
    is_graph_value,
)
from rewrite.ops.dtypes import to_numpy

_MOST_CODES = 1 << 16


@builtin
def alike(env: Env, x: Value, list_: Items) -> bool:
    """Whether all values are codes dequantized with the parameters of `x`, to its element type."""
    first = of_value(env, x)
    if first.faults:
        return False
    for item in list_:
        node = item.producer() if is_graph_value(item) else None
        if node is None or node.op_type != "DequantizeLinear":
            return False
        found = of_value(env, item)
        if found.params != first.params or found.faults:
            return False
        if env.facts.type(item).dtype != env.facts.type(x).dtype:  # type: ignore[arg-type]
            return False
    return True


@builtin
def codes(env: Env, list_: Items) -> Items:
    """What is dequantized to each of the values."""
    return tuple(of_value(env, item).operand for item in list_)


@builtin
def kept_axis(before: Items, after: Items, axis: int) -> int:
    """Where an axis of shape `before` is in shape `after`, if a reshape leaves it whole."""
    if not 0 <= axis < len(before):
        raise Unknown("there is no such axis")
    size, ahead = before[axis], _product(before[:axis])
    for place, found in enumerate(after):
        if _product((found,)) == _product((size,)) and _product(after[:place]) == ahead:
            return place
    raise Unknown("the axis is not whole after the reshape")


def _product(dims: Items) -> tuple[int, tuple[str, ...]]:
    """A product of sizes: the numbers multiplied, the names in order."""
    known = math.prod(int(d) for d in dims if not isinstance(d, Symbol))
    return known, tuple(sorted(str(d) for d in dims if isinstance(d, Symbol)))


@builtin
def survives(
    dtype: Dtype, scale: Tensor, zero: Tensor, to: Dtype, to_scale: Tensor, to_zero: Tensor
) -> bool:
    """Whether every code's value comes back, bit for bit, from QuantizeLinear and DequantizeLinear.

    `dtype`, `scale` and `zero` are those of the codes; one scale each. All codes are tried.
    """
    low, high = integer_range(dtype)
    if high - low >= _MOST_CODES:
        raise Unknown("there are too many codes to try")
    kind = scale.dtype
    if kind != to_scale.dtype or kind not in ("f32", "f16"):
        raise Unknown(f"scales of type {kind} are not tried")
    s, t = (np.float32(x.rounded().reshape(())) for x in (scale, to_scale))
    z, u = (int(x.array.reshape(())) for x in (zero, to_zero))
    values = ((np.arange(low, high + 1) - z).astype(np.float32) * s).astype(to_numpy(kind))
    ratio = values.astype(np.float32) / t
    if kind == "f16":
        # One text divides in half precision, runtimes in single: both must agree.
        narrow = ratio.astype(np.float16).astype(np.float32)
        if not np.array_equal(np.rint(narrow), np.rint(ratio)):
            return False
    if not np.isfinite(values.astype(np.float32)).all() or not np.isfinite(ratio).all():
        return False
    a, b = integer_range(to)
    again = np.clip(np.rint(ratio.astype(np.float64)) + u, a, b).astype(np.int64)
    back = ((again - u).astype(np.float32) * t).astype(to_numpy(kind))
    return bool(np.array_equal(back.astype(np.float32), values.astype(np.float32)))


@builtin
def nibbles(v: Tensor) -> Tensor:
    """Numbers from 0 to 15, two in a byte along the last axis, the first in the low bits."""
    array = v.array
    if array.dtype.kind != "i" or (array.size and not 0 <= array.min() <= array.max() <= 15):
        raise Unknown(f"{describe(v)} does not hold numbers from 0 to 15")
    if array.ndim == 0:
        raise Unknown("a constant of rank 0 has no last axis")
    if array.shape[-1] % 2:
        array = np.pad(array, [(0, 0)] * (array.ndim - 1) + [(0, 1)])
    return Tensor(array[..., 0::2] | array[..., 1::2] << 4, "u8")


@builtin
def coded(env: Env, list_: Items) -> bool:
    """Whether all are dequantized codes of one type, scales and zero points of rank 0."""
    types = set()
    for item in list_:
        node = item.producer() if is_graph_value(item) else None
        if node is None or node.op_type != "DequantizeLinear":
            return False
        found = of_value(env, item)
        if found.faults or found.params.scale.ndim or found.params.zero_point.ndim:
            return False
        types.add((found.params.code.name, found.params.scale.dtype.name))
    return len(types) == 1


@builtin
def coded_triples(env: Env, list_: Items) -> Items:
    """Of dequantized values: codes, scale and zero point of the first, of the second, ..."""
    triples: list[object] = []
    for item in list_:
        found = of_value(env, item)
        operands = env.facts.operands(found.node)
        zero = operands[2] if len(operands) > 2 else None
        absent = Tensor(np.zeros((), np.int64), found.params.code.name)
        triples += [found.operand, operands[1], absent if zero is None else zero]
    return tuple(triples)
