"""Input that no model should be given: one diagnostic of ours, and the session goes on."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx
import pytest

import rewrite
from rewrite.codegen.isa import host_isa
from rewrite.errors import RewriteError

HEAD = '<ir_version: 10, opset_import: ["" : 21, "com.microsoft" : 1]>\n'
X = np.arange(20, dtype=np.float32).reshape(5, 4)
LARGEST = np.iinfo(np.int64).max
SMALLEST = np.iinfo(np.int64).min


def session_of(text: str, **options: Any) -> Any:
    return rewrite.compile(onnx.parser.parse_model(HEAD + text), **options)


def refused(text: str, feeds: Mapping[str, Any], target: str | None = None) -> RewriteError:
    with session_of(text, target=target) as session, pytest.raises(RewriteError) as caught:
        session.run(feeds)
    return caught.value


# --- what is given to a session -----------------------------------------------------------------

ADDED = "g (float[N,4] x, int64[2] i) => (float[N,4] y, float[2,4] z) { y=Add(x,x) z=Gather(x,i) }"
GOOD = {"x": X, "i": np.array([0, 1])}


@pytest.mark.parametrize(
    ("feeds", "code", "words"),
    [
        ({**GOOD, "x": X.astype(object)}, "RW808", "of type object, not float32"),
        ({**GOOD, "x": X.astype(str)}, "RW808", "not float32"),
        ({**GOOD, "x": [[1.0, 2.0], [3.0]]}, "RW808", "not an array"),
        ({**GOOD, "x": None}, "RW808", "NoneType, not an array"),
        ({**GOOD, "x": {}}, "RW808", "dict, not an array"),
        ({**GOOD, "x": "abc"}, "RW808", "not float32"),
        ({**GOOD, "x": memoryview(b"abcd")}, "RW808", "memoryview, not an array"),
        ({**GOOD, "i": {1, 2}}, "RW808", "set, not an array"),
        ({**GOOD, "i": (0, 5)}, "RW820", "an index is out of range"),
        (None, "RW807", "feeds are of type NoneType"),
        ([X], "RW807", "feeds are of type list"),
        (X, "RW807", "feeds are of type ndarray"),
        ("x", "RW807", "feeds are of type str"),
        ({"i": GOOD["i"]}, "RW807", "input `x` is missing"),
    ],
)
def test_feeds_of_any_kind(feeds: Any, code: str, words: str) -> None:
    with session_of(ADDED) as session:
        for _ in range(2):
            with pytest.raises(RewriteError, match=words) as caught:
                session.run(feeds)
            assert caught.value.diagnostics[0].code == code
        np.testing.assert_array_equal(session.run(GOOD)["y"], X + X)


@pytest.mark.parametrize("outputs", [["y"], "y", 3])
def test_outputs_are_named(outputs: Any) -> None:
    with session_of(ADDED) as session, pytest.raises(RewriteError, match="RW807"):
        session.run(GOOD, outputs)


def test_outputs_do_not_share_memory() -> None:
    memory = np.empty((7, 4), np.float32)
    with session_of(ADDED) as session:
        with pytest.raises(RewriteError, match="`y` and `z` share memory") as caught:
            session.run(GOOD, {"y": memory[:5], "z": memory[4:6]})
        assert caught.value.diagnostics[0].code == "RW806"
        session.run(GOOD, {"y": memory[:5], "z": memory[5:]})
    np.testing.assert_array_equal(memory, np.concatenate([X + X, X[:2]]))


def test_numbers_of_another_byte_order_at_every_run() -> None:
    with session_of("g (float[N,4] x) => (float[N,4] y) { y = Add(x, x) }") as session:
        for _ in range(3):
            np.testing.assert_array_equal(session.run({"x": X.astype(">f4")})["y"], X + X)


@pytest.mark.parametrize("threads", [0, -1, 1.5, "2", None])
def test_threads_are_a_number(threads: Any) -> None:
    with pytest.raises(RewriteError, match="RW806"):
        session_of(ADDED, threads=threads)


@pytest.mark.parametrize("target", [None, "host"])
def test_the_environment_chooses_for_every_target(
    target: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REWRITE_ISA", "baseline")
    with session_of(ADDED, target=target) as session:
        session.run(GOOD)
        assert session._device.isa == host_isa()
    monkeypatch.setenv("REWRITE_ISA", "bogus")
    with pytest.raises(RewriteError, match="REWRITE_ISA=bogus is not an instruction set"):
        session_of(ADDED, target=target)


def test_bytes_that_are_no_model() -> None:
    with pytest.raises(RewriteError, match="RW502"):
        rewrite.InferenceSession(b"abc")


# --- sizes that come from data ------------------------------------------------------------------

SIZED = {
    "OneHot": "g (int64[3] i, int64 n, float[2] v) => (float[3,D] y) { y = OneHot(i, n, v) }",
    "Expand": "g (float[1,4] x, int64[2] n) => (float[A,B] y) { y = Expand(x, n) }",
    "Tile": "g (float[5,4] x, int64[2] n) => (float[A,B] y) { y = Tile(x, n) }",
    "Resize": "g (float[5,4] x, int64[2] n) => (float[A,B] y) { y = Resize(x, , , n) }",
    "CenterCropPad": "g (float[5,4] x, int64[2] n) => (float[A,B] y) { y = CenterCropPad(x, n) }",
    "Split": "g (float[5,4] x, int64[2] n) => (float[A,4] y, float[B,4] z) { y, z = Split(x, n) }",
    "ConstantOfShape": "g (int64[2] n) => (float[A,B] y) { y = ConstantOfShape(n) }",
    "Pad": "g (float[5,4] x, int64[4] n) => (float[A,B] y) { y = Pad(x, n) }",
    "PadEdge": 'g (float[5,4] x, int64[4] n) => (float[A,B] y) { y = Pad<mode="edge">(x, n) }',
}


@pytest.mark.parametrize("name", SIZED)
@pytest.mark.parametrize("size", [-100, SMALLEST, LARGEST])
def test_sizes_that_cannot_be(name: str, size: int) -> None:
    arrays: dict[str, Any] = {"x": X, "i": np.array([0, 1, 2]), "v": np.ones(2, np.float32)}
    sizes = {
        "OneHot": size,
        "Split": [size, 5 - size if size == -100 else -5],
        "Pad": [size, 0, 0, 0],
        "PadEdge": [size, 0, 0, 0],
    }
    arrays["n"] = np.array(sizes.get(name, [size, 4]), np.int64)
    if name == "Expand":
        arrays["x"] = X[:1]
    with session_of(SIZED[name], target=None) as session, pytest.raises(RewriteError) as caught:
        session.run({port.name: arrays[port.name] for port in session.inputs})
    problem = caught.value.diagnostics[0]
    assert problem.code in ("RW802", "RW811")
    assert problem.subject == "y"
    assert problem.hint


@pytest.mark.parametrize("axis", [2, -3, LARGEST, SMALLEST])
def test_an_axis_that_is_not_there(axis: int) -> None:
    text = "g (float[5,4] x, int64 n) => (float[5,4] y) { y = CumSum(x, n) }"
    problem = refused(text, {"x": X, "n": np.array(axis)})
    assert problem.diagnostics[0].code == "RW802"


@pytest.mark.parametrize("rows", [100, -100, 6])
def test_columns_that_no_image_has(rows: int) -> None:
    text = """g (float[1,5,4] x, int64[2] n, int64[2] b) => (float[A,B,C,D] y)
        { y = Col2Im(x, n, b) }"""
    feeds = {"x": X.reshape(1, 5, 4), "n": np.array([rows, 1]), "b": np.array([5, 1])}
    assert refused(text, feeds).diagnostics[0].code == "RW802"


@pytest.mark.parametrize("diagonal", [LARGEST, SMALLEST, 100, -100])
@pytest.mark.parametrize("upper", [0, 1])
def test_diagonals_far_outside(diagonal: int, upper: int) -> None:
    text = f"""g (float[5,4] x, int64 n) => (float[5,4] y) {{ y = Trilu<upper={upper}>(x, n) }}"""
    with session_of(text) as session:
        found = session.run({"x": X, "n": np.array(diagonal)})["y"]
    everything = (diagonal < 0) == bool(upper)
    np.testing.assert_array_equal(found, X if everything else np.zeros_like(X))


@pytest.mark.parametrize(
    ("dtype", "bounds", "code"),
    [
        (np.int64, (0, 10, 0), "RW802"),
        (np.int64, (0, 10**13, 1), "RW811"),
        (np.float32, (0, 1, 0), "RW802"),
        (np.float32, (0, np.inf, 1), "RW802"),
        (np.float32, (np.nan, 1, 1), "RW802"),
        (np.float32, (0, 1, 1e-14), "RW811"),
    ],
)
def test_ranges_without_end(dtype: type, bounds: tuple[float, ...], code: str) -> None:
    name = "int64" if dtype is np.int64 else "float"
    text = f"g ({name} a, {name} b, {name} c) => ({name}[N] y) {{ y = Range(a, b, c) }}"
    feeds: dict[str, Any] = {k: np.array(v, dtype) for k, v in zip("abc", bounds, strict=True)}
    assert refused(text, feeds).diagnostics[0].code == code


def test_no_samples_in_a_second() -> None:
    text = """g (int64 b, int64 n, int64 r, float l, float h) => (float[A,B] y)
        { y = MelWeightMatrix(b, n, r, l, h) }"""
    feeds: dict[str, Any] = {"b": np.array(5), "n": np.array(32), "r": np.array(0)}
    feeds |= {"l": np.array(20, np.float32), "h": np.array(3800, np.float32)}
    refused(text, feeds)


@pytest.mark.parametrize(("step", "length"), [(0, 4), (-5, 4), (2, 0), (2, -3)])
def test_frames_without_length(step: int, length: int) -> None:
    text = """g (float[1,8,1] x, int64 s, int64 l) => (float[A,B,C,2] y)
        { y = STFT(x, s, , l) }"""
    feeds: dict[str, Any] = {"s": np.array(step), "l": np.array(length)}
    feeds["x"] = X.reshape(-1)[:8].reshape(1, 8, 1)
    assert refused(text, feeds).diagnostics[0].code == "RW802"


@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
@pytest.mark.parametrize(
    ("shape", "sizes"),
    [((0, 2, 4, 4), (0, 2, 8, 8)), ((1, 2, 4, 4), (1, 2, 0, 8)), ((1, 2, 0, 4), (1, 2, 0, 8))],
)
def test_nothing_to_resize(mode: str, shape: tuple[int, ...], sizes: tuple[int, ...]) -> None:
    text = f"""g (float[A,B,C,D] x, int64[4] n) => (float[E,F,G,H] y, float[E,F,G,H] z)
        {{ y = Resize<mode="{mode}">(x, , , n) z = Relu(y) }}"""
    with session_of(text) as session:
        found = session.run({"x": np.zeros(shape, np.float32), "n": np.array(sizes)})
    assert found["y"].shape == found["z"].shape == sizes


@pytest.mark.parametrize("scale", [np.nan, np.inf, -1])
def test_scales_that_cannot_be(scale: float) -> None:
    text = "g (float[5,4] x, float[2] s) => (float[A,B] y) { y = Resize(x, , s) }"
    problem = refused(text, {"x": X, "s": np.array([1, scale], np.float32)}).diagnostics[0]
    assert problem.code == "RW802"
    assert problem.message.count("does not take") == 1


# --- control flow -------------------------------------------------------------------------------

BRANCH = """g (bool[N] c, float[5,4] x) => (float[5,4] y) {
    y = If(c)<then_branch = t () => (float[5,4] a) { a = Neg(x) },
              else_branch = e () => (float[5,4] b) { b = Abs(x) }> }"""
LOOP = """g (int64[N] n, bool[M] c, float[5,4] x) => (float[5,4] y, float[A,B] s) {
    y, s = Loop(n, c, x)<body = b (int64 i, bool p, float[5,4] v)
        => (bool q, float[5,4] w, float[K] o) {
        q = Identity(p) w = Add(v, x)
        zero = Constant<value = int64[1] {0}>() size = Unsqueeze(i, zero)
        o = ConstantOfShape(size) }> }"""


@pytest.mark.parametrize("count", [0, 2])
def test_conditions_are_one_element(count: int) -> None:
    feeds = {"c": np.ones(count, bool), "x": X}
    assert refused(BRANCH, feeds).diagnostics[0].code == "RW805"


@pytest.mark.parametrize(
    ("turns", "going", "words"),
    [
        ([], [True], "turns must be one element, not 0"),
        ([1, 2], [True], "turns must be one element, not 2"),
        ([2], [], "condition must be one element, not 0"),
        ([3], [True], "do not stack"),
    ],
)
def test_loops_that_cannot_be_run(turns: list[int], going: list[bool], words: str) -> None:
    feeds = {"n": np.array(turns, np.int64), "c": np.array(going, bool), "x": X}
    problem = refused(LOOP, feeds).diagnostics[0]
    assert problem.code == "RW805"
    assert words in problem.message
    assert problem.subject == "y"


ENDLESS = """g (int64 n, bool c, float[5,4] x) => (float[5,4] y) {
    y = Loop(n, c, x)<body = b (int64 i, bool p, float[5,4] v) => (bool q, float[5,4] w) {
        q = Identity(p) w = Neg(v) }> }"""


def test_a_loop_ends_when_its_session_is_closed() -> None:
    session = session_of(ENDLESS)
    feeds = {"n": np.array(2, np.int64), "c": np.array(True), "x": X}
    np.testing.assert_array_equal(session.run(feeds)["y"], X)
    codes: list[str] = []

    def run() -> None:
        with pytest.raises(RewriteError) as caught:
            session.run({**feeds, "n": np.array(LARGEST)})
        codes.append(caught.value.diagnostics[0].code)

    thread = threading.Thread(target=run)
    thread.start()
    time.sleep(0.2)
    session.close()
    thread.join(20)
    assert codes == ["RW806"]
