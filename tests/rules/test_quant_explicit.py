"""The packs `quant-tensorrt` and `quant-edgetpu`: where DequantizeLinear and QuantizeLinear stand.

Right structure is what NVIDIA's and Google's documents ask for; right numbers are those of
onnxruntime for the model as it was, bit for bit where the ledger says exact.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, numpy_helper, parser

import rewrite

Array = np.ndarray[Any, Any]
MOVES = {"MaxPool", "Flatten", "Reshape", "Transpose", "Squeeze", "Unsqueeze"}

ort = pytest.importorskip("onnxruntime", reason="the numbers come from onnxruntime")


def run(model: onnx.ModelProto, feeds: dict[str, Array]) -> list[Array]:
    """Outputs by onnxruntime with its own rewriting switched off."""
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = ort.InferenceSession(model.SerializeToString(), options)
    return list(session.run(None, feeds))


class Graph:
    """A rewritten model with its types."""

    def __init__(self, text: str, target: str) -> None:
        self.before = parser.parse_model(f'<ir_version: 10, opset_import: ["" : 13]>\n{text}')
        onnx.checker.check_model(self.before, full_check=True)
        self.result = rewrite.apply(self.before, target=target)
        self.model = self.result.model
        onnx.checker.check_model(self.model, full_check=True)
        inferred = onnx.shape_inference.infer_shapes(self.model).graph
        values = [*inferred.value_info, *inferred.input, *inferred.output]
        self.types = {v.name: v.type.tensor_type.elem_type for v in values}
        self.held = {t.name: numpy_helper.to_array(t) for t in inferred.initializer}
        self.types |= {t.name: t.data_type for t in inferred.initializer}
        self.nodes = list(inferred.node)
        self.maker = {o: n for n in self.nodes for o in n.output}

    @property
    def ops(self) -> list[str]:
        return [n.op_type for n in self.nodes]

    def check_codes(self) -> None:
        """Codes are made by QuantizeLinear, given or constant, and only DequantizeLinear reads."""
        for node in self.nodes:
            for i, name in enumerate(node.input):
                if self.types.get(name) in (TensorProto.INT8, TensorProto.UINT8):
                    parameter = node.op_type == "QuantizeLinear" and i == 2
                    assert node.op_type == "DequantizeLinear" or parameter, node

    def zero_points(self) -> list[int]:
        pairs = [n for n in self.nodes if n.op_type in ("QuantizeLinear", "DequantizeLinear")]
        given = [self.held[n.input[2]] for n in pairs if len(n.input) > 2]
        return [int(z) for zeros in given for z in zeros.reshape(-1)]

    def same(self, **feeds: Array) -> None:
        for one, two in zip(run(self.before, feeds), run(self.model, feeds), strict=True):
            np.testing.assert_array_equal(one, two)


def every(dtype: type[np.generic] = np.uint8) -> Array:
    info = np.iinfo(dtype)  # type: ignore[type-var]
    return np.arange(info.min, info.max + 1).astype(dtype).reshape(1, 256)


SYMMETRIC = """
  g (float[1,2,6,6] x) => (float[1,3,3,3] y)
  <uint8[3,2,3,3] w = {1,255,128,4,5,6,7,8,9,1,2,3,4,5,6,7,8,9,11,12,13,14,15,16,17,18,19,
    128,129,130,131,132,133,134,135,136,21,22,23,24,25,26,27,28,29,0,22,23,24,25,26,27,28,29},
   uint8[3] v = {128,128,128}, float[3] u = {0.01,0.02,0.005}, int32[3] b = {1000,-2003,77},
   float[3] e = {0.001,0.002,0.0005}, int32[3] n = {0,0,0}, float s = {0.1}, uint8 z = {128},
   float t = {0.33}>
  { q = QuantizeLinear(x, s, z)  d = DequantizeLinear(q, s, z)
    k = DequantizeLinear <axis = 0> (w, u, v)  f = DequantizeLinear <axis = 0> (b, e, n)
    c = Conv <pads = [1,1,1,1]> (d, k, f)  p = QuantizeLinear(c, t, z)
    a = DequantizeLinear(p, t, z)  r = Relu(a)  m = QuantizeLinear(r, t, z)
    o = MaxPool <kernel_shape = [2,2], strides = [2,2]> (m)
    y = DequantizeLinear(o, t, z) }"""


def test_tensorrt_is_symmetric() -> None:
    graph = Graph(SYMMETRIC, "tensorrt")
    graph.check_codes()
    assert set(graph.zero_points()) == {0}
    assert {graph.types[n.input[0]] for n in graph.nodes if n.op_type == "DequantizeLinear"} == {
        TensorProto.INT8
    }
    (conv,) = [n for n in graph.nodes if n.op_type == "Conv"]
    assert [graph.maker[i].op_type for i in conv.input[:2]] == ["DequantizeLinear"] * 2
    # The bias is numbers, each the product of float32 that DequantizeLinear is.
    scales = np.array([0.001, 0.002, 0.0005], np.float32)
    wanted = np.array([1000, -2003, 77], np.float32) * scales
    np.testing.assert_array_equal(graph.held[conv.input[2]], wanted)
    weights = graph.maker[conv.input[1]]
    assert graph.held[weights.input[0]].dtype == np.int8
    assert weights.attribute[0].i == 0
    # Nothing between the convolution and its Relu; MaxPool of numbers.
    assert graph.ops[graph.ops.index("Conv") + 1] == "Relu"
    assert graph.ops.count("QuantizeLinear") == 3
    rng = np.random.default_rng(5)
    for amplitude in (1, 10, 100):
        graph.same(x=rng.normal(0, amplitude, (1, 2, 6, 6)).astype(np.float32))


def test_tensorrt_leaves_other_zero_points_and_names_them() -> None:
    graph = Graph(
        """g (float[2,3] x) => (float[2,2] y)
        <int8[3,2] w = {1,-2,3,-4,5,6}, float u = {0.01}, float s = {0.1}, uint8 z = {3}>
        { q = QuantizeLinear(x, s, z)  d = DequantizeLinear(q, s, z)  k = DequantizeLinear(w, u)
          y = MatMul(d, k) }""",
        "tensorrt",
    )
    assert 3 in graph.zero_points()
    named = {str(row) for row in graph.result.stats["unsupported"]}
    assert any("QuantizeLinear" in row and "needs the zero point 0" in row for row in named), named


@pytest.mark.parametrize("zero", [0, 3, 127, 128, 255])
@pytest.mark.parametrize("target", ["tensorrt", "edgetpu"])
def test_bytes_come_in_and_go_out(target: str, zero: int) -> None:
    """Every code, and numbers at every tie; the model's own types stay."""
    graph = Graph(
        f"""g (uint8[1,256] c, float[1,600] x) => (float[1,256] r, uint8[1,600] y)
        <float s = {{0.25}}, uint8 z = {{{zero}}}>
        {{ d = DequantizeLinear(c, s, z)  r = Neg(d)  n = Abs(x)  m = Neg(n)
           y = QuantizeLinear(m, s, z) }}""",
        target,
    )
    ties = (np.arange(600, dtype=np.float32).reshape(1, 600) / 2 - 300) * np.float32(0.25)
    graph.same(c=every(), x=ties)
    if target == "tensorrt":
        kinds = {graph.types[n.input[0]] for n in graph.nodes if n.op_type == "DequantizeLinear"}
        assert kinds <= {TensorProto.INT8}
        assert "DequantizeLinear" in graph.ops or zero != 128
    else:
        graph.check_codes()
        assert graph.ops.count("QuantizeLinear") == 3


def test_codes_that_are_also_an_output() -> None:
    graph = Graph(
        """g (float[1,600] x) => (uint8[1,600] q, float[1,600] y)
        <float s = {0.25}, uint8 z = {128}>
        { q = QuantizeLinear(x, s, z)  d = DequantizeLinear(q, s, z)  y = Neg(d) }""",
        "edgetpu",
    )
    graph.check_codes()
    graph.same(x=(np.arange(600, dtype=np.float32).reshape(1, 600) / 2 - 300) * np.float32(0.25))


@pytest.mark.parametrize("target", ["tensorrt", "edgetpu"])
def test_codes_are_not_moved(target: str) -> None:
    """Operators of codes, as QLinear models have them, are written with numbers."""
    graph = Graph(
        """g (float[1,2,4,4] x) => (float[1,8] y)
        <float s = {0.1}, int8 z = {0}, int8 l = {-30}, int64[2] t = {1,-1}>
        { q = QuantizeLinear(x, s, z)  c = Clip(q, l)
          p = MaxPool <kernel_shape = [2,2], strides = [2,2]> (c)  f = Reshape(p, t)
          y = DequantizeLinear(f, s, z) }""",
        target,
    )
    graph.check_codes()
    assert [op for op in graph.ops if op in MOVES or op == "Clip"] == ["Clip", "MaxPool", "Reshape"]
    for amplitude in (1, 30):
        x = np.random.default_rng(3).normal(0, amplitude, (1, 2, 4, 4)).astype(np.float32)
        graph.same(x=x)


def test_edgetpu_concat_has_the_parameters_of_its_result() -> None:
    graph = Graph(
        """g (int8[1,256] a, int8[1,256] b) => (int8[2,256] y)
        <float s = {0.5}, int8 z = {7}, float u = {0.13}, int8 v = {-128}, float t = {1},
         int8 o = {5}>
        { d = DequantizeLinear(a, s, z)  e = DequantizeLinear(b, u, v)
          c = Concat <axis = 0> (d, e)  y = QuantizeLinear(c, t, o) }""",
        "edgetpu",
    )
    graph.check_codes()
    (concat,) = [n for n in graph.nodes if n.op_type == "Concat"]
    for name in concat.input:
        pair = graph.maker[name]
        assert (float(graph.held[pair.input[1]]), int(graph.held[pair.input[2]])) == (1.0, 5)
    # Codes of numbers that have codes are those codes, in float32 too.
    graph.same(a=every(np.int8), b=every(np.int8))


@pytest.mark.parametrize(
    ("op", "fixed", "zero"), [("Sigmoid", 1 / 256, -128), ("Tanh", 1 / 128, 0)]
)
@pytest.mark.parametrize("scale", [1.0, 1.37, 3.0])
def test_edgetpu_functions_have_fixed_parameters(
    op: str, fixed: float, zero: int, scale: float
) -> None:
    to, out = fixed * scale, -100
    graph = Graph(
        f"""g (int8[1,256] x) => (int8[1,256] y)
        <float s = {{0.043}}, int8 z = {{-3}}, float t = {{{to}}}, int8 o = {{{out}}}>
        {{ d = DequantizeLinear(x, s, z)  f = {op}(d)  y = QuantizeLinear(f, t, o) }}""",
        "edgetpu",
    )
    (function,) = [n for n in graph.nodes if n.op_type == op]
    (quantize,) = [n for n in graph.nodes if function.output[0] in n.input]
    parameters = float(graph.held[quantize.input[1]]), int(graph.held[quantize.input[2]])
    assert parameters == (fixed, zero)
    codes = every(np.int8)
    one, two = (run(m, {"x": codes})[0].astype(int) for m in (graph.before, graph.model))
    assert 0 <= np.abs(one - two).max() <= 1
    assert graph.result.ledger.total.lsb == 1


def test_edgetpu_means_keep_their_parameters() -> None:
    graph = Graph(
        """g (int8[1,2,8,8] x) => (int8[1,2,4,4] y)
        <float s = {0.051}, int8 z = {17}, float t = {0.0597}, int8 o = {20}>
        { d = DequantizeLinear(x, s, z)
          p = AveragePool <kernel_shape = [2,2], strides = [2,2]> (d)
          y = QuantizeLinear(p, t, o) }""",
        "edgetpu",
    )
    (pool,) = [n for n in graph.nodes if n.op_type == "AveragePool"]
    (quantize,) = [n for n in graph.nodes if pool.output[0] in n.input]
    assert float(graph.held[quantize.input[1]]) == float(np.float32(0.051))
    x = np.random.default_rng(2).integers(-128, 128, (1, 2, 8, 8)).astype(np.int8)
    one, two = (run(m, {"x": x})[0].astype(int) for m in (graph.before, graph.model))
    assert np.abs(one - two).max() <= 1


@pytest.mark.parametrize("target", ["tensorrt", "edgetpu"])
def test_weights_around_another_zero_point(target: str) -> None:
    """Codes less their zero point, where these are signed bytes; else they stay."""
    text = """g (float[2,3] x) => (float[2,2] y)
        <uint8[3,2] w = {WEIGHTS}, float u = {0.01}, uint8 v = {131}>
        { k = DequantizeLinear(w, u, v)  y = MatMul(x, k) }"""
    x = np.random.default_rng(2).normal(0, 1, (2, 3)).astype(np.float32)
    fits = Graph(text.replace("WEIGHTS", "3,255,131,130,7,9"), target)
    assert fits.zero_points() == [0]
    fits.same(x=x)
    wide = Graph(text.replace("WEIGHTS", "2,255,131,130,7,9"), target)
    assert wide.zero_points() == [131]


def test_edgetpu_biases_are_codes() -> None:
    graph = Graph(
        """g (float[1,2,3,3] x) => (float[1,2,3,3] y)
        <int8[2,2,1,1] w = {1,-2,3,127}, float s = {0.5}, uint8 z = {7}, float u = {0.25},
         float[2] b = {0.25,-3.125}, float t = {0.37}, uint8 o = {105}>
        { q = QuantizeLinear(x, s, z)  d = DequantizeLinear(q, s, z)  k = DequantizeLinear(w, u)
          c = Conv(d, k, b)  p = QuantizeLinear(c, t, o)  y = DequantizeLinear(p, t, o) }""",
        "edgetpu",
    )
    graph.check_codes()
    (conv,) = [n for n in graph.nodes if n.op_type == "Conv"]
    bias = graph.maker[conv.input[2]]
    assert graph.held[bias.input[0]].dtype == np.int32
    np.testing.assert_array_equal(graph.held[bias.input[0]], [2, -25])
