"""Bad quantization parameters are named, left alone, and end no run."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import rewrite
from rewrite.engine.quantized_faults import Faults
from rewrite.graph import io

TARGETS = ("hexagon", "onnxruntime-cpu", "x86-avx2")
SCALES = {
    "zero": 0.0, "negative": -0.1, "infinite": np.inf, "NaN": np.nan, "denormal": 1e-40,
}  # fmt: skip
HUGE = np.array([2**31 - 1, 0, -(2**31)], np.int64).astype(np.int32)


def _f32(value: Any) -> np.ndarray:
    return np.array(value, np.float32)


def _constants(**changed: Any) -> dict[str, np.ndarray]:
    found = {
        "xs": _f32(0.1), "xz": np.array(7, np.uint8), "ws": _f32([0.02, 0.03, 0.04]),
        "wz": np.zeros(3, np.int8), "w": np.arange(-5, 1, dtype=np.int8).reshape(3, 2, 1, 1),
        "b": np.array([1, 2, 3], np.int32), "ys": _f32(0.05), "yz": np.array(9, np.uint8),
    }  # fmt: skip
    found["bs"] = np.asarray(found["xs"] * found["ws"])
    found.update({name: np.asarray(value) for name, value in changed.items()})
    return found


def _model(
    nodes: list[onnx.NodeProto], constants: dict[str, np.ndarray], kinds: tuple[int, int],
    shape: list[int],
) -> onnx.ModelProto:  # fmt: skip
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", kinds[0], shape)],
        [helper.make_tensor_value_info("y", kinds[1], ["n", 3, 4, 4])],
        [numpy_helper.from_array(array, name) for name, array in constants.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)])
    model.ir_version = 10
    return model


def _qdq(
    shape: tuple[int, ...] = (1, 2, 4, 4), weights: dict[str, int] | None = None, **changed: Any
) -> onnx.ModelProto:
    """A convolution with Relu between codes."""
    q, d, node = "QuantizeLinear", "DequantizeLinear", helper.make_node
    nodes = [
        node(q, ["x", "xs", "xz"], ["xq"]), node(d, ["xq", "xs", "xz"], ["xd"]),
        node(d, ["w", "ws", "wz"], ["wd"], **{"axis": 0, **(weights or {})}),
        node(d, ["b", "bs"], ["bd"], axis=0), node("Conv", ["xd", "wd", "bd"], ["c"]),
        node("Relu", ["c"], ["r"]), node(q, ["r", "ys", "yz"], ["yq"]),
        node(d, ["yq", "ys", "yz"], ["y"]),
    ]  # fmt: skip
    return _model(nodes, _constants(**changed), (TensorProto.FLOAT,) * 2, list(shape))


def _qlinear(shape: tuple[int, ...] = (1, 2, 4, 4), **changed: Any) -> onnx.ModelProto:
    operands = ["x", "xs", "xz", "w", "ws", "wz", "ys", "yz", "b"]
    constants = _constants(**changed)
    del constants["bs"]
    nodes = [helper.make_node("QLinearConv", operands, ["y"])]
    return _model(nodes, constants, (TensorProto.UINT8,) * 2, list(shape))


def _cases() -> dict[str, tuple[onnx.ModelProto, dict[str, str]]]:
    """Models, and what has to be said of which node."""
    found: dict[str, tuple[onnx.ModelProto, dict[str, str]]] = {}
    for name, value in SCALES.items():
        text = f"{name} scale"
        found[f"input {name}"] = _qdq(xs=_f32(value)), {"xq": text, "xd": text}
        found[f"weights {name}"] = _qdq(ws=_f32([0.02, value, 0.04])), {"wd": text}
        found[f"output {name}"] = _qdq(ys=_f32(value)), {"yq": text, "y": text}
        for place, operand in (("xs", "operand 0"), ("ys", "result")):
            model = _qlinear(**{place: _f32(value)})
            found[f"QLinearConv {place} {name}"] = model, {"y": f"{operand}: {text}"}
        model = _qlinear(ws=_f32([0.02, value, 0.04]))
        found[f"QLinearConv ws {name}"] = model, {"y": f"operand 3: {text}"}
    u8, s8 = np.zeros(3, np.uint8), np.zeros((), np.int8)
    blocks = {"ws": _f32(np.full((3, 3, 1, 1), 0.02)), "wz": np.zeros((3, 3, 1, 1), np.int8)}
    ten = {"w": np.arange(30, dtype=np.int8).reshape(3, 10, 1, 1), "shape": (1, 10, 4, 4)}
    other = "zero point of type u8 for codes of type s8"
    s32 = np.array([0, 300, 0], np.int32)
    large = "bias out of range: sums of 2 of 3 channels do not fit 32 bits"
    found |= {
        "zero point of another type": (_qdq(wz=u8), {"wd": other}),
        "zero point out of range": (
            _qdq(wz=s32),
            {"wd": "zero point of type s32 for codes of type s8; zero point out of range"},
        ),
        "QLinearConv zero point": (
            _qlinear(xz=s8), {"y": "operand 0: zero point of type s8 for codes of type u8"}
        ),
        "axis": (_qdq(weights={"axis": 5}), {"wd": "axis out of range"}),
        "negative axis": (_qdq(weights={"axis": -5}), {"wd": "axis out of range"}),
        "block": (
            _qdq(weights={"axis": 1, "block_size": 4}, **ten, **blocks),
            {"wd": "block size does not divide the axis"},
        ),
        "empty": (
            _qdq(shape=(0, 2, 4, 4)), dict.fromkeys(("xq", "xd", "yq", "y"), "empty tensor")
        ),
        "empty weights": (
            _qdq(w=np.zeros((3, 0, 1, 1), np.int8), shape=(1, 0, 4, 4)),
            dict.fromkeys(("xq", "xd", "wd"), "empty tensor"),
        ),
        "QLinearConv empty": (
            _qlinear(shape=(0, 2, 4, 4)), {"y": "operand 0: empty tensor; result: empty tensor"}
        ),
        "bias": (_qdq(b=HUGE), {"c": large}),
        "QLinearConv bias": (_qlinear(b=HUGE), {"y": large}),
    }  # fmt: skip
    return found


CASES = _cases()


@pytest.mark.parametrize("case", CASES)
def test_named(case: str) -> None:
    model, wanted = CASES[case]
    found = Faults(io.load(model).facts).all()
    assert {fault.node: fault.reason for fault in found} == wanted


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("case", CASES)
def test_left_alone(case: str, target: str) -> None:
    model, wanted = CASES[case]
    result = rewrite.apply(model, target=target)
    before = {node.output[0]: node for node in model.graph.node}
    after = {node.output[0]: node for node in result.model.graph.node}
    constants = {t.name: numpy_helper.to_array(t) for t in model.graph.initializer}
    kept = {t.name: numpy_helper.to_array(t) for t in result.model.graph.initializer}
    for name in wanted:
        assert after[name].op_type == before[name].op_type
        assert sorted(a.name for a in after[name].attribute) == sorted(
            a.name for a in before[name].attribute
        )
        for old, new in zip(before[name].input, after[name].input, strict=True):
            if old in constants:
                np.testing.assert_array_equal(kept[new], constants[old])


def test_sound_parameters_have_no_fault() -> None:
    for model in (_qdq(), _qlinear(), _qdq(xz=np.zeros((), np.int8))):
        assert Faults(io.load(model).facts).all() == ()


def test_float_models_are_not_looked_at() -> None:
    text = '<ir_version: 8, opset_import: ["": 17]> g (float[2] x) => (float[2] y) { y = Relu(x) }'
    faults = Faults(io.load(onnx.parser.parse_model(text)).facts)
    assert faults.all() == ()
    assert faults.among([]) is None
