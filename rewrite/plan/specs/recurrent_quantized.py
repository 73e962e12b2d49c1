"""The recurrence of an LSTM whose weights are codes and whose state is quantized at each step.

In: nothing. Out: `QuantizedRecurrent` and the memory it needs. Its integer words are those of
`Recurrent`.
"""

from __future__ import annotations

from dataclasses import dataclass

from rewrite.plan.spec import Spec
from rewrite.plan.specs.recurrent import Recurrent


@dataclass(frozen=True, slots=True)
class QuantizedRecurrent(Spec):
    """An LSTM in float32 around products of bytes, for all directions, steps and rows of a batch.

    At each step the state of the whole batch is quantized to u8 by its range, as
    DynamicQuantizeLinear does it. With its zero point z and scale s, a gate's product is

        s scales[n] (sum over k of codes[k] weights[k, n]  -  z sums[n])

    `form`, `row`, `panel`, `group`: how products are added up (rewrite/codegen/product.py).

      weights  [direction][block][hidden / group][gate][unit][group], zero points taken off
      sums     s32 [direction][block][gate][unit]    scales  f32 of the same shape

    Words: projected, weights, sums, scales, then the others as of `base`; its `Integers`.
    Items: directions.
    """

    base: Recurrent
    form: str
    row: str
    panel: str
    group: int

    @property
    def operands(self) -> tuple[str, ...]:
        projected, weights, *others = self.base.operands
        return (projected, weights, "sums", "scales", *others)

    @property
    def depth(self) -> int:
        """The hidden units in whole groups."""
        return -(-self.base.hidden // self.group) * self.group


def scratch_of(spec: QuantizedRecurrent, batch: int) -> int:
    """Two copies of the state, the cell state, and the codes of the state."""
    row = spec.base.blocks * spec.base.unit * 4
    return 3 * (batch * row + 64) + batch * 2 * spec.depth + 64
