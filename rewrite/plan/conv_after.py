"""What convolutions and pools do with each element before they store it.

In: a lowering. Out: `After` and the operands that it takes, each with its strides from image to
image and from pixel to pixel.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from rewrite.ops.dtypes import to_numpy
from rewrite.plan.coded import coded, needed, renumbered
from rewrite.plan.conv_steps import Program
from rewrite.plan.instance import Array
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


@dataclass(frozen=True, slots=True)
class First:
    """How the operator makes its element of a sum: a program with operands (views of the output's
    shape), or as a code (`After.codes`), whose operands are the factor and the zero point."""

    body: Body | None = None
    operands: tuple[Tensor, ...] = ()
    codes: str = ""
    halves: bool = True


def added_behind(low: Lowering) -> Array | None:
    """Known numbers that the cluster first adds to the operator's elements, one per channel: they
    can be part of its bias, where sums are exact modulo 2^32."""
    head, tail = low.op, low.cluster.tail
    value = head.results[0]
    uses = sum(op.operands.count(value) for op in tail)
    if not tail or tail[0].key != ("", "Add") or uses != 1 or value not in tail[0].operands:
        return None
    other = 1 - tail[0].operands.index(value)
    shape, wanted = tail[0].shape(other), head.out_shape()
    aligned = (1,) * (len(wanted) - len(shape)) + shape
    if len(aligned) != len(wanted) or any(n != 1 for n in (aligned[0], *aligned[2:])):
        return None
    found = tail[0].known(other)
    return None if found is None else np.broadcast_to(found.reshape(-1), wanted[1:2])


def finish_of(low: Lowering, total: str, first: First | None = None, skip: int = 0) -> Finish:
    """What comes behind a sum of type `total`: what makes the operator's element of it (by default
    its rounding), then what the cluster adds, without its first `skip` operators."""
    computed = low.op.out_dtype(0)
    first = first or First(_rounding(total, computed))
    body, tensors = first.body, list(first.operands)
    made = first.codes or (total if body is None else body.dtype(body.results[0]))
    tail = low.epilogue(skip)
    if tail is not None:
        epilogue, more = tail
        body = epilogue.body if body is None else chained(body, epilogue.body)
        tensors += more
    if body is not None:
        made = body.dtype(body.results[0])
        body, numbers = lifted(coded(body))
        shape = low.cluster.shape
        tensors += [low.constant(_scalar(n)).broadcast(shape) for n in numbers]
    operands = tuple(operand(low, t) for t in tensors)
    along = tuple(o.along for o in operands)
    return Finish(After(made, body, along, first.codes, first.halves), operands)


def _rounding(total: str, computed: str) -> Body | None:
    if computed == total:
        return None
    program = Program(total)
    return program.body(program.cast(0, computed))


def without_detour(finish: Finish) -> Finish:
    """The same for sums in float32 that are integers below 2^24: made s32 and then float32 again,
    they are what they were."""
    body = finish.after.body
    if body is None:
        return finish
    count = len(body.dtypes)
    whole = {count + i for i, s in enumerate(body.steps) if s.args == (0,) and _casts(s, "s32")}
    back = {count + i for i, s in enumerate(body.steps) if s.args[0] in whole and _casts(s, "f32")}
    return replace(finish, after=replace(finish.after, body=needed(body, dict.fromkeys(back, 0))))


def _casts(step: Step, to: str) -> bool:
    return step.name == "Cast" and step.dtype == to


# --- numbers ----------------------------------------------------------------------------------

# Numbers of common activations stay in the code; others (scales, zero points) are operands, so that
# layers that differ in them share their code.
_COMMON = frozenset({0.0, 1.0, -1.0, 2.0, 3.0, 6.0, 0.5})
_BY_NUMBER = frozenset({"Pow"})  # whose code depends on the number


def lifted(body: Body) -> tuple[Body, list[Constant]]:
    """The program with operands in place of its own numbers, and these numbers."""
    numbers: dict[Constant, int] = {}
    for step in body.steps:
        for arg in step.args if step.name not in _BY_NUMBER else ():
            if isinstance(arg, Constant) and arg.number not in _COMMON and arg.number == arg.number:
                numbers.setdefault(arg, len(body.dtypes) + len(numbers))
    if not numbers:
        return body, []
    n, count = len(body.dtypes), len(numbers)

    def moved(step: Step, arg: int | Constant | None) -> int | Constant | None:
        if isinstance(arg, Constant):
            return arg if step.name in _BY_NUMBER else numbers.get(arg, arg)
        return arg if arg is None or arg < n else arg + count

    steps = tuple(replace(s, args=tuple(moved(s, a) for a in s.args)) for s in body.steps)
    results = tuple(r if r < n else r + count for r in body.results)
    return Body(body.dtypes + tuple(c.dtype for c in numbers), steps, results), list(numbers)


@lru_cache(maxsize=1024)
def _scalar(constant: Constant) -> Array:
    return np.array(constant.number, to_numpy(constant.dtype))


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

    moved = [renumbered(s, early) for s in first.steps] + [
        renumbered(s, late) for s in second.steps
    ]
    return Body(
        first.dtypes + second.dtypes[1:], tuple(moved), tuple(late(r) for r in second.results)
    )
