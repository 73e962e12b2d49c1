"""`rewrite run` and `rewrite bench`: inputs, what is printed, what is refused."""

from __future__ import annotations

from pathlib import Path

import ml_dtypes
import numpy as np
import onnx
import pytest

from rewrite.cli import main
from rewrite.cli.commands.run import _progress
from rewrite.cli.peers import _Peer
from rewrite.errors import RewriteError

DOUBLE = """<ir_version: 9, opset_import: ["" : 18]>
net (TYPE[N] x) => (TYPE[N] y) { y = Add(x, x) }"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("float", "bfloat16"):
        onnx.save(onnx.parser.parse_model(DOUBLE.replace("TYPE", name)), f"{name}.onnx")
    return tmp_path


def test_elements_are_printed_as_long_as_their_type_needs(folder, capsys):
    np.save("x.npy", np.array([0.1, 1.5, -3, 0.7, 9], np.float32))
    assert main(["run", "float.onnx", "--input", "x=x.npy"]) == 0
    assert capsys.readouterr().out == "y: float32 5 [0.2, 3.0, -6.0, 1.4, ...]\n"


def test_files_of_types_that_numpy_does_not_know_are_taken(folder, capsys):
    np.save("x.npy", np.array([1, 2.5], ml_dtypes.bfloat16))
    assert np.load("x.npy").dtype.kind == "V"
    assert main(["run", "bfloat16.onnx", "--input", "x=x.npy"]) == 0
    assert capsys.readouterr().out == "y: bfloat16 2 [2, 5]\n"
    assert main(["run", "float.onnx", "--input", "x=x.npy"]) == 2
    assert "error[RW808]" in capsys.readouterr().err


def test_fast_math_is_asked_for(folder, capsys):
    """F(4x4, 3x3) has other roundings, within the bound that docs/running.md states."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((1, 64, 28, 28)).astype(np.float32)
    w = rng.standard_normal((64, 64, 3, 3)).astype(np.float32)
    node = onnx.helper.make_node("Conv", ["x", "w"], ["y"], pads=[1, 1, 1, 1])
    ports = [
        onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, x.shape) for name in "xy"
    ]
    weights = [onnx.numpy_helper.from_array(w, "w")]
    graph = onnx.helper.make_graph([node], "net", ports[:1], ports[1:], weights)
    imports = [onnx.helper.make_opsetid("", 18)]
    onnx.save(onnx.helper.make_model(graph, opset_imports=imports, ir_version=9), "conv.onnx")
    np.save("x.npy", x)
    found = []
    for more in ([], ["--fast-math"]):
        assert main(["run", "conv.onnx", "--input", "x=x.npy", "-o", "out.npz", *more]) == 0
        found.append(np.load("out.npz")["y"].astype(np.float64))
    windows = np.lib.stride_tricks.sliding_window_view(
        np.pad(x[0].astype(np.float64), ((0, 0), (1, 1), (1, 1))), (3, 3), (1, 2)
    )
    exact = np.tensordot(w.astype(np.float64), windows, ([1, 2, 3], [0, 3, 4]))
    plain, fast = (np.abs(y[0] - exact).max() / np.abs(exact).max() for y in found)
    assert plain < 1e-6
    assert plain < fast < 1e-5


def test_types_that_numpy_does_not_know_are_timed(folder, capsys):
    assert main(["bench", "bfloat16.onnx", "--turns", "1"]) == 0
    assert capsys.readouterr().out.splitlines()[1].startswith("rewrite ")


def test_a_sequence_is_told_by_its_first_elements(folder, capsys):
    text = """<ir_version: 9, opset_import: ["" : 18]>
    net (float[N] x) => (seq(float[K]) s) <int64 two = {2}> { s = SplitToSequence(x, two) }"""
    onnx.save(onnx.parser.parse_model(text), "parts.onnx")
    np.save("x.npy", np.array([0.1, 1.5, -3, 2, 7], np.float32))
    assert main(["run", "parts.onnx", "--input", "x=x.npy", "-o", "out.npz"]) == 0
    told = "s: sequence of 3; float32 2 [0.1, 1.5]; float32 2 [-3.0, 2.0]; ...\n"
    assert capsys.readouterr().out == told
    with np.load("out.npz") as kept:
        assert {name: kept[name].tolist() for name in kept.files} == {
            "s.0": [np.float32(0.1), 1.5], "s.1": [-3, 2], "s.2": [7],
        }  # fmt: skip


def test_strings_are_timed(folder, capsys):
    text = """<ir_version: 9, opset_import: ["" : 20]>
    net (string[N] x) => (string[N] y) { y = StringConcat(x, x) }"""
    onnx.save(onnx.parser.parse_model(text), "text.onnx")
    assert main(["bench", "text.onnx", "--turns", "1"]) == 0
    assert capsys.readouterr().out.splitlines()[1].startswith("rewrite ")


def test_a_peer_that_cannot_run_the_model_says_why(folder, capsys):
    pytest.importorskip("onnxruntime")
    given = ["bench", "bfloat16.onnx", "--turns", "1", "--against", "onnxruntime"]
    assert main(given) == 2  # it takes no arrays of this type
    told = capsys.readouterr().err
    assert "error[RW708]: onnxruntime cannot run the model: " in told
    assert "hint: " not in told


def test_a_session_in_a_process_of_its_own_says_why_too(folder):
    peer = _Peer("rewrite", folder / "none.onnx", folder / "none.npz", 1)
    with pytest.raises(RewriteError, match=r"none\.npz"):
        peer.ready()
    peer.close()
    np.savez("feeds.npz", x=np.ones(3))
    peer = _Peer("rewrite", folder / "float.onnx", folder / "feeds.npz", 1)
    with pytest.raises(RewriteError, match=r"input `x` has elements of type float64, not float32"):
        peer.ready()
    peer.close()


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ("x", "`x` is not NAME=FILE.npy"),
        ("x=none.npy", "none.npy: error[RW810]: cannot be read: No such file or directory"),
        ("x=.", "not a file"),
        ("x=float.onnx", "no .npy file"),
        ("x=cut.npy", "cannot be read"),
        ("x=many.npz", "several arrays"),
        ("x=text.npy", "text.npy: error[RW810]: this is no .npy file"),
        ("x=empty.npy", "empty.npy: error[RW810]: this is no .npy file"),
    ],
)
def test_inputs_that_cannot_be_read(folder, capsys, given, words):
    np.savez("many.npz", x=np.ones(2, np.float32))
    Path("text.npy").write_text("1 2 3")
    Path("empty.npy").write_text("")
    np.save("cut.npy", np.ones(9))
    Path("cut.npy").write_bytes(Path("cut.npy").read_bytes()[:99])
    assert main(["run", "float.onnx", "--input", given]) == 2
    told = capsys.readouterr().err
    assert "error[RW810]" in told
    assert words in told


def test_an_input_is_given_once(folder, capsys):
    np.save("x.npy", np.ones(2, np.float32))
    assert main(["run", "float.onnx", "--input", "x=x.npy", "--input", "x=x.npy"]) == 2
    assert "error[RW810]: input `x` is given twice" in capsys.readouterr().err


@pytest.mark.parametrize(
    "arguments",
    [
        ["run", "--threads", "0"],
        ["run", "--threads", "two"],
        ["run", "--random", "-1"],
        ["bench", "--turns", "0"],
        ["bench", "--threads", "0"],
        ["bench", "--random", "1", "--input", "x=x.npy"],
    ],
)
def test_numbers_that_make_no_sense(arguments, capsys):
    assert main([*arguments, "model.onnx"]) == 2
    assert "error[RW002]" in capsys.readouterr().err


def test_a_peer_that_is_not_known(capsys):
    assert main(["bench", "model.onnx", "--against", "onnxruntime, tvm"]) == 2
    assert "there is no peer `tvm`" in capsys.readouterr().err


def test_progress_is_a_share_of_the_kernels_that_were_missing():
    told = []
    report = _progress(lambda *call: told.append(call))
    for left in (3, 2, 1, 0):
        report(left)
    assert [call[1:] for call in told] == [(0, 3), (1, 2), (2, 1), (3, 0)]
    assert told[0][0] == "3 kernels to compile"
    assert told[-1][0] == ""
