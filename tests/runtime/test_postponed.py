"""Large constants that rules compute from a model's file: computed when they are packed, not kept.

The expected values are those of the same model held in memory, whose constants are computed at
once, and of numpy in float64.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

import rewrite
from rewrite.graph import io
from rewrite.graph.tensors import ComputedTensor

D = 640  # a weight of D x D has over 1 << 16 elements, and over 1 MB, so that it stays in the file


@pytest.fixture(autouse=True)
def large_models(monkeypatch: pytest.MonkeyPatch) -> None:
    """All models count as large: their weights stay in the file."""
    monkeypatch.setattr(io, "WHOLE", 0)
    monkeypatch.setenv("REWRITE_CACHE", "off")  # not what an earlier run has written


def layer(k: int, rng: np.random.Generator, nodes: list, weights: list) -> None:
    """Three products of one value, to be joined; a product scaled by a number, to be folded."""
    for part in "qkv":
        w = (rng.standard_normal((D, D)) / D**0.5).astype(np.float32)
        weights.append(numpy_helper.from_array(w, f"w{k}{part}"))
        nodes.append(helper.make_node("MatMul", [f"x{k}", f"w{k}{part}"], [f"m{k}{part}"]))
    o = (rng.standard_normal((3 * D, D)) / D**0.5).astype(np.float32)
    weights.append(numpy_helper.from_array(o, f"o{k}"))
    nodes += [
        helper.make_node("Concat", [f"m{k}{part}" for part in "qkv"], [f"c{k}"], axis=1),
        helper.make_node("Relu", [f"c{k}"], [f"r{k}"]),
        helper.make_node("Mul", [f"r{k}", "half"], [f"h{k}"]),
        helper.make_node("MatMul", [f"h{k}", f"o{k}"], [f"n{k}"]),
        helper.make_node("Relu", [f"n{k}"], [f"x{k + 1}"]),
    ]


def model_of(layers: int) -> onnx.ModelProto:
    rng = np.random.default_rng(5)
    nodes: list = []
    weights = [numpy_helper.from_array(np.float32(0.5), "half")]
    for k in range(layers):
        layer(k, rng, nodes, weights)
    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        nodes, "g", [value("x0", onnx.TensorProto.FLOAT, ["N", D])],
        [value(f"x{layers}", onnx.TensorProto.FLOAT, ["N", D])], weights,
    )  # fmt: skip
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    onnx.save(model_of(2), tmp_path / "model.onnx")
    return tmp_path / "model.onnx"


def wanted(model: onnx.ModelProto, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The result in float64, and for each element what rounding in float32 can make of it: n units
    in the last place of the sum of magnitudes for a sum of n products, in whatever order; Relu
    adds none."""
    w = {t.name: numpy_helper.to_array(t).astype(np.float64) for t in model.graph.initializer}
    unit = 2.0**-24
    value, error = x.astype(np.float64), np.zeros(x.shape)

    def times(matrix: np.ndarray) -> None:
        nonlocal value, error
        error = error @ np.abs(matrix) + len(matrix) * unit * (np.abs(value) @ np.abs(matrix))
        value = np.maximum(value @ matrix, 0)

    for k in range(sum(name.startswith("o") for name in w)):
        times(np.concatenate([w[f"w{k}{part}"] for part in "qkv"], 1))
        times(0.5 * w[f"o{k}"])  # exact: a power of two
    return value, error


def test_what_is_computed_late_is_let_go_and_computed_again(path):
    model = onnx.load(path)
    with rewrite.compile(path, target="host") as session:
        constants = session._program.graph.constants.values()
        late = [c for c in constants if isinstance(c, ComputedTensor)]
        assert len(late) == 4  # of each layer the joined weights and the scaled one
        assert session.is_large
        for n in (1, 3, 200, 3):  # other sizes are packed anew
            x = np.random.default_rng(n).standard_normal((n, D)).astype(np.float32)
            value, error = wanted(model, x)
            found = session.run({"x0": x})["x2"]
            assert (np.abs(found - value) <= error).all()
            assert all(c._elements is None for c in late)


def test_the_model_written_is_the_one_that_is_computed_at_once(path, tmp_path):
    from_file = rewrite.apply(path, target="host")
    at_once = rewrite.apply(onnx.load(path), target="host")
    kinds = [
        sum(
            isinstance(v.const_value, ComputedTensor)
            for v in done.loaded.model.graph.initializers.values()
        )
        for done in (from_file, at_once)
    ]
    assert kinds == [4, 0]
    from_file.save(tmp_path / "a.onnx")
    at_once.save(tmp_path / "b.onnx")
    assert (tmp_path / "a.onnx").read_bytes() == (tmp_path / "b.onnx").read_bytes()


@pytest.mark.parametrize("fault", [np.nan, np.inf, 1e-42])
def test_what_is_not_normal_is_computed_and_judged_at_once(tmp_path, fault):
    """A weight of subnormal numbers, infinities or NaN: rules that may not fold it do not."""
    model = model_of(1)
    for tensor in model.graph.initializer:
        if tensor.name == "o0":
            array = numpy_helper.to_array(tensor).copy()
            if fault == 1e-42:
                array[...] = fault
            array[1, 2] = fault
            tensor.CopyFrom(numpy_helper.from_array(array, "o0"))
    onnx.save(model, tmp_path / "m.onnx")
    from_file = rewrite.apply(tmp_path / "m.onnx", target="host")
    at_once = rewrite.apply(model, target="host")
    from_file.save(tmp_path / "a.onnx")
    at_once.save(tmp_path / "b.onnx")
    assert (tmp_path / "a.onnx").read_bytes() == (tmp_path / "b.onnx").read_bytes()
