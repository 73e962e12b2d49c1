"""What becomes of the sums of a matrix product: steps of the product's own, then the cluster's.

In: operands and steps, the epilogue of the cluster. Out: one `Body` and its operands; a bias that
is known and added first becomes what the sums start from.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from rewrite.ops.dtypes import to_numpy
from rewrite.plan.spec import Body, Constant, Step
from rewrite.plan.tensor import Tensor

if TYPE_CHECKING:
    from rewrite.plan.lowering import Lowering

Array = np.ndarray[Any, np.dtype[Any]]
Arg = int | Constant

_STEP = 1 << 20  # results of steps are numbered from here on until the operands are counted
_OPSET = 21  # of steps whose meaning changed with time


class Tail:
    """A program under construction; value 0 is the sum, `last` what the program gives for now.

    `dtype` is the element type of the operator's own output, to which the sum is converted before
    the cluster's steps run. `inner`: the product is not the cluster's output.
    """

    def __init__(self, total: str, dtype: str, inner: bool = False) -> None:
        self.total = total
        self.dtype = dtype
        self.inner = inner
        self.tensors: list[Tensor] = []
        self.steps: list[Step] = []
        self.last = 0

    def operand(self, tensor: Tensor) -> int:
        """An operand that is broadcast to the output."""
        self.tensors.append(tensor)
        return len(self.tensors)

    def value(
        self,
        name: str,
        *args: Arg,
        dtype: str = "",
        attributes: Sequence[tuple[str, Any]] = (),
        domain: str = "",
    ) -> int:
        """One step; gives the number of its result."""
        kept = tuple(attributes)
        self.steps.append(Step(domain, name, args, dtype or self.total, kept, _OPSET))
        return _STEP + len(self.steps) - 1

    def then(self, name: str, *args: Arg, dtype: str = "") -> None:
        """One step on what the program gives, which its result becomes."""
        self.last = self.value(name, self.last, *args, dtype=dtype)

    def cast(self, arg: Arg, dtype: str) -> int:
        return self.value("Cast", arg, dtype=dtype, attributes=(("saturate", 1),))

    def joined(
        self, epilogue: Body | None, given: Sequence[Tensor]
    ) -> tuple[Body | None, list[Tensor]]:
        """The steps so far, then those of the epilogue. None: the sum is stored as it is."""
        if epilogue is not None or self.steps or self.dtype[0] in "us":
            now = self.steps[self.last - _STEP].dtype if self.last else self.total
            if now != self.dtype:
                self.last = self.cast(self.last, self.dtype)
        if epilogue is None and not self.steps:
            return None, []
        own, before = len(self.tensors), len(self.steps)
        count = 1 + own + len(given)

        def mine(arg: Arg | None) -> Arg | None:
            return arg - _STEP + count if isinstance(arg, int) and arg >= _STEP else arg

        def theirs(arg: Arg | None) -> Arg | None:
            if not isinstance(arg, int):
                return arg
            if arg == 0:
                return mine(self.last)
            return arg + own + (before if arg > len(given) else 0)

        steps = [_renamed(s, mine) for s in self.steps]
        results: tuple[Any, ...] = (mine(self.last),)
        if epilogue is not None:
            steps += [_renamed(s, theirs) for s in epilogue.steps]
            results = tuple(theirs(r) for r in epilogue.results)
        tensors = [*self.tensors, *given]
        return Body((self.total, *(t.dtype for t in tensors)), tuple(steps), results), tensors


def _renamed(step: Step, rename: Any) -> Step:
    args = tuple(rename(a) for a in step.args)
    return Step(step.domain, step.name, args, step.dtype, step.attributes, step.opset)


# Steps whose constants are data of a model rather than part of a formula.
_QUANTIZED = frozenset({"Cast", "Code", "QuantizeLinear", "DequantizeLinear"})
_LIFTED = frozenset({"Add", "Clip", "Div", "Max", "Min", "Mul", "Sub"}) | _QUANTIZED


def lifted(body: Body | None) -> tuple[Body | None, tuple[str, ...], Array]:
    """A program that makes codes takes its numbers as operands behind the others, so that one
    piece of code serves all layers: the program, their element types, and 8 bytes of each."""
    found: dict[str, int] = {}  # by how they are written: 0.0 is not -0.0
    constants: list[Constant] = []
    if body is None or not any(s.name in _QUANTIZED for s in body.steps):
        return body, (), _NO_NUMBERS
    for step in body.steps:
        if step.name in _LIFTED:
            for arg in step.args:
                if isinstance(arg, Constant) and repr(arg) not in found:
                    found[repr(arg)] = len(found)
                    constants.append(arg)
    first, count = len(body.dtypes), len(found)

    def moved(arg: Arg | None) -> Arg | None:
        return arg + count if isinstance(arg, int) and arg >= first else arg

    def named(arg: Arg | None) -> Arg | None:
        return first + found[repr(arg)] if isinstance(arg, Constant) else moved(arg)

    steps = tuple(_renamed(s, named if s.name in _LIFTED else moved) for s in body.steps)
    results: tuple[Any, ...] = tuple(moved(r) for r in body.results)
    dtypes = tuple(c.dtype for c in constants)
    numbers = np.zeros(max(count, 1), np.uint64)
    for i, constant in enumerate(constants):
        kind = np.dtype(to_numpy(constant.dtype))
        numbers[i : i + 1].view(kind)[0] = constant.number
    return Body((*body.dtypes, *dtypes), steps, results), dtypes, numbers


_NO_NUMBERS = np.zeros(1, np.uint64)


def peeled(
    low: Lowering, body: Body, given: Sequence[Tensor], total: str
) -> tuple[Array | None, Body | None, list[Tensor]]:
    """A first step that adds a known row to the sum is taken out: sums start from it.

    Only where the sum is not rounded before the addition.
    """
    kept = (None, body, list(given))
    first = body.steps[0]
    if (first.domain, first.name) != ("", "Add") or first.dtype != total:
        return kept
    places = [a for a in first.args if isinstance(a, int) and 0 < a <= len(given)]
    if 0 not in first.args or len(places) != 1:
        return kept
    gone, added = places[0], len(given) + 1
    row = _known_row(low, given[gone - 1])
    used = [*body.results, *(a for s in body.steps[1:] for a in s.args if isinstance(a, int))]
    if row is None or 0 in used or gone in used:
        return kept

    def renamed(arg: Arg | None) -> Arg | None:
        if not isinstance(arg, int):
            return arg
        return 0 if arg == added else arg - (arg > gone) - (arg > added)

    steps = tuple(_renamed(s, renamed) for s in body.steps[1:])
    if not steps:
        return row, None, []
    rest = [t for i, t in enumerate(given) if i != gone - 1]
    dtypes = tuple(d for i, d in enumerate(body.dtypes) if i != gone)
    results: tuple[Any, ...] = tuple(renamed(r) for r in body.results)
    return row, Body(dtypes, steps, results), rest


def _known_row(low: Lowering, tensor: Tensor) -> Array | None:
    """The elements along the last dimension, where nothing else varies and they are known."""
    view = tensor.view
    if tensor.buffer.region != "constant" or tensor.offset or view.rank == 0:
        return None
    if any(s != 0 and n != 1 for n, s in zip(view.shape[:-1], view.strides[:-1], strict=True)):
        return None
    array = low.constants[tensor.buffer.index].reshape(-1)
    n, stride = view.shape[-1], view.strides[-1]
    if n == 0 or (n > 1 and (stride != 1 or array.size != n)):
        return None
    return array[:n]
