"""What becomes of the sums of a matrix product: steps of the product's own, then the cluster's.

In: operands and steps, the epilogue of the cluster. Out: one `Body` and its operands; a bias that
is known and added first becomes what the sums start from.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from rewrite.plan.spec import Body, Constant, Step
from rewrite.plan.tensor import Tensor

if TYPE_CHECKING:
    from rewrite.plan.lowering import Lowering

Array = np.ndarray[Any, np.dtype[Any]]
Arg = int | Constant


class Tail:
    """A program under construction; value 0 is the sum. Operands come before steps.

    `dtype` is the element type of the operator's own output, to which the sum is converted before
    the cluster's steps run.
    """

    def __init__(self, total: str, dtype: str) -> None:
        self.total = total
        self.dtype = dtype
        self.tensors: list[Tensor] = []
        self.steps: list[Step] = []
        self.last = 0

    def operand(self, tensor: Tensor) -> int:
        assert not self.steps, "operands come before steps"
        self.tensors.append(tensor)
        return len(self.tensors)

    def step(self, name: str, *args: Arg, dtype: str = "", **attributes: Any) -> int:
        """One step; gives the number of its result, which is the tail's result for now."""
        kept = tuple(sorted(attributes.items()))
        self.steps.append(Step("", name, args, dtype or self.total, kept, _OPSET))
        self.last = len(self.tensors) + len(self.steps)
        return self.last

    def cast(self, arg: Arg, dtype: str) -> int:
        return self.step("Cast", arg, dtype=dtype, saturate=1)

    def joined(
        self, epilogue: Body | None, given: Sequence[Tensor]
    ) -> tuple[Body | None, list[Tensor]]:
        """The steps so far, then those of the epilogue. None: the sum is stored as it is."""
        if self.total != self.dtype and (epilogue is not None or self.steps):
            if (self.steps[-1].dtype if self.steps else self.total) != self.dtype:
                self.cast(self.last, self.dtype)
        if epilogue is None and not self.steps:
            return None, []
        own, extra = len(self.tensors), len(given)

        def mine(arg: Arg | None) -> Arg | None:
            return arg + extra if isinstance(arg, int) and arg > own else arg

        steps = [_renamed(s, mine) for s in self.steps]
        last = self.last + extra if self.last > own else self.last
        dtypes = (self.total, *(t.dtype for t in (*self.tensors, *given)))
        if epilogue is None:
            return Body(dtypes, tuple(steps), (last,)), [*self.tensors]
        before = len(steps)

        def theirs(arg: Arg | None) -> Arg | None:
            if not isinstance(arg, int):
                return arg
            if arg == 0:
                return last
            return arg + own + (before if arg > extra else 0)

        steps += [_renamed(s, theirs) for s in epilogue.steps]
        results = tuple(int(theirs(r)) for r in epilogue.results)  # type: ignore[arg-type]
        return Body(dtypes, tuple(steps), results), [*self.tensors, *given]


_OPSET = 0  # steps are made in the newest form


def _renamed(step: Step, rename: Any) -> Step:
    args = tuple(rename(a) for a in step.args)
    return Step(step.domain, step.name, args, step.dtype, step.attributes, step.opset)


def peeled(
    low: Lowering, body: Body, given: Sequence[Tensor], total: str
) -> tuple[Array | None, Body | None, list[Tensor]]:
    """A first step that adds a known row to the sum is taken out: sums start from it.

    Only where the sum is not rounded before the addition.
    """
    kept = (None, body, list(given))
    if not body.steps or body.dtypes[0] != total or total == "f16":
        return kept
    first = body.steps[0]
    if first.name != "Add" or first.domain or first.dtype != total:
        return kept
    places = [a for a in first.args if isinstance(a, int) and 0 < a <= len(given)]
    if 0 not in first.args or len(places) != 1:
        return kept
    row = _known_row(low, given[places[0] - 1])
    used = [a for s in body.steps[1:] for a in s.args if isinstance(a, int)]
    if row is None or 0 in used or places[0] in used or 0 in body.results:
        return kept
    gone = places[0]
    added = len(given) + 1

    def renamed(arg: Arg | None) -> Arg | None:
        if not isinstance(arg, int):
            return arg
        if arg == added:
            return 0
        return arg - (arg > gone) - (arg > added)

    steps = tuple(_renamed(s, renamed) for s in body.steps[1:])
    rest = [t for i, t in enumerate(given) if i != gone - 1]
    results = tuple(int(renamed(r)) for r in body.results)  # type: ignore[arg-type]
    if not steps and results == (0,):
        return row, None, []
    dtypes = tuple(d for i, d in enumerate(body.dtypes) if i != gone)
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
