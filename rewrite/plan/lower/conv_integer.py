"""Convolutions of bytes: ConvInteger, QLinearConv.

In: codes with zero points. Out: kernels whose sums are exact; codes rounded once.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from rewrite.plan.conv_after import First
from rewrite.plan.conv_integers import Places, call_integers
from rewrite.plan.conv_requantize import Factors, factors
from rewrite.plan.conv_steps import Program
from rewrite.plan.conv_window import frame_of
from rewrite.plan.instance import Array, Instance
from rewrite.plan.lower.conv import spatial_refusal
from rewrite.plan.lowering import Lowering, channels_last, lowers, refuses
from rewrite.plan.specs.conv import MAGIC
from rewrite.plan.tensor import Tensor
from rewrite.quant.codes import code_type

MICROSOFT = "com.microsoft"
_BYTES = frozenset({"u8", "s8"})


@refuses("ConvInteger")
def conv_integer_refusal(op: Instance) -> str | None:
    if op.has(2) and op.shape(2) not in ((), (1,)):
        return "zero points of x per channel"
    return spatial_refusal(op, 1)


@lowers("ConvInteger", epilogue=True)
def conv_integer(low: Lowering, op: Instance) -> None:
    out = low.output(0, channels_last(len(op.shape(0))))
    call_integers(low, Places(0, 1, 2, 3), frame_of(op, op.shape(1)[2:]), low.view(0), out)


@refuses("QLinearConv")
@refuses("QLinearConv", domain=MICROSOFT)
def qlinear_conv_refusal(op: Instance) -> str | None:
    if op.dtype(0) not in _BYTES or op.dtype(3) not in _BYTES:
        return f"a convolution of {op.dtype(0)} by {op.dtype(3)}"
    if any(op.has(i) and op.shape(i) not in ((), (1,)) for i in (1, 2, 6, 7)):
        return "scales of x or y per channel"
    if op.has(8) and not op.is_known(8) and op.is_known(3):
        return "known weights with a bias that comes with the run"
    return spatial_refusal(op, 3)


@lowers("QLinearConv", epilogue=True)
@lowers("QLinearConv", domain=MICROSOFT, epilogue=True)
def qlinear_conv(low: Lowering, op: Instance) -> None:
    rank = len(op.shape(0))
    last = op.integer("channels_last", 0) != 0
    to_first = (0, rank - 1, *range(1, rank - 1)) if last else tuple(range(rank))
    x = low.view(0).permuted(to_first)
    out = low.output(0, None if last else channels_last(rank)).permuted(to_first)
    frame = frame_of(op, op.shape(3)[2:], last)
    call_integers(low, Places(0, 3, 2, 5, 8), frame, x, out, _codes(low, op, out))


def _codes(low: Lowering, op: Instance, out: Tensor) -> First:
    """Sums in s32 to codes."""
    dtype = op.out_dtype()
    code = code_type(dtype)
    assert code is not None
    least, most = int(code.low), int(code.high)
    scales = [op.known(i) for i in (1, 4, 6)]
    zero = op.known(7) if op.has(7) else np.zeros((), np.int64)
    x_s, w_s, y_s = scales
    if x_s is None or w_s is None or y_s is None or zero is None:
        return _codes_of_operands(low, op, out, least, most)
    shift = int(zero.reshape(-1)[0])
    scale = (float(x_s.reshape(-1)[0]), float(y_s.reshape(-1)[0]))
    found = _factors(w_s.tobytes(), str(w_s.dtype), *scale, least - shift, most - shift)
    factor = _by_channel(low.constant(found.ratio), out)
    if found.ratio.max(initial=0) < 1:
        number = _zero_point(shift) if found.halves else _magic(shift)
        operands = (factor, _by_channel(low.constant(number), out))
        return First(None, operands, dtype, found.halves)
    program = Program("s32", "f64")
    steps = program.step("Mul", "f64", program.cast(0, "f64"), 1)
    return First(program.body(program.codes(steps, dtype, shift, least, most)), (factor,))


@lru_cache(maxsize=512)
def _factors(w_scale: bytes, dtype: str, x: float, y: float, low: int, high: int) -> Factors:
    return factors(x, np.frombuffer(w_scale, np.dtype(dtype)), y, low, high)


@lru_cache(maxsize=256)
def _magic(number: int) -> Array:
    return np.array(MAGIC + number, np.float64)


@lru_cache(maxsize=256)
def _zero_point(number: int) -> Array:
    return np.array(number, np.int32)


def _codes_of_operands(low: Lowering, op: Instance, out: Tensor, least: int, most: int) -> First:
    """Scales or zero points that come with the run. x_s w_s is exact in f64; its product with a sum
    and the quotient by y_s are rounded, each to 53 digits."""
    dtype = op.out_dtype()
    program = Program("s32", op.dtype(1), op.dtype(4), op.dtype(6), dtype)
    x, w, y = (program.cast(i, "f64") for i in (1, 2, 3))
    scale = program.step("Mul", "f64", x, w)
    product = program.step("Mul", "f64", program.cast(0, "f64"), scale)
    steps = program.step("Div", "f64", product, y)
    code = program.codes_by(steps, dtype, program.cast(4, "f64"), least, most)
    zero = low.view(7) if op.has(7) else low.constant(np.zeros((), np.dtype(_NUMPY[dtype])))
    operands = [low.view(1), low.view(4), low.view(6), zero]
    return First(program.body(code), tuple(_by_channel(t, out) for t in operands))


_NUMPY = {"u8": "uint8", "s8": "int8"}


def _by_channel(tensor: Tensor, out: Tensor) -> Tensor:
    """A vector along the channels, or a number, as a view of the output's shape."""
    count = tensor.view.size
    shape = (count, *[1] * (len(out.shape) - 2)) if count > 1 else ()
    found = tensor.reshaped(shape)
    assert found is not None
    return found.broadcast(out.shape)
