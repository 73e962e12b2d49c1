"""The steps of `rewrite.quant.body` as standard operators.

In: a maker. Out: nodes; each step is one, and its constants have the type of the number at hand.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rewrite.match.builtins.maker import Maker
from rewrite.ops.call import Array

_CLIP_OF_INTEGERS = 12  # the first opset whose Clip takes int64


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
        return self.maker.make("Round", (x,), {})

    def clip(self, x: object, low: Array, high: Array) -> object:
        facts, graph = self.maker.env.facts, self.maker.env.nodes[0].graph
        old = graph is None or facts.import_of(graph, "") < _CLIP_OF_INTEGERS
        if old and low.dtype == np.int64:
            # Rounding to float32 is monotone and keeps every integer that a code can be.
            x = self.cast(x, "f32")
            low, high = low.astype(np.float32), high.astype(np.float32)
        return self.maker.make("Clip", (x, self._operand(low), self._operand(high)), {})

    def _operand(self, value: object) -> object:
        return self.maker.fixed(value) if isinstance(value, np.ndarray) else value
