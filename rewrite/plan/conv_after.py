"""What convolutions and pools do with each element before they store it.

In: a lowering. Out: `After` and the operands that it takes, each with its strides from image to
image and from pixel to pixel.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from rewrite.plan.lowering import Lowering
from rewrite.plan.spec import Body, Constant, Step
from rewrite.plan.specs.conv import After, Along
from rewrite.plan.tensor import Tensor
from rewrite.plan.view import channels_last


@dataclass(frozen=True, slots=True)
class Operand:
    """An operand of `After`, with strides in elements."""

    tensor: Tensor
    along: Along
    image: int
    pixel: int


@dataclass(frozen=True, slots=True)
class Finish:
    """`after` with its operands, in order."""

    after: After
    operands: tuple[Operand, ...]

    @property
    def tensors(self) -> list[Tensor]:
        return [o.tensor for o in self.operands]

    @property
    def strides(self) -> list[int]:
        """The integer words: stride of images, stride of pixels of each operand."""
        return [n for o in self.operands for n in (o.image, o.pixel)]


def finish_of(low: Lowering, total: str, first: Body | None = None,
              given: Sequence[Tensor] = ()) -> Finish:  # fmt: skip
    """What comes behind a sum of type `total`: `first` (with operands `given`, views of the
    output's shape) makes the operator's element of it, then what the cluster adds."""
    computed = low.op.out_dtype(0)
    body = first
    if body is None and computed != total:
        body = Body((total,), (Step("", "Identity", (0,), computed),), (1,))
    tensors = list(given)
    tail = low.epilogue()
    if tail is not None:
        epilogue, more = tail
        body = epilogue.body if body is None else chained(body, epilogue.body)
        tensors += more
    out = total if body is None else body.dtype(body.results[0])
    operands = tuple(operand(low, t) for t in tensors)
    return Finish(After(out, body, tuple(o.along for o in operands)), operands)


def operand(low: Lowering, tensor: Tensor) -> Operand:
    """An operand, a view of the output's shape (N, C, …), by what it varies with."""
    found = _along(tensor)
    if found is None:
        tensor = low.ordered(tensor, channels_last(len(tensor.shape)))
        found = _along(tensor)
        assert found is not None
    return found


def _along(tensor: Tensor) -> Operand | None:
    """None where pixels do not follow each other at one stride."""
    shape, strides = tensor.shape, tensor.view.strides
    channel = strides[1] if shape[1] > 1 else 0
    if channel not in (0, 1):
        return None
    pixel, extent = 0, 1
    spatial = list(zip(shape[2:], strides[2:], strict=True))
    seen = False
    for size, stride in reversed(spatial):
        if size == 1:
            continue
        if not seen:
            pixel, seen = stride, True
        elif stride != pixel * extent:
            return None
        extent *= size
    image = strides[0] if shape[0] > 1 else 0
    if pixel < 0 or image < 0:
        return None
    return Operand(tensor, Along(tensor.dtype, channel == 1, pixel != 0), image, pixel)


def chained(first: Body, second: Body) -> Body:
    """`first`, and then `second`, whose value 0 is the result of `first`."""
    n1, n2 = len(first.dtypes), len(second.dtypes) - 1
    total, steps = n1 + n2, len(first.steps)

    def early(value: int) -> int:
        return value if value < n1 else value + n2

    def late(value: int) -> int:
        if value == 0:
            return early(first.results[0])
        return n1 + value - 1 if value <= n2 else total + steps + value - 1 - n2

    moved = [_renumbered(s, early) for s in first.steps] + [
        _renumbered(s, late) for s in second.steps
    ]
    return Body(
        first.dtypes + second.dtypes[1:], tuple(moved), tuple(late(r) for r in second.results)
    )


def _renumbered(step: Step, number: object) -> Step:
    assert callable(number)
    return replace(
        step,
        args=tuple(a if a is None or isinstance(a, Constant) else number(a) for a in step.args),
    )
