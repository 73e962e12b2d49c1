"""Models of ONNX Runtime's tests about pairs of QuantizeLinear and DequantizeLinear, clamps, and
weights and biases that are not quantized yet.

Out: builders in `builders_core.FACTS`.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

import numpy as np

from tests.quantized.builders_contraction import variants
from tests.quantized.builders_core import Case, Counts, Graph, fact, limits

PARAMETERS = tuple[tuple[float, int, str], ...]


def _double(opset: int, contrib: bool, pairs: PARAMETERS) -> Graph:
    """Q, DQ, Q, DQ, each with its own scale, zero point and type."""
    g = Graph(opset, contrib)
    spread = (pairs[0][0] + pairs[2][0]) / 2
    low, high = limits(pairs[0][2])
    x = g.input((5, 6, 7, 8), low=low * spread, high=high * spread)
    x = g.dq(g.q(x, *pairs[0]), *pairs[1])
    return g.out(g.dq(g.q(x, *pairs[2]), *pairs[3]))


@fact("DoubleQDQ")
def double_pairs() -> Iterator[Case]:
    u1, u2, u3 = (4.0, 80, "u8"), (8.0, 40, "u8"), (8.0, 13, "u8")
    s1, s2, s3 = (4.0, 99, "s8"), (8.0, -112, "s8"), (8.0, 42, "s8")
    models = {
        "u8": (True, (u1, u1, u2, u2)),
        "s8": (True, (s1, s1, s2, s2)),
        "u8 to s8": (False, (u1, u1, s2, s2)),
        "zero point in the first pair": (False, (u1, (4.0, 13, "u8"), u2, u2)),
        "zero point in the second pair": (False, (u1, u1, u2, u3)),
        "s8, zero point in the first pair": (False, (s1, (4.0, 42, "s8"), s2, s2)),
        "s8, zero point in the second pair": (False, (s1, s1, s2, s3)),
        "scale in the first pair": (False, (u1, (1.11, 80, "u8"), u2, u2)),
        "scale in the second pair": (False, (u1, u1, (1.11, 40, "u8"), u2)),
    }
    for (name, (merged, pairs)), (opset, contrib, label) in product(models.items(), variants()):
        count = 1 if merged else 2
        counts: Counts = {"Q": count, "DQ": count}
        yield Case(f"{name}, {label}", _double(opset, contrib, pairs), (counts,))


@fact("DoubleQDQPairsRemover_Bug_RejectDifferentScaleTypes")
def double_pairs_scale_types() -> Iterator[Case]:
    """The inner DequantizeLinear and QuantizeLinear are of float16, the outer ones of float32."""
    for opset in (19, 21):
        g = Graph(opset)
        x = g.node("Mul", g.input((2, 3, 4)), g.const(2.0))
        codes = g.q(x, 0.0078125, 3, "s8")
        half_scale, zero = g.const(0.0078125, "f16"), g.const(3, "s8")
        value = g.node("DequantizeLinear", codes, half_scale, zero)
        codes = g.node("QuantizeLinear", value, half_scale, zero)
        g.out(g.dq(codes, 0.0078125, 3, "s8"))
        yield Case(f"opset {opset}", g, ({"Q": 2, "Mul": 1, "DQ": 2},))


@fact("helper:RunDoubleQDQWithoutLastNodeBeingOutput")
def double_pairs_outputs() -> Iterator[Case]:
    kinds = [("u8", 12, False), ("u8", 12, True), ("u16", 12, True), ("s16", 12, True)]
    kinds += [("u16", 21, False), ("s16", 21, False)]
    counts = ({"Q": 1, "DQ": 1}, {"Q": 1, "DQ": 2}, {"Q": 2, "DQ": 2}, {"Q": 1, "DQ": 1})
    for output, (code, opset, contrib) in product(range(4), kinds):
        g = Graph(opset, contrib)
        low, high = limits(code)
        zp = min((high - low) // 2, high)
        values = [g.q(g.input((2, 3, 4)), 0.003, zp, code)]
        values.append(g.dq(values[0], 0.003, zp, code))
        values.append(g.q(values[1], 0.003, zp, code))
        values.append(g.dq(values[2], 0.003, zp, code))
        g.out(*dict.fromkeys((values[output], values[3])))
        expected = [counts[output]]
        if output == 2:  # where the codes are an output, the first two are those codes
            expected.append({"Q": 1, "DQ": 1})
        yield Case(f"output {output} {code} opset {opset} {contrib}", g, tuple(expected))


@fact("helper:RunDoubleQDQWithDuplicateLastDQs")
def double_pairs_duplicated() -> Iterator[Case]:
    for code, last, number, output in product(
        ("s8", "u8", "s16", "u16"), (1, 2), (1, 2, 3), (0, 1, 2, 3)
    ):
        if last == 2 and (code != "s8" or number != 2 or output != 3):
            continue  # another zero point in the last of two
        g = Graph(21)
        data = np.array([-3, -2, -1, 0, 0.5, 1, 2, 3], np.float32).reshape(1, 2, 2, 2)
        q1 = g.q(g.given(data, "f32"), 0.1, 1, code)
        d1 = g.dq(q1, 0.1, 1, code)
        q2 = g.q(d1, 0.1, 1, code)
        zeros = [1] * (number - 1) + [last]
        g.out(*((q1, d1, q2, "")[output],) if output < 3 else ())
        g.out(*(g.dq(q2, 0.1, zp, code) for zp in zeros))
        merged = {"Q": 1, "DQ": number}
        kept = {"Q": 2, "DQ": 1 + number + (output == 1)}
        expected = (merged,) if output == 3 and last == 1 else (kept,)
        yield Case(f"{code} {number} last {last} output {output}", g, expected)


# --- what a session option removes ---------------------------------------------------------------


@fact("QDQFinalCleanupTransformer_BasicQDQCleanup")
def cleanup_concat() -> Iterator[Case]:
    for first, last, (opset, contrib, label) in product((0, 1), (0, 1), variants((12, 18, 19))):
        g = Graph(opset, contrib)
        parts = [g.qdq(g.input((1, n, 4)), 0.05, 128, "u8") for n in (2, 3)]
        if first:
            g.out(g.node("Identity", parts[0]))
        y = g.qdq(g.node("Concat", *parts, axis=1), 0.05, 128, "u8")
        g.out(y, *([g.node("Identity", y)] if last else []))
        counts = {"Q": 0, "DQ": 0, "Concat": 1}
        yield Case(f"{first} {last}, {label}", g, (counts,), step=0.025)


def _fan(g: Graph, first: bool, x: str, second: str, kinds: tuple[bool, bool, bool]) -> Counts:
    """One node, two of the other kind behind it, with or without Transposes around."""
    make = {"q": g.q, "dq": g.dq}
    x = x if kinds[0] else g.node("Transpose", x)
    y = make["q" if first else "dq"](x, 0.05, 128, "u8")
    for bare in kinds[1:]:
        z = make[second](y, 0.05, 128, "u8")
        g.out(z if bare else g.node("Transpose", z))
    return {"Q": 0, "DQ": 0, "Transpose": sum(not kind for kind in kinds)}


@fact("QDQFinalCleanupTransformer_BasicQDQsCleanup")
def cleanup_quantized() -> Iterator[Case]:
    for kinds, (opset, contrib, label) in product(
        product((True, False), repeat=3), variants((12, 18))
    ):
        g = Graph(opset, contrib)
        counts = _fan(g, True, g.input((1, 2, 4)), "dq", kinds)
        yield Case(f"{kinds}, {label}", g, (counts,), step=0.025)


@fact("QDQFinalCleanupTransformer_BasicDQQsCleanup")
def cleanup_dequantized() -> Iterator[Case]:
    for kinds, (opset, contrib, label) in product(
        product((True, False), repeat=3), variants((12, 18, 21))
    ):
        g = Graph(opset, contrib)
        counts = _fan(g, False, g.input((1, 2, 4), "u8"), "q", kinds)
        yield Case(f"{kinds}, {label}", g, (counts,))


@fact("QDQFinalCleanupTransformer_GraphInputToOutput")
def cleanup_alone() -> Iterator[Case]:
    for is_float, (opset, contrib, label) in product((True, False), variants((12, 18, 19))):
        g = Graph(opset, contrib)
        if is_float:
            g.out(g.qdq(g.input((1, 2, 4)), 0.05, 128, "u8"))
        else:
            g.out(g.q(g.dq(g.input((1, 2, 4), "u8"), 0.05, 128, "u8"), 0.05, 128, "u8"))
        counts = {"Q": 0, "DQ": 0, "Identity": 1}
        yield Case(f"{'Q DQ' if is_float else 'DQ Q'}, {label}", g, (counts,), step=0.025)


# --- clamps -------------------------------------------------------------------------------------

EPSILON = float(np.finfo(np.float32).eps)


@fact("Clip")
def clip() -> Iterator[Case]:
    narrow = ((0.0235294122248888, 0), (0.02, 0), (0.03, 1))
    kinds: list[tuple[float, int, str, int]] = []
    for code in ("s8", "u8"):
        low, high = limits(code)
        kinds += [(scale, low, code, count) for scale, count in narrow]
        kinds += [(0.02, high, code, 1), (0.02, low + 128, code, 1), (0.04, low + 31, code, 1)]
        kinds += [(EPSILON, low + 1, code, 0), ((6 + EPSILON) / 255, low, code, 0)]
    for code in ("s16", "u16"):
        low = limits(code)[0]
        kinds += [(9.15541313801785e-5, low, code, 0), (0.0009, low, code, 1)]
    for (scale, zp, code, count), opset in product(kinds, (10, 12, 18, 21)):
        wide = code in ("s16", "u16")
        if opset == 10 and (wide or scale not in (0.02, 0.03) or zp != limits(code)[0]):
            continue
        for contrib in (False, True):
            if wide and not contrib and opset < 21:
                continue
            g = Graph(opset, contrib)
            x = g.dq(g.input((1, 8, 16, 16), "s8"), 0.0035, 7, "s8")
            if opset == 10:
                y = g.node("Clip", x, min=0.0, max=6.0)
            else:
                y = g.node("Clip", x, g.const(0.0), g.const(6.0))
            g.out(g.qdq(y, scale, zp, code))
            name = f"{scale:.5g} {zp} {code} opset {opset} {contrib}"
            yield Case(name, g, ({"Q": 1, "Clip": count, "DQ": 2},))


@fact("ClipQuantFusion_MultipleInputEdges")
def clip_bounds_quantized() -> Iterator[Case]:
    """The bounds come from nodes of their own."""
    for opset in (12, 18, 21):
        g = Graph(opset)
        x = g.dq(g.input((1, 2, 4, 4), "u8"), 0.05, 128, "u8")
        low = g.dq(g.input((), "u8", 100, 100), 0.05, 128, "u8")
        high = g.dq(g.input((), "u8", 200, 200), 0.05, 128, "u8")
        g.out(g.qdq(g.node("Clip", x, low, high), 0.05, 128, "u8"))
        yield Case(f"opset {opset}", g, ({"Clip": 1},))


@fact("ReluQuantFusion_Level2Only")
def relu() -> Iterator[Case]:
    """At the levels of the test that fuse; the lowest one leaves a Relu that is redundant."""
    for zp, opset in product((-128, 0), (18, 21)):
        g = Graph(opset)
        codes = np.array([-4, -3, -2, 0, 1, 2, 3, 4], np.int8).reshape(1, 2, 2, 2)
        x = g.node("Relu", g.dq(g.given(codes, "s8"), 1.0, zp, "s8"))
        g.out(g.qdq(x, 1.0, zp, "s8"))
        kept = int(zp != -128)
        yield Case(
            f"zero point {zp} opset {opset}", g, ({"Q": kept, "Relu": kept, "DQ": 1 + kept},)
        )
