"""MaxUnpool, and normalization across channels.

In: MaxUnpool, LRN. Out: kernels over row-major tensors.
"""

from __future__ import annotations

from math import prod

from rewrite.ops.window import read_window
from rewrite.plan.instance import Instance
from rewrite.plan.lowering import Lowering, lowers, refuses
from rewrite.plan.specs.pool import Lrn, Unpool
from rewrite.plan.tensor import Tensor

_FLOATS = frozenset({"f32", "f64", "f16", "bf16"})


@refuses("MaxUnpool")
def unpool_refusal(op: Instance) -> str | None:
    if any(n < m for n, m in zip(op.out_shape(0), unpooled(op), strict=True)):
        return "an output shape below the one that the window implies"
    return None


@lowers("MaxUnpool", needs=(2,))
def max_unpool(low: Lowering, op: Instance) -> None:
    """Indices are into the row-major tensor that the window implies; a larger output shape has
    zeros behind it."""
    x, indices, out = low.rows(0), low.rows(1), low.output(0)
    shape = unpooled(op)
    target = out if shape == out.shape else low.new(out.dtype, shape)
    low.fill(target, 0)
    low.call(Unpool(op.dtype(0)), [x, indices, target, x.view.size, target.view.size], 1)
    if target is not out:
        low.fill(out, 0)
        low.copy(target, out.sliced((0,) * len(shape), shape))


def unpooled(op: Instance) -> tuple[int, ...]:
    """The shape without an output shape given."""
    kernel = op.integers("kernel_shape") or ()
    window = read_window(op, kernel)
    rank = len(kernel)
    spatial = [
        (n - 1) * window.strides[i] + kernel[i] - window.pads[i] - window.pads[i + rank]
        for i, n in enumerate(op.shape(0)[2:])
    ]
    return (*op.shape(0)[:2], *spatial)


@refuses("LRN")
def lrn_refusal(op: Instance) -> str | None:
    return None if op.dtype(0) in _FLOATS else f"a normalization of {op.dtype(0)}"


@lowers("LRN")
def lrn(low: Lowering, op: Instance) -> None:
    x, out = low.rows(0), low.output(0)
    images, channels, *sizes = op.shape(0)
    pixels = prod(sizes)
    if out.view.size == 0:
        return
    size = op.integer("size", 1)
    before = (size - 1) // 2
    spec = Lrn(
        op.dtype(0), before, size - 1 - before, op.float32("alpha", 1e-4) / size,
        op.float32("beta", 0.75), op.float32("bias", 1.0),
    )  # fmt: skip
    words: list[Tensor | int] = [x, out, images, channels, pixels, channels * pixels, pixels]
    low.call(spec, words, images * channels, max(1, 4096 // pixels), 0, size * x.view.size)
