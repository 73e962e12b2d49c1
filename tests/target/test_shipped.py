"""The shipped targets load, and what onnxruntime-cpu says is what ONNX Runtime does."""

from __future__ import annotations

import importlib.util
from functools import cache
from pathlib import Path
from types import ModuleType

import pytest
from onnx import TensorProto, helper

from rewrite import resources
from rewrite.match.vocabulary import vocabulary
from rewrite.target.load import load_target
from rewrite.target.target import Target

ROOT = Path(__file__).resolve().parents[2]


@cache
def target(name: str) -> Target:
    return load_target(name, vocabulary())


@pytest.mark.parametrize("name", resources.shipped("targets"))
def test_shipped_targets_load(name):
    assert target(name).name == name
    assert set(target(name).packs) <= set(resources.shipped("rules"))


@pytest.mark.parametrize("name", ["host", "x86-avx2", "hexagon"])
def test_targets_with_groups_take_a_convolution_and_what_follows(name):
    conv, relu, mul = ("", "Conv"), ("", "Relu"), ("", "Mul")
    assert target(name).fuses([conv, relu])
    assert target(name).fuses([conv, mul, relu])
    assert target(name).fuses([relu, mul])
    assert target(name).fuses([("", "MatMul")] * 3)
    assert not target(name).fuses([conv, ("", "Loop")])


@pytest.mark.parametrize("name", ["generic", "onnxruntime-cpu"])
def test_targets_of_plain_onnx_take_no_groups(name):
    assert not target(name).groups
    assert not target(name).fuses([("", "Conv"), ("", "Relu")])


def test_facts_of_hexagon():
    hexagon = target("hexagon")
    assert hexagon.vector_bytes == hexagon.align_bytes == 128
    row = hexagon.dtypes_of("u8", "s8")
    assert row is not None
    assert (row.accumulator, row.weight_range) == ("s32", (-127, 127))
    assert not hexagon.has("", "Loop")
    assert all(text for text in hexagon.sources.values())


def generator() -> ModuleType:
    spec = importlib.util.spec_from_file_location(
        "onnxruntime_operators", ROOT / "tools" / "onnxruntime_operators.py"
    )
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_list_of_kernels_is_that_of_the_recorded_release():
    onnxruntime = pytest.importorskip(
        "onnxruntime", reason="the kernels are read from onnxruntime, which is not installed"
    )
    tool = generator()
    if tool.recorded_version() != onnxruntime.__version__:
        pytest.skip(
            f"the list holds the kernels of onnxruntime {tool.recorded_version()}; "
            f"{onnxruntime.__version__} is installed, whose kernels may differ"
        )
    assert tool.FILE.read_text(encoding="utf-8").endswith(tool.generated())


ELEMENT = {"f32": TensorProto.FLOAT, "f64": TensorProto.DOUBLE, "f16": TensorProto.FLOAT16}
SHAPES = {"Conv": [[1, 1, 4, 4], [1, 1, 3, 3]], "MatMul": [[2, 2], [2, 2]]}
CASES = [
    (domain, name, dtype)
    for domain, name in (
        ("", "Conv"),
        ("", "MatMul"),
        ("", "Relu"),
        ("", "Erf"),
        ("", "Tan"),
        ("com.microsoft", "Gelu"),
        ("com.microsoft", "FastGelu"),
        ("com.microsoft", "QuickGelu"),
    )
    for dtype in ELEMENT
]


@pytest.mark.parametrize(("domain", "name", "dtype"), CASES)
def test_onnxruntime_has_what_the_target_says(domain, name, dtype):
    """A session of one node loads exactly where the target has the operator on that type."""
    onnxruntime = pytest.importorskip(
        "onnxruntime", reason="it is onnxruntime that is asked, and it is not installed"
    )
    shapes = SHAPES.get(name, [[2, 2]])
    inputs = [
        helper.make_tensor_value_info(f"x{i}", ELEMENT[dtype], s) for i, s in enumerate(shapes)
    ]
    node = helper.make_node(name, [i.name for i in inputs], ["y"], domain=domain)
    output = helper.make_tensor_value_info("y", ELEMENT[dtype], [None] * len(shapes[0]))
    graph = helper.make_graph([node], "g", inputs, [output])
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid("com.microsoft", 1)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=10)
    try:
        onnxruntime.InferenceSession(model.SerializeToString())
        loads = True
    except onnxruntime.capi.onnxruntime_pybind11_state.NotImplemented:
        loads = False
    except onnxruntime.capi.onnxruntime_pybind11_state.InvalidGraph:
        loads = False  # the schema itself does not admit the type
    has_kernel = target("onnxruntime-cpu").has(domain, name, dtype)
    # without a kernel these are still run, by the function body of their schema
    assert has_kernel == loads or (loads and name in ("FastGelu", "QuickGelu"))
