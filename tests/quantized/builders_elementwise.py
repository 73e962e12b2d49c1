"""Models of ONNX Runtime's tests about pools, functions of one or two values, Concat and Where.

Out: builders in `builders_core.FACTS`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import product

from tests.quantized.builders_contraction import variants
from tests.quantized.builders_core import Builder, Case, Counts, Graph, fact, half

SHAPES = ((1, 12, 37), (1, 23, 13, 13))
CODES = ("u8", "s8")
Make = Callable[[Graph, str], str]


def _unary(op: str, make: Make, opsets: tuple[int, ...]) -> Builder:
    """A function between quantized values, fused where both have one type. A function of each
    element may become a table of codes (Gather) as well."""

    def build() -> Iterator[Case]:
        for x, y, (opset, contrib, label) in product(CODES, CODES, variants(opsets)):
            g = Graph(opset, contrib)
            value = make(g, g.qdq(g.input(SHAPES[opset % 2]), 0.0035, 7, x))
            g.out(g.dq(g.q(value, 0.0038, half(y), y), 0.0039, half(y), y))
            counts: Counts = {f"ms.QLinear{op}": 0, op: 1, "Q": 2, "DQ": 2}
            expected: tuple[Counts, ...] = (counts,)
            if x == y:
                expected = ({f"ms.QLinear{op}": 1, op: 0, "Q": 1, "DQ": 1},)
                if op in ("LeakyRelu", "Sigmoid"):
                    expected = (*expected, {"Gather": 1, op: 0, "Q": 1, "DQ": 1})
            yield Case(f"{x} {y}, {label}", g, expected)

    return build


def _average_pool(g: Graph, x: str) -> str:
    rank = 1 if g.opset % 2 == 0 else 2
    return g.node("AveragePool", x, kernel_shape=[3] * rank, pads=[1] * (2 * rank))


ALL = (12, 18, 19, 21)
fact("helper:QDQTransformerAveragePoolTests")(_unary("AveragePool", _average_pool, (12, 13, 18)))
fact("helper:QDQTransformerGlobalAveragePoolTests")(
    _unary("GlobalAveragePool", lambda g, x: g.node("GlobalAveragePool", x), (12, 13, 18))
)
fact("helper:QDQTransformerLeakyReluTests")(
    _unary("LeakyRelu", lambda g, x: g.node("LeakyRelu", x, alpha=0.2), ALL)
)
fact("helper:QDQTransformerSigmoidTests")(_unary("Sigmoid", lambda g, x: g.node("Sigmoid", x), ALL))


@fact("helper:QDQTransformerSoftmaxTests")
def softmax() -> Iterator[Case]:
    for code, axis, (opset, contrib, label) in product(CODES, (-1, -2), variants()):
        g = Graph(opset, contrib)
        size = 256.0 if code == "u8" else 128.0
        x = g.input(SHAPES[axis == -2], low=-5, high=5)
        zp = 127 if code == "u8" else 0
        value = g.node("Softmax", g.qdq(x, 0.105, zp, code), axis=axis)
        g.out(g.qdq(value, 1 / size, 0, code))
        counts = {"ms.QLinearSoftmax": 1, "Softmax": 0, "Q": 1, "DQ": 1}
        yield Case(f"{code} axis {axis}, {label}", g, (counts,))


@fact("QDQSoftmaxWithDQProducingGraphOutput")
def softmax_of_an_output() -> Iterator[Case]:
    for opset, contrib, label in variants((12, 18, 19)):
        g = Graph(opset, contrib)
        x = g.qdq(g.input(SHAPES[0], low=-5, high=5), 0.105, 127, "u8")
        g.out(x, g.qdq(g.node("Softmax", x, axis=-1), 1 / 256, 0, "u8"))
        counts = {"ms.QLinearSoftmax": 1, "Softmax": 0, "Q": 1, "DQ": 2}
        yield Case(label, g, (counts,))


@fact("helper:QDQTransformerBinaryOpTests")
def binary() -> Iterator[Case]:
    types = [(a, b, y) for a, b, y in product(CODES, CODES, CODES)]
    for op, (a, b, y), (opset, contrib, label) in product(("Add", "Mul"), types, variants()):
        g = Graph(opset, contrib)
        shape = SHAPES[opset % 2]
        p, q = (g.dq(g.q(g.input(shape), 0.008, half(t), t), 0.0079, half(t), t) for t in (a, b))
        g.out(g.dq(g.q(g.node(op, p, q), 0.0076, half(y), y), 0.0078, half(y), y))
        counts: Counts = {f"ms.QLinear{op}": 0, op: 1, "Q": 3, "DQ": 3}
        if a == b == y:
            counts = {f"ms.QLinear{op}": 1, op: 0, "Q": 2, "DQ": 1}
        yield Case(f"{op} {a} {b} {y}, {label}", g, (counts,))


@fact("Concat")
def concat() -> Iterator[Case]:
    three = ((1, 6, 36), (1, 6, 8), (1, 6, 2))
    plain = [(((1, 6, 36), (1, 3, 36)), 1, ""), (three, 2, "")]
    kinds = [*plain, (three, 2, "float"), (three, 2, "s8 in"), (three, 2, "s8 out")]
    for (shapes, axis, kind), (opset, contrib, label) in product(kinds, variants()):
        g = Graph(opset, contrib)
        values = []
        for i, shape in enumerate(shapes):
            x = g.input(shape)
            if i or kind not in ("float", "s8 in"):
                x = g.qdq(x, 0.05, 128, "u8")
            elif kind == "s8 in":
                x = g.qdq(x, 0.05, 1, "s8")
            values.append(x)
        code, zp = ("s8", 1) if kind == "s8 out" else ("u8", 128)
        g.out(g.qdq(g.node("Concat", *values, axis=axis), 0.05, zp, code))
        counts = {"ms.QLinearConcat": 0}
        fused = {"ms.QLinearConcat": 1, "Q": len(shapes), "DQ": 1}
        codes = {"Concat": 1, "Q": len(shapes), "DQ": 1}  # all have one scale: Concat of codes
        yield Case(f"{len(shapes)} {kind}, {label}", g, (counts,) if kind else (fused, codes))


@fact("Where")
def where() -> Iterator[Case]:
    """One scale for all: a Where of codes is as good as QLinearWhere, and needs no table."""
    for opset, contrib, label in variants((12, 18, 21)):
        g = Graph(opset, contrib)
        condition = g.given(g.random.integers(0, 2, (4,)).astype(bool), "bool")
        x, y = (g.dq(g.input((4,), "s8"), 0.003, half("s8"), "s8") for _ in range(2))
        g.out(g.q(g.node("Where", condition, x, y), 0.003, half("s8"), "s8"))
        fused, codes = {"ms.QLinearWhere": 1, "Q": 0, "DQ": 0}, {"Where": 1, "Q": 0, "DQ": 0}
        yield Case(label, g, (fused, codes))
