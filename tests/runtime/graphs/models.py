"""The strategy: a model with its feeds.

In: nothing. Out: `models()`, a hypothesis strategy of `Drawn`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import onnx
from hypothesis import strategies as st
from onnx import helper

from tests.runtime.graphs import control, movement, numeric, pointwise
from tests.runtime.graphs.maker import Maker, Value, info, numbers

OPSET = 23
MOST_DEPTH = 2
DTYPES = ("f32", "f32", "s64", "f64", "bool", "s32", "f16", "u8", "s8", "bf16", "u32", "s16")


@dataclass(frozen=True)
class Drawn:
    """`exact`: outputs that every conforming runtime gives bit by bit."""

    model: onnx.ModelProto
    feeds: dict[str, np.ndarray]
    exact: dict[str, bool]

    def __repr__(self) -> str:
        text = onnx.printer.to_text(self.model)
        given = {name: f"{x.dtype}{x.shape}" for name, x in self.feeds.items()}
        return f"{text}\nfeeds {given}"


def fill(m: Maker, count: int) -> None:
    """Adds up to `count` operators."""
    for _ in range(count):
        kind = m.number(0, 9)
        if kind <= 3:
            m.choose(pointwise.FAMILY)(m)
        elif kind <= 6:
            m.choose(movement.FAMILY)(m)
        elif kind <= 8 or m.depth >= MOST_DEPTH:
            m.choose(numeric.FAMILY)(m)
        else:
            m.choose(control.FAMILY)(m, fill)


@st.composite
def models(draw: st.DrawFn) -> Drawn:
    m = Maker(draw)
    for _ in range(m.number(1, 3)):
        m.input(m.choose(DTYPES), m.shape())
    fill(m, m.choose((1, 2, 4, 8, 12, 16, 24)))
    outputs = _outputs(m)
    graph = helper.make_graph(
        m.nodes, "drawn", [info(v) for v in m.inputs], [info(v) for v in outputs], m.weights
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=10)
    rng = np.random.default_rng(m.number(0, 99))
    feeds = {v.name: numbers(rng, v.dtype, v.shape) for v in m.inputs}
    return Drawn(model, feeds, {v.name: v.exact for v in outputs})


def _outputs(m: Maker) -> list[Value]:
    """The last value, and some others; inputs only behind an Identity."""
    made = {name for node in m.nodes for name in node.output}
    chosen = [m.values[-1], *(m.choose(m.values) for _ in range(m.number(0, 3)))]
    outputs = []
    for value in dict.fromkeys(chosen):
        if value.name not in made or m.flag():
            name = m.node("Identity", [value])
            value = Value(name, value.dtype, value.shape, value.exact, value.limit)
        outputs.append(value)
    return outputs
