"""Small models that between them use every kind of kernel.

In: nothing. Out: `SAMPLES`: names of spec classes, each with models whose plans hold such a kernel.
A model is a case of the standard backend suite, by its name, or one of `MODELS`, for what the suite
does not have or has only in sizes below one tile.

A new kind of kernel needs an entry; `tests/codegen/test_cross.py` says so.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from tests.runtime import suite

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Sample:
    """A model, what goes in, what has to come out."""

    name: str
    model: onnx.ModelProto
    feeds: Mapping[str, Array]
    expected: Sequence[Array]
    rtol: float
    atol: float


SAMPLES: dict[str, tuple[str, ...]] = {
    "ArgExtreme": ("test_argmax_no_keepdims_random", "test_argmin_keepdims_example"),
    "Attention": ("test_attention_4d_gqa_causal", "test_attention_4d_attn_mask_bool_4d"),
    "Compress": ("test_compress_0",),
    "Conv": ("strided convolution", "integer convolution", "test_Conv2d_groups_thnn"),
    "ConvDot": ("test_conv_with_strides_no_padding",),
    "ConvPad": ("test_basic_conv_with_padding",),
    "DeformSample": ("test_basic_deform_conv_with_padding",),
    "Depthwise": ("test_Conv2d_depthwise_padded",),
    "Dft": ("test_dft_opset19",),
    "Extremes": ("test_dynamicquantizelinear",),
    "FewQueries": ("few queries",),
    "GatherElements": ("test_gather_elements_negative_indices",),
    "GatherRows": ("test_gather_0", "test_gather_2d_indices"),
    "Gemm": (
        "product", "half product", "integer product", "test_matmul_4d", "test_gemm_transposeB",
    ),
    "GridSample": ("test_gridsample_bilinear",),
    "LinearAttention": ("test_linear_attention_gated_delta_gqa",),
    "Lookup": ("table",),
    "Lrn": ("test_lrn",),
    "MaxRoiPool": ("roi pool",),
    "NonMaxSuppression": ("test_nonmaxsuppression_two_batches",),
    "NonZero": ("test_nonzero_example",),
    "OneHot": ("test_onehot_with_axis",),
    "PackPanels": ("moving product", "moving integer product"),
    "Pointwise": ("gelu", "chain", "half chain", "test_where_example", "test_bitshift_left_uint16"),
    "Pool": ("test_maxpool_2d_pads", "test_averagepool_3d_default"),
    "QuantizedRecurrent": ("quantized lstm",),
    "RangeParameters": ("test_dynamicquantizelinear_max_adjusted",),
    "Recurrent": ("test_lstm_with_peepholes", "test_gru_seq_length"),
    "ResizePass": ("resize", "test_resize_upsample_scales_cubic"),
    "ReverseRows": ("test_reversesequence_time",),
    "RoiAlign": ("test_roialign_aligned_true",),
    "Rotate": ("test_rotary_embedding", "test_rotary_embedding_interleaved"),
    "Rows": ("softmax", "layer normalization", "test_reduce_sum_default_axes_keepdims_random"),
    "RunningTotal": ("test_cumsum_2d_axis_0",),
    "ScatterCache": ("test_tensorscatter",),
    "ScatterElements": ("test_scatter_elements_with_axis",),
    "ScatterRows": ("test_scatternd_add",),
    "Take": ("test_resize_upsample_scales_nearest",),
    "TopK": ("test_top_k",),
    "Unique": ("test_unique_sorted_without_axis",),
    "Unpool": ("test_maxunpool_export_without_output_shape",),
    "Winograd": ("convolution", "convolution of nine bits"),
}  # fmt: skip

# Kinds of kernels that are planned only for processors that permute lanes by numbers.
X86_ONLY = frozenset({"ResizeLookup"})


def sample(name: str) -> Sample:
    """Of the suite, or of `MODELS`."""
    if name in MODELS:
        return MODELS[name]()
    case = suite.cases()[name]
    model = case.model
    inputs, expected = next(iter(case.data()))
    feeds = suite.feeds_of(model, inputs)
    return Sample(name, model, feeds, expected, case.rtol, case.atol)


# --- models of our own -------------------------------------------------------------------------


def _model(
    nodes: Sequence[onnx.NodeProto],
    feeds: Mapping[str, Array],
    constants: Mapping[str, Array],
    domain: str = "",
    output_type: int = TensorProto.UNDEFINED,
) -> onnx.ModelProto:
    """`y` is the output, whose type is inferred where it is not said."""
    inputs = [
        helper.make_tensor_value_info(
            name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape
        )
        for name, array in feeds.items()
    ]
    weights = [numpy_helper.from_array(array, name) for name, array in constants.items()]
    output = helper.make_tensor_value_info("y", output_type, None)
    graph = helper.make_graph(nodes, "sample", inputs, [output], weights)
    imports = [helper.make_opsetid("", 21)]
    if domain:
        imports.append(helper.make_opsetid(domain, 1))
    return onnx.shape_inference.infer_shapes(
        helper.make_model(graph, opset_imports=imports, ir_version=10)
    )


def _by_reference(
    name: str,
    nodes: Sequence[onnx.NodeProto],
    feeds: Mapping[str, Array],
    constants: Mapping[str, Array],
    rtol: float = 0.0,
    atol: float = 0.0,
) -> Sample:
    """What ONNX's own evaluator computes."""
    model = _model(nodes, feeds, constants)
    with np.errstate(all="ignore"):
        expected = ReferenceEvaluator(model).run(None, dict(feeds))
    return Sample(name, model, feeds, expected, rtol, atol)


def _by_onnxruntime(
    name: str,
    nodes: Sequence[onnx.NodeProto],
    feeds: Mapping[str, Array],
    constants: Mapping[str, Array],
    rtol: float,
    atol: float,
    output_type: int = TensorProto.FLOAT,
) -> Sample:
    import onnxruntime

    model = _model(nodes, feeds, constants, "com.microsoft", output_type)
    text = model.SerializeToString()
    session = onnxruntime.InferenceSession(text, providers=["CPUExecutionProvider"])
    return Sample(name, model, feeds, session.run(None, dict(feeds)), rtol, atol)


def _floats(*shape: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def _bytes(low: int, high: int, dtype: type, *shape: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).integers(low, high, shape).astype(dtype)


def product() -> Sample:
    """Whole tiles and tails in every direction, a bias, an activation.

    70 products, each off by 2^-24 of the sum of magnitudes (below 200)."""
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["p"]),
        helper.make_node("Add", ["p", "b"], ["q"]),
        helper.make_node("Relu", ["q"], ["y"]),
    ]
    constants = {"w": _floats(70, 45, seed=1), "b": _floats(45, seed=2)}
    x = _floats(37, 70)
    exact = np.maximum(x.astype(np.float64) @ constants["w"] + constants["b"], 0)
    model = _model(nodes, {"x": x}, constants)
    return Sample("product", model, {"x": x}, [exact.astype(np.float32)], 1e-5, 200 * 70 * 2.0**-24)


def half_product() -> Sample:
    x, w = _floats(9, 33).astype(np.float16), _floats(33, 20, seed=1).astype(np.float16)
    exact = (x.astype(np.float64) @ w.astype(np.float64)).astype(np.float16)
    model = _model([helper.make_node("MatMul", ["x", "w"], ["y"])], {"x": x}, {"w": w})
    return Sample("half product", model, {"x": x}, [exact], 2.0**-9, 2.0**-9)


def integer_product() -> Sample:
    """Full range, so that no instruction that saturates pairs of products would do."""
    nodes = [helper.make_node("MatMulInteger", ["x", "w", "zx", "zw"], ["y"])]
    x, w = _bytes(0, 256, np.uint8, 33, 71), _bytes(-128, 128, np.int8, 71, 40, seed=1)
    constants = {"w": w, "zx": np.array(7, np.uint8), "zw": np.array(-3, np.int8)}
    exact = (x.astype(np.int64) - 7) @ (w.astype(np.int64) + 3)
    model = _model(nodes, {"x": x}, constants)
    return Sample("integer product", model, {"x": x}, [exact.astype(np.int32)], 0, 0)


def moving_product() -> Sample:
    """Both factors come with the run, one of them transposed; small integers are exact."""
    nodes = [
        helper.make_node("Transpose", ["w"], ["t"], perm=[0, 2, 1]),
        helper.make_node("MatMul", ["x", "t"], ["y"]),
    ]
    feeds = {
        "x": _bytes(-9, 10, np.float32, 2, 37, 22),
        "w": _bytes(-9, 10, np.float32, 2, 45, 22, seed=1),
    }
    exact = feeds["x"] @ feeds["w"].swapaxes(1, 2)
    return Sample("moving product", _model(nodes, feeds, {}), feeds, [exact], 0, 0)


def moving_integer_product() -> Sample:
    nodes = [helper.make_node("MatMulInteger", ["x", "w"], ["y"])]
    feeds = {
        "x": _bytes(0, 256, np.uint8, 33, 71),
        "w": _bytes(-128, 128, np.int8, 71, 40, seed=1),
    }
    exact = feeds["x"].astype(np.int32) @ feeds["w"].astype(np.int32)
    model = _model(nodes, feeds, {})
    return Sample("moving integer product", model, feeds, [exact], 0, 0)


def convolution() -> Sample:
    nodes = [
        helper.make_node("Conv", ["x", "w", "b"], ["c"], pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["c"], ["y"]),
    ]
    constants = {"w": _floats(20, 16, 3, 3, seed=1), "b": _floats(20, seed=2)}
    feeds = {"x": _floats(1, 16, 11, 9)}
    return _by_reference("convolution", nodes, feeds, constants, 1e-4, 600 * 144 * 2.0**-24)


def strided_convolution() -> Sample:
    """144 products, each off by 2^-24 of the sum of magnitudes (below 600)."""
    nodes = [helper.make_node("Conv", ["x", "w", "b"], ["y"], pads=[1, 1, 1, 1], strides=[2, 2])]
    constants = {"w": _floats(20, 16, 3, 3, seed=1), "b": _floats(20, seed=2)}
    feeds = {"x": _floats(1, 16, 11, 9)}
    return _by_reference("strided convolution", nodes, feeds, constants, 1e-4, 600 * 144 * 2.0**-24)


def resize() -> Sample:
    nodes = [helper.make_node("Resize", ["x", "", "s"], ["y"], mode="linear")]
    constants = {"s": np.float32([1, 1, 1.5, 1.5])}
    return _by_reference("resize", nodes, {"x": _floats(1, 2, 20, 20)}, constants, 1e-5, 1e-5)


def integer_convolution() -> Sample:
    nodes = [helper.make_node("ConvInteger", ["x", "w", "zx"], ["y"], pads=[1, 1, 1, 1])]
    constants = {"w": _bytes(-128, 128, np.int8, 20, 16, 3, 3, seed=1), "zx": np.array(9, np.uint8)}
    feeds = {"x": _bytes(0, 256, np.uint8, 1, 16, 7, 9)}
    return _by_reference("integer convolution", nodes, feeds, constants)


def convolution_of_nine_bits() -> Sample:
    """Weights less their zero point leave s8: no machine multiplies them as bytes."""
    nodes = [helper.make_node("ConvInteger", ["x", "w", "zx", "zw"], ["y"], pads=[1, 1, 1, 1])]
    constants = {
        "w": _bytes(0, 256, np.uint8, 20, 17, 3, 3, seed=1),
        "zx": np.array(9, np.uint8), "zw": np.array(3, np.uint8),
    }  # fmt: skip
    feeds = {"x": _bytes(0, 256, np.uint8, 1, 17, 15, 18)}
    return _by_reference("convolution of nine bits", nodes, feeds, constants)


def gelu() -> Sample:
    x = np.concatenate([_floats(997), np.float32([0, -0.0, 1e-40, np.inf, np.nan, 100])])
    nodes = [helper.make_node("Gelu", ["x"], ["y"])]
    return _by_reference("gelu", nodes, {"x": x}, {}, 1e-5, 1e-6)


def chain() -> Sample:
    """Without contraction: a product and a sum are rounded one after the other, bit for bit."""
    x, s = _floats(3, 5, 37), _floats(37, seed=1)
    nodes = [
        helper.make_node("Mul", ["x", "s"], ["a"]),
        helper.make_node("Add", ["a", "x"], ["b"]),
        helper.make_node("Div", ["b", "s"], ["c"]),
        helper.make_node("Max", ["c", "x"], ["d"]),
        helper.make_node("Sqrt", ["d"], ["y"]),
    ]
    return _by_reference("chain", nodes, {"x": x}, {"s": s})


def half_chain() -> Sample:
    x, s = _floats(5, 37).astype(np.float16), _floats(37, seed=1).astype(np.float16)
    nodes = [
        helper.make_node("Mul", ["x", "s"], ["a"]),
        helper.make_node("Sub", ["a", "x"], ["y"]),
    ]
    return _by_reference("half chain", nodes, {"x": x}, {"s": s})


def softmax() -> Sample:
    nodes = [helper.make_node("Softmax", ["x"], ["y"])]
    return _by_reference("softmax", nodes, {"x": 3 * _floats(5, 301)}, {}, 1e-5, 1e-7)


def layer_normalization() -> Sample:
    nodes = [helper.make_node("LayerNormalization", ["x", "g", "b"], ["y"])]
    constants = {"g": _floats(131, seed=1), "b": _floats(131, seed=2)}
    return _by_reference(
        "layer normalization", nodes, {"x": _floats(7, 131)}, constants, 1e-5, 1e-5
    )


def roi_pool() -> Sample:
    boxes = np.float32([[0, 1, 1, 6, 5], [0, 0, 0, 7, 7]])
    nodes = [helper.make_node("MaxRoiPool", ["x", "r"], ["y"], pooled_shape=[2, 3])]
    feeds = {"x": _floats(1, 3, 8, 8), "r": boxes}
    return _by_onnxruntime("roi pool", nodes, feeds, {}, 0, 0)


def quantized_lstm() -> Sample:
    """Codes of the activations may differ by one where a value lies half way between two."""
    hidden, width = 12, 9
    nodes = [
        helper.make_node(
            "DynamicQuantizeLSTM",
            ["x", "w", "r", "b", "", "", "", "", "ws", "wz", "rs", "rz"],
            ["y"],
            domain="com.microsoft",
            hidden_size=hidden,
        )
    ]
    constants = {
        "w": _bytes(-128, 128, np.int8, 1, width, 4 * hidden, seed=1),
        "r": _bytes(-128, 128, np.int8, 1, hidden, 4 * hidden, seed=2),
        "b": _floats(1, 8 * hidden, seed=3),
        "ws": np.float32([0.01]),
        "wz": np.int8([0]),
        "rs": np.float32([0.01]),
        "rz": np.int8([0]),
    }
    return _by_onnxruntime(
        "quantized lstm", nodes, {"x": _floats(4, 2, width)}, constants, 1e-2, 1e-2
    )


def few_queries() -> Sample:
    """Attention of one new token."""
    node = helper.make_node(
        "MultiHeadAttention", ["q", "k", "v"], ["y"], domain="com.microsoft", num_heads=2
    )
    feeds = {"q": _floats(1, 1, 32), "k": _floats(1, 9, 32, seed=1), "v": _floats(1, 9, 32, seed=2)}
    return _by_onnxruntime("few queries", [node], feeds, {}, 1e-5, 1e-5)


def table() -> Sample:
    """A function of codes, looked up."""
    names = ["x", "xs", "xz", "ys", "yz"]
    nodes = [helper.make_node("QLinearSigmoid", names, ["y"], domain="com.microsoft")]
    constants = {
        "xs": np.float32(0.05),
        "xz": np.uint8(100),
        "ys": np.float32(1 / 256),
        "yz": np.uint8(0),
    }
    codes = _bytes(0, 256, np.uint8, 5, 77, seed=4)
    return _by_onnxruntime("table", nodes, {"x": codes}, constants, 0, 1, TensorProto.UINT8)


MODELS: dict[str, Callable[[], Sample]] = {
    "chain": chain,
    "convolution": convolution,
    "convolution of nine bits": convolution_of_nine_bits,
    "few queries": few_queries,
    "gelu": gelu,
    "half chain": half_chain,
    "half product": half_product,
    "integer convolution": integer_convolution,
    "integer product": integer_product,
    "moving integer product": moving_integer_product,
    "moving product": moving_product,
    "layer normalization": layer_normalization,
    "product": product,
    "quantized lstm": quantized_lstm,
    "resize": resize,
    "roi pool": roi_pool,
    "softmax": softmax,
    "strided convolution": strided_convolution,
    "table": table,
}
