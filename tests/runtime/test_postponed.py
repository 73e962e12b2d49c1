"""Large constants that rules compute from a model's file: computed when they are packed, not kept.

The expected values are those of the same model held in memory, whose constants are computed at
once, and of numpy in float64.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from onnx import helper, numpy_helper

import rewrite
from rewrite.graph import io
from rewrite.graph.model import LoadedModel
from rewrite.graph.tensors import ComputedTensor
from rewrite.plan.program import read
from rewrite.runtime import spill
from rewrite.runtime.session import Options, Session

SMAPS = Path("/proc/self/smaps")
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


@pytest.mark.skipif(not SMAPS.exists(), reason="Linux tells which pages of a map are in memory")
def test_the_file_is_in_memory_a_weight_at_a_time(path, tmp_path, monkeypatch):
    """Rewriting, packing and writing read all of it; what they have read is not kept until the end.
    The largest weight is a fourth of the file."""
    seen = []
    before = spill.Spilled.release
    monkeypatch.setattr(
        spill.Spilled, "release", lambda self: (seen.append(resident(path)), before(self))
    )
    done = rewrite.apply(path, target="host")
    seen.append(resident(path))
    with rewrite.compile(path, target="host") as session:
        seen.append(resident(path))
        session.run({"x0": np.zeros((2, D), np.float32)})
    done.save(tmp_path / "out.onnx")
    seen.append(resident(path))
    assert len(seen) == 4
    assert max(seen) < path.stat().st_size / 4


def resident(path: Path) -> int:
    """Bytes of a file's maps that are in memory."""
    found, counts = 0, False
    for line in SMAPS.read_text().splitlines():
        words = line.split()
        if "-" in words[0] and not words[0].endswith(":"):
            counts = words[-1] == str(path)
        elif counts and words[0] == "Rss:":
            found += int(words[1]) * 1024
    return found


def test_the_model_written_is_the_one_that_is_computed_at_once(path, tmp_path):
    from_file = rewrite.apply(path, target="host")
    at_once = rewrite.apply(onnx.load(path), target="host")
    late = computed(from_file.loaded)
    assert (len(late), len(computed(at_once.loaded))) == (4, 0)
    from_file.save(tmp_path / "a.onnx")
    at_once.save(tmp_path / "b.onnx")
    assert (tmp_path / "a.onnx").read_bytes() == (tmp_path / "b.onnx").read_bytes()
    assert from_file.model.SerializeToString() == at_once.model.SerializeToString()
    assert all(c._elements is None for c in late)  # who writes them does not keep them


def computed(loaded: LoadedModel) -> list[ComputedTensor]:
    values = loaded.model.graph.initializers.values()
    return [v.const_value for v in values if isinstance(v.const_value, ComputedTensor)]


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


def test_what_follows_from_much_in_memory_is_computed_at_once(tmp_path):
    """Weights of few elements each are in memory, not in the file: all of them would be kept."""
    rng = np.random.default_rng(3)
    weights = [
        numpy_helper.from_array(rng.standard_normal((D, 64)).astype(np.float32), f"w{k}")
        for k in range(3)
    ]
    nodes = [helper.make_node("MatMul", ["x", f"w{k}"], [f"y{k}"]) for k in range(3)]
    outputs = [(f"y{k}", ["N", 64]) for k in range(3)]
    onnx.save(model_with(nodes, {"x": ["N", D]}, outputs, weights), tmp_path / "m.onnx")
    done = rewrite.apply(tmp_path / "m.onnx", target="host")
    sizes = [v.const_value.size for v in done.loaded.model.graph.initializers.values()]
    assert 3 * D * 64 in sizes  # joined
    assert computed(done.loaded) == []


# --- constants that are computed, read by every kind of kernel -----------------------------------


def model_with(
    nodes: Sequence[onnx.NodeProto],
    inputs: Mapping[str, Sequence[int | str]],
    outputs: Sequence[tuple[str, Sequence[int | str] | None]],
    weights: Sequence[onnx.TensorProto],
    kinds: Mapping[str, int] | None = None,
) -> onnx.ModelProto:
    value, kinds = helper.make_tensor_value_info, kinds or {}
    graph = helper.make_graph(
        list(nodes), "g",
        [value(n, kinds.get(n, onnx.TensorProto.FLOAT), s) for n, s in inputs.items()],
        [value(n, onnx.TensorProto.FLOAT, s) for n, s in outputs], list(weights),
    )  # fmt: skip
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)


@dataclass
class Doubled:
    """A recipe: twice an array. It counts how often it is followed."""

    array: np.ndarray
    stored: int = 0

    @property
    def shape(self) -> tuple[int, ...]:
        return self.array.shape

    @property
    def key(self) -> int:
        return id(self)

    def store(self, out: np.ndarray) -> None:
        self.stored += 1
        np.multiply(self.array, 2, out=out)

    def arrays(self) -> Iterator[np.ndarray]:
        yield self.array


W = np.random.default_rng(11).standard_normal((3 * 96, 3 * 96)).astype(np.float32) / 16
K = np.random.default_rng(12).standard_normal((96, 96, 3, 3)).astype(np.float32) / 32


def opened(tmp_path: Path, array: np.ndarray, nodes: Any, x: Any, kind: int) -> tuple[Any, Session]:
    """A session of a model whose constant `w` is twice the array, computed."""
    weights = [numpy_helper.from_array(array, "w"), numpy_helper.from_array(np.True_, "yes")]
    model = model_with(nodes, {"x": x}, [("y", None)], weights, {"x": kind})
    onnx.save(model, tmp_path / "m.onnx")
    loaded = io.load(tmp_path / "m.onnx")
    recipe = Doubled(array)
    loaded.model.graph.initializers["w"].const_value = ComputedTensor(recipe, ir.DataType.FLOAT)
    return recipe, Session(loaded, Options())


def branch(name: str, nodes: Sequence[onnx.NodeProto]) -> onnx.GraphProto:
    out = helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, None)
    return helper.make_graph(list(nodes), name, [], [out])


def turned(x: np.ndarray) -> np.ndarray:
    return x @ (2 * W).T


FLOAT, INT = onnx.TensorProto.FLOAT, onnx.TensorProto.INT64
NODE = helper.make_node
READERS = {
    "MatMul": ([NODE("MatMul", ["x", "w"], ["y"])], FLOAT, lambda x: x @ (2 * W)),
    "Gemm": ([NODE("Gemm", ["x", "w"], ["y"], transB=1)], FLOAT, turned),
    "left": (
        [NODE("Transpose", ["x"], ["t"]), NODE("Gemm", ["w", "t"], ["y"], transA=1)], FLOAT,
        lambda x: (2 * W).T @ x.T,
    ),
    "Gather": ([NODE("Gather", ["w", "x"], ["y"])], INT, lambda x: (2 * W)[x]),
    "Add": (
        [NODE("Unsqueeze", ["x", "one"], ["u"]), NODE("Add", ["u", "w"], ["y"])], FLOAT,
        lambda x: x[:, None] + 2 * W,
    ),
    "both": (
        [NODE("MatMul", ["x", "w"], ["m"]), NODE("Unsqueeze", ["m", "one"], ["u"]),
         NODE("Add", ["u", "w"], ["y"])], FLOAT,
        lambda x: (x @ (2 * W))[:, None] + 2 * W,
    ),
    "If": (
        [NODE("ReduceSum", ["x"], ["s"], keepdims=0), NODE("Less", ["s", "s"], ["c"]),
         NODE("If", ["c"], ["y"], then_branch=branch("t", [NODE("Relu", ["x"], ["t"])]),
              else_branch=branch("e", [NODE("MatMul", ["x", "w"], ["e"])]))], FLOAT,
        lambda x: x @ (2 * W),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", READERS)
def test_each_plan_reads_the_same_elements(tmp_path, name):
    """They are computed for the first plan, at most once for each way of reading them, and plans
    for other sizes have no copies of their own."""
    nodes, kind, wanted = READERS[name]
    one = NODE("Constant", [], ["one"], value_ints=[1])
    x = ["N"] if kind == INT else ["N", len(W)]
    recipe, session = opened(tmp_path, W, [one, *nodes], x, kind)
    rng = np.random.default_rng(1)
    followed = []
    for n in (2, 3, 5):
        values = rng.integers(0, len(W), n) if kind == INT else rng.standard_normal((n, len(W)))
        given = values if kind == INT else values.astype(np.float32)
        found = session.run({"x": given})["y"]
        exact = wanted(values if kind == INT else given.astype(np.float64))
        # 288 products of at most 4 by 1/2: their sum is off by 288 units of 2^-24 of 288 * 2
        np.testing.assert_allclose(found, exact, rtol=1e-6, atol=288 * 2.0**-24 * 288 * 2)
        followed.append(recipe.stored)
    assert followed == [followed[0]] * 3
    assert followed[0] <= (2 if name == "both" else 1)
    raw = {id(c) for plan in session.plan for c in plan.constants if c.shape == W.shape}
    assert len(raw) <= 1


@pytest.mark.parametrize("operator", ["Conv", "ConvTranspose"])
def test_filters_are_computed_for_the_first_plan_only(tmp_path, operator):
    recipe, session = opened(
        tmp_path, K, [NODE(operator, ["x", "w"], ["y"], pads=[1] * 4)], [1, 96, "H", "H"], FLOAT
    )
    onnx.save(
        model_with([NODE(operator, ["x", "w"], ["y"], pads=[1] * 4)], {"x": [1, 96, "H", "H"]},
                   [("y", None)], [numpy_helper.from_array(2 * K, "w")]),
        tmp_path / "plain.onnx",
    )  # fmt: skip
    plain = Session(io.load(tmp_path / "plain.onnx"), Options())
    followed = []
    for n in (12, 16, 20):
        x = np.random.default_rng(n).standard_normal((1, 96, n, n)).astype(np.float32)
        assert np.array_equal(session.run({"x": x})["y"], plain.run({"x": x})["y"])
        followed.append(recipe.stored)
    assert followed[1] == followed[2]  # small images and large ones have their own algorithms


def test_constants_that_are_results_and_what_is_closed(tmp_path):
    """A result that is a constant is a copy. Closing lets go of the elements."""
    recipe, session = opened(
        tmp_path, W, [NODE("Relu", ["x"], ["r"]), NODE("Identity", ["w"], ["y"])], ["N", 4], FLOAT
    )
    found = session.run({"x": np.zeros((1, 4), np.float32)})["y"]
    assert np.array_equal(found, 2 * W)
    found[...] = 0
    again = session.run({"x": np.zeros((1, 4), np.float32)})["y"]
    assert np.array_equal(again, 2 * W)
    (late,) = [c for c in session._program.graph.constants.values() if c.shape == W.shape]
    late.numpy()
    session.close()
    assert late._elements is None
    del recipe


def test_a_constant_node_is_not_computed_to_be_read(tmp_path):
    """As rules write them in bodies of functions."""
    model = model_with(
        [NODE("Constant", [], ["c"], value=numpy_helper.from_array(W)),
         NODE("MatMul", ["x", "c"], ["y"])], {"x": ["N", len(W)]}, [("y", None)], [],
    )  # fmt: skip
    loaded = io.load(model)
    recipe = Doubled(W)
    node = loaded.model.graph[0]
    node.attributes["value"] = ir.AttrTensor("value", ComputedTensor(recipe, ir.DataType.FLOAT))
    (constant,) = read(loaded).graph.constants.values()
    assert isinstance(constant, ComputedTensor)
    assert recipe.stored == 0
