"""QuantizeLinear and DequantizeLinear: as ONNX computes them in floats, and exactly.

In: arrays, `QuantParams` without faults. Out: codes in storage type, or values.

    quantize      saturate(rint(x / scale) + zero_point)     the division rounds to `precision`
    dequantize    (code - zero_point) scale                  the product rounds to the output type

The exact forms divide and multiply in rationals. Units: x and scale are in the tensor's unit,
codes and zero points count steps. Infinities saturate; NaN has no code: `QuantError`.
"""

from __future__ import annotations

import numpy as np

from rewrite.quant.codes import Array, CodeType, Floats, every_code, storage, store, values_of
from rewrite.quant.faults import QuantError
from rewrite.quant.params import QuantParams, spread
from rewrite.quant.rounding import Order, Rounding, quotient, round_parts


def saturate(values: Array, code: CodeType) -> Array:
    """Integers brought into the code's range, in storage type."""
    return store(np.clip(values, code.low, code.high), code)


def quantize(
    x: Array,
    params: QuantParams,
    precision: str | None = None,
    saturating: bool = True,
) -> Array:
    """Codes as ONNX and onnxruntime's QuantizeLinear compute them.

    `precision` None: x / scale in the wider of float32 and the types of x and scale (onnxruntime
    divides in float32 also when both are float16). `saturating` False is the attribute
    `saturate` = 0 of float8: what does not fit becomes NaN or infinity.
    """
    _no_nan(x)
    scale, zeros = spread(params, x.shape)
    kind = _division_type(x, scale) if precision is None else storage(precision)
    with np.errstate(over="ignore"):
        ratio = x.astype(kind) / scale.astype(kind)
    if params.code.kind == "float":
        return _to_float_code(values_of(ratio), params.code, saturating)
    steps = np.rint(values_of(ratio)) + zeros  # float64: exact far beyond 16-bit codes
    return store(np.clip(steps, params.code.low, params.code.high).astype(np.int64), params.code)


def _division_type(x: Array, scale: Array) -> np.dtype[np.generic]:
    wide = x.dtype == np.float64 or scale.dtype == np.float64
    return np.dtype(np.float64 if wide else np.float32)


def _no_nan(x: Array) -> None:
    if x.dtype.kind not in "iu" and np.isnan(values_of(x)).any():
        raise QuantError("NaN has no code")


def quantize_exact(
    x: Array,
    params: QuantParams,
    rounding: Rounding = Rounding.HALF_EVEN,
    order: Order = Order.ROUND_THEN_ADD,
) -> Array:
    """Codes of the rational number x / scale, without an intermediate rounding.

    Integer codes of up to 16 bits from every float type and from integers below 2^53; float codes
    from float32 and narrower.
    """
    _no_nan(x)
    scale, zeros = spread(params, x.shape)
    wide, steps = values_of(x), values_of(scale)
    if params.code.kind == "float":
        return _nearest_float_code(wide, np.broadcast_to(steps, wide.shape), params.code)
    if params.code.bits > 16:
        raise QuantError(f"codes of {params.code.bits} bits")
    parts = quotient(wide, np.zeros(()), steps)
    return saturate(round_parts(parts, rounding, zeros, order), params.code)


def dequantize(codes: Array, params: QuantParams, output: str | None = None) -> Array:
    """Values as DequantizeLinear computes them: the product in `output` (the scale's type).

    code - zero_point is an integer and exact; it is rounded to `output` before it is multiplied.
    Float16 and bfloat16 products round once.
    """
    scale, _ = spread(params, codes.shape)
    kind = scale.dtype if output is None else storage(output)
    if kind.itemsize == 1:  # float8e8m0 scales
        kind = np.dtype(np.float32)
    offset = steps_of(codes, params)
    if kind == np.float64:
        return np.asarray(offset.astype(kind) * values_of(scale))
    # The product of two numbers of `output` is exact in float64 and rounds once on the way back,
    # since float32 and narrower have at most 24 digits.
    with np.errstate(over="ignore"):  # codes of 32 bits may be infinite in float16
        narrow = values_of(offset.astype(kind)) * values_of(scale)
        return np.asarray(narrow.astype(kind))


def steps_of(codes: Array, params: QuantParams) -> Array:
    """code - zero_point, in int64; in float64 for float codes."""
    if params.code.kind == "float":
        return values_of(codes)
    _, zeros = spread(params, codes.shape)
    return np.asarray(codes.astype(np.int64) - zeros)


def dequantize_exact(codes: Array, params: QuantParams) -> Floats:
    """The values (code - zero_point) scale in float64, exact.

    A step count of up to 17 bits (8-bit floats: 5) times a scale of up to 24 has at most 41 bits.
    s32 codes: up to 2^29 in magnitude; `QuantError` above, and for float64 scales.
    """
    scale, _ = spread(params, codes.shape)
    if scale.dtype == np.float64:
        raise QuantError("float64 scale")
    offset = steps_of(codes, params)
    if params.code.bits > 16 and np.any(np.abs(offset) > 1 << 29):
        raise QuantError("codes beyond 2^29")
    return np.asarray(offset.astype(np.float64) * values_of(scale))


# --- float codes ------------------------------------------------------------------------------


def _to_float_code(values: Floats, code: CodeType, saturating: bool) -> Array:
    """Round to nearest, ties to even, from numbers that float32 holds exactly."""
    with np.errstate(over="ignore", invalid="ignore"):
        narrow = values.astype(np.float32)
        if saturating:
            narrow = np.clip(narrow, np.float32(code.low), np.float32(code.high))
        return np.asarray(narrow.astype(code.dtype))


def _nearest_float_code(values: Floats, scale: Floats, code: CodeType) -> Array:
    """The code nearest to values / scale, ties to the even mantissa, saturating."""
    grid = every_code(code)
    numbers = values_of(grid)
    order = np.argsort(numbers, kind="stable")
    order = order[np.isfinite(numbers[order])]
    keep = order[np.concatenate(([True], np.diff(numbers[order]) > 0))]  # one of +0 and -0
    ascending = numbers[keep]
    with np.errstate(over="ignore"):
        ratio = np.clip(values / scale, ascending[0], ascending[-1])
    below = np.clip(np.searchsorted(ascending, ratio, "right") - 1, 0, len(keep) - 2)
    middle = (ascending[below] + ascending[below + 1]) / 2
    # middle has few digits: middle * scale is exact, and so is the sign of the difference.
    side = np.sign(values - middle * scale)
    even = (grid[keep].view(np.uint8)[below] & 1) == 0
    up = (side > 0) | ((side == 0) & ~even)
    chosen = np.asarray(grid[keep][below + up])
    return np.where(_is_minus_zero(chosen, values, code), _minus_zero(code), chosen)


def _is_minus_zero(chosen: Array, values: Floats, code: CodeType) -> Array:
    if code.name.endswith("fnuz"):
        return np.zeros(chosen.shape, bool)
    return np.asarray((values_of(chosen) == 0) & np.signbit(values))


def _minus_zero(code: CodeType) -> Array:
    return np.asarray(np.float32(-0.0)).astype(code.dtype)


def quantize_reciprocal(x: Array, params: QuantParams) -> Array:
    """Codes as TensorRT computes them: x times 1 / scale in float32, clamped, half to even.

    Symmetric parameters only. Clamping before rounding gives the same codes as after it; the
    reciprocal does not give the quotient, so ties and neighbours of ties can differ from ONNX.
    Source: TensorRT documentation, Working with Quantized Types.
    """
    _no_nan(x)
    if not params.symmetric or params.code.kind != "int":
        raise QuantError("reciprocal scale with a zero point or float codes")
    scale, _ = spread(params, x.shape)
    with np.errstate(over="ignore"):
        inverse = np.float32(1) / scale.astype(np.float32)
        product = x.astype(np.float32) * inverse
    clamped = np.clip(product, np.float32(params.code.low), np.float32(params.code.high))
    return store(np.rint(clamped).astype(np.int64), params.code)
