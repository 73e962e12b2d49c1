"""One operator call, and the arithmetic in which it is to be computed.

In: operands in ONNX's order, attributes. Out: `Call` with checked access, `Arithmetic`, and the
steps that several operators share: zero points taken off, quotients rounded to codes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np

from rewrite.quant.codes import Array, CodeType, Floats, Ints, code_type, store, values_of
from rewrite.quant.faults import QuantError
from rewrite.quant.requantize import OnnxQdq, Requantizer, rational_codes
from rewrite.quant.rounding import Order, Rounding, quotient, round_parts, two_product

Arrays = tuple[Array, ...]


@dataclass(frozen=True, slots=True)
class Arithmetic:
    """How codes are made where implementations differ. The default is the text of ONNX.

    requantizer   from the accumulators of convolutions and products
    order         zero point after rounding (ONNX), or before (onnxruntime's QLinearAdd, QLinearMul
                  and QLinearAveragePool); for the accumulators too, if the requantizer is onnx_qdq
    rounding      of quotients
    exact         QuantizeLinear and DequantizeLinear in rationals, values in float64, instead of
                  ONNX's floats
    zero_scale    DynamicQuantizeLinear's scale for an all-zero tensor: 1 (onnxruntime), 1/255 (the
                  reference evaluator)
    """

    requantizer: Requantizer = field(default_factory=OnnxQdq)
    order: Order = Order.ROUND_THEN_ADD
    rounding: Rounding = Rounding.HALF_EVEN
    exact: bool = False
    zero_scale: float = 1.0


@dataclass(frozen=True, slots=True)
class Call:
    """Operands (None: absent) and attributes as the model has them."""

    name: str
    inputs: Sequence[Array | None]
    attributes: Mapping[str, Any]
    arithmetic: Arithmetic

    def array(self, index: int) -> Array:
        found = self.optional(index)
        if found is None:
            raise QuantError(f"{self.name} without operand {index}")
        return found

    def optional(self, index: int) -> Array | None:
        found = self.inputs[index] if index < len(self.inputs) else None
        return None if found is None else np.asarray(found)

    def integer(self, name: str, default: int) -> int:
        return int(self.attributes.get(name, default))

    def number(self, name: str, default: float) -> float:
        return float(self.attributes.get(name, default))

    def text(self, name: str, default: str) -> str:
        found = self.attributes.get(name, default)
        return found.decode() if isinstance(found, bytes) else str(found)

    def integers(self, name: str) -> list[int] | None:
        found = self.attributes.get(name)
        return None if found is None else [int(v) for v in found]

    def scale(self, index: int) -> Floats:
        """Positive finite scales in float64."""
        found = values_of(self.array(index))
        if found.size == 0 or not np.all(np.isfinite(found) & (found > 0)):
            raise QuantError(f"{self.name}: scale is not positive and finite")
        return found

    def zero(self, index: int, like: Array) -> Ints:
        """A zero point in int64; absent: 0."""
        found = self.optional(index)
        if found is None:
            return np.zeros((), np.int64)
        if found.dtype != like.dtype:
            raise QuantError(f"{self.name}: zero point of type {found.dtype.name}")
        return found.astype(np.int64)

    def one(self, values: Array, what: str) -> Array:
        """The only element, as a scalar."""
        if values.size != 1:
            raise QuantError(f"{self.name}: {what} per channel")
        return values.reshape(())

    def output_code(self, zero_point: int | None, default: CodeType | None = None) -> CodeType:
        """The code type of an output, which its zero point has."""
        given = None if zero_point is None else self.optional(zero_point)
        kind = default if given is None else code_type(given.dtype)
        if kind is None or kind.kind != "int":
            raise QuantError(f"{self.name}: output is not of an integer type")
        return kind


def integer_code(call: Call, codes: Array) -> CodeType:
    """The code type of an operand."""
    kind = code_type(codes.dtype)
    if kind is None or kind.kind != "int":
        raise QuantError(f"{call.name}: codes of type {codes.dtype.name}")
    return kind


def rounded(call: Call, hi: Floats, lo: Floats, den: Floats, zero: Array, code: CodeType) -> Array:
    """Codes of the exact quotient (hi + lo) / den by the call's rounding and order."""
    how = call.arithmetic
    steps = round_parts(quotient(hi, lo, den), how.rounding, zero, how.order)
    return store(np.clip(steps, code.low, code.high), code)


def ratio_parts(numerators: Sequence[Array], denominator: Array) -> tuple[Array, Array]:
    """product(numerators) / denominator as two object arrays of integers, broadcast together."""
    shape = np.broadcast_shapes(*(np.shape(a) for a in (*numerators, denominator)))
    n, d = np.empty(shape, object), np.empty(shape, object)
    spread = [np.broadcast_to(a, shape) for a in (*numerators, denominator)]
    for i in np.ndindex(shape):
        ratio = 1 / Fraction(float(spread[-1][i]))
        for a in spread[:-1]:
            ratio *= Fraction(float(a[i]))
        n[i], d[i] = ratio.numerator, ratio.denominator
    return n, d


def requantized(
    call: Call,
    acc: Ints,
    numerators: Sequence[Array],
    denominator: Array,
    zero: Array,
    code: CodeType,
) -> Array:
    """Codes of acc product(numerators) / denominator, exact; shapes broadcast with `acc`."""
    product = _exact_product(numerators)
    if product is not None:
        hi, lo = two_product(acc.astype(np.float64), product)
        return rounded(call, hi, lo, denominator, zero, code)
    n, d = ratio_parts(numerators, denominator)
    how = call.arithmetic
    steps = rational_codes(acc, n, d, zero, code.low, code.high, how.rounding, how.order)
    return store(steps, code)


def _exact_product(factors: Sequence[Array]) -> Floats | None:
    """The product in float64 if that has all its digits, as for two float32 scales."""
    total = np.ones(())
    for factor in factors:
        total, error = two_product(total, np.asarray(factor, np.float64))
        if np.any(error):
            return None
    return total
