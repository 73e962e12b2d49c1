"""A comparison in another process: the same verdict, and a crash there is only a verdict."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper, parser

from rewrite.audit import apart, verify
from rewrite.engine.ledger import Bound, Entry, Ledger

HEADER = '<ir_version: 10, opset_import: ["" : 18, "com.microsoft" : 1]>\n'
RELU = "g (float[N,3] x) => (float[N,3] y) { y = Relu(x) }"
ABS = "g (float[N,3] x) => (float[N,3] y) { y = Abs(x) }"

# onnxruntime 1.32 ends with SIGSEGV here, where an operand of a variadic operator is absent,
ABSENT = 'g (float[2] x) => (float[2] y) <float[1] c = {1}> { y = Min(x, c, "") }'
# and with SIGFPE here, where what is added has the batch 0.
EMPTY = """g (float[1,3,16] x, float[0,3,16] e, float[16] s, float[16,48] w, float[48] b)
  => (float[1,3,16] y) {
  t = com.microsoft.SkipLayerNormalization(x, e, s)
  y = com.microsoft.Attention<num_heads = 2>(t, w, b)
}"""


def file(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    onnx.save(parser.parse_model(HEADER + text), path)
    return path


@pytest.fixture
def relu(tmp_path) -> Path:
    return file(tmp_path, "relu.onnx", RELU)


@pytest.fixture
def runtime(tmp_path, monkeypatch):
    """runtime(body): a package `onnxruntime` that does this where a model is loaded."""

    def write(body: str) -> None:
        package = tmp_path / "fake" / "onnxruntime"
        package.mkdir(parents=True)
        (package / "__init__.py").write_text(
            "import os, sys, time\n"
            "class GraphOptimizationLevel:\n    ORT_DISABLE_ALL = 0\n"
            "class SessionOptions:\n    def add_session_config_entry(self, *a): pass\n"
            f"def InferenceSession(*a, **k):\n    {body}\n"
        )
        monkeypatch.setattr(sys, "path", [str(package.parent), *sys.path])

    return write


def test_the_verdict_is_that_of_the_same_process(tmp_path, relu):
    wrong = file(tmp_path, "abs.onnx", ABS)
    ledger = Ledger((Entry("r", Bound("equal", rtol=1e-6), 3, "test"),))
    for after in (relu, wrong):
        assert apart.compare(relu, after, 3, ledger) == verify.compare(relu, after, 3, ledger)
    assert apart.compare(relu, wrong, 3, ledger).status == "different"


@pytest.mark.parametrize(("number", "name"), [(11, "SIGSEGV"), (8, "SIGFPE"), (9, "SIGKILL")])
def test_a_runtime_that_is_killed(relu, runtime, number, name):
    runtime(f"os.kill(os.getpid(), {number})")
    found = apart.compare(relu, relu, 1, Ledger())
    assert found.status == "unverified"
    what = f"onnxruntime ended with signal {number} ({name})"
    assert found.reason == f"{what} while loading the original"


def test_a_runtime_that_does_not_end(relu, runtime):
    runtime("time.sleep(60)")
    found = apart.compare(relu, relu, 1, Ledger(), seconds=8)  # a busy machine starts slowly
    assert found.status == "unverified"
    assert found.reason == "no result after 8 s while loading the original"


def test_a_runtime_that_leaves(relu, runtime):
    """That is no crash of the system, but nothing was compared either."""
    runtime("sys.exit('so long')")
    with pytest.raises(RuntimeError, match="status 1: so long"):
        apart.compare(relu, relu, 1, Ledger())


def test_memory_is_bounded(tmp_path):
    """A constant of 1 GB, which the model makes and sums up."""
    text = (
        "g (float[2] x) => (float[2] y) <int64[1] n = {268435456}> "
        "{ w = ConstantOfShape(n) s = ReduceSum<keepdims = 0>(w) y = Add(x, s) }"
    )
    large = file(tmp_path, "large.onnx", text)
    found = apart.compare(large, large, 1, Ledger(), nbytes=960 << 20)
    assert found.status == "unverified"
    assert "Failed to allocate memory" in found.reason


@pytest.mark.parametrize("text", [ABSENT, EMPTY])
def test_models_on_which_a_runtime_crashes(tmp_path, text):
    """Whether it does depends on its version; what is asked for is that we get an answer."""
    odd = file(tmp_path, "odd.onnx", text)
    found = apart.compare(odd, odd, 1, Ledger())
    if found.status != "equal":
        assert found.status == "unverified"
        assert found.reason.startswith("onnxruntime ended with signal ")
        assert found.reason.endswith(" while running the original")


def test_external_data_stays_where_it_is(tmp_path):
    weights = np.arange(1 << 20, dtype=np.float32)
    graph = helper.make_graph(
        [helper.make_node("Add", ["x", "w"], ["y"])],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1 << 20])],
        [numpy_helper.from_array(weights, "w")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)
    path = tmp_path / "m.onnx"
    onnx.save(model, path, save_as_external_data=True, location="m.data")
    assert path.stat().st_size < 1000
    assert apart.compare(path, path, 1, Ledger()).ok


def test_files_beside_the_user_are_not_taken_for_libraries(tmp_path, relu, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("onnx.py", "numpy.py", "json.py"):
        (tmp_path / name).write_text("raise SystemExit(3)\n")
    assert apart.compare(relu, relu, 1, Ledger()).ok
