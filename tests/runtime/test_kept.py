"""Rewritten models that are kept: the same results, and made anew where anything has changed."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import numpy_helper, parser

import rewrite
from rewrite import execution, kept
from rewrite.match import store

TEXT = """<ir_version: 8, opset_import: ["": 18]>
g (float[N,4] x) => (float[N,4] y) <float[4,4] w = {1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16}>
{ m = MatMul(x, w) a = Relu(m) y = Identity(a) }"""


@pytest.fixture
def path(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (tmp_path / "cache").mkdir(mode=0o700)
    monkeypatch.setattr(kept, "WORTH", -1.0)
    onnx.save(parser.parse_model(TEXT), str(tmp_path / "m.onnx"))
    return tmp_path / "m.onnx"


@pytest.fixture
def runs(monkeypatch):
    """How often a model was rewritten."""
    made: list[object] = []
    real = execution.apply
    monkeypatch.setattr(execution, "apply", lambda *a, **k: made.append(a) or real(*a, **k))
    return made


def result(path) -> np.ndarray:
    with rewrite.compile(path) as session:
        return session.run({"x": np.ones((2, 4), np.float32)})["y"]


def test_a_model_is_rewritten_once(path, runs):
    first = result(path)
    np.testing.assert_array_equal(first, np.full((2, 4), 1) * [28, 32, 36, 40])
    np.testing.assert_array_equal(result(path), first)
    assert len(runs) == 1


def test_another_model_of_the_same_name_is_another(path, runs):
    first = result(path)
    onnx.save(parser.parse_model(TEXT.replace("{1,2", "{2,2")), str(path))
    np.testing.assert_array_equal(result(path) - first, [[1, 0, 0, 0]] * 2)
    assert len(runs) == 2


def test_other_data_in_a_file_of_their_own_are_another_model(path):
    """The rewritten model has none of the tensors that lay in the file: all of them were folded."""
    text = TEXT.replace("m = MatMul(x, w)", "h = Mul(x, two) m = MatMul(h, w)")
    text = text.replace("float[4,4] w", "float two = {2}, float[4,4] w")
    results = []
    for last in ("16}", "17}"):
        model = parser.parse_model(text.replace("16}", last))
        for tensor in model.graph.initializer:  # only raw data are moved to a file
            tensor.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(tensor), tensor.name))
        (path.parent / "w.data").unlink(missing_ok=True)
        onnx.save(model, str(path), save_as_external_data=True, location="w.data", size_threshold=0)
        results.append(result(path))
    np.testing.assert_array_equal(results[1] - results[0], [[0, 0, 0, 2]] * 2)


def test_a_damaged_file_is_made_anew(path, runs):
    first = result(path)
    folder = store.cache_folder()
    for file in folder.glob("model-*"):
        file.write_bytes(file.read_bytes()[:-1] + b"?")
    np.testing.assert_array_equal(result(path), first)
    assert len(runs) == 2


def test_nothing_is_kept_where_that_is_asked(path, runs, monkeypatch):
    monkeypatch.setenv("REWRITE_CACHE", "off")
    result(path)
    result(path)
    assert len(runs) == 2


def test_a_target_is_the_same_text_under_any_hash_seed():
    assert kept.stable_text(frozenset({("", "b"), ("", "a")})) == "{('', 'a'), ('', 'b')}"
