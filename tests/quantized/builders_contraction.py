"""Models of ONNX Runtime's tests about Conv, MatMul and Gemm between quantized values.

Out: builders in `builders_core.FACTS`.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

from tests.quantized.builders_core import Case, Counts, Graph, fact, limits, middle

CONV_SHAPES = (((1, 12, 37), (32, 12, 5)), ((1, 23, 13, 13), (30, 23, 3, 3)))
OPSETS = (12, 18, 19, 21)


def variants(opsets: tuple[int, ...] = OPSETS) -> Iterator[tuple[int, bool, str]]:
    """Every opset, and the last but one with com.microsoft's QuantizeLinear."""
    for opset in opsets:
        yield opset, False, f"opset {opset}"
    yield opsets[-2:][0], True, "com.microsoft"


def weight_limits(dtype: str) -> tuple[int, int]:
    """Signed weights of half the range, so that no pair of products saturates 16 bits."""
    low, high = limits(dtype)
    return (int(low / 2), int(high / 2)) if dtype == "s8" else (low, high)


@fact("helper:QDQTransformerConvTests")
def conv() -> Iterator[Case]:
    types = [
        ("u8", "u8", "s32", "u8"), ("u8", "s8", "s32", "u8"), ("u8", "u8", "s8", "u8"),
        ("u8", "s8", "u8", "u8"), ("u8", "u8", "s32", "s8"), ("u8", "s8", "s32", "s8"),
        ("s8", "u8", "s32", "u8"), ("s8", "s8", "s32", "u8"), ("s8", "u8", "s32", "s8"),
        ("s8", "s8", "s32", "s8"),
    ]  # fmt: skip
    for (x, w, b, y), (opset, contrib, label) in product(types, variants()):
        g = Graph(opset, contrib)
        shape, kernel = CONV_SHAPES[opset % 2]
        low, high = weight_limits(w)
        weight = g.dq(g.weights(kernel, w, low, high), 0.03, int((low + high) / 2) + 1, w)
        bias = g.dq(g.weights(kernel[:1], b, 0, 127), 0.0012, 0, b)
        data = g.qdq(g.input(shape), 0.04, middle(x), x)
        g.out(g.qdq(g.node("Conv", data, weight, bias), 0.039, middle(y), y))
        kept = {"Conv": 1, "QLinearConv": 0, "Q": 2, "DQ": 4}
        fused = {"QLinearConv": 1, "Q": 1, "DQ": 1}
        expected: tuple[Counts, ...] = (kept,)
        if x == y and b == "s32" and (x == "u8" or w == "s8"):
            expected = (fused,) if x == "u8" else (fused, kept)
        yield Case(f"{x} {w} {b} {y}, {label}", g, expected)


def conv_of(g: Graph, x: str, w: str, shape: tuple[int, ...], kernel: tuple[int, ...]) -> str:
    """A quantized input through a Conv whose weights are codes."""
    data = g.input(shape)
    return conv_on(g, g.qdq(data, 0.004, 129 if x == "u8" else 1, x), w, kernel)


def conv_on(g: Graph, data: str, w: str, kernel: tuple[int, ...]) -> str:
    zp, (low, high) = (118, (0, 255)) if w == "u8" else (-10, (-64, 64))
    return g.node("Conv", data, g.dq(g.weights(kernel, w, low, high), 0.003, zp, w))


def pooled(g: Graph, op: str, x: str, rank: int) -> str:
    return g.node(op, x, kernel_shape=[3] * rank, pads=[1] * (2 * rank))


@fact("ConvMaxPoolReshape_UInt8")
def conv_max_pool_reshape() -> Iterator[Case]:
    for shapes, (opset, contrib, label) in product(CONV_SHAPES, variants((11, 12, 18, 19, 21))):
        g = Graph(opset, contrib)
        y = g.qdq(conv_of(g, "u8", "u8", *shapes), 0.0039, 135, "u8")
        y = g.qdq(pooled(g, "MaxPool", y, len(shapes[0]) - 2), 0.0039, 135, "u8")
        g.out(g.q(g.node("Reshape", y, g.shape(-1)), 0.0039, 135, "u8"))
        old = opset < 12
        counts = {"QLinearConv": 1, "MaxPool": 1, "Reshape": 1, "Q": 1 + old, "DQ": int(old)}
        yield Case(f"{shapes[0]}, {label}", g, (counts,))


@fact("ConvAveragePoolReshape_UInt8", "ConvAveragePoolReshape_Int8")
def conv_average_pool_reshape() -> Iterator[Case]:
    for shapes, x, (opset, contrib, label) in product(
        CONV_SHAPES, ("u8", "s8"), variants((12, 18))
    ):
        for last in dict.fromkeys((x, "u8")):
            g = Graph(opset, contrib)
            zp = {"u8": 135, "s8": 7}
            y = g.qdq(conv_of(g, x, x, *shapes), 0.0035, zp[x], x)
            y = g.qdq(pooled(g, "AveragePool", y, len(shapes[0]) - 2), 0.0035, zp[x], x)
            g.out(g.qdq(g.node("Reshape", y, g.shape(-1)), 0.0035, zp[last], last))
            counts = {"QLinearConv": 1, "ms.QLinearAveragePool": 1, "Reshape": 1, "Q": 1, "DQ": 1}
            yield Case(f"{shapes[0]} {x} {last}, {label}", g, (counts,))


@fact("ConvAveragePoolReshape_Int8_Fail")
def conv_average_pool_mixed() -> Iterator[Case]:
    for shapes, (opset, contrib, label) in product(CONV_SHAPES, variants((12, 18))):
        for last, zp in (("s8", 7), ("u8", 135)):
            g = Graph(opset, contrib)
            data = g.dq(g.input(shapes[0], "s8"), 0.004, 1, "s8")
            y = g.qdq(conv_on(g, data, "u8", shapes[1]), 0.0035, 7, "s8")
            y = g.qdq(pooled(g, "AveragePool", y, len(shapes[0]) - 2), 0.0035, 7, "s8")
            g.out(g.qdq(g.node("Reshape", y, g.shape(-1)), 0.0035, zp, last))
            counts = {"Conv": 1, "QLinearConv": 0, "ms.QLinearAveragePool": 1, "Reshape": 1}
            yield Case(f"{shapes[0]} {last}, {label}", g, (counts | {"Q": 1, "DQ": 3},))


@fact("ConvRelu")
def conv_relu() -> Iterator[Case]:
    for shapes, zp, (opset, contrib, label) in product(CONV_SHAPES, (0, 1), variants((12, 21))):
        g = Graph(opset, contrib)
        g.out(g.q(g.node("Relu", conv_of(g, "u8", "u8", *shapes)), 0.0039, zp, "u8"))
        counts = {"QLinearConv": 1, "Conv": 0, "Relu": 0, "Q": 1, "DQ": 0}
        if zp:
            counts = {"QLinearConv": 0, "Conv": 0, "Relu": 0, "ms.FusedConv": 1, "Q": 2, "DQ": 2}
        yield Case(f"{shapes[0]} zero point {zp}, {label}", g, (counts,))


# --- what stands between the Conv and its quantization --------------------------------------------

_CONV = ((1, 23, 13, 13), (30, 23, 3, 3))


@fact("ConvTranspose_QBackward")
def conv_transpose_backward() -> Iterator[Case]:
    for opset, contrib, label in variants((12, 18)):
        for last, zp in (("s8", 7), ("u8", 135)):
            g = Graph(opset, contrib)
            y = g.node("Transpose", conv_of(g, "s8", "s8", *_CONV), perm=[0, 3, 1, 2])
            g.out(g.qdq(y, 0.0035, zp, last))
            counts = {"QLinearConv": 1, "Transpose": 1, "Q": 1, "DQ": 1}
            yield Case(f"{last}, {label}", g, (counts,))


@fact("QBackward_MutilpleSteps")
def steps_backward() -> Iterator[Case]:
    for opset, contrib, label in variants((13, 18)):
        for last, zp in (("s8", 7), ("u8", 135)):
            g = Graph(opset, contrib)
            y = pooled(g, "MaxPool", conv_of(g, "s8", "s8", *_CONV), 2)
            y = g.node("Transpose", g.node("Reshape", y, g.shape(-1, 0)), perm=[1, 0])
            y = g.node("Squeeze", g.node("Unsqueeze", y, g.shape(0)), g.shape(0))
            g.out(g.qdq(y, 0.0035, zp, last))
            counts = {"QLinearConv": 1, "MaxPool": 1, "Reshape": 1, "Transpose": 1}
            yield Case(f"{last}, {label}", g, (counts | {"Q": 1, "DQ": 1},))


@fact("ConvTranspose_DQForward")
def conv_transpose_forward() -> Iterator[Case]:
    for opset, contrib, label in variants((12, 18, 19)):
        for last, zp in (("s8", 7), ("u8", 135)):
            g = Graph(opset, contrib)
            data = g.qdq(g.input((1, 13, 13, 23)), 0.004, 1, "s8")
            y = conv_on(g, g.node("Transpose", data, perm=[0, 3, 1, 2]), "s8", _CONV[1])
            g.out(g.qdq(y, 0.0035, zp, last))
            counts = {"QLinearConv": 1, "Transpose": 1, "Q": 1, "DQ": 1}
            yield Case(f"{last}, {label}", g, (counts,))


@fact("DQForward_MutilpleSteps")
def steps_forward() -> Iterator[Case]:
    for opset, contrib, label in variants((13, 18)):
        for last, zp in (("s8", 7), ("u8", 135)):
            g = Graph(opset, contrib)
            data = g.qdq(g.input((1, 13, 13, 23)), 0.004, 1, "s8")
            y = pooled(g, "MaxPool", g.node("Transpose", data, perm=[0, 3, 1, 2]), 2)
            y = g.node("Squeeze", g.node("Unsqueeze", y, g.shape(0)), g.shape(0))
            y = g.node("Reshape", conv_on(g, y, "s8", _CONV[1]), g.shape(-1, 0))
            g.out(g.qdq(y, 0.0035, zp, last))
            counts = {"QLinearConv": 1, "MaxPool": 1, "Reshape": 1, "Transpose": 1}
            yield Case(f"{last}, {label}", g, (counts | {"Q": 1, "DQ": 1},))


# --- MatMul -------------------------------------------------------------------------------------

MATMUL_SHAPES = (((12, 37), (37, 12)), ((23, 13, 13), (13, 13)), ((22, 11, 13, 15), (15, 13)))


@fact("helper:QDQTransformerMatMulTests")
def matmul() -> Iterator[Case]:
    """The first DequantizeLinear takes a zero point between the types of both operands, as the
    tests have it; it fits the type of the first."""
    codes = ("u8", "s8")
    for a, b, y, last in product(codes, codes, codes, (False, True)):
        for opset, contrib, label in variants():
            g = Graph(opset, contrib)
            shapes = ((1, 2, 2), (1, 2, 4)) if contrib else MATMUL_SHAPES[1]
            mixed = int((limits(b)[1] + limits(a)[0]) / 2) + 1
            p = g.dq(g.q(g.input(shapes[0]), 0.039, middle(a), a), 0.039, mixed, a)
            r = g.node("MatMul", p, g.qdq(g.input(shapes[1]), 0.04, middle(b), b))
            g.out(g.qdq(r, 0.039, middle(y), y) if last else r)
            expected = _matmul_counts(a, b, y, last)
            yield Case(f"{a} {b} {y if last else 'f32'}, {label}", g, expected)


def _matmul_counts(a: str, b: str, y: str, last: bool) -> tuple[Counts, ...]:
    fused: Counts = {"ms.MatMulIntegerToFloat": 1, "MatMul": 0, "Q": 2, "DQ": 0}
    kept: Counts = {"ms.MatMulIntegerToFloat": 0, "MatMul": 1, "Q": 2, "DQ": 2}
    if last:
        fused = {"QLinearMatMul": 1, "MatMul": 0, "Q": 2, "DQ": 1}
        kept = {"QLinearMatMul": 0, "MatMul": 1, "Q": 3, "DQ": 3}
    if last and a != y:
        return (kept,)
    if a == "u8":
        return (fused,)
    return (fused, kept) if b == "s8" else (kept,)


@fact("QLinearMatMul")
def qlinear_matmul() -> Iterator[Case]:
    for shapes, (opset, contrib, label) in product(MATMUL_SHAPES, variants((12, 18, 21))):
        g = Graph(opset, contrib)
        a, b = (g.qdq(g.input(shape), 0.004, 129, "u8") for shape in shapes)
        g.out(g.q(g.node("MatMul", a, b), 0.0039, 135, "u8"))
        yield Case(f"{shapes[0]}, {label}", g, ({"QLinearMatMul": 1, "Q": 2, "DQ": 0},))


@fact("MatMul_No_Fusion")
def matmul_with_float() -> Iterator[Case]:
    for shapes, (opset, contrib, label) in product(MATMUL_SHAPES, variants((12, 18, 21))):
        g = Graph(opset, contrib)
        a = g.qdq(g.input(shapes[0]), 0.004, 129, "u8")
        g.out(g.q(g.node("MatMul", a, g.input(shapes[1])), 0.0039, 135, "u8"))
        counts = {"MatMul": 1, "QLinearMatMul": 0, "Q": 2, "DQ": 1}
        yield Case(f"{shapes[0]}, {label}", g, (counts,))


@fact("MatMul_1st_Input_Int8")
def matmul_mixed() -> Iterator[Case]:
    for shapes, (opset, contrib, label) in product(MATMUL_SHAPES, variants((12, 18, 21))):
        g = Graph(opset, contrib)
        a = g.dq(g.input(shapes[0], "s8"), 0.004, 1, "s8")
        b = g.qdq(g.input(shapes[1]), 0.004, 129, "u8")
        g.out(g.q(g.node("MatMul", a, b), 0.0039, 135, "u8"))
        counts = {"MatMul": 1, "QLinearMatMul": 0, "Q": 2, "DQ": 2}
        yield Case(f"{shapes[0]}, {label}", g, (counts,))


@fact("MatMulIntegerToFloat")
def matmul_to_float() -> Iterator[Case]:
    for shapes, (opset, contrib, label) in product(MATMUL_SHAPES, variants((12, 19, 21))):
        g = Graph(opset, contrib)
        a, b = (g.dq(g.input(shape, "u8"), 0.0035, 135, "u8") for shape in shapes)
        g.out(g.node("MatMul", a, b))
        yield Case(f"{shapes[0]}, {label}", g, ({"ms.MatMulIntegerToFloat": 1, "Q": 0, "DQ": 0},))


@fact("DQ_S8_to_U8")
def matmul_full_range() -> Iterator[Case]:
    """Signed weights of the whole range, where pairs of products saturate 16 bits on x86."""
    for opset, contrib, label in variants((12, 18, 19, 21)):
        g = Graph(opset, contrib)
        a = g.qdq(g.input((19, 37)), 0.039, -128, "s8")
        g.out(g.node("MatMul", a, g.dq(g.weights((37, 23), "s8"), 0.003, -10, "s8")))
        counts = {"ms.MatMulIntegerToFloat": 1, "MatMul": 0, "Q": 1, "DQ": 0, "saturating": 0}
        yield Case(label, g, (counts,))


@fact("helper:RunDQMatMulNotConverted_TypeShapeMismatch")
def matmul_blocked() -> Iterator[Case]:
    """Weights in blocks that MatMulNBits does not take: along N, of rank 3, of other types."""
    shapes = (((12, 37), (37, 12), 1), ((2, 12, 37), (2, 37, 12), 1), ((12, 37), (37, 12), 0))
    for shape, kernel, axis in shapes:
        for w in ("u4", "s4") if axis or len(kernel) == 3 else ("s16", "u16"):
            g = Graph(21)
            scales = list(kernel)
            scales[axis] = -(-scales[axis] // 16)
            codes = g.const(g.random.integers(0, 7, kernel), w)
            scale = g.const(g.random.uniform(0.01, 0.03, scales))
            zeros = g.const(g.random.integers(0, 3, scales), w)
            weight = g.node("DequantizeLinear", codes, scale, zeros, axis=axis, block_size=16)
            g.out(g.node("MatMul", g.input(shape, low=-100, high=100), weight))
            yield Case(f"{kernel} {w} axis {axis}", g, ({"MatMul": 1, "Q": 0, "DQ": 1},))


# --- Gemm ---------------------------------------------------------------------------------------


@fact("helper:QDQTransformerGemmTests")
def gemm() -> Iterator[Case]:
    codes = ("u8", "s8")
    biases = (None, "s32", "u8")
    for a, b, y, bias, last, beta in product(codes, codes, codes, biases, (0, 1), (1.0, 2.0)):
        if not last and y == "s8":
            continue  # y is not there
        opset = {1.0: 12, 2.0: 18}[beta] if bias != "u8" else 19
        for contrib in (False, True) if bias == "s32" else (False,):
            g = Graph(21 if y == "s8" and not contrib else opset, contrib)
            name = f"{a} {b} {y if last else 'f32'} bias {bias} beta {beta:g} contrib {contrib}"
            _gemm(g, (a, b, y), bias, bool(last), beta)
            yield Case(name, g, _gemm_counts((a, b, y), bias, bool(last), beta))


def _gemm(g: Graph, types: tuple[str, str, str], bias: str | None, last: bool, beta: float) -> None:
    a, b, y = types
    mixed = int((limits(b)[1] + limits(a)[0]) / 2) + 1
    operands = [
        g.dq(g.q(g.input((13, 15)), 0.039, middle(a), a), 0.039, mixed, a),
        g.qdq(g.input((15, 15)), 0.04, middle(b), b),
    ]
    if bias:
        operands.append(g.dq(g.weights((15,), bias, 0, 127), 0.00156, 0, bias))
    r = g.node("Gemm", *operands, beta=beta)
    g.out(g.qdq(r, 0.039, middle(y), y) if last else r)


def _gemm_counts(
    types: tuple[str, str, str], bias: str | None, last: bool, beta: float
) -> tuple[Counts, ...]:
    a, b, y = types
    fused = {"ms.QGemm": 1, "Gemm": 0, "Q": 2, "DQ": int(last)}
    kept = {"ms.QGemm": 0, "Gemm": 1, "Q": 2 + last, "DQ": 2 + last + (bias is not None)}
    fits = (not last or a == y) and (bias is None or (bias == "s32" and beta == 1.0))
    if not fits or (a == "s8" and b == "u8"):
        return (kept,)
    return (fused,) if a == "u8" else (fused, kept)
