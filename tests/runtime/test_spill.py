"""Large constants: where they lie, and that giving their pages back changes nothing."""

from __future__ import annotations

import mmap

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from onnx import helper, numpy_helper

import rewrite
from rewrite.errors import RewriteError
from rewrite.graph import io
from rewrite.runtime import spill
from rewrite.runtime.resident import give_back


def base_of(array: np.ndarray) -> object:
    base: object = array
    while isinstance(base, (np.ndarray, memoryview)):
        base = base.base if isinstance(base, np.ndarray) else base.obj
    return base


@pytest.fixture
def model() -> onnx.ModelProto:
    rng = np.random.default_rng(0)
    w = rng.standard_normal((512, 1024)).astype(np.float32)
    v = rng.standard_normal((1024, 512)).astype(np.float32)
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["m"]),
        helper.make_node("Relu", ["m"], ["r"]),
        helper.make_node("MatMul", ["r", "v"], ["y"]),
    ]
    graph = helper.make_graph(
        nodes, "g",
        [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, ["N", 512])],
        [helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, ["N", 512])],
        [numpy_helper.from_array(w, "w"), numpy_helper.from_array(v, "v")],
    )  # fmt: skip
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)


def test_large_constants_are_moved_and_stay_what_they_are(model, monkeypatch):
    monkeypatch.setattr(spill, "WORTH", 1)
    weights = {t.name: numpy_helper.to_array(t) for t in model.graph.initializer}
    with rewrite.compile(model, target=None) as session:
        assert session.is_large
        arrays = session._program.graph.constants.values()
        large = [a for a in arrays if a.nbytes >= spill.LARGE]
        assert len(large) == 2
        assert all(isinstance(base_of(a), mmap.mmap) for a in large)
        for n in (1, 3, 200):  # each packs weights in its own way, from pages that were given back
            x = np.random.default_rng(n).standard_normal((n, 512)).astype(np.float32)
            wanted = np.maximum(x.astype(np.float64) @ weights["w"], 0) @ weights["v"]
            found = session.run({"x": x})["y"]
            # 512 then 1024 products in float32: eps sqrt(n) of the sum of magnitudes
            bound = (
                2e-7 * 40 * (np.maximum(np.abs(x) @ np.abs(weights["w"]), 0) @ np.abs(weights["v"]))
            )
            assert (np.abs(found - wanted) <= bound).all()


def test_small_models_are_left_alone(model, monkeypatch):
    monkeypatch.setattr(spill, "WORTH", 1 + 4 * 2 * 512 * 1024)
    with rewrite.compile(model, target=None) as session:
        assert not session.is_large


def test_giving_memory_back_leaves_the_compiler_working(model):
    give_back()
    with rewrite.compile(model, target=None) as session:
        assert session.run({"x": np.zeros((2, 512), np.float32)})["y"].shape == (2, 512)
    give_back()


def test_nothing_of_a_model_that_was_let_go_holds_its_message(model):
    """One tensor would keep the memory of the whole message, and graphs are cyclic garbage."""
    constant = helper.make_node("Constant", [], ["c"], value=numpy_helper.from_array(np.ones(3)))
    model.graph.node.append(constant)
    loaded = io.load(model)
    tensors = list(loaded.messages)
    assert [t.raw.ByteSize() > 0 for t in tensors] == [True] * 3  # two weights, a Constant
    before = model.SerializeToString()
    loaded.release()
    assert not any(t.raw.ByteSize() for t in tensors)
    assert not loaded.messages
    assert not loaded.facts.declared.infos
    assert model.SerializeToString() == before  # it is the caller's


@pytest.mark.parametrize("mode", ["c", "r+"])
def test_a_map_that_may_be_written_to_is_left_alone(model, tmp_path, mode):
    """What a caller has written to a private map of a file is nowhere else; what is written to a
    shared one later is no part of the session."""
    w = numpy_helper.to_array(model.graph.initializer[0])
    w.tofile(tmp_path / "w.bin")
    mapped = np.memmap(tmp_path / "w.bin", np.float32, mode, shape=w.shape)
    mapped[:] = 2 * w
    loaded = ir.from_proto(model)
    loaded.graph.initializers["w"].const_value = ir.tensor(mapped, name="w")
    x = np.ones((3, 512), np.float32)
    with rewrite.compile(loaded, target=None) as session:
        first = session.run({"x": x})["y"]
        assert np.array_equal(mapped, 2 * w)
        mapped[:] = 0
        for n in (1, 2, 200):  # packed in other ways: the same up to the order of sums
            found = session.run({"x": np.ones((n, 512), np.float32)})["y"]
            np.testing.assert_allclose(found, np.broadcast_to(first[0], found.shape), 1e-4, 0.1)


@pytest.mark.parametrize("met", [(), (2,)])
def test_a_file_that_was_shortened_is_an_error(model, tmp_path, monkeypatch, met):
    """Its pages are gone, and reading them would end the process. Sizes that were met still run."""
    monkeypatch.setattr(io, "WHOLE", 0)
    path = tmp_path / "model.onnx"
    onnx.save(model, path)
    with rewrite.compile(path, target=None) as session:
        before = [session.run({"x": np.ones((n, 512), np.float32)})["y"] for n in met]
        with path.open("r+b") as file:
            file.truncate(1000)
        with pytest.raises(RewriteError) as caught:
            session.run({"x": np.ones((3, 512), np.float32)})
        assert [d.code for d in caught.value.diagnostics] == ["RW825"]
        for n, wanted in zip(met, before, strict=True):
            assert np.array_equal(session.run({"x": np.ones((n, 512), np.float32)})["y"], wanted)


def test_a_file_that_was_replaced_is_kept(model, tmp_path, monkeypatch):
    monkeypatch.setattr(io, "WHOLE", 0)
    path = tmp_path / "model.onnx"
    onnx.save(model, path)
    x = np.ones((3, 512), np.float32)
    with rewrite.compile(model, target=None) as session:
        wanted = session.run({"x": x})["y"]
    with rewrite.compile(path, target=None) as session:
        (tmp_path / "other").write_bytes(b"other")
        (tmp_path / "other").replace(path)
        assert np.array_equal(session.run({"x": x})["y"], wanted)
