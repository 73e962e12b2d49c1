"""Models of ONNX Runtime's tests about operators that move codes or compare them.

Out: builders in `builders_core.FACTS`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import product

from tests.quantized.builders_contraction import variants
from tests.quantized.builders_core import (
    ONNX,
    Builder,
    Case,
    Counts,
    Graph,
    fact,
    half,
    limits,
    middle,
)

Make = Callable[[Graph, str], str]

# Element type, opset, com.microsoft or not: 16 bits need opset 21 or com.microsoft.
KINDS = (
    ("s8", 12, False), ("s8", 18, False), ("s8", 21, False), ("u8", 21, False), ("s8", 13, True),
    ("s16", 13, True), ("u16", 13, True), ("s16", 21, False), ("u16", 21, False),
)  # fmt: skip


def _moved(shape: tuple[int, ...], op: str, make: Make, oldest: int = 12) -> Builder:
    """Codes in, an operator, codes out with the same parameters: nothing but the operator."""

    def build() -> Iterator[Case]:
        for code, opset, contrib in KINDS:
            g = Graph(max(opset, oldest), contrib)
            x = g.dq(g.input(shape, code), 0.003, middle(code), code)
            g.out(g.q(make(g, x), 0.003, middle(code), code))
            label = f"{code} opset {g.opset}{', com.microsoft' if contrib else ''}"
            yield Case(label, g, ({op: 1, "Q": 0, "DQ": 0},))

    return build


IMAGE = (1, 3, 2, 2)
fact("helper:RunReshapeDropQDQTestCase")(
    _moved(IMAGE, "Reshape", lambda g, x: g.node("Reshape", x, g.shape(1, 12)))
)
fact("helper:RunFlattenDropQDQTestCase")(
    _moved(IMAGE, "Flatten", lambda g, x: g.node("Flatten", x, axis=3))
)
fact("helper:RunExpandDropQDQTestCase")(
    _moved((1, 3, 1, 1), "Expand", lambda g, x: g.node("Expand", x, g.shape(1, 3, 7, 13)))
)
fact("helper:RunTileDropQDQTestCase")(
    _moved(IMAGE, "Tile", lambda g, x: g.node("Tile", x, g.shape(1, 1, 3, 3)))
)


def _slice(g: Graph, x: str) -> str:
    return g.node("Slice", x, g.shape(0, 1, 1, 1), g.shape(1, 3, 4, 4))


def _elements(g: Graph, x: str) -> str:
    return g.node("GatherElements", x, g.const([[1, 2, 0], [2, 0, 0]], "s64"))


fact("helper:RunSliceDropQDQTestCase")(_moved((1, 3, 5, 5), "Slice", _slice))
fact("helper:RunGatherElementsDropQDQTestCase")(_moved((3, 3), "GatherElements", _elements))


@fact("helper:RunSqueezeUnsqueezeDropQDQTestCase")
def squeeze() -> Iterator[Case]:
    for op in ("Squeeze", "Unsqueeze"):
        cases = _moved(IMAGE, op, lambda g, x, op=op: g.node(op, x, g.shape(0)), oldest=13)
        yield from cases()


@fact("helper:RunGatherDropQDQTestCase")
def gather() -> Iterator[Case]:
    for code, opset, contrib in KINDS:
        g = Graph(opset, contrib)
        table = g.dq(g.weights((24, 12), code), 0.003, 1, code)
        indices = g.input((12, 37), "s64", 0, 23)
        g.out(g.q(g.node("Gather", table, indices), 0.003, 1, code))
        label = f"{code} opset {opset}{', com.microsoft' if contrib else ''}"
        yield Case(label, g, ({"Gather": 1, "Q": 0, "DQ": 0},))


@fact("Resize")
def resize() -> Iterator[Case]:
    for sizes, (opset, contrib, label) in product(
        ((4, 9, 15, 2), (2, 13, 24, 74)), variants((12, 18, 21))
    ):
        g = Graph(opset, contrib)
        x = g.dq(g.input((2, 13, 12, 37), "u8"), 0.003, 1, "u8")
        empty = g.const([])
        settings = {"mode": "nearest", "nearest_mode": "round_prefer_floor"}
        settings["coordinate_transformation_mode"] = "half_pixel"
        y = g.node("Resize", x, empty, empty, g.shape(*sizes), **settings)
        g.out(g.q(y, 0.003, 1, "u8"))
        yield Case(f"{sizes}, {label}", g, ({"Resize": 1, "Q": 0, "DQ": 0},))


@fact("Resize_No_Fusion")
def resize_shared() -> Iterator[Case]:
    """A Concat reads the float value as well; nothing reads the Concat, as in the test."""
    for opset, contrib, label in variants((12, 18)):
        g = Graph(opset, contrib)
        x = g.dq(g.input((1, 8, 16, 16), "u8"), 0.003, 1, "u8")
        empty = g.const([])
        y = g.node("Resize", x, empty, empty, g.shape(1, 8, 32, 32))
        g.node("Concat", y, g.input((1, 4, 32, 32)), axis=1)
        g.out(g.q(y, 0.003, 1, "u8"))
        yield Case(label, g, ({"Resize": 1, "Concat": 1, "Q": 1, "DQ": 1},))


@fact("ResizeReshapeSqueezeUnsqueeze")
def resize_and_more() -> Iterator[Case]:
    for opset, contrib, label in variants((13, 19)):
        g = Graph(opset, contrib)

        def pair(x: str, g: Graph = g) -> str:
            return g.qdq(x, 0.003, 1, "u8")

        x, empty = pair(g.input((1, 2, 26, 42), low=0)), g.const([])
        y = pair(g.node("Resize", x, empty, empty, g.shape(1, 2, 52, 82)))
        y = pair(g.node("Reshape", y, g.shape(1, 2, 52, 82)))
        y = pair(g.node("Squeeze", y, g.shape(0)))
        g.out(pair(g.node("Unsqueeze", y, g.shape(0))))
        yield Case(label, g, ({"Resize": 1, "Reshape": 1, "Q": 1, "DQ": 1},))


# --- comparisons --------------------------------------------------------------------------------


@fact("helper:RunMaxPoolNegativeScaleDropQDQTestCase")
def max_pool_negative() -> Iterator[Case]:
    for code in ("s8", "u8", "s16", "u16"):
        g = Graph(21)
        x = g.dq(g.input((1, 17, 17, 3), code), -0.003, middle(code), code)
        y = g.node("MaxPool", x, kernel_shape=[2, 2], auto_pad="VALID")
        g.out(g.q(y, -0.003, middle(code), code))
        yield Case(code, g, ({"MaxPool": 1, "Q": 1, "DQ": 1},))


@fact("helper:RunReduceExtremumDropQDQTestCase")
def reduce_extremum() -> Iterator[Case]:
    for op, scale, (opset, contrib, label) in product(
        ("ReduceMin", "ReduceMax"), (0.003, -0.003), variants((13, 21))
    ):
        g = Graph(opset, contrib)
        x = g.dq(g.input((3, 3), "s8"), scale, 1, "s8")
        g.out(g.q(g.node(op, x), scale, 1, "s8"))
        kept = int(scale < 0)
        yield Case(f"{op} {scale}, {label}", g, ({op: 1, "Q": kept, "DQ": kept},))


@fact("helper:RunArgMaxDropDQTestCase")
def arg_max() -> Iterator[Case]:
    settings = ((1, 0, 0), (0, 1, 0), (0, 0, 1))
    kinds = [("u8", o, c) for o, c in ((13, False), (19, False), (21, False), (19, True))]
    kinds += [("u16", 21, False), ("s16", 21, False), ("u16", 13, True), ("s16", 13, True)]
    for (axis, keep, last), (code, opset, contrib) in product(settings, kinds):
        g = Graph(opset, contrib)
        x = g.dq(g.input((2, 13, 12, 37), code), 0.003, 1, code)
        g.out(g.node("ArgMax", x, axis=axis, keepdims=keep, select_last_index=last))
        counts = {"ArgMax": 1, "DQ": int(code != "u8")}
        yield Case(f"{code} axis {axis} last {last} opset {opset} {contrib}", g, (counts,))


@fact("DropDQSelectorWithDQProducingGraphOutput")
def arg_max_of_an_output() -> Iterator[Case]:
    for is_output, (opset, contrib, label) in product((False, True), variants((12, 18, 19))):
        g = Graph(opset, contrib)
        x = g.qdq(g.input((1, 4, 8), low=-5, high=5), 0.105, 127, "u8")
        g.out(*([x] if is_output else []), g.node("Identity", g.node("ArgMax", x, axis=-1)))
        yield Case(f"{is_output}, {label}", g, ({"DQ": int(is_output)},))


# --- Split and Transpose ------------------------------------------------------------------------


def _split(g: Graph, x: str, sizes: bool) -> list[str]:
    if g.opset >= 18:
        return g.several("Split", x, n=3, axis=0, num_outputs=3)
    if g.opset >= 13 and sizes:
        return g.several("Split", x, g.shape(2, 2, 2), n=3, axis=0)
    return g.several("Split", x, n=3, axis=0)


def _codes(g: Graph, shape: tuple[int, ...], code: str) -> str:
    """An input of codes; those of 4 bits, which numpy has no array of, by way of a Cast."""
    if code not in ("s4", "u4"):
        return g.input(shape, code)
    return g.node("Cast", g.input(shape, "s8", *limits(code)), to=ONNX[code])


@fact("helper:RunDropSplitQDQTestCase")
def split() -> Iterator[Case]:
    kinds = [("s8", o, False) for o in (12, 13, 18, 19, 21)] + [("s8", 18, True)]
    kinds += [(c, 21, contrib) for c in ("s16", "u16") for contrib in (False, True)]
    kinds += [("s4", 21, False), ("u4", 21, False)]
    for same, (code, opset, contrib) in product((True, False), kinds):
        if not same and code in ("s4", "u4"):
            continue
        g = Graph(opset, contrib)
        zp = half(code)
        x = g.dq(_codes(g, (6, 18, 54), code), 0.003, zp, code)
        last = zp if same else zp - 1
        parts = _split(g, x, sizes=True)
        codes = [g.q(part, 0.003, zp if i else last, code) for i, part in enumerate(parts)]
        g.out(*(g.node("Cast", c, to=ONNX["s8"]) if code in ("s4", "u4") else c for c in codes))
        dropped = same and code not in ("s4", "u4")
        counts: Counts = {"Split": 1, "Q": 0 if dropped else 3, "DQ": 0 if dropped else 1}
        yield Case(f"{code} same {same} opset {opset} {contrib}", g, (counts,))


@fact("Split_without_IdenticalChildrenConsolidation", "Split_with_IdenticalChildrenConsolidation")
def split_after_pair() -> Iterator[Case]:
    for opset, contrib, label in variants((12, 18, 19)):
        g = Graph(opset, contrib)
        parts = _split(g, g.qdq(g.input((6, 18, 54), low=0), 0.003, 63, "s8"), sizes=False)
        g.out(*(g.qdq(part, 0.003, 63, "s8") for part in parts))
        yield Case(label, g, ({"Split": 1, "Q": 1, "DQ": 3},))


TRANSPOSED = (("u8", 12, False), ("u8", 12, True), ("u16", 12, True), ("s16", 12, True),
              ("u16", 21, False), ("s16", 21, False))  # fmt: skip


@fact("helper:RunDropQDQTransposeTestCase")
def transpose() -> Iterator[Case]:
    for code, opset, contrib in TRANSPOSED:
        g = Graph(opset, contrib)
        x = g.dq(g.input((2, 13, 12, 7), code), 0.003, half(code), code)
        y = g.qdq(g.node("Mul", x, x), 0.003, half(code), code)
        g.out(g.q(g.node("Transpose", y, perm=[0, 3, 1, 2]), 0.003, half(code), code))
        counts = {"Transpose": 1, "Mul": 1, "Q": 1, "DQ": 1}
        yield Case(f"{code} opset {opset} {contrib}", g, (counts,))


@fact("helper:RunQDQTransposeNoFusionTestCase")
def transpose_is_an_output() -> Iterator[Case]:
    for code, opset, contrib in TRANSPOSED:
        g = Graph(opset, contrib)
        x = g.dq(g.input((2, 13, 12, 7), code), 0.003, 1, code)
        y = g.node("Transpose", x, perm=[0, 3, 1, 2])
        g.out(y, g.q(y, 0.003, 1, code))
        yield Case(f"{code} opset {opset} {contrib}", g, ({"Q": 1, "DQ": 1},))
