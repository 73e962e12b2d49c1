"""What a function that makes nodes asks of the engine.

A builtin whose first parameter is a `Maker` may be called in `emit` only: `y = requantize(acc, r)`.
It returns the graph value that it made.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

import onnx_ir as ir

from rewrite.match.values import Env
from rewrite.ops.call import Array


class Maker(Protocol):
    """Makes nodes and constants of one application; all is undone where that is refused."""

    env: Env

    def make(
        self, operator: str, operands: Sequence[object], attributes: Mapping[str, object]
    ) -> ir.Value:
        """The first output of a new node of ai.onnx, in the form of the model's opset."""
        ...

    def fixed(self, array: Array) -> ir.Value:
        """A constant of exactly these bits."""
        ...
