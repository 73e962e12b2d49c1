"""Control flow by the driver, against onnxruntime."""

from __future__ import annotations

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import parser

import rewrite


def model(text: str, opset: int = 18) -> onnx.ModelProto:
    return parser.parse_model(f'<ir_version: 8, opset_import: ["": {opset}]>\n{text}')


def check(text: str, feeds: dict, opset: int = 18, runs: int = 2) -> list:
    proto = model(text, opset)
    judge = onnxruntime.InferenceSession(
        proto.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    wanted = judge.run(None, feeds)
    for target in (None, "host"):
        with rewrite.compile(proto, target=target) as session:
            for _ in range(runs):
                found = list(session.run(feeds).values())
            for a, b in zip(wanted, found, strict=True):
                np.testing.assert_allclose(b, a, rtol=1e-6, strict=True)
    return wanted


def f32(*shape: int) -> np.ndarray:
    return np.random.default_rng(1).standard_normal(shape).astype(np.float32)


IF = """g (bool c, float[N] x) => (float[M] y) {
  z = Mul(x, x)
  y = If(c) <then_branch = t () => (float[M] a) { a = Add(z, x) },
             else_branch = e () => (float[K] b) { b = Concat<axis = 0>(z, x) }>
}"""


@pytest.mark.parametrize("taken", [True, False])
def test_if_takes_one_branch_and_its_captures(taken):
    check(IF, {"c": np.array(taken), "x": f32(3)})


LOOP = """g (int64 n, bool go, float[2] x) => (float[2] last, float[K,2] all, int64 left) {
  zero = Constant<value = int64 {0}>()
  last, left, all = Loop(n, go, x, zero) <body = b (int64 i, bool c, float[2] v, int64 k)
      => (bool again, float[2] w, int64 m, float[2] seen) {
    one = Constant<value = int64 {1}>()
    limit = Constant<value = int64 {4}>()
    m = Add(k, one)
    again = Less(m, limit)
    half = Constant<value = float {0.5}>()
    w = Mul(v, half)
    seen = Add(w, x)
  }>
}"""


@pytest.mark.parametrize("trips", [0, 1, 3, 10])
def test_loops_end_by_count_or_condition(trips):
    check(LOOP, {"n": np.array(trips, np.int64), "go": np.array(True), "x": f32(2)})


def test_a_loop_that_may_not_begin_gives_its_initial_values():
    check(LOOP, {"n": np.array(3, np.int64), "go": np.array(False), "x": f32(2)})


GROWING = """g (int64 n, float[1] x) => (float[K] y) {
  go = Constant<value = bool {1}>()
  y = Loop(n, go, x) <body = b (int64 i, bool c, float[K] v) => (bool d, float[L] w) {
    d = Identity(c)
    w = Concat<axis = 0>(v, x)
  }>
}"""


def test_a_carried_value_may_grow_at_every_turn():
    wanted = check(GROWING, {"n": np.array(5, np.int64), "x": f32(1)})
    assert wanted[0].shape == (6,)


NESTED = """g (int64 n, float[3] x) => (float[3] y) {
  go = Constant<value = bool {1}>()
  y = Loop(n, go, x) <body = b (int64 i, bool c, float[3] v) => (bool d, float[3] w) {
    d = Identity(c)
    two = Constant<value = int64 {2}>()
    rest = Mod(i, two)
    zero = Constant<value = int64 {0}>()
    even = Equal(rest, zero)
    w = If(even) <then_branch = t () => (float[3] a) { a = Add(v, x) },
                  else_branch = e () => (float[3] b) { b = Mul(v, x) }>
  }>
}"""


def test_branches_within_loops_see_both_graphs_around_them():
    check(NESTED, {"n": np.array(5, np.int64), "x": f32(3)})


SCAN = """g (float[2] s, float[5,2] xs) => (float[2] t, float[5,2] ys) {
  t, ys = Scan(s, xs) <num_scan_inputs = 1, BODY body = b (float[2] u, float[2] v)
      => (float[2] w, float[2] o) { w = Add(u, v) o = Mul(w, v) }>
}"""


@pytest.mark.parametrize(
    "options",
    [
        "",
        "scan_input_directions = [1],",
        "scan_output_directions = [1],",
        "scan_output_axes = [1],",
    ],
)
def test_scans_walk_in_any_direction(options):
    text = SCAN.replace("BODY", options)
    if "axes" in options:
        text = text.replace("float[5,2] ys", "float[2,5] ys")
    check(text, {"s": f32(2), "xs": f32(5, 2)})


def test_a_scan_along_another_axis():
    text = SCAN.replace("BODY", "scan_input_axes = [1],").replace("float[5,2] xs", "float[2,5] xs")
    check(text, {"s": f32(2), "xs": f32(2, 5)})


SEQUENCES = """g (float[N] x, int64 n) => (float[M] y) {
  a = Mul(x, x)
  s = SequenceConstruct(x, a, x)
  t = SequenceInsert(s, a, n)
  p = SequenceAt(t, n)
  y = ConcatFromSequence<axis = 0>(t)
}"""


def test_sequences_pass_through_the_driver():
    check(SEQUENCES, {"x": f32(3), "n": np.array(1, np.int64)})


DATA = """g (float[N] x) => (int64[1,K] places, float[K] big, float[] total) {
  zero = Constant<value = float {0}>()
  is = Greater(x, zero)
  places = NonZero(is)
  axis = Constant<value = int64[1] {0}>()
  row = Squeeze(places, axis)
  big = Gather<axis = 0>(x, row)
  total = ReduceSum<keepdims = 0>(big)
}"""


@pytest.mark.parametrize("n", [0, 1, 7])
def test_sizes_that_follow_from_data(n):
    check(DATA, {"x": f32(n)})


def test_sizes_that_follow_from_values_of_inputs():
    text = """g (float[N] x, int64[2] s, int64[1] b, int64[1] e) => (float[A,B] y, float[C] z) {
      y = Reshape(x, s)
      z = Slice(x, b, e)
    }"""
    proto = model(text)
    x = f32(6)
    with rewrite.compile(proto, target=None) as session:
        for shape, begin, end in [((2, 3), 1, 4), ((3, -1), 0, 100), ((6, 1), -2, 6)]:
            feeds = {
                "x": x, "s": np.array(shape, np.int64),
                "b": np.array([begin], np.int64), "e": np.array([end], np.int64),
            }  # fmt: skip
            found = session.run(feeds)
            np.testing.assert_array_equal(found["y"], x.reshape(shape))
            np.testing.assert_array_equal(found["z"], x[begin:end])


def test_local_functions_run_in_place_of_their_calls():
    text = """<ir_version: 8, opset_import: ["": 18, "own": 1]>
    g (float[3] x) => (float[3] y) { y = own.Twice<by = 3.0>(x) }
    <domain: "own", opset_import: ["": 18]> Scaled<by>(a) => (b) {
      s = Constant<value_float: float = @by>() b = Mul(a, s)
    }
    <domain: "own", opset_import: ["": 18, "own": 1]> Twice<by>(a) => (c) {
      b = own.Scaled<by: float = @by>(a) c = Add(b, b)
    }"""
    proto = parser.parse_model(text)
    with rewrite.compile(proto, target=None) as session:
        x = f32(3)
        np.testing.assert_array_equal(session.run({"x": x})["y"], x * np.float32(3) * 2)
