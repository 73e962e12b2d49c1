"""Loops and scans whose turns are native code: against onnxruntime, for bodies of every shape.

Each check also says whether the turns were native, so that a body that should be cannot fall back.
"""

from __future__ import annotations

import os
import signal
import threading
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import parser

import rewrite
from rewrite.errors import RewriteError
from rewrite.runtime import instance, repeated

Array = np.ndarray[Any, np.dtype[Any]]


@pytest.fixture
def turns(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many turns each call of native code was."""
    found: list[int] = []
    before = repeated._Batch.run

    def run(batch: Any, limit: int) -> Any:
        made = before(batch, limit)
        found.append(made.turns)
        return made

    monkeypatch.setattr(repeated._Batch, "run", run)
    return found


def model(text: str, opset: int = 18) -> onnx.ModelProto:
    return parser.parse_model(f'<ir_version: 8, opset_import: ["": {opset}]>\n{text}')


def check(proto: onnx.ModelProto, feeds: dict[str, Array], runs: int = 2, threads: int = 1) -> None:
    judge = onnxruntime.InferenceSession(
        proto.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    wanted = judge.run(None, feeds)
    with rewrite.compile(proto, target="host", threads=threads) as session:
        for _ in range(runs):
            given = {name: array.copy() for name, array in feeds.items()}
            found = list(session.run(given).values())
            for a, b in zip(wanted, found, strict=True):
                # A few roundings of numbers about as large as 1: bodies do not let errors grow.
                np.testing.assert_allclose(b, a, rtol=1e-5, atol=2.0**-20, strict=True)
            for name, array in feeds.items():
                np.testing.assert_array_equal(given[name], array)
            for k, a in enumerate(found):  # nobody's memory is another one's
                assert not any(np.shares_memory(a, b) for b in [*found[:k], *given.values()])


def f32(*shape: int, seed: int = 1) -> Array:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32) * np.float32(0.5)


def count(n: int) -> Array:
    return np.array(n, np.int64)


LOOP = """g (int64 n, bool go, float[3] x, float s)
    => (float[3] last, float sum, float[K,3] all, float[L] sums) {
  last, sum, all, sums = Loop(n, go, x, s) <body = b (int64 i, bool c, float[3] v, float t)
      => (bool again, float[3] w, float u, float[3] seen, float now) {
    f = Cast<to = 1>(i)
    h = Tanh(v)
    w = Add(h, x)
    u = Add(t, f)
    now = Mul(u, u)
    seen = Sub(w, f)
    again = END
  }>
}"""


@pytest.mark.parametrize("n", [0, 1, 2, 3, 4, 5, 40, 300, 2100])
def test_a_loop_of_every_length(n, turns):
    feeds = {"n": count(n), "go": np.array(True), "x": f32(3), "s": np.zeros((), np.float32)}
    check(model(LOOP.replace("END", "Identity(c)")), feeds)
    assert bool(turns) == (n >= repeated.FEW)  # the body is planned when it runs again


@pytest.mark.parametrize("end", [0, 1, 2, 3, 4, 7, 299])
def test_a_condition_that_turns_compute_ends_the_loop(end, turns):
    text = LOOP.replace(
        "again = END", f"e = Constant<value = int64 {{{end}}}>() again = Less(i, e)"
    )
    feeds = {"n": count(300), "go": np.array(True), "x": f32(3), "s": np.zeros((), np.float32)}
    check(model(text), feeds)
    assert turns


def test_a_loop_without_a_limit(turns):
    text = LOOP.replace("g (int64 n, bool go", "g (int64 n").replace("Loop(n, go", 'Loop("", ""')
    text = text.replace("again = END", "again = Less(i, n)")
    proto = model(text)
    check(proto, {"n": count(900), "x": f32(3), "s": np.zeros((), np.float32)})
    assert len(turns) > 2  # more turns at a time


def test_counters_of_one_dimension(turns):
    text = """g (int64 n, float[2] x) => (float[2] y) {
      y = Loop(n, "", x) <body = b (int64[1] i, bool[1] c, float[2] v) => (bool[1] d, float[2] w) {
        f = Cast<to = 1>(i) w = Add(v, f) d = Identity(c) }>
    }"""
    proto = model(text)
    with rewrite.compile(proto, target="host") as session:
        x = f32(2)
        for _ in range(2):
            y = session.run({"n": count(50), "x": x})["y"]
            np.testing.assert_allclose(y, x + 49 * 25, rtol=1e-6)
    assert turns


BODIES = {
    # states that change places, one that stays, one nobody reads, one that is stacked
    "swapped": ("float[2] a, float[2] b", "b, a", ""),
    "crossed": ("float[2] a, float[2] b", "p, q", "p = Add(b, x) q = Mul(a, x)"),
    "kept": ("float[2] a, float[2] b", "a, q", "q = Add(b, a)"),
    "unread": ("float[2] a, float[2] b", "p, q", "f = Cast<to = 1>(i) p = Add(x, f) q = Add(b, x)"),
    "one value": ("float[2] a, float[2] b", "p, p", "p = Add(a, b)"),
    "stacked": ("float[2] a, float[2] b", "p, q, p", "p = Tanh(a) q = Add(b, p)"),
    "stacked twice": ("float[2] a, float[2] b", "p, q, p, p", "p = Tanh(a) q = Add(b, p)"),
    "both stacked": ("float[2] a, float[2] b", "p, q, p, q", "p = Add(a, b) q = Sub(b, a)"),
    "input stacked": ("float[2] a, float[2] b", "p, q, a", "p = Tanh(a) q = Add(b, p)"),
    "constant stacked": (
        "float[2] a, float[2] b", "p, q, k",
        "k = Constant<value = float[2] {1, 2}>() p = Add(a, k) q = Add(b, k)",
    ),
    "outer stacked": (
        "float[2] a, float[2] b", "p, q, y", "p = Tanh(a) q = Add(b, p) y = Identity(x)",
    ),
    "growing": (
        "float[A] a, float[2] b", "p, q", "p = Concat<axis = 0>(a, x) q = Add(b, x)"
    ),
    "another type": (
        "float[2] a, float[2] b", "p, q, r", "p = Tanh(a) q = Tanh(b) r = Cast<to = 7>(p)",
    ),
    "empty": ("float[0] a, float[2] b", "p, q, p", "p = Tanh(a) q = Add(b, x)"),
    "all empty": ("float[0] a, float[0] b", "p, q, p", "p = Tanh(a) q = Tanh(b)"),
}  # fmt: skip
# Values that pass through or are known are no results of kernels, sizes that grow are other plans.
BY_DRIVER = {
    "swapped", "one value", "input stacked", "constant stacked", "growing",
}  # fmt: skip


def around(name: str) -> onnx.ModelProto:
    """A loop with that body: two states, then what is stacked."""
    inputs, outputs, text = BODIES[name]
    values = outputs.split(", ")
    kinds = ["int64" if value == "r" else "float" for value in values]
    inner = ", ".join(
        f"{kind}[I{k}] {v}" for k, (kind, v) in enumerate(zip(kinds, values, strict=True))
    )
    shapes = [f"[S{k}]" if k < 2 else f"[T{k}, S{k}]" for k in range(len(values))]
    outer = ", ".join(
        f"{kind}{shape} o{k}" for k, (kind, shape) in enumerate(zip(kinds, shapes, strict=True))
    )
    names = ", ".join(f"o{k}" for k in range(len(values)))
    first = ", ".join("e" if "float[0]" in given else "x" for given in inputs.split(", "))
    return model(f"""g (int64 n, float[2] x, float[0] e) => ({outer}) {{
      go = Constant<value = bool {{1}}>()
      {names} = Loop(n, go, {first}) <body = b (int64 i, bool c, {inputs}) => (bool d, {inner}) {{
        d = Identity(c)
        {text}
      }}>
    }}""")


@pytest.mark.parametrize("name", BODIES)
@pytest.mark.parametrize("n", [1, 2, 5, 18, 19])
def test_values_that_go_around_in_every_way(name, n, turns):
    check(around(name), {"n": count(n), "x": f32(2), "e": np.zeros(0, np.float32)})
    if n > repeated.FEW + 1:
        assert bool(turns) != (name in BY_DRIVER)


SCAN = """g (float[2] s, float[N,2] xs, float[N] k) => (float[2] t, float[P,Q] ys, float[R] zs) {
  t, ys, zs = Scan(s, xs, k) <num_scan_inputs = 2, BODY body = b (float[2] u, float[2] v, float j)
      => (float[2] w, float[2] o, float z) { h = Tanh(u) a = Mul(h, v) w = Add(a, j) o = Mul(w, v)
         z = Add(j, j) }>
}"""


@pytest.mark.parametrize("length", [1, 2, 4, 9, 700])
@pytest.mark.parametrize(
    "options",
    [
        "", "scan_input_directions = [1, 0],", "scan_output_directions = [1, 0],",
        "scan_output_axes = [1, 0],", "scan_input_axes = [1, 0],",
        "scan_input_axes = [-1, 0], scan_input_directions = [1, 1], scan_output_axes = [-1, 0],"
        " scan_output_directions = [0, 1],",
    ],
)  # fmt: skip
def test_scans_in_every_direction(options, length, turns):
    text = SCAN.replace("BODY", options)
    xs = f32(length, 2)
    if "input_axes" in options:
        text, xs = text.replace("float[N,2] xs", "float[2,N] xs"), np.ascontiguousarray(xs.T)
    check(model(text), {"s": f32(2), "xs": xs, "k": f32(length)})
    assert bool(turns) == (length >= repeated.FEW)


def test_scans_without_states(turns):
    text = """g (float[N,2] xs) => (float[N,2] ys) {
      ys = Scan(xs) <num_scan_inputs = 1, body = b (float[2] v) => (float[2] o) { o = Tanh(v) }>
    }"""
    check(model(text), {"xs": f32(11, 2)})
    assert turns


def test_stacks_that_do_not_fit_are_made_in_parts(turns, monkeypatch):
    monkeypatch.setattr(repeated, "_STACKED", 200)
    feeds = {"n": count(60), "go": np.array(True), "x": f32(3), "s": np.zeros((), np.float32)}
    check(model(LOOP.replace("END", "Identity(c)")), feeds)
    assert len(turns) > 4


def test_turns_go_on_behind_a_slice_of_time(turns, monkeypatch):
    """The clock ends native calls within turns and between them; the results are the same."""
    monkeypatch.setattr(instance, "SLICE_NANOSECONDS", 1)
    text = """g (int64 n, float[64,64] x) => (float[64,64] y, float[N,64,64] ys) {
      y, ys = Loop(n, "", x) <body = b (int64 i, bool c, float[64,64] v)
          => (bool d, float[64,64] w, float[64,64] o) {
        d = Identity(c) m = MatMul(v, x) s = Softmax(m) t = Transpose(s) o = MatMul(t, v)
        w = Softmax(o) }>
    }"""
    check(model(text), {"n": count(12), "x": f32(64, 64)}, threads=2)
    assert turns


def test_another_size_is_another_plan(turns):
    text = """g (int64 n, float[N] x) => (float[N] y, float[M,N] ys) {
      y, ys = Loop(n, "", x) <body = b (int64 i, bool c, float[N] v)
          => (bool d, float[N] w, float[N] o) { d = Identity(c) w = Tanh(v) o = Add(w, x) }>
    }"""
    proto = model(text)
    judge = onnxruntime.InferenceSession(
        proto.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    with rewrite.compile(proto, target="host") as session:
        for size, n in ((3, 9), (1000, 30), (1, 5), (3, 100), (0, 7)):
            feeds = {"n": count(n), "x": f32(size)}
            for a, b in zip(judge.run(None, feeds), session.run(feeds).values(), strict=True):
                np.testing.assert_allclose(b, a, rtol=1e-5, strict=True)


FAULTY = """g (int64 n, float[4] x) => (float y) {
  z = Constant<value = float {0}>()
  y = Loop(n, "", z) <body = b (int64 i, bool c, float s) => (bool d, float t) {
    d = Identity(c) e = Gather(x, i) t = Add(s, e) }>
}"""


def test_a_fault_in_some_turn_is_told_and_the_session_goes_on(turns):
    x = f32(4)
    with rewrite.compile(model(FAULTY), target="host") as session:
        for _ in range(2):
            assert session.run({"n": count(4), "x": x})["y"] == pytest.approx(x.sum(), rel=1e-5)
            with pytest.raises(RewriteError) as problem:
                session.run({"n": count(9), "x": x})
            assert problem.value.diagnostics[0].code == "RW820"
    assert turns


ENDLESS = """g (float[1] x) => (float[1] y) {
  y = Loop("", "", x) <body = b (int64 i, bool c, float[1] v) => (bool d, float[1] w) {
    d = Identity(c) w = Tanh(v) }>
}"""


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="this system has no timer signals")
def test_an_endless_loop_can_be_interrupted():
    with rewrite.compile(model(ENDLESS), target="host") as session:
        timer = threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT))
        timer.start()
        with pytest.raises(KeyboardInterrupt):
            session.run({"x": f32(1)})
        timer.join()
        # The session is usable: another run begins, and can be interrupted too.
        timer = threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGINT))
        timer.start()
        with pytest.raises(KeyboardInterrupt):
            session.run({"x": f32(1)})
        timer.join()


def test_runs_in_several_threads_do_not_meet():
    proto = model(LOOP.replace("END", "Identity(c)"))
    judge = onnxruntime.InferenceSession(
        proto.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    problems: list[Exception] = []
    with rewrite.compile(proto, target="host", threads=2) as session:

        def work(seed: int) -> None:
            try:
                feeds = {
                    "n": count(50 + seed), "go": np.array(True), "x": f32(3, seed=seed),
                    "s": np.array(seed, np.float32),
                }  # fmt: skip
                wanted = judge.run(None, feeds)
                for _ in range(20):
                    for a, b in zip(wanted, session.run(feeds).values(), strict=True):
                        np.testing.assert_allclose(b, a, rtol=1e-5, strict=True)
            except (AssertionError, RewriteError) as problem:  # told by the main thread
                problems.append(problem)

        threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert not problems


def test_a_profile_sees_every_turn(turns):
    proto = model(LOOP.replace("END", "Identity(c)"))
    feeds = {"n": count(20), "go": np.array(True), "x": f32(3), "s": np.zeros((), np.float32)}
    with rewrite.compile(proto, target="host") as session:
        session.run(feeds)
        before = len(turns)
        rows = session.profile(feeds, runs=2).rows
    assert before > 0
    assert len(turns) == before + 1  # the run before those that are profiled
    assert len(rows) > 1  # the kernels of the body, and the loop
