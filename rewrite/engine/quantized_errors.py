"""The errors of results, operator by operator.

In: a node, its operands as `Reach` (`Operands`). Out: the `Reach` of its outputs, None for an
operator that is not known here.

Between DequantizeLinear and QuantizeLinear numbers are real; operators on codes are by definition
DequantizeLinear, the operator, QuantizeLinear.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import onnx_ir as ir

from rewrite.engine import quantized_reach as reaches
from rewrite.engine.quantized import Part, contraction, parts
from rewrite.engine.quantized_codes import EXTREMA, MOVES
from rewrite.engine.quantized_faults import rows_of
from rewrite.engine.quantized_reach import Reach, joined, rounded
from rewrite.graph.facts import Facts
from rewrite.graph.types import dtype_name
from rewrite.ops.dtypes import integer_range
from rewrite.quant.codes import Array, Ints
from rewrite.schema import DTYPE_CLASSES

_INTEGERS = frozenset(DTYPE_CLASSES["int"])
_MEANS = frozenset(
    {"AveragePool", "GlobalAveragePool", "ReduceMean", "QLinearAveragePool",
     "QLinearGlobalAveragePool", "QLinearReduceMean"}
)  # fmt: skip
_COUNTS = {"Conv": 2, "MatMul": 2, "QGemm": 2, "Add": 2, "Mul": 2, "Where": 2}
# Functions whose slope is at most so much.
_SLOPES: Mapping[str, float] = {"Sigmoid": 0.25, "Tanh": 1.0, "Softmax": 0.5}
_FOLDS = frozenset({"Relu", "Neg", "Abs"})


@dataclass(frozen=True, slots=True)
class Operands:
    """What an operator reads. `array`, `dtype`: of a value, wherever the node stands."""

    facts: Facts
    node: ir.Node
    values: tuple[ir.Value | None, ...]
    given: tuple[Reach, ...]
    array: Callable[[ir.Value | None], Array | None]
    dtype: Callable[[ir.Value | None], str | None]

    @property
    def first(self) -> Reach:
        return self.given[0]

    def constant(self, index: int) -> Array | None:
        return self.array(self.values[index]) if index < len(self.values) else None

    def number(self, index: int, default: float) -> float:
        found = self.constant(index)
        return default if found is None or found.size != 1 else float(found.reshape(-1)[0])


def errors_of(ops: Operands) -> Reach | None:
    """The result's reach; None where nobody knows what the operator does with errors."""
    if ops.node.domain not in ("", "com.microsoft") or not ops.given:
        return None
    name = ops.node.op_type
    if name.startswith("QLinear") or name == "QGemm":
        return _qlinear(ops)
    if ops.node.domain and name not in ("QuantizeLinear", "DequantizeLinear"):
        return None
    x = ops.first
    known = _OPERATORS.get(name)
    if known is not None:
        return known(ops)
    if name in MOVES and not _moving_indices(ops):
        return joined(ops.given[:1])
    if name in EXTREMA:
        return joined(ops.given[:1] if name.startswith("Reduce") else ops.given)
    if name in _SLOPES:
        return _sloped(x, _SLOPES[name])
    if name in _FOLDS:
        return replace(x, low=-x.largest, high=x.largest)
    return x if name in _MEANS and not x.integer and not x.machine else None


def _moving_indices(ops: Operands) -> bool:
    return any(reach.error for reach in ops.given[1:])


# --- on integers and floats alike -----------------------------------------------------------------


def _add(ops: Operands) -> Reach:
    return reaches.add(ops.given[0], ops.given[1], -1 if ops.node.op_type == "Sub" else 1)


def _multiply(ops: Operands) -> Reach:
    return reaches.multiply(ops.given[0], ops.given[1])


def _divide(ops: Operands) -> Reach:
    """Where (x + sign(x) h) is divided by 2 h, x is rounded, ties away from zero."""
    before = _before_half_away(ops)
    return reaches.divide(ops.first if before is None else before, ops.given[1])


def _before_half_away(ops: Operands) -> Reach | None:
    total = None if ops.values[0] is None else ops.values[0].producer()
    if total is None or total.op_type != "Add":
        return None
    x, extra = total.inputs
    product = None if extra is None else extra.producer()
    if product is None or product.op_type != "Mul" or product.inputs[0] is None:
        return None
    sign, half = product.inputs[0].producer(), ops.array(product.inputs[1])
    divisor = ops.constant(1)
    if sign is None or sign.op_type != "Sign" or sign.inputs[0] is not x or x is None:
        return None
    if half is None or divisor is None or not np.array_equal(2 * half, divisor):
        return None
    # What is known of the sum is off by twice the half where the sign may change.
    error = max(ops.first.error - 2.0 * float(half.max()), 0.0)
    return replace(ops.first, error=error)


def _clip(ops: Operands) -> Reach:
    x = ops.first
    return reaches.clip(x, ops.number(1, -math.inf), ops.number(2, math.inf))


def _sign(ops: Operands) -> Reach:
    x = ops.first
    return Reach(-1.0, 1.0, 2.0 if x.error else 0.0, x.integer, reason=x.reason)


def _round(ops: Operands) -> Reach:
    x = ops.first
    return replace(x, low=x.low - 1, high=x.high + 1, error=rounded(x.error))


def _cast(ops: Operands) -> Reach:
    x = ops.first
    name = dtype_name(ir.DataType(int(ops.node.attributes["to"].value)))
    if name in _INTEGERS:
        low, high = integer_range(str(name))
        if x.low < low - 1 or x.high > high + 1:  # may wrap: any code for any other
            x = replace(x, low=low, high=high, error=math.inf if x.error else 0.0)
        error = x.error if x.integer else rounded(x.error)
        made = replace(x, integer=True, unit=None, machine=False)
        return replace(made, low=max(x.low, low), high=min(x.high, high)).off(error)
    if name in ("f32", "f64"):
        return reaches.add(replace(x, integer=False, machine=x.machine or x.integer), Reach(0, 0))
    return Reach(error=math.inf, reason=x.reason)


def _resize(ops: Operands) -> Reach | None:
    """Elements of the operand, or of real numbers means with weights that are not negative."""
    mode = ops.node.attributes.get("mode")
    name = "nearest" if mode is None else str(mode.value)
    outside = ops.node.attributes.get("coordinate_transformation_mode")
    if outside is not None and outside.value == "tf_crop_and_resize":
        return None
    if name == "nearest" or (name == "linear" and not ops.first.integer and not ops.first.machine):
        return ops.first
    return None


def _hard_sigmoid(ops: Operands) -> Reach | None:
    alpha = ops.node.attributes.get("alpha")
    slope = 0.2 if alpha is None else abs(float(alpha.value))
    return _sloped(ops.first, slope)


def _sloped(x: Reach, slope: float) -> Reach | None:
    """A function with values in [-1, 1] whose slope is at most so much, of a real number."""
    return None if x.machine else Reach(-1.0, 1.0, x.error * slope, reason=x.reason)


def _concat(ops: Operands) -> Reach:
    return joined(ops.given)


def _where(ops: Operands) -> Reach | None:
    return None if ops.given[0].error else joined(ops.given[1:3])


def _pad(ops: Operands) -> Reach | None:
    if any(reach.error for reach in ops.given[1:]):
        return None
    zero = Reach(0.0, 0.0, integer=ops.first.integer, unit=ops.first.unit)
    return joined((ops.first, ops.given[2] if len(ops.given) > 2 else zero))


def _gather(ops: Operands) -> Reach | None:
    index = ops.given[1]
    if not index.error:
        return joined(ops.given[:1])
    table = ops.constant(0)
    if table is None or table.ndim != 1 or table.dtype.kind not in "iuf":
        return None
    made = reaches.looked_up(table, index)
    return replace(made, reason=made.reason or index.reason)


def _integer_product(ops: Operands) -> Reach | None:
    """Sums of products of integers by constant weights."""
    weights, zeros, x = ops.constant(1), ops.constant(3), ops.first
    if weights is None or (len(ops.given) > 2 and ops.given[2].error):
        return None
    shape = [-1 if zeros is not None and zeros.size > 1 else 1]
    if ops.node.op_type == "ConvInteger":
        shape = [*shape, *[1] * (weights.ndim - 1)]
    less = weights.astype(np.int64)
    if zeros is not None:
        less = less - zeros.astype(np.int64).reshape(shape)
    along = ops.node.op_type == "ConvInteger"
    axes = tuple(range(1, less.ndim)) if along else (max(less.ndim - 2, 0),)
    gain = float(np.abs(less).sum(axes).max(initial=0))
    zero = ops.number(2, 0.0)
    most = gain * max(abs(x.low - zero), abs(x.high - zero))
    return Reach(-most, most, gain * x.error, True, reason=x.reason)


# --- codes and real numbers -----------------------------------------------------------------------


def _scales(ops: Operands, index: int) -> Array | None:
    found = ops.constant(index)
    if found is None or not found.size or not np.isfinite(found.astype(np.float64)).all():
        return None
    scales = np.abs(found.astype(np.float64))
    return scales if scales.min() > 0 else None


def _dequantize(ops: Operands) -> Reach | None:
    scales = _scales(ops, 1)
    zeros = ops.constant(2)
    if scales is None or (len(ops.values) > 2 and ops.values[2] is not None and zeros is None):
        return None
    return _numbers(ops.first, scales, zeros)


def _numbers(codes: Reach, scales: Array, zeros: Array | None) -> Reach:
    away = codes.largest + (0.0 if zeros is None else float(np.abs(zeros.astype(np.float64)).max()))
    top = float(scales.max())
    unit = top if top == float(scales.min()) else None
    return Reach(-away * top, away * top, codes.error * top, unit=unit, reason=codes.reason)


def _quantize(ops: Operands) -> Reach | None:
    scales = _scales(ops, 1)
    return None if scales is None else _codes(ops.first, scales, ops.dtype(ops.node.outputs[0]))


def _codes(number: Reach, scales: Array, dtype: str | None) -> Reach | None:
    if dtype not in _INTEGERS:
        return None
    low, high = integer_range(str(dtype))
    error = rounded(number.error / float(scales.min()))
    return Reach(low, high, integer=True, reason=number.reason).off(error)


def _real_product(ops: Operands) -> Reach | None:
    """Sums of products of real numbers by dequantized constant weights."""
    found = contraction(ops.facts, ops.node)
    weights = ops.values[1].producer() if len(ops.values) > 1 and ops.values[1] else None
    if found is None or weights is None or any(reach.error for reach in ops.given[1:]):
        return None
    rows = rows_of(ops.facts, found)
    scale = None if weights.inputs[1] is None else ops.array(weights.inputs[1])
    if rows is None or scale is None or scale.size not in (1, len(rows)):
        return None
    return _summed(ops, ops.first, rows, scale)


def _scaled(error: float, gain: float) -> float:
    return 0.0 if error == 0.0 or gain == 0.0 else error * gain


def _qlinear(ops: Operands) -> Reach | None:
    """Operators on codes: numbers in, the operator, codes out."""
    found = list(parts(ops.facts, ops.node))
    result = next((p for p in found if p.role == "result"), None)
    inner = _inner(ops, [p for p in found if p.role != "result"])
    if result is None or inner is None:
        return None
    return _codes(inner, np.abs(result.params.scales), result.params.code.name)


def _inner(ops: Operands, operands: Sequence[Part]) -> Reach | None:
    name = ops.node.op_type.removeprefix("QLinear")
    if len(operands) != _COUNTS.get(name, len(operands)) or not operands:
        return None
    numbers = []
    for part in operands:
        at = int(part.role.removeprefix("operand "))
        params = part.params
        numbers.append(_numbers(ops.given[at], np.abs(params.scales), params.zero_point))
    if name in ("Conv", "MatMul", "QGemm"):
        return _coded_product(ops, numbers)
    if name in ("Add", "Mul"):
        return (reaches.add if name == "Add" else reaches.multiply)(numbers[0], numbers[1])
    if name in ("Concat", "Where"):
        return joined(numbers)
    slope = {"Sigmoid": 0.25, "Softmax": 0.5, "LeakyRelu": _leaky(ops)}.get(name)
    if slope is None and ops.node.op_type in _MEANS:
        slope = 1.0
    return None if slope is None else replace(numbers[0], error=numbers[0].error * slope)


def _leaky(ops: Operands) -> float:
    alpha = ops.node.attributes.get("alpha")
    return max(1.0, abs(float(alpha.value))) if alpha is not None else 1.0


def _coded_product(ops: Operands, numbers: list[Reach]) -> Reach | None:
    found = contraction(ops.facts, ops.node)
    scale = ops.constant(4)
    if found is None or scale is None or numbers[1].error:
        return None
    rows = rows_of(ops.facts, found)
    if rows is None or scale.size not in (1, len(rows)):
        return None
    return _summed(ops, numbers[0], rows, scale)


def _summed(ops: Operands, x: Reach, rows: Ints, scale: Array) -> Reach:
    """The gain is that of the channel where the magnitudes of the weights have the largest sum."""
    alpha = ops.node.attributes.get("alpha")
    times = abs(float(alpha.value)) if alpha is not None else 1.0
    gains = np.abs(rows).sum(1) * np.abs(scale.astype(np.float64).reshape(-1)) * times
    return Reach(error=_scaled(x.error, float(gains.max())), reason=x.reason)


_OPERATORS: Mapping[str, Callable[[Operands], Reach | None]] = {
    "Add": _add, "Sub": _add, "Mul": _multiply, "Div": _divide, "Clip": _clip, "Sign": _sign,
    "Round": _round, "Cast": _cast, "Concat": _concat, "Where": _where, "Pad": _pad,
    "Resize": _resize, "HardSigmoid": _hard_sigmoid, "Gather": _gather,
    "ConvInteger": _integer_product, "MatMulInteger": _integer_product,
    "DequantizeLinear": _dequantize, "QuantizeLinear": _quantize, "Conv": _real_product,
    "Gemm": _real_product, "MatMul": _real_product, "ConvTranspose": _real_product,
}  # fmt: skip
