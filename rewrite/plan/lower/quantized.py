"""Quantization by the range of a tensor.

In: instances, tensors. Out: kernels that find the range, then pointwise quantization.
"""

from __future__ import annotations

from rewrite.plan.lowering import Instance, Lowering, Tensor, lowers, refuses
from rewrite.plan.spec import Body, Step
from rewrite.plan.specs.dynamic_range import CHUNK, Extremes, RangeParameters

# QuantizeLinear as a step of a scalar program.
QUANTIZE = (("axis", 1), ("block_size", 0), ("output_dtype", 0), ("precision", 0), ("saturate", 1))
OPSET = 21


@refuses("DynamicQuantizeLinear")
def dynamic_quantize_refusal(op: Instance) -> str | None:
    return None if op.dtype(0) == "f32" else f"DynamicQuantizeLinear of {op.dtype(0)}"


@lowers("DynamicQuantizeLinear")
def dynamic_quantize_linear(low: Lowering, op: Instance) -> None:
    del op
    quantize_by_range(low, low.view(0), low.output(0), low.output(1), low.output(2))


def quantize_by_range(low: Lowering, x: Tensor, codes: Tensor, scale: Tensor, zero: Tensor) -> None:
    """codes = saturate(rint(x / scale) + zero), by the least and the largest of x and 0."""
    if not x.view.dense:
        x = low.ordered(x, tuple(range(x.view.rank)))
    count = x.view.size
    chunks = -(-count // CHUNK)
    partial = low.new("f32", (max(chunks, 1), 2))
    low.call(Extremes(), [x, partial, count], chunks, flops=2 * count)
    low.call(RangeParameters(), [partial, scale, zero, chunks], 1)
    step = Step("", "QuantizeLinear", (0, 1, 2), "u8", QUANTIZE, OPSET)
    given = [x, spread(scale, x.shape), spread(zero, x.shape)]
    low.pointwise(Body(("f32", "f32", "u8"), (step,), (3,)), given, [codes])


def spread(tensor: Tensor, shape: tuple[int, ...]) -> Tensor:
    """A tensor of one element in every place of a shape."""
    one = tensor.reshaped(())
    assert one is not None
    return one.broadcast(shape)
