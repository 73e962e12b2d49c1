"""Sums of two products in 16 bits: what overflows, by brute force over the codes."""

from __future__ import annotations

from itertools import product

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

import rewrite
from rewrite.engine.quantized_saturation import SATURATION

RNG = np.random.default_rng(3)
WEIGHTS = np.clip(np.rint(RNG.normal(0, 70, (7, 5, 1, 1))), -127, 127).astype(np.int8)


def _model(
    weights: np.ndarray = WEIGHTS, clamp: tuple[float, float] | None = None, zero: int = 0,
    dtype: type[np.generic] = np.uint8, pads: int = 0,
) -> onnx.ModelProto:  # fmt: skip
    """A convolution of codes that another one made, which may end in a clamp."""
    k = len(weights[0])
    first = np.eye(k, dtype=np.int8).reshape(k, k, 1, 1) * 64
    constants = {
        "s": np.array(0.5, np.float32), "z": np.array(zero, dtype), "one": np.zeros((), np.int8),
        "u": np.array(1 / 64, np.float32), "w1": first, "w2": weights,
        "lo": np.array(clamp[0] if clamp else 0, np.float32),
        "hi": np.array(clamp[1] if clamp else 0, np.float32),
    }  # fmt: skip
    q, d, node = "QuantizeLinear", "DequantizeLinear", helper.make_node
    nodes = [
        node(d, ["x", "s", "z"], ["xd"]), node(d, ["w1", "u", "one"], ["w1d"]),
        node("Conv", ["xd", "w1d"], ["c1"]),
        node("Clip", ["c1", "lo", "hi"], ["r1"]) if clamp else node("Identity", ["c1"], ["r1"]),
        node(q, ["r1", "s", "z"], ["q1"]), node(d, ["q1", "s", "z"], ["d1"]),
        node(d, ["w2", "u", "one"], ["w2d"]),
        node("Conv", ["d1", "w2d"], ["c2"], pads=[pads] * 4),
        node(q, ["c2", "s", "z"], ["y"]),
    ]  # fmt: skip
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", kind, [1, k, 4, 4])],
        [helper.make_tensor_value_info("y", kind, [1, len(weights), 4 + 2 * pads, 4 + 2 * pads])],
        [numpy_helper.from_array(array, name) for name, array in constants.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)])
    model.ir_version = 8
    return model


def _brute(weights: np.ndarray, low: int, high: int) -> tuple[int, int]:
    """Channels and pairs with a sum of two products outside of int16."""
    rows = weights.reshape(len(weights), -1).astype(int)
    rows = np.pad(rows, ((0, 0), (0, rows.shape[1] % 2)))
    bad = [
        [
            any(not -32768 <= a * w[i] + b * w[i + 1] <= 32767
                for a, b in product((low, high), repeat=2))
            for i in range(0, len(w), 2)
        ]
        for w in rows
    ]  # fmt: skip
    return sum(any(row) for row in bad), sum(map(sum, bad))


def _last(model: onnx.ModelProto, target: str) -> tuple[dict, str]:
    result = rewrite.apply(model, target=target)
    record = next(r for r in result.stats["saturation"] if r["node"] == "y")
    node = next(n for n in result.model.graph.node if n.output[0] == "y")
    return record, {p.key: p.value for p in node.metadata_props}[SATURATION]


@pytest.mark.parametrize("target", ["hexagon", "x86-avx2"])
def test_all_codes(target: str) -> None:
    record, metadata = _last(_model(), target)
    channels, pairs = _brute(WEIGHTS, 0, 255)
    assert channels  # else the test says nothing
    assert (record["channels"], record["unsafe_channels"]) == (7, channels)
    assert record["unsafe_pairs"] == pairs
    assert metadata == f"{channels} of 7 channels"


@pytest.mark.parametrize(("high", "code"), [(90.0, 180), (60.0, 120), (63.5, 127)])
def test_a_clamp_before_makes_sums_smaller(high: float, code: int) -> None:
    record, metadata = _last(_model(clamp=(0.0, high)), "x86-avx2")
    assert tuple(record["activations"]) == (0, code)
    channels, pairs = _brute(WEIGHTS, 0, code)
    assert (record["unsafe_channels"], record["unsafe_pairs"]) == (channels, pairs)
    assert metadata == (f"{channels} of 7 channels" if channels else "safe")


def test_padding_adds_the_zero_point() -> None:
    model = _model(clamp=(10.0, 20.0), zero=7, pads=1)
    record, _ = _last(model, "x86-avx2")
    assert tuple(record["activations"]) == (7, 47)  # 10 / 0.5 + 7 = 27 would be the least one


def test_codes_of_one_signedness_are_summed_wider() -> None:
    result = rewrite.apply(_model(dtype=np.int8), target="x86-avx2")
    assert result.stats["saturation"] == []


def test_targets_without_narrow_sums() -> None:
    assert rewrite.apply(_model(), target="cortex-m").stats["saturation"] == []


def test_float_models_have_no_record() -> None:
    text = '<ir_version: 8, opset_import: ["": 17]> g (float[2] x) => (float[2] y) { y = Relu(x) }'
    stats = rewrite.apply(onnx.parser.parse_model(text), target="x86-avx2").stats
    assert stats["saturation"] == stats["float_left"] == stats["quantization_faults"] == []
    assert stats["lsb_bound"] == {}
