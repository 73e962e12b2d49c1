"""Sessions: what goes in, what comes out, what is refused."""

from __future__ import annotations

import threading

import numpy as np
import onnx
import pytest
from onnx import parser

import rewrite
from rewrite.errors import RewriteError


def model(text: str, opset: int = 18) -> onnx.ModelProto:
    return parser.parse_model(f'<ir_version: 8, opset_import: ["": {opset}]>\n{text}')


ADD = """g (float[N,4] x, float[4] b) => (float[N,4] y, int64[2] s)
{ a = Add(x, b) y = Relu(a) s = Shape(a) }"""


def x_of(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).standard_normal(shape).astype(np.float32)


@pytest.fixture
def session():
    with rewrite.compile(model(ADD), target=None) as made:
        yield made


def test_a_run_gives_every_output_by_name(session):
    x, b = x_of(3, 4), x_of(4)
    found = session.run({"x": x, "b": b})
    np.testing.assert_array_equal(found["y"], np.maximum(x + b, 0))
    np.testing.assert_array_equal(found["s"], [3, 4])


def test_other_sizes_are_planned_and_kept(session):
    for n in (1, 5, 0, 5, 1):
        x, b = x_of(n, 4), x_of(4)
        found = session.run({"x": x, "b": b})
        np.testing.assert_array_equal(found["y"], np.maximum(x + b, 0))
    assert len(session.plan) == 3


def test_results_of_an_earlier_run_stay(session):
    first = session.run({"x": np.ones((2, 4), np.float32), "b": np.zeros(4, np.float32)})
    session.run({"x": np.full((2, 4), 7, np.float32), "b": np.zeros(4, np.float32)})
    np.testing.assert_array_equal(first["y"], np.ones((2, 4)))


def test_outputs_are_written_to_arrays_given(session):
    x, b = x_of(3, 4), x_of(4)
    y = np.empty((3, 4), np.float32)
    found = session.run({"x": x, "b": b}, {"y": y})
    assert found["y"] is y
    np.testing.assert_array_equal(y, np.maximum(x + b, 0))
    column = np.empty((4, 3), np.float32).T
    assert session.run({"x": x, "b": b}, {"y": column})["y"] is column
    np.testing.assert_array_equal(column, np.maximum(x + b, 0))


def test_an_output_that_is_an_input_is_right_even_so(session):
    x, b = x_of(3, 4), x_of(4)
    wanted = np.maximum(x + b, 0)
    session.run({"x": x, "b": b}, {"y": x})
    np.testing.assert_array_equal(x, wanted)


def test_arrays_of_any_memory_layout_are_taken(session):
    x, b = x_of(3, 4), x_of(4)
    wanted = np.maximum(x + b, 0)
    wide = np.zeros((6, 8), np.float32)
    wide[::2, ::2] = x
    raw = np.zeros(x.nbytes + 1, np.uint8)
    odd = raw[1:].view(np.float32).reshape(3, 4)
    odd[...] = x
    fixed = x.copy()
    fixed.flags.writeable = False
    for given in (np.asfortranarray(x), wide[::2, ::2], odd, fixed, x.astype(">f4")):
        np.testing.assert_array_equal(session.run({"x": given, "b": b})["y"], wanted)


@pytest.mark.parametrize(
    ("feeds", "code", "words"),
    [
        ({"x": x_of(3, 4)}, "RW807", "`b` is missing"),
        ({"x": x_of(3, 4), "b": x_of(4), "c": x_of(1)}, "RW807", "no input `c`"),
        ({"x": x_of(3, 4).astype(np.float64), "b": x_of(4)}, "RW808", "float64"),
        ({"x": x_of(3, 4).astype(np.int32), "b": x_of(4)}, "RW808", "int32"),
        ({"x": x_of(3, 5), "b": x_of(4)}, "RW809", "[3, 5]"),
        ({"x": x_of(4), "b": x_of(4)}, "RW809", "[4]"),
    ],
)
def test_feeds_that_do_not_fit_are_refused(session, feeds, code, words):
    with pytest.raises(RewriteError) as caught:
        session.run(feeds)
    assert caught.value.diagnostics[0].code == code
    assert words in caught.value.diagnostics[0].message
    x, b = x_of(1, 4), x_of(4)
    np.testing.assert_array_equal(session.run({"x": x, "b": b})["y"], np.maximum(x + b, 0))


def test_sizes_of_one_name_have_to_agree():
    text = "g (float[N] x, float[N] y) => (float[N] z) { z = Add(x, y) }"
    with rewrite.compile(model(text), target=None) as session, pytest.raises(RewriteError) as e:
        session.run({"x": x_of(3), "y": x_of(4)})
    assert "`N` is 3" in e.value.diagnostics[0].message


def test_operands_that_do_not_fit_are_one_clear_error():
    text = "g (float[N] x, int64[K] s) => (float[A,B] z) { z = Reshape(x, s) }"
    with rewrite.compile(model(text), target=None) as session:
        with pytest.raises(RewriteError) as caught:
            session.run({"x": x_of(6), "s": np.array([4, 2], np.int64)})
        assert caught.value.diagnostics[0].code == "RW802"
        found = session.run({"x": x_of(6), "s": np.array([3, -1], np.int64)})
    np.testing.assert_array_equal(found["z"], x_of(6).reshape(3, 2))


def test_a_closed_session_says_so(session):
    session.close()
    session.close()
    with pytest.raises(RewriteError) as caught:
        session.run({"x": x_of(1, 4), "b": x_of(4)})
    assert caught.value.diagnostics[0].code == "RW806"


def test_one_session_in_many_threads(session):
    failures: list[str] = []

    def work(seed: int) -> None:
        rng = np.random.default_rng(seed)
        for _ in range(50):
            x = rng.standard_normal((int(rng.integers(1, 5)), 4)).astype(np.float32)
            b = rng.standard_normal(4).astype(np.float32)
            if not np.array_equal(session.run({"x": x, "b": b})["y"], np.maximum(x + b, 0)):
                failures.append(f"{seed}")

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


def test_a_default_of_an_input_can_be_left_out():
    proto = model("g (float[2] x, float[2] w) => (float[2] y) { y = Add(x, w) }")
    proto.graph.initializer.append(onnx.numpy_helper.from_array(np.array([1, 2], np.float32), "w"))
    with rewrite.compile(proto, target=None) as session:
        x = x_of(2)
        np.testing.assert_array_equal(session.run({"x": x})["y"], x + np.array([1, 2], np.float32))
        np.testing.assert_array_equal(session.run({"x": x, "w": x})["y"], x + x)


def test_strict_sessions_refuse_what_has_no_kernel():
    text = "g (string[2] x) => (string[2] y) { y = StringConcat(x, x) }"
    with rewrite.compile(model(text, 20), target=None) as session:
        found = session.run({"x": np.array(["a", "b"], object)})
        assert found["y"].tolist() == ["aa", "bb"]
        assert session.devices() == {"y": "reference"}
    with (
        rewrite.compile(model(text, 20), target=None, strict=True) as session,
        pytest.raises(RewriteError) as caught,
    ):
        session.run({"x": np.array(["a", "b"], object)})
    assert caught.value.diagnostics[0].code == "RW804"


def test_a_session_says_what_it_takes():
    text = """g (float[N,3] x, seq(int64) q, string[2] s) => (bool[?] y, float z)
    { t = ReduceMax(x) z = Squeeze(t) y = IsNaN(x) }"""
    with rewrite.compile(model(text, 13), target=None) as made:
        told = "x: float32[N,3], q, s: object[2] -> y: bool[N,3], z: float32"
        assert repr(made) == f"<Session: {told}>"
    assert repr(made) == f"<Session (closed): {told}>"


@pytest.mark.parametrize("runs", [0, -1, "all", 1.5])
def test_a_profile_is_of_a_number_of_runs(session, runs):
    with pytest.raises(RewriteError, match="one run or more"):
        session.profile({"x": x_of(3, 4), "b": x_of(4)}, runs)


def test_a_profile_is_printed_as_a_table(session):
    lines = str(session.profile({"x": x_of(3, 4), "b": x_of(4)}, 1)).splitlines()
    assert lines[0].split()[:3] == ["kernel", "time", "share"]
    assert len(lines) == 2 + len(session.plan[0].calls)


def test_a_profile_says_what_was_moved(session):
    x, b = x_of(3, 4), x_of(4)
    session.run({"x": x, "b": b})
    rows = session.profile().rows
    assert [row.label for row in rows] == ["Add", "Relu"]
    assert rows[0].bytes == x.nbytes * 2 + b.nbytes
    assert sum(row.share for row in rows) == pytest.approx(1)


def test_the_calls_people_already_have(tmp_path):
    path = tmp_path / "add.onnx"
    onnx.save(model(ADD), str(path))
    session = rewrite.InferenceSession(path)
    x, b = x_of(2, 4), x_of(4)
    s, y = session.run(["s", "y"], {"x": x, "b": b})
    np.testing.assert_array_equal(y, np.maximum(x + b, 0))
    assert [port.name for port in session.get_inputs()] == ["x", "b"]
    found = rewrite.backend.prepare(model(ADD)).run([x, b])
    np.testing.assert_array_equal(found[0], y)
    np.testing.assert_array_equal(found.s, s)


def test_a_backend_takes_no_more_inputs_than_there_are():
    with pytest.raises(RewriteError, match="3 inputs are given, the model has 2"):
        rewrite.backend.prepare(model(ADD)).run([x_of(3, 4), x_of(4), x_of(4)])


def test_a_backend_runs_one_node():
    clip = onnx.helper.make_node("Clip", ["x", "", "most"], ["y"])
    x = x_of(3, 4)
    (y,) = rewrite.backend.run_node(clip, [x, np.array(0.5, np.float32)])
    np.testing.assert_array_equal(y, np.minimum(x, np.float32(0.5)))
    (y,) = rewrite.backend.run_node(onnx.helper.make_node("Softmax", ["x"], ["y"], axis=0), [x],
                                    opset_version=11)  # fmt: skip
    assert abs(y.sum() - 1) < 1e-6  # all dimensions from the axis on were one
    words = onnx.helper.make_node("Identity", ["x"], ["y"])
    assert rewrite.backend.run_node(words, [np.array(["a", "b"])]).y.tolist() == ["a", "b"]


def test_inputs_and_outputs_are_told_as_onnxruntime_tells_them():
    onnxruntime = pytest.importorskip("onnxruntime")
    text = """g (float[N,4] x, float16[2] h, int64[?] i, bool b, string[1] s, double[M] d)
        => (float[N,4] y, float16[2] p, int64[?] q, bool r, string[1] t, double[M] u)
        { y = Neg(x) p = Neg(h) q = Neg(i) r = Not(b) t = Identity(s) u = Neg(d) }"""
    proto = model(text)
    onnx.checker.check_model(proto)
    data = proto.SerializeToString()
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 2
    given = (data, options, ["CPUExecutionProvider"])
    theirs, ours = onnxruntime.InferenceSession(*given), rewrite.InferenceSession(*given)
    for one, other in (
        (theirs.get_inputs(), ours.get_inputs()),
        (theirs.get_outputs(), ours.get_outputs()),
    ):
        assert [(a.name, a.type, a.shape) for a in one] == [
            (a.name, a.type, a.shape) for a in other
        ]
    assert ours.get_providers() == theirs.get_providers()
    feeds = {
        "x": x_of(3, 4), "h": np.ones(2, np.float16), "i": np.arange(3), "b": np.array(True),
        "s": np.array(["a"], object), "d": np.ones(2),
    }  # fmt: skip
    for names in (None, [], ["u", "y"]):
        for a, b in zip(theirs.run(names, feeds), ours.run(names, feeds), strict=True):
            np.testing.assert_array_equal(a, b)


def test_an_input_with_a_default_is_none_that_has_to_be_given():
    proto = model("g (float[2] x, float[2] w) => (float[2] y) { y = Add(x, w) }")
    proto.graph.initializer.append(onnx.numpy_helper.from_array(np.array([1, 2], np.float32), "w"))
    session = rewrite.InferenceSession(proto)
    assert [port.name for port in session.get_inputs()] == ["x"]
    assert session.run(None, {"x": x_of(2)})[0].shape == (2,)


def test_a_model_may_be_bytes():
    with rewrite.compile(model(ADD).SerializeToString()) as session:
        assert session.run({"x": x_of(2, 4), "b": x_of(4)})["s"].tolist() == [2, 4]
    with pytest.raises(RewriteError) as caught:
        rewrite.compile(b"no model")
    assert caught.value.diagnostics[0].code == "RW502"


def test_ports_say_what_arrays_to_make(session):
    assert [port.dtype for port in session.inputs] == [np.float32, np.float32]
    assert [port.shape for port in session.inputs] == [("N", 4), (4,)]
    assert session.outputs[1].dtype == np.int64


def test_tracebacks_end_with_the_hint(session):
    with pytest.raises(RewriteError) as caught:
        session.run({"x": np.ones((1, 4)), "b": x_of(4)})
    assert caught.value.__notes__ == ["hint: convert it: x.astype('float32')"]


def test_memory_of_results_is_used_again_and_never_twice_at_once():
    text = "g (float[N] x) => (float[N] y) { y = Neg(x) }"
    with rewrite.compile(model(text), target=None) as session:
        x = x_of(1 << 18)
        first = session.run({"x": x})["y"]
        part = first[10:20]
        place = first.__array_interface__["data"][0]
        second = session.run({"x": x + 1})["y"]
        np.testing.assert_array_equal(first, -x)
        del first
        third = session.run({"x": x + 2})["y"]
        np.testing.assert_array_equal(part, -x[10:20])
        assert third.__array_interface__["data"][0] != place
        del part
        assert session.run({"x": x})["y"].__array_interface__["data"][0] == place
        np.testing.assert_array_equal(second, -(x + 1))
        np.testing.assert_array_equal(third, -(x + 2))


def test_more_memory_than_there_is_is_refused():
    text = "g (float[1] x, int64[2] s) => (float[A,B] y) { y = Expand(x, s) }"
    with rewrite.compile(model(text), target=None) as session:
        with pytest.raises(RewriteError) as caught:
            session.run({"x": x_of(1), "s": np.array([1 << 24, 1 << 24], np.int64)})
        assert caught.value.diagnostics[0].code == "RW811"
        assert session.run({"x": x_of(1), "s": np.array([2, 3], np.int64)})["y"].shape == (2, 3)


def test_more_sizes_than_are_kept_run_all_the_same(session):
    b = x_of(4)
    for n in (*range(1, 100), *range(1, 100, 7)):
        x = x_of(n, 4)
        for _ in range(2):
            np.testing.assert_array_equal(session.run({"x": x, "b": b})["y"], np.maximum(x + b, 0))


def test_an_output_may_be_listed_twice():
    proto = model("g (float[2] x) => (float[2] y) { y = Neg(x) }")
    proto.graph.output.append(proto.graph.output[0])
    with rewrite.compile(proto, target=None) as session:
        x = x_of(2)
        for _ in range(2):
            np.testing.assert_array_equal(session.run({"x": x})["y"], -x)
