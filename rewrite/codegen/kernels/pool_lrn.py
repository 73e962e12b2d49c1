"""Normalization across neighbouring channels.

In: `Lrn`. Out: a kernel over rows of pixels; a work item is one channel of one image.
"""

from __future__ import annotations

from rewrite.codegen.body import emit_body
from rewrite.codegen.kernel import Kernel, emits
from rewrite.codegen.memory import load, register_type, store
from rewrite.codegen.value import Value
from rewrite.plan.spec import Body, Constant, Step
from rewrite.plan.specs.pool import Lrn
from rewrite.plan.view import BYTES


@emits(Lrn)
def lrn(k: Kernel, spec: Lrn) -> None:
    f, isa, size = k.f, k.isa, BYTES[spec.dtype]
    x, y = k.pointer(0), k.pointer(1)
    channels, pixels, image_stride, stride = (k.integer(i) for i in (3, 4, 5, 6))
    total = "f64" if spec.dtype == "f64" else "f32"
    lanes = isa.lanes(total)
    body = _quotient(spec, total)
    whole = f.binary("and", pixels, -lanes)

    def item(index: Value) -> None:
        image = f.binary("udiv", index, channels)
        channel = index - image * channels
        first = f.select(f.compare("<", channel, spec.before), f.i64(0), channel - spec.before)
        last = channel + (spec.after + 1)
        last = f.select(f.compare("<", last, channels), last, channels)
        start = f.at(x, image * image_stride * size)

        def some(p: Value, count: int) -> None:
            def square(c: Value, found: Value) -> list[Value]:
                at = f.at(start, (c * stride + p) * size)
                value = load(f, isa, spec.dtype, at, count)
                return [found + value * value]

            (found,) = f.loop(first, last, square, [f.zero(register_type(total, count))])
            place = (image * image_stride + channel * stride + p) * size
            value = load(f, isa, spec.dtype, f.at(x, place), count)
            (result,) = emit_body(f, isa, body, [value, found])
            store(f, isa, spec.dtype, result, f.at(y, place), count)

        f.loop(0, whole, lambda p: some(p, lanes), step=lanes)
        f.loop(whole, pixels, lambda p: some(p, 0))

    f.loop(k.begin, k.end, item)


def _quotient(spec: Lrn, total: str) -> Body:
    """x / (bias + scale * squares)^beta."""
    steps = (
        Step("", "Mul", (1, Constant(total, spec.scale)), total),
        Step("", "Add", (2, Constant(total, spec.bias)), total),
        Step("", "Pow", (3, Constant(total, spec.beta)), total),
        Step("", "Div", (0, 4), total),
    )
    return Body((total, total), steps, (5,))
