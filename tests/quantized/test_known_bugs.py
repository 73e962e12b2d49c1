"""What public trackers report of quantized models, each as a model with its right values.

`REPORTS` names the reports; the cases are in `reported_cases`, what is not one value is below.
"""

from __future__ import annotations

import sys
from fractions import Fraction

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, parser
from reported import (
    FULL,
    TARGETS,
    Array,
    Case,
    agree,
    check,
    each,
    in_oracle,
    in_runtime,
    rational,
)
from reported_cases import CASES

import rewrite

# Report -> the cases by the beginning of their names, and the tests below by theirs.
REPORTS = {
    "onnxruntime 29727": ("a softmax that ends", "a softmax between codes"),
    "onnxruntime 24711": ("a bias of scale 1.009",),
    "onnxruntime 28130": ("an alpha beside a bias",),
    "onnxruntime 27845": ("signed codes without zero point",),
    "onnxruntime 32132": ("test_sums_that_are_ties",),
    "onnxruntime 16105": ("a pair sum of -32850 in MatMul",),
    "onnxruntime 7524": ("a product of integers", "a product of given integers"),
    "onnxruntime 21176": ("a MaxPool of codes whose scale", "test_a_negative_scale_moves_nothing"),
    "onnxruntime 7460": ("a MaxPool of opset", "test_no_pool_of_codes_before_opset_12"),
    "onnxruntime 28057": ("test_scales_keep_their_rank",),
    "onnxruntime 25259": ("two pairs of different scales",),
    "onnxruntime 28551": ("weights of 4 bits in blocks of 512",),
    "onnxsim 749": ("weights of 4 bits with a scale", "test_activations_stay_numbers"),
    "iree 24583": ("a product of integers", "test_zero_points_of_rows_and_columns"),
    "torch-mlir 4645": ("a QLinearConv with a bias",),
    "MIGraphX 2949": ("a residual that reads",),
    "executorch 18462": ("a Relu of signed codes", "a convolution with two users"),
    "CMSIS-NN 220": ("sums near the end of 32 bits",),
    "LiteRT 7441": ("test_each_operator_rounds_as_its_group_says",),
    "executorch 20655": ("an s8 code less an s8 zero point",),
    "oneDNN 476": ("pair sums at the ends in a convolution",),
    "pytorch 37343": ("a sum half a step off",),
    "XNNPACK 8647": ("a Pad of",),
    "onnxruntime: scale of the bias of QGemm": ("a Gemm whose bias",),
    "onnxruntime: a model that does not load": ("test_models_that_did_not_load",),
    "onnxruntime: QLinearMatMul from opset 19 on": ("a pair sum of -32850 in QLinearMatMul",),
    "onnxruntime: MatMulInteger of 64 products": ("64 products",),
    "onnxscript: Relu of a Clip below zero": ("a Relu of a Clip below zero",),
    "onnxscript: Min of Max of higher rank": ("Min of Max with a constant",),
    "onnxscript: training": ("test_batch_normalization_in_training",),
    "onnxscript: Clip without element type": ("test_clips_without_an_element_type",),
    "onnxslim: Conv times a vector": ("a convolution times a vector along the width",),
}
EACH = pytest.mark.parametrize("target", TARGETS)


def test_every_report_has_a_test() -> None:
    here = [name for name in vars(sys.modules[__name__]) if name.startswith("test_")]
    names = [case.name for case in CASES] + here
    for report, places in REPORTS.items():
        for place in places:
            assert any(name.startswith(place) for name in names), (report, place)
    used = tuple(place for places in REPORTS.values() for place in places)
    assert [case.name for case in CASES if not case.name.startswith(used)] == []


@EACH
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name.replace(" ", "_"))
def test_right_values(case: Case, target: str) -> None:
    check(case, target)


# --- what is not one value ----------------------------------------------------------------------


def model(text: str, opset: int = 18) -> onnx.ModelProto:
    return Case("", text, {}, (), opset).model()


def values(proto: onnx.ModelProto) -> dict[str, int]:
    """Element types by name."""
    graph = onnx.shape_inference.infer_shapes(proto).graph
    found = {t.name: t.data_type for t in graph.initializer}
    listed = (*graph.input, *graph.value_info, *graph.output)
    return found | {v.name: v.type.tensor_type.elem_type for v in listed}


@EACH
def test_sums_that_are_ties(target: str) -> None:
    """The scale of the result is twice that of the operands: every odd sum is a tie."""
    text = (
        "g (uint8[256,1] a, uint8[1,256] b) => (uint8[256,256] y) <float s = {0.08}, "
        "uint8 z = {128}, float t = {0.16}, uint8 w = {127}> "
        "{ d = DequantizeLinear(a, s, z) e = DequantizeLinear(b, s, z) c = Add(d, e) "
        "  y = QuantizeLinear(c, t, w) }"
    )
    assert rational(0.16) == 2 * rational(0.08)
    codes = np.arange(256, dtype=np.uint8)
    sums = (codes[:, None].astype(int) - 128) + (codes[None].astype(int) - 128)
    right = np.clip(np.rint(sums / 2) + 127, 0, 255)  # halves are exact; rint is half to even
    feeds = {"a": codes[:, None], "b": codes[None]}
    for limit in ("exact", None):
        result = rewrite.apply(model(text), target=target, max_class=limit)
        steps = result.ledger.total.lsb
        ties_alone(in_oracle(result.model, feeds)[0], right, sums, steps)
        if "Add" in [node.op_type for node in result.model.graph.node]:
            steps = max(steps, 1)  # left as it was: the runtime adds in float32
        ties_alone(in_runtime(result.model, feeds)[0], right, sums, steps)


def ties_alone(found: Array, right: Array, sums: Array, steps: int) -> None:
    """Differences are where the ledger admits them: by its steps, and at ties."""
    apart = np.abs(found.astype(int) - right)
    assert apart.max() <= steps
    assert not apart[sums % 2 == 0].any()


@EACH
def test_a_negative_scale_moves_nothing(target: str) -> None:
    """What has a negative scale is not ordered as its codes are: it stays between its pair."""
    (case,) = (c for c in CASES if "scale is negative" in c.name)
    nodes = rewrite.apply(case.model(), target=target).model.graph.node
    assert [n.op_type for n in nodes] == ["DequantizeLinear", "MaxPool", "QuantizeLinear"]


@EACH
@pytest.mark.parametrize("opset", [10, 11, 12])
def test_no_pool_of_codes_before_opset_12(opset: int, target: str) -> None:
    (case,) = (c for c in CASES if c.name == f"a MaxPool of opset {opset}")
    made = rewrite.apply(case.model(), target=target).model
    (version,) = (entry.version for entry in made.opset_import if entry.domain == "")
    (pool,) = (node for node in made.graph.node if node.op_type == "MaxPool")
    of_codes = values(made)[pool.input[0]] == TensorProto.INT8
    assert of_codes == (opset >= 12)
    assert not of_codes or version >= 12


@EACH
def test_scales_keep_their_rank(target: str) -> None:
    """Scales and zero points of one element are scalars, and kernels want them so."""
    text = (
        "g (float[1,2,4,4] x) => (float[1,2,1,1] y) <float s = {0.1}, uint8 z = {3}, "
        "float t = {0.1}, uint8 w = {3}, float u = {0.07}, uint8 v = {9}> "
        "{ a = QuantizeLinear(x, s, z) b = DequantizeLinear(a, s, z) c = QuantizeLinear(b, t, w) "
        "  d = DequantizeLinear(c, t, w) p = GlobalAveragePool(d) q = QuantizeLinear(p, u, v) "
        "  y = DequantizeLinear(q, u, v) }"
    )
    made = rewrite.apply(model(text), target=target).model
    shapes = {t.name: list(t.dims) for t in made.graph.initializer}
    for node in made.graph.node:
        if node.op_type in ("QuantizeLinear", "DequantizeLinear"):
            assert [shapes[name] for name in node.input[1:]] == [[], []]
        if node.op_type.startswith("QLinear"):
            assert [shapes[node.input[k]] for k in (1, 2, 3, 4)] == [[]] * 4
    x = np.linspace(-0.3, 25.2, 32, dtype=np.float32).reshape(1, 2, 4, 4)
    once = each([Fraction(float(v)) for v in x.reshape(-1)], 0.1, 3, np.uint8).astype(int)
    means = [sum((once[k : k + 16] - 3).tolist()) * rational(0.1) / 16 for k in (0, 16)]
    right = (each(means, 0.07, 9, np.uint8).astype(int) - 9) * np.float32(0.07)
    for level in (None, FULL) if target == "onnxruntime-cpu" else (None,):
        found = in_runtime(made, {"x": x}, *(() if level is None else (level,)))[0]
        np.testing.assert_allclose(found.reshape(-1), right, rtol=1e-6)


@pytest.mark.parametrize("prefix", ["weights of 4 bits with", "weights of 4 bits in"])
def test_activations_stay_numbers(prefix: str) -> None:
    """Level 4 quantizes activations to 8 bits; levels 2 and 3 compute in halves."""
    for case in (c for c in CASES if c.name.startswith(prefix)):
        made = rewrite.apply(case.model(), target="onnxruntime-cpu").model
        for node in made.graph.node:
            levels = [a.i for a in node.attribute if a.name == "accuracy_level"]
            assert node.op_type != "MatMulNBits" or levels in ([], [0], [1])


@EACH
def test_zero_points_of_rows_and_columns(target: str) -> None:
    """One zero point for each row of the first, and for each column of the second operand."""
    rng = np.random.default_rng(9)
    a = rng.integers(0, 256, (3, 4)).astype(np.uint8)
    b = rng.integers(-128, 128, (4, 2)).astype(np.int8)
    text = (
        "g (uint8[3,4] a) => (int32[3,2] y) <uint8[3] z = {42, 0, 255}, int8[2] o = {-26, 127}, "
        f"int8[4,2] b = {{{', '.join(map(str, b.reshape(-1).tolist()))}}}> "
        "{ y = MatMulInteger(a, b, z, o) }"
    )
    right = (a.astype(int) - np.array([[42], [0], [255]])) @ (b.astype(int) - np.array([-26, 127]))
    case = Case("", text, {"a": a}, (right.astype(np.int32),))
    made = rewrite.apply(case.model(), target=target).model
    agree(in_oracle(made, case.feeds), case)
    # onnxruntime has no kernel for a zero point of rows: its own original does not run either.


@pytest.mark.parametrize("opset", [13, 19, 21, 23])
@pytest.mark.parametrize("zero", [", int8 z = {0}", ""], ids=["zero_point", "none"])
@pytest.mark.parametrize(
    ("move", "constant", "shape"),
    [
        ("Reshape(d, t)", "int64[2] t = {2, 1}", "2,1"),
        ("Transpose <perm = [0]> (d)", "int64[2] t = {2, 1}", "2"),
        ("Unsqueeze(d, t)", "int64[1] t = {0}", "1,2"),
    ],
    ids=["Reshape", "Transpose", "Unsqueeze"],
)
def test_models_that_did_not_load(
    move: str, constant: str, shape: str, zero: str, opset: int
) -> None:
    """Rewritten for onnxruntime, they load with its default options, and give the numbers."""
    operands = "x, s, z" if zero else "x, s"
    text = (
        f"g (int8[2] x) => (float[{shape}] y) <float s = {{0.01}}{zero}, {constant}> "
        f"{{ d = DequantizeLinear({operands}) r = {move} y = Exp(r) }}"
    )
    x = np.array([-30, 40], np.int8)
    made = rewrite.apply(model(text, opset), target="onnxruntime-cpu").model
    (found,) = in_runtime(made, {"x": x}, FULL)
    right = np.exp(x.astype(float) * float(np.float32(0.01)))
    np.testing.assert_allclose(found.reshape(-1), right, rtol=1e-6)
    assert list(found.shape) == [int(v) for v in shape.split(",")]


def doubly(acc: Array, multiplier: int, shift: int) -> Array:
    """Doubling high multiplication, rounded; then division by a power of two, rounded."""
    product = acc.astype(object) * multiplier
    high = [(v + (1 << 30)) >> 31 if v >= 0 else -((-v + (1 << 30) - 1) >> 31) for v in product]
    places = shift - 31
    half = (1 << places) >> 1
    return np.array([((abs(v) + half) >> places) * (1 if v >= 0 else -1) for v in high], object)


def test_each_operator_rounds_as_its_group_says() -> None:
    """CMSIS-NN rounds doubly in means and convolutions alike: not what real numbers give."""
    text = (
        "g (int8[1,300,1,3] x) => (int8[1,300,1,1] y, int8[1,300,1,3] c) <float s = {0.05}, "
        "int8 z = {3}, float t = {0.031}, int8 o = {-4}, int8[300,1,1,1] w> "
        "{ d = DequantizeLinear(x, s, z) p = GlobalAveragePool(d) y = QuantizeLinear(p, t, o) "
        "  k = DequantizeLinear(w, s) e = Conv <group = 300> (d, k) c = QuantizeLinear(e, t, o) }"
    )
    rng = np.random.default_rng(4)
    w = rng.integers(-127, 128, 300).astype(np.int8)
    proto = Case("", text, {}, (), tensors={"w": w.reshape(300, 1, 1, 1)}).model()
    result = rewrite.apply(proto, target="cortex-m")
    x = rng.integers(-128, 128, (1, 300, 1, 3)).astype(np.int8)
    found = dict(zip(("y", "c"), in_runtime(result.model, {"x": x}), strict=True))
    steps = x.astype(int)[0, :, 0] - 3
    sums = {"y": steps.sum(axis=1), "c": (steps * w.astype(int)[:, None]).reshape(-1)}
    units = {"y": rational(0.05) / 3, "c": rational(0.05) ** 2}
    off = 0
    for node in result.model.graph.node:
        given = {a.name: helper.get_attribute_value(a) for a in node.attribute}
        name = node.output[0]
        assert given["requantizer"] == b"tflite_double"
        rounded = doubly(sums[name], given["multiplier"][0], given["shift"][0])
        right = np.clip(rounded.astype(int) - 4, -128, 127)
        np.testing.assert_array_equal(found[name].reshape(-1), right)
        real = each([int(v) * units[name] for v in sums[name]], 0.031, -4, np.int8)
        assert np.abs(right - real.astype(int)).max() <= 1
        off += int((right != real).sum())
    assert off > 0  # which the ledger says
    assert result.ledger.total.lsb >= 1


@EACH
def test_batch_normalization_in_training(target: str) -> None:
    """Between codes, too, the statistics are those of the batch and not the stored ones."""
    text = (
        "g (int8[2,1,1,2] x) => (int8[2,1,1,2] y) <float s = {0.5}, int8 z = {0}, "
        "int8[1,1,1,1] w = {2}, float[1] g1 = {1}, float[1] b = {3}, float[1] m = {9}, "
        "float[1] v = {7}, float t = {0.1}> "
        "{ d = DequantizeLinear(x, s, z) k = DequantizeLinear(w, s, z) c = Conv(d, k) "
        "  n, rm, rv = BatchNormalization <training_mode = 1> (c, g1, b, m, v) "
        "  y = QuantizeLinear(n, t, z) }"
    )
    x = np.array([-3, 5, 10, 0], np.int8)
    c = x * 0.5
    numbers = (c - c.mean()) / np.sqrt(c.var() + 1e-5) + 3
    right = np.rint(numbers / float(np.float32(0.1)))
    made = rewrite.apply(model(text), target=target).model
    found = in_runtime(made, {"x": x.reshape(2, 1, 1, 2)})[0]
    np.testing.assert_array_equal(found.reshape(-1), right)


@EACH
def test_clips_without_an_element_type(target: str) -> None:
    """Two Clips of what an unknown operator makes, before codes, stop nothing."""
    made = parser.parse_model(
        '<ir_version: 10, opset_import: ["" : 18, "own" : 1]> g (float[2] x) => (uint8[2] y) '
        "<float a = {0}, float b = {1}, float c = {2}, float s = {0.1}, uint8 z = {0}> "
        "{ u = own.Op(x) v = Clip(u, a, c) w = Clip(v, a, b) y = QuantizeLinear(w, s, z) }"
    )
    result = rewrite.apply(made, target=target).model
    assert [node.op_type for node in result.graph.node][:1] == ["Op"]
    assert result.graph.node[-1].output[0] == "y"
