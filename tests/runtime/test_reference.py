"""The reference device: every form of value, random numbers, and what cannot be run.

What operators compute is tested by the standard suite (test_backend_suite.py) and, for ONNX
Runtime's own, in test_reference_microsoft.py.
"""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import helper

from rewrite.errors import RewriteError
from rewrite.runtime.reference import known, run_node
from rewrite.runtime.strings import to_text
from tests.runtime.interpreter import plain


def run(name, *inputs, opset=21, domain="", outputs=1, **attributes):
    given = ["" if x is None else f"i{k}" for k, x in enumerate(inputs)]
    made = [f"o{k}" for k in range(outputs)]
    node = helper.make_node(name, given, made, "the node", domain=domain, **attributes)
    return run_node(node, opset, plain(node), inputs)


def text(*items):
    return np.array(items, object)


# --- forms of values ---------------------------------------------------------------------------


def test_old_form_of_operands():
    x = np.arange(6.0, dtype=np.float32).reshape(2, 3)
    (old,) = run("ReduceSum", x, opset=11, axes=[1])
    (new,) = run("ReduceSum", x, np.array([1]), opset=13)
    assert old.tolist() == new.tolist() == [[3.0], [12.0]]


def test_resize_of_opset_10_does_not_shift():
    x = np.arange(4.0, dtype=np.float32).reshape(1, 1, 1, 4)
    scales = np.array([1, 1, 1, 2], np.float32)
    (found,) = run("Resize", x, scales, opset=10, mode="nearest")
    assert found.ravel().tolist() == [0, 0, 1, 1, 2, 2, 3, 3]


@pytest.mark.parametrize("given", [np.array(["a", "ü"]), np.array([b"a", b"\xc3\xbc"]),
                                   text("a", "ü"), text(b"a", "ü")])  # fmt: skip
def test_strings_are_str(given):
    found = to_text(given)
    assert found.dtype == object
    assert found.tolist() == ["a", "ü"]
    assert all(type(item) is str for item in found)


def test_bytes_that_are_no_text_are_kept():
    (item,) = to_text(np.array([b"\xff"])).tolist()
    assert item.encode("utf-8", "surrogateescape") == b"\xff"


def test_strings_through_operators():
    (found,) = run("StringConcat", text("a", "b"), text("x"), opset=20)
    assert found.tolist() == ["ax", "bx"]
    (found,) = run("Gather", text("a", "b", "c"), np.array([2, 0]))
    assert found.tolist() == ["c", "a"]
    (found,) = run("Cast", np.array([1, 0], np.int64), to=onnx.TensorProto.STRING)
    assert found.tolist() == ["1", "0"]
    (found,) = run("Constant", value_strings=["x", "ü"])
    assert found.tolist() == ["x", "ü"]


def test_sequences_are_lists():
    (made,) = run("SequenceConstruct", np.zeros(2), np.ones(3))
    assert [a.tolist() for a in made] == [[0, 0], [1, 1, 1]]
    (made,) = run("SequenceInsert", made, np.full(1, 7.0), np.array(1))
    (length,) = run("SequenceLength", made)
    (item,) = run("SequenceAt", made, np.array(-2))
    assert (int(length), item.tolist()) == (3, [7.0])
    (empty,) = run("SequenceEmpty", dtype=onnx.TensorProto.INT64)
    assert empty == []
    (length,) = run("SequenceLength", [])
    assert int(length) == 0


def test_optionals_are_the_value_or_none():
    inner = helper.make_tensor_type_proto(1, None)
    (empty,) = run("Optional", type=inner)
    assert empty is None
    (has,) = run("OptionalHasElement", None, opset=18)
    assert (has.dtype, bool(has)) == (bool, False)
    (held,) = run("Optional", [np.ones(1)])
    (got,) = run("OptionalGetElement", held)
    assert [a.tolist() for a in got] == [[1.0]]
    with pytest.raises(RewriteError, match="the optional is empty"):
        run("OptionalGetElement", None)


def test_scalars_are_arrays():
    (found,) = run("ReduceSum", np.ones(3, np.float32), keepdims=0)
    assert isinstance(found, np.ndarray)
    assert found.shape == ()


def test_absent_outputs():
    x = np.ones((2, 3), np.float32)
    node = helper.make_node("TopK", ["i0", "i1"], ["", "o1"])
    (_values, places) = run_node(node, 21, {}, [x, np.array([1])])
    assert places.tolist() == [[0], [0]]
    node = helper.make_node("LSTM", ["i0", "i1", "i2"], ["", "", "o2"], hidden_size=2)
    rng = np.random.default_rng(0)
    inputs = [rng.standard_normal(s).astype(np.float32) for s in ((2, 1, 3), (1, 8, 3), (1, 8, 2))]
    *_, cell = run_node(node, 21, plain(node), inputs)
    assert cell.shape == (1, 1, 2)


def test_maps():
    labels = {"classlabels_strings": ["no", "yes"]}
    (found,) = run("ZipMap", np.array([[0.25, 0.75]], np.float32), domain="ai.onnx.ml", opset=1,
                   **labels)  # fmt: skip
    assert [{k: float(v) for k, v in item.items()} for item in found] == [{"no": 0.25, "yes": 0.75}]


# --- random numbers ----------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["RandomNormal", "RandomUniform"])
def test_random_of_shape(name):
    given = {"shape": [300, 200], "seed": 3.0}
    (first,), (again,) = run(name, **given), run(name, **given)
    assert first.shape == (300, 200)
    assert first.dtype == np.float32
    assert np.array_equal(first, again)
    mean, deviation = (0.0, 1.0) if name == "RandomNormal" else (0.5, 12**-0.5)
    assert abs(first.mean() - mean) < 5 * deviation / 60000**0.5
    assert abs(first.std() - deviation) < 0.02
    (other,) = run(name, shape=[300, 200])
    assert not np.array_equal(first, other)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("name", ["RandomNormalLike", "RandomUniformLike"])
def test_random_like(name, dtype):
    (found,) = run(name, np.zeros((3, 5), dtype))
    assert (found.shape, found.dtype) == ((3, 5), dtype)


def test_bernoulli():
    chances = np.array([0.0, 1.0] + [0.3] * 9998, np.float32)
    (found,) = run("Bernoulli", chances, seed=1.0)
    assert found[:2].tolist() == [0, 1]
    assert set(np.unique(found)) == {0, 1}
    assert abs(found[2:].mean() - 0.3) < 5 * (0.3 * 0.7 / 9998) ** 0.5
    (whole,) = run("Bernoulli", chances, dtype=onnx.TensorProto.INT32)
    assert whole.dtype == np.int32


def test_multinomial():
    logs = np.log(np.array([[0.2, 0.8], [1.0, 1e-30]], np.float32))
    (found,) = run("Multinomial", logs, sample_size=10_000, seed=2.0)
    assert (found.shape, found.dtype) == ((2, 10_000), np.int32)
    assert abs(found[0].mean() - 0.8) < 5 * (0.8 * 0.2 / 10_000) ** 0.5
    assert not found[1].any()


def test_dropout_in_training():
    x = np.ones(10_000, np.float32)
    given = (np.array(0.25, np.float32), np.array(True))
    y, mask = run("Dropout", x, *given, outputs=2, seed=7)
    assert np.allclose(y, np.where(mask, 1 / 0.75, 0))
    assert abs(mask.mean() - 0.75) < 5 * (0.75 * 0.25 / 10_000) ** 0.5


# --- what cannot be run ------------------------------------------------------------------------


def test_unknown_operator():
    with pytest.raises(RewriteError) as caught:
        run("Frobnicate", np.zeros(1), domain="my.own", opset=1)
    (found,) = caught.value.diagnostics
    assert found.code == "RW831"
    assert found.subject == "the node"
    assert "my.own.Frobnicate" in found.message
    assert not known("my.own", "Frobnicate", 1)
    assert known("", "Add", 7)
    assert known("ai.onnx.ml", "ZipMap", 1)
    assert known("com.microsoft", "QLinearAdd", 1)
    assert not known("com.microsoft", "Frobnicate", 1)


def test_forms_that_no_kernel_of_the_runtime_takes():
    q = np.zeros((1, 2, 3, 3, 4), np.float32)
    with pytest.raises(RewriteError) as caught:
        run("MultiHeadAttention", q, domain="com.microsoft", opset=1, num_heads=3)
    assert [d.code for d in caught.value.diagnostics] == ["RW832"]


@pytest.mark.parametrize(
    ("name", "inputs", "attributes"),
    [
        ("Gather", (np.zeros(3), np.array([5])), {}),
        ("Reshape", (np.zeros(3), np.array([2, 2])), {}),
        ("Add", (np.zeros(3), np.zeros(2)), {}),
        ("SequenceAt", ([], np.array(0)), {}),
        ("MatMul", (np.zeros((2, 3)), np.zeros((2, 3))), {}),
    ],
)
def test_values_that_do_not_fit(name, inputs, attributes):
    with pytest.raises(RewriteError) as caught:
        run(name, *inputs, **attributes)
    (found,) = caught.value.diagnostics
    assert (found.code, found.subject) == ("RW832", "the node")


# --- operators that only onnxruntime has besides -----------------------------------------------


def runtime(name, *inputs, opset, domain="", **attributes):
    ort = pytest.importorskip("onnxruntime")
    given = [f"i{k}" for k in range(len(inputs))]
    node = helper.make_node(name, given, ["o"], domain=domain, **attributes)
    types = [
        helper.make_tensor_value_info(
            n, 8 if x.dtype == object else helper.np_dtype_to_tensor_dtype(x.dtype), x.shape
        )
        for n, x in zip(given, inputs, strict=True)
    ]
    graph = helper.make_graph([node], "g", types, [onnx.ValueInfoProto(name="o")])
    imports = [helper.make_opsetid(domain, opset)]
    if domain:
        imports.append(helper.make_opsetid("", 13))
    model = helper.make_model(graph, opset_imports=imports, ir_version=8)
    session = ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return session.run(None, dict(zip(given, inputs, strict=True)))[0]


IMAGES = np.random.default_rng(0).standard_normal((2, 3, 11, 13)).astype(np.float32)
CORNERS = ((1, 2, 7, 9), (-3, 0, 20, 30), (5, 5, 5, 5), (3.5, 2.5, 9.5, 6.5), (9, 9, 2, 2))
REGIONS = np.array([(k % 2, *box) for k, box in enumerate(CORNERS)], np.float32)


@pytest.mark.parametrize("scale", [1.0, 0.5, 0.7])
def test_max_roi_pool(scale):
    given = {"opset": 13, "pooled_shape": [4, 3], "spatial_scale": scale}
    (found,) = run("MaxRoiPool", IMAGES, REGIONS, **given)
    assert np.array_equal(found, runtime("MaxRoiPool", IMAGES, REGIONS, **given))


@pytest.mark.parametrize("mode", ["nearest", "linear"])
@pytest.mark.parametrize("scales", [(1, 1, 2, 2), (1, 1, 1.5, 2.625), (1, 1, 3, 1)])
@pytest.mark.parametrize(("name", "opset"), [("Upsample", 9), ("Resize", 10)])
def test_old_resampling(name, opset, scales, mode):
    sizes = np.array(scales, np.float32)
    (found,) = run(name, IMAGES, sizes, opset=opset, mode=mode)
    expected = runtime(name, IMAGES, sizes, opset=opset, mode=mode)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    "x", [np.array([["a", "b"], ["z", "c"]], object), np.array([3, 9, 1], np.int64)]
)
def test_category_mapper(x):
    given = {"cats_strings": ["a", "b", "c"], "cats_int64s": [3, 2, 1]}
    default = {"default_int64": -7} if x.dtype == object else {"default_string": "?"}
    (found,) = run("CategoryMapper", x, domain="ai.onnx.ml", opset=1, **given, **default)
    expected = runtime("CategoryMapper", x, domain="ai.onnx.ml", opset=1, **given, **default)
    assert found.tolist() == expected.tolist()


def test_cast_map():
    given = {5: 1.5, 1: 2.5}
    (dense,) = run("CastMap", given, domain="ai.onnx.ml", opset=1)
    assert dense.tolist() == [[2.5, 1.5]]
    (sparse,) = run("CastMap", given, domain="ai.onnx.ml", opset=1, map_form="SPARSE", max_map=6,
                    cast_to="TO_STRING")  # fmt: skip
    assert sparse.tolist() == [["0.0", "2.5", "0.0", "0.0", "0.0", "1.5"]]
