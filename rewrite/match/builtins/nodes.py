"""The steps of `rewrite.quant.body` as standard operators.

In: a maker. Out: nodes; each step is one, and its constants have the type of the number at hand.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rewrite.match.builtins.maker import Maker
from rewrite.ops.call import Array

_CLIP_OF_INTEGERS = 12  # the first opset whose Clip takes int64
_ROUND = 11  # the first opset with Round
_NO_FRACTION = np.float32(1.5 * 2**23)  # float32 from 2^23 to 2^24 are the integers there


@dataclass(frozen=True, slots=True)
class Nodes:
    """Graph values for `body.Steps`."""

    maker: Maker

    def cast(self, x: object, dtype: str) -> object:
        return self.maker.make("Cast", (x,), {"to": dtype})

    def add(self, x: object, y: object) -> object:
        return self.maker.make("Add", (x, self._operand(y)), {})

    def multiply(self, x: object, y: object) -> object:
        return self.maker.make("Mul", (x, self._operand(y)), {})

    def divide(self, x: object, y: object) -> object:
        """Div of integers is toward zero."""
        return self.maker.make("Div", (x, self._operand(y)), {})

    def sign(self, x: object) -> object:
        return self.maker.make("Sign", (x,), {})

    def round(self, x: object) -> object:
        """float32 below 2^22; before there was Round, a sum that has no room for a fraction."""
        if self._opset() >= _ROUND:
            return self.maker.make("Round", (x,), {})
        raised = self.add(x, np.asarray(_NO_FRACTION))
        return self.add(raised, np.asarray(-_NO_FRACTION))

    def clip(self, x: object, low: Array, high: Array) -> object:
        if self._opset() < _CLIP_OF_INTEGERS and low.dtype == np.int64:
            # Rounding to float32 is monotone and keeps every integer that a code can be.
            x = self.cast(x, "f32")
            low, high = low.astype(np.float32), high.astype(np.float32)
        return self.maker.make("Clip", (x, self._operand(low), self._operand(high)), {})

    def _opset(self) -> int:
        graph = self.maker.env.nodes[0].graph
        return 0 if graph is None else self.maker.env.facts.import_of(graph, "")

    def _operand(self, value: object) -> object:
        return self.maker.fixed(value) if isinstance(value, np.ndarray) else value
