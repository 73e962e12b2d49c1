"""The exact oracle against rational arithmetic, element by element, and hand-made cases.

`exactly` is the definition: Fractions, Python's round (ties to even), nothing vectorized.
"""

from __future__ import annotations

import itertools
from fractions import Fraction

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from rewrite.audit.oracle.real import Real
from rewrite.audit.oracle.run import Oracle
from rewrite.audit.oracle.step import OracleError

F32, U8, S8 = TensorProto.FLOAT, TensorProto.UINT8, TensorProto.INT8
RNG = np.random.default_rng(3)


def model(nodes, inputs, outputs, constants=(), opset=21, functions=(), extra=()):
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info(n, t, s) for n, t, s in inputs],
        [helper.make_tensor_value_info(n, t, None) for n, t in outputs],
        [numpy_helper.from_array(np.asarray(a), n) for n, a in dict(constants).items()],
    )
    imports = [helper.make_opsetid("", opset), *(helper.make_opsetid(d, 1) for d in extra)]
    return helper.make_model(graph, opset_imports=imports, functions=list(functions), ir_version=10)


def run(proto, **feeds):
    outcome = Oracle(proto).run(feeds)
    return {k: v.floats if isinstance(v, Real) else v for k, v in outcome.outputs.items()}, outcome


def fractions(codes, scale, zero=0):
    return np.vectorize(lambda c: (int(c) - int(zero)) * Fraction(float(scale)), otypes=[object])(
        codes
    )


def exactly(values, scale, zero, low, high):
    """QuantizeLinear of rationals."""
    s = Fraction(float(scale))
    return np.vectorize(lambda v: min(max(round(v / s) + int(zero), low), high), otypes=[int])(
        values
    )


def dq(x, s, z, y, **attributes):
    return helper.make_node("DequantizeLinear", [x, s, z], [y], **attributes)


def q(x, s, z, y, **attributes):
    return helper.make_node("QuantizeLinear", [x, s, z], [y], **attributes)


@pytest.mark.parametrize("zero", [0, 3, 128, 255])
def test_quantize_rounds_exact_ties_to_even_before_the_zero_point(zero):
    scale = np.float32(0.1)  # not a dyadic step: k + 1/2 times it is a tie only in rationals
    around = np.arange(-300, 300, dtype=np.float32)
    near = (around + np.float32(0.5)) * scale
    x = np.concatenate([near, np.nextafter(near, 9e9, dtype=np.float32), around * scale])
    proto = model(
        [q("x", "s", "z", "y")],
        [("x", F32, [x.size])],
        [("y", U8)],
        {"s": scale, "z": np.uint8(zero)},
    )
    found, outcome = run(proto, x=x)
    wanted = exactly([Fraction(float(v)) for v in x], scale, zero, 0, 255)
    assert np.array_equal(found["y"], wanted)
    assert outcome.undecided == 0


@pytest.mark.parametrize(
    ("scales", "zeros"),
    [
        ((0.25, 0.25, 0.5), (0, 0, 1)),
        ((0.1, 0.1, 0.2), (128, 128, 127)),
        ((0.05, 0.07, 0.11), (3, 5, 1)),
    ],
)
@pytest.mark.parametrize("op", ["Add", "Sub", "Mul", "Max"])
def test_all_pairs_of_codes_through_a_binary_operator(op, scales, zeros):
    a, b = (v.reshape(-1) for v in np.meshgrid(*[np.arange(0, 256, 5, dtype=np.uint8)] * 2))
    sa, sb, sy = map(np.float32, scales)
    za, zb, zy = map(np.uint8, zeros)
    nodes = [dq("a", "sa", "za", "p"), dq("b", "sb", "zb", "q"),
             helper.make_node(op, ["p", "q"], ["r"]), q("r", "sy", "zy", "y")]  # fmt: skip
    constants = {"sa": sa, "sb": sb, "sy": sy, "za": za, "zb": zb, "zy": zy}
    proto = model(nodes, [("a", U8, [a.size]), ("b", U8, [a.size])], [("y", U8)], constants)
    found, outcome = run(proto, a=a, b=b)
    left, right = fractions(a, sa, za), fractions(b, sb, zb)
    value = {
        "Add": left + right, "Sub": left - right, "Mul": left * right,
        "Max": np.array([max(v, w) for v, w in zip(left, right, strict=True)]),
    }[op]  # fmt: skip
    assert np.array_equal(found["y"], exactly(value, sy, zy, 0, 255))
    assert outcome.undecided == 0


def reference_conv(x, w, stride, pads, group):
    """Convolution of rationals, by its definition."""
    n, _, height, width = x.shape
    m, c, kh, kw = w.shape
    padded = np.full((n, x.shape[1], height + 2 * pads, width + 2 * pads), Fraction(0), object)
    padded[:, :, pads : pads + height, pads : pads + width] = x
    oh = (height + 2 * pads - kh) // stride + 1
    ow = (width + 2 * pads - kw) // stride + 1
    y = np.empty((n, m, oh, ow), object)
    for b, f, i, j in itertools.product(range(n), range(m), range(oh), range(ow)):
        first = (f // (m // group)) * c
        window = padded[
            b, first : first + c, i * stride : i * stride + kh, j * stride : j * stride + kw
        ]
        y[b, f, i, j] = sum((window * w[f]).reshape(-1), Fraction(0))
    return y


@pytest.mark.parametrize("group", [1, 2, 4])
def test_convolution_with_scales_per_filter_and_a_bias_of_another_scale(group):
    x = RNG.integers(0, 256, (2, 4, 5, 6), dtype=np.uint8)
    w = RNG.integers(-128, 128, (4, 4 // group, 3, 3), dtype=np.int8)
    b = RNG.integers(-5000, 5000, 4, dtype=np.int32)
    ws = np.array([0.02, 0.003, 0.04, 0.0011], np.float32)
    xs, ys = np.float32(0.017), np.float32(0.09)
    bs = (xs * ws).astype(np.float32)  # rounded: not the product of the scales
    nodes = [
        dq("x", "xs", "xz", "xf"), dq("w", "ws", "wz", "wf", axis=0),
        dq("b", "bs", "bz", "bf", axis=0),
        helper.make_node("Conv", ["xf", "wf", "bf"], ["c"], pads=[1] * 4, strides=[2, 2],
                         group=group),
        helper.make_node("Relu", ["c"], ["r"]), q("r", "ys", "yz", "y"),
    ]  # fmt: skip
    constants = {
        "xs": xs, "xz": np.uint8(7), "w": w, "ws": ws, "wz": np.zeros(4, np.int8), "b": b, "bs": bs,
        "bz": np.zeros(4, np.int32), "ys": ys, "yz": np.uint8(3),
    }  # fmt: skip
    found, outcome = run(model(nodes, [("x", U8, x.shape)], [("y", U8)], constants), x=x)
    real_w = np.stack([fractions(w[k], ws[k]) for k in range(4)])
    y = reference_conv(fractions(x, xs, 7), real_w, 2, 1, group)
    for k in range(4):
        y[:, k] += Fraction(int(b[k])) * Fraction(float(bs[k]))
    y = np.vectorize(lambda v: max(v, Fraction(0)), otypes=[object])(y)
    assert np.array_equal(found["y"], exactly(y, ys, 3, 0, 255))
    assert outcome.undecided == 0


def test_qlinear_conv_is_the_quantized_convolution():
    x = RNG.integers(-128, 128, (1, 2, 4, 4), dtype=np.int8)
    w = RNG.integers(-128, 128, (3, 2, 2, 2), dtype=np.int8)
    b = RNG.integers(-900, 900, 3, dtype=np.int32)
    xs, ws, ys = np.float32(0.25), np.array([0.5, 0.25, 0.125], np.float32), np.float32(1.0)
    constants = {
        "xs": xs, "xz": np.int8(-1), "w": w, "ws": ws, "wz": np.zeros(3, np.int8), "ys": ys,
        "yz": np.int8(1), "b": b,
    }  # fmt: skip
    node = helper.make_node(
        "QLinearConv", ["x", "xs", "xz", "w", "ws", "wz", "ys", "yz", "b"], ["y"]
    )
    found, _ = run(model([node], [("x", S8, x.shape)], [("y", S8)], constants), x=x)
    real_w = np.stack([fractions(w[k], ws[k]) for k in range(3)])
    y = reference_conv(fractions(x, xs, -1), real_w, 1, 0, 1)
    for k in range(3):
        y[:, k] += int(b[k]) * Fraction(float(xs)) * Fraction(float(ws[k]))
    assert np.array_equal(found["y"], exactly(y, ys, 1, -128, 127))


@pytest.mark.parametrize("axis", [0, 1])
def test_matrix_product_with_scales_along_either_axis_and_blocks(axis):
    a = RNG.integers(0, 256, (3, 8), dtype=np.uint8)
    w = RNG.integers(-8, 8, (8, 5)).astype(np.int8)
    if axis == 0:  # blocks of 4 along what is summed
        ws = RNG.uniform(0.01, 0.1, (2, 5)).astype(np.float32)
        spread = np.repeat(ws, 4, 0)
        attributes = {"axis": 0, "block_size": 4}
    else:
        ws = RNG.uniform(0.01, 0.1, 5).astype(np.float32)
        spread = np.broadcast_to(ws, (8, 5))
        attributes = {"axis": 1}
    constants = {
        "as": np.float32(0.03), "az": np.uint8(100), "w": w, "ws": ws,
        "wz": np.zeros(ws.shape, np.int8), "ys": np.float32(0.01), "yz": np.uint8(127),
    }  # fmt: skip
    nodes = [dq("a", "as", "az", "p"), dq("w", "ws", "wz", "q", **attributes),
             helper.make_node("MatMul", ["p", "q"], ["r"]), q("r", "ys", "yz", "y")]  # fmt: skip
    found, outcome = run(model(nodes, [("a", U8, a.shape)], [("y", U8)], constants), a=a)
    real = np.vectorize(lambda c, s: int(c) * Fraction(float(s)), otypes=[object])(w, spread)
    y = fractions(a, np.float32(0.03), 100).dot(real)
    assert np.array_equal(found["y"], exactly(y, np.float32(0.01), 127, 0, 255))
    assert outcome.undecided == 0


def test_hard_swish_is_exact():
    x = np.arange(256, dtype=np.uint8)
    s, sy = np.float32(0.047), np.float32(0.031)
    third = helper.make_node("HardSigmoid", ["p"], ["h"], alpha=1 / 6, beta=0.5)
    nodes = [
        dq("x", "s", "z", "p"),
        third,
        helper.make_node("Mul", ["p", "h"], ["m"]),
        q("m", "sy", "z", "y"),
    ]
    constants = {"s": s, "z": np.uint8(120), "sy": sy}
    found, _ = run(model(nodes, [("x", U8, [256])], [("y", U8)], constants), x=x)
    alpha = Fraction(float(np.float32(1 / 6)))
    values = fractions(x, s, 120)
    y = [v * min(max(alpha * v + Fraction(1, 2), 0), 1) for v in values]
    assert np.array_equal(found["y"], exactly(y, sy, 120, 0, 255))


@pytest.mark.parametrize("include", [0, 1])
def test_average_pool_divides_by_a_rational(include):
    x = RNG.integers(0, 256, (1, 1, 5, 5), dtype=np.uint8)
    pool = helper.make_node(
        "AveragePool",
        ["p"],
        ["r"],
        kernel_shape=[3, 3],
        pads=[1] * 4,
        strides=[2, 2],
        count_include_pad=include,
    )
    nodes = [dq("x", "s", "z", "p"), pool, q("r", "s", "z", "y")]
    constants = {"s": np.float32(0.25), "z": np.uint8(1)}
    found, _ = run(model(nodes, [("x", U8, x.shape)], [("y", U8)], constants), x=x)
    wide = np.pad(x.astype(int) - 1, [(0, 0), (0, 0), (1, 1), (1, 1)])
    inside = np.pad(np.ones((5, 5), int), 1)
    for i, j in itertools.product(range(3), range(3)):
        window = (..., slice(2 * i, 2 * i + 3), slice(2 * j, 2 * j + 3))
        count = 9 if include else int(inside[window].sum())
        assert found["y"][0, 0, i, j] == min(
            max(round(Fraction(int(wide[window].sum()), count)) + 1, 0), 255
        )


def test_scales_follow_their_elements():
    """Per-axis scales through Transpose, Concat, Split, Reshape, Slice, Pad."""
    a = RNG.integers(-128, 128, (2, 3), dtype=np.int8)
    b = RNG.integers(-128, 128, (2, 3), dtype=np.int8)
    sa, sb = np.array([0.5, 0.3, 0.7], np.float32), np.float32(0.11)
    nodes = [
        dq("a", "sa", "za", "p", axis=1), dq("b", "sb", "zb", "q"),
        helper.make_node("Concat", ["p", "q"], ["c"], axis=0),
        helper.make_node("Transpose", ["c"], ["t"], perm=[1, 0]),
        helper.make_node("Reshape", ["t", "shape"], ["r"]),
        helper.make_node("Pad", ["r", "pads", "value"], ["d"]),
        helper.make_node("Split", ["d"], ["y0", "y1"], num_outputs=2, axis=0),
    ]  # fmt: skip
    constants = {
        "sa": sa, "za": np.zeros(3, np.int8), "sb": sb, "zb": np.int8(4),
        "shape": np.array([6, 2]), "pads": np.array([1, 0, 1, 0]), "value": np.float32(2.5),
    }  # fmt: skip
    proto = model(
        nodes, [("a", S8, [2, 3]), ("b", S8, [2, 3])], [("y0", F32), ("y1", F32)], constants
    )
    found, _ = run(proto, a=a, b=b)
    p = a.astype(float) * sa.astype(float)
    joined = np.concatenate([p, (b.astype(float) - 4) * float(sb)]).T.reshape(6, 2)
    padded = np.pad(joined, [(1, 1), (0, 0)], constant_values=2.5)
    assert np.array_equal(np.concatenate([found["y0"], found["y1"]]), padded)


@pytest.mark.parametrize(
    ("made", "value"),
    [
        ("t = Identity(s)", 0.1),
        ("r = Identity(s)  t = Reshape(r, k)", 0.1),
        ("w = Cast <to = 11> (s)  t = Cast <to = 1> (w)", 0.1),
        ("t = Mul(s, two)", 0.2),
        ("t = Mul(s, s)", None),
    ],
)
def test_a_scale_that_is_computed_without_rounding_is_a_scale(made, value):
    """The number behind Identity is the number; the product of two has no float32 of its own."""
    text = f"""<ir_version: 8, opset_import: ["" : 13]> g (float[3] x) => (uint8[3] y)
        <float s = {{0.1}}, float two = {{2}}, uint8 z = {{3}}, int64[1] k = {{1}}>
        {{ {made}  y = QuantizeLinear(x, t, z) }}"""
    oracle = Oracle(onnx.parser.parse_model(text))
    feeds = {"x": np.array([1.0, -0.2, 0.05], np.float32)}
    if value is None:
        with pytest.raises(OracleError, match="computed in real numbers"):
            oracle.run(feeds)
        return
    scale = Fraction(float(np.float32(value)))
    codes = [round(Fraction(float(x)) / scale) + 3 for x in feeds["x"]]
    assert oracle.run(feeds).outputs["y"].tolist() == codes


def test_floats_between_integers_are_machine_numbers():
    """A requantizer in float32 inside a function: its roundings are part of the meaning."""
    acc = RNG.integers(-(2**31), 2**31, 20000).astype(np.int32)
    body = [
        helper.make_node("Cast", ["a"], ["f"], to=F32),
        helper.make_node("Constant", [], ["m"], value=numpy_helper.from_array(np.float32(3e-3))),
        helper.make_node("Mul", ["f", "m"], ["p"]),
        helper.make_node("Round", ["p"], ["r"]),
        helper.make_node("Cast", ["r"], ["y"], to=TensorProto.INT32),
    ]
    function = helper.make_function(
        "rewrite.test", "Requantize", ["a"], ["y"], body, [helper.make_opsetid("", 21)]
    )
    call = helper.make_node("Requantize", ["x"], ["y"], domain="rewrite.test")
    s32 = TensorProto.INT32
    proto = model(
        [call], [("x", s32, [acc.size])], [("y", s32)], functions=[function], extra=["rewrite.test"]
    )
    found, _ = run(proto, x=acc)
    wanted = np.rint(acc.astype(np.float32) * np.float32(3e-3)).astype(np.int32)
    assert np.array_equal(found["y"], wanted)
    exact = exactly(
        [int(v) * Fraction(float(np.float32(3e-3))) for v in acc], 1.0, 0, -(2**31), 2**31
    )
    assert not np.array_equal(wanted, exact)  # so the two meanings can be told apart


def test_integers_that_wrap_around_are_a_fault():
    proto = model(
        [helper.make_node("Add", ["x", "x"], ["y"])],
        [("x", TensorProto.INT32, [3])],
        [("y", TensorProto.INT32)],
    )
    found, outcome = run(proto, x=np.array([1, 2**30, -(2**31)], np.int32))
    assert found["y"].tolist() == [2, -(2**31), 0]
    assert [(f.what, f.count) for f in outcome.faults] == [("integers wrap around", 2)]


def test_integer_products_keep_32_bits():
    a, b = np.full((1, 70000), 255, np.uint8), np.full((70000, 1), 255, np.uint8)
    node = helper.make_node("MatMulInteger", ["a", "b"], ["y"])
    proto = model([node], [("a", U8, a.shape), ("b", U8, b.shape)], [("y", TensorProto.INT32)])
    found, outcome = run(proto, a=a, b=b)
    total = 255 * 255 * 70000
    assert total > 2**31
    assert found["y"].item() == total - 2**32
    assert outcome.faults[0].count == 1


def test_a_sigmoid_at_a_tie_is_undecided():
    proto = model(
        [helper.make_node("Sigmoid", ["x"], ["p"]), q("p", "s", "z", "y")],
        [("x", F32, [2])],
        [("y", U8)],
        {"s": np.float32(1.0), "z": np.uint8(0)},
    )
    _, outcome = run(proto, x=np.array([0.0, 1.0], np.float32))
    assert outcome.undecided == 1  # sigmoid(0) = 1/2


def test_graphs_in_nodes_are_refused():
    two = helper.make_node("Constant", [], ["v"], value=numpy_helper.from_array(np.float32(2)))
    out = helper.make_tensor_value_info("v", F32, [])
    branch = helper.make_graph([two], "b", [], [out])
    node = helper.make_node(
        "If", ["c"], ["y"], name="choose", then_branch=branch, else_branch=branch
    )
    proto = model([node], [("c", TensorProto.BOOL, [])], [("y", F32)])
    with pytest.raises(OracleError, match="'choose' holds a graph"):
        Oracle(proto)


def test_float8_codes_by_value():
    x = np.array([0.0, 1.0, -3.3, 500.0, 0.4], np.float32)
    zero = numpy_helper.to_array(helper.make_tensor("z", TensorProto.FLOAT8E4M3FN, [], [0.0]))
    nodes = [q("x", "s", "z", "c"), dq("c", "s", "z", "y")]
    constants = {"s": np.float32(0.5), "z": zero}
    found, _ = run(model(nodes, [("x", F32, [5])], [("y", F32)], constants), x=x)
    # x / 0.5 in e4m3: 3 bits of mantissa, at most 448; 6.6 -> 6.5, 0.8 -> 0.8125
    assert found["y"].tolist() == [0.0, 1.0, -3.25, 224.0, 0.40625]


def test_dynamic_quantization():
    x = np.array([[-1.0, 0.25, 2.0]], np.float32)
    node = helper.make_node("DynamicQuantizeLinear", ["x"], ["y", "s", "z"])
    proto = model([node], [("x", F32, [1, 3])], [("y", U8), ("s", F32), ("z", U8)])
    found, _ = run(proto, x=x)
    scale = np.float32(3 / 255)
    assert found["s"].item() == scale
    assert found["z"].item() == 85
    assert found["y"].tolist() == [[0, round(Fraction(1, 4) / Fraction(float(scale))) + 85, 255]]


def test_the_model_may_have_local_functions_with_attributes():
    function = onnx.helper.make_function(
        "rewrite.test", "Leaky", ["x"], ["y"],
        [helper.make_node("LeakyRelu", ["x"], ["y"])], [helper.make_opsetid("", 21)], ["alpha"],
    )  # fmt: skip
    reference = onnx.AttributeProto(
        name="alpha", ref_attr_name="alpha", type=onnx.AttributeProto.FLOAT
    )
    function.node[0].attribute.append(reference)
    call = helper.make_node("Leaky", ["x"], ["y"], domain="rewrite.test", alpha=0.5)
    proto = model(
        [call], [("x", F32, [2])], [("y", F32)], functions=[function], extra=["rewrite.test"]
    )
    found, _ = run(proto, x=np.array([-3.0, 3.0], np.float32))
    assert found["y"].tolist() == [-1.5, 3.0]


def test_terms_that_broadcast_are_summed_and_contracted_at_full_size():
    """A sum of a tensor and a vector of another scale, then a mean and a product."""
    x = RNG.integers(0, 256, (2, 3, 4), dtype=np.uint8)
    v = RNG.integers(-128, 128, (4,), dtype=np.int8)
    w = RNG.integers(-128, 128, (4, 2), dtype=np.int8)
    vs, s, ws = np.array([0.3, 0.1, 0.7, 0.9], np.float32), np.float32(0.11), np.float32(0.013)
    nodes = [
        dq("x", "s", "z", "p"), dq("v", "vs", "vz", "r", axis=0), dq("w", "ws", "wz", "m"),
        helper.make_node("Add", ["p", "r"], ["sum"]),
        helper.make_node("ReduceMean", ["sum", "axes"], ["mean"], keepdims=0),
        q("mean", "s", "z", "y"),
        helper.make_node("MatMul", ["sum", "m"], ["product"]), q("product", "ws", "z", "u"),
    ]  # fmt: skip
    constants = {
        "s": s, "z": np.uint8(100), "v": v, "vs": vs, "vz": np.zeros(4, np.int8), "w": w, "ws": ws,
        "wz": np.int8(0), "axes": np.array([0, 1]),
    }  # fmt: skip
    proto = model(nodes, [("x", U8, x.shape)], [("y", U8), ("u", U8)], constants)
    found, outcome = run(proto, x=x)
    vector = np.array([int(c) * Fraction(float(k)) for c, k in zip(v, vs, strict=True)], object)
    total = fractions(x, s, 100) + vector
    mean = total.sum(axis=(0, 1)) / 6
    assert np.array_equal(found["y"], exactly(mean, s, 100, 0, 255))
    product = total.dot(fractions(w, ws))
    assert np.array_equal(found["u"], exactly(product, ws, 100, 0, 255))
    assert outcome.undecided == 0


def test_shapes_that_do_not_fit_are_told_with_the_node():
    """Scales differ, so that the sum stays two terms: the fault is found where it is made."""
    nodes = [
        dq("a", "sa", "z", "p"),
        dq("b", "sb", "z", "r"),
        helper.make_node("Add", ["p", "r"], ["y"], name="sum"),
    ]
    constants = {"sa": np.float32(0.5), "sb": np.float32(0.3), "z": np.uint8(0)}
    proto = model(nodes, [("a", U8, ["N"]), ("b", U8, ["M"])], [("y", F32)], constants)
    feeds = {"a": np.zeros(3, np.uint8), "b": np.zeros(4, np.uint8)}
    with pytest.raises(OracleError, match=r"node 'sum' \(Add\): shape mismatch"):
        run(proto, **feeds)
