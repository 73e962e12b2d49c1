"""Pairs of models, made by hand: which differences break a claim, which it does not speak of."""

from dataclasses import replace

import numpy as np
import pytest
from onnx import numpy_helper, parser

from rewrite.audit.claims import check as check_module
from rewrite.audit.claims.check import check
from rewrite.audit.claims.domain import domain
from rewrite.audit.claims.excuses import is_open, is_rounding, rounding
from rewrite.audit.claims.meaning import OPEN, meaning
from rewrite.audit.claims.original import Original, originals
from rewrite.audit.feeds import Plan
from rewrite.audit.runtimes import OnnxRuntime
from rewrite.engine.ledger import EXACT, Bound

EQUAL = Bound("equal", rtol=1e-6)


def model(text, opset=18):
    return parser.parse_model(f'<ir_version: 8, opset_import: ["" : {opset}]>\n{text}')


def pair(before, after, opset=18):
    return model(before, opset), model(after, opset)


def test_equal_models_hold():
    found = check(*pair(*["g (float[3] x) => (float[3] y) { y = Exp(x) }"] * 2), EXACT)
    assert (found.status, found.runtime, found.reason) == ("holds", "onnxruntime", "")
    assert found.runs >= 12


@pytest.mark.parametrize(
    ("after", "words"),
    [
        ("g (float[3] x) => (float[3] z) { z = Exp(x) }", "outputs y became z"),
        ("g (float[3] w) => (float[3] y) { y = Exp(w) }", "inputs x became w"),
        ("g (float[3] x) => (double[3] y) { y = Cast <to = 11> (x) }", "another element type"),
        ("g (float[3] x) => (float[1] y) { y = ReduceSum(x) }", "shape [3] became [1]"),
        ("g (float[3] x) => (float[2] y) { y = Exp(x) }", "not valid ONNX"),
    ],
)
def test_results_that_are_no_replacement(after, words):
    found = check(model("g (float[3] x) => (float[3] y) { y = Exp(x) }"), model(after), EQUAL)
    assert found.status == "broken"
    assert words in found.reason


def test_a_difference_is_told_with_its_inputs():
    before, after = pair(
        "g (float[3] x) => (float[3] y) { y = Neg(x) }",
        "g (float[3] x) => (float[3] y) { n = Neg(x)  y = Relu(n) }",
    )
    found = check(before, after, EQUAL)
    assert found.status == "broken"
    assert np.array_equal(found.wanted["y"], -found.feeds["x"])
    assert np.array_equal(found.got["y"], np.maximum(-found.feeds["x"], 0))


def test_nan_counts_where_the_claim_is_exact():
    # x - x is NaN for infinite x, 0 otherwise; clipped to [0, 0] it is 0 for infinite x
    before = model("g (float[3] x) => (float[3] y) { y = Sub(x, x) }")
    other = model("g (float[3] x) => (float[3] y) { a = Abs(x)  y = Sub(a, a) }")
    assert check(before, other, EXACT).status == "holds"  # both are NaN
    text = "g (float[3] x) => (float[3] y) <float z = {0}> { c = Clip(x, z, z)  y = Abs(c) }"
    found = check(before, model(text), EXACT)
    assert found.status == "broken"
    (wrong,) = np.nonzero(np.isnan(found.wanted["y"]) & ~np.isnan(found.got["y"]))
    assert np.isinf(found.feeds["x"][wrong]).all()
    assert check(before, model(text), EQUAL).status == "holds"


def test_the_original_cancels():
    # (x + 1e6) - 1e6 keeps a sixteenth of x at most; x itself is the true result
    before, after = pair(
        "g (float[3] x) => (float[3] y) <float c = {1e6}> { a = Add(x, c)  y = Sub(a, c) }",
        "g (float[3] x) => (float[3] y) { y = Identity(x) }",
    )
    assert check(before, after, EQUAL).status == "holds"
    assert check(before, after, EXACT).status == "broken"


def test_cancelling_excuses_no_other_number():
    before, after = pair(
        "g (float[3] x) => (float[3] y) <float c = {1e6}> { a = Add(x, c)  y = Sub(a, c) }",
        "g (float[3] x) => (float[3] y) <float c = {1.5}> { y = Mul(x, c) }",
    )
    assert check(before, after, EQUAL).status == "broken"


def test_rounding_of_an_original():
    # in float32, 1 + 2^-25 is 1: what is lost is 2^-25
    before = model(
        "g (float[1] x) => (float[1] y) <float c = {1}> { a = Add(x, c)  y = Sub(a, c) }"
    )
    (first, *_) = originals(before, False, lambda doing: None)
    assert isinstance(first, Original)
    feeds = {"x": np.array([2.0**-25], np.float32)}
    run = type(first.runs[0])("", feeds, first.runner.run(feeds))
    assert rounding(first, run) == {0: 2.0**-25}
    assert is_rounding(first, run, [feeds["x"]], EQUAL)
    assert not is_rounding(first, run, [np.array([1.0], np.float32)], EQUAL)


def test_float16_may_be_off_by_more():
    # claims are stated for float32; for float16 they are 2^13 times as wide: 1e-6 becomes 0.8 %
    before = model("g (float16[3] x) => (float16[3] y) { y = Identity(x) }")
    after = model("g (float16[3] x) => (float16[3] y) <float16 c = {1}> { y = Mul(x, c) }")
    nearly = np.array(1.0 + 2.0**-8, np.float16)
    after.graph.initializer[0].CopyFrom(numpy_helper.from_array(nearly, "c"))
    assert check(before, after, EQUAL).status == "holds"
    assert check(before, after, Bound("equal", rtol=1e-8)).status == "broken"


def test_what_runtimes_disagree_about_is_open():
    # an integer divided by 0: nobody says what that is
    before = model("g (int32[2] x, int32[2] d) => (int32[2] y) { y = Div(x, d) }")
    feeds = {"x": np.array([1, 2], np.int32), "d": np.array([0, 1], np.int32)}
    assert meaning(before, feeds) == OPEN
    assert [a.tolist() for a in meaning(before, {**feeds, "d": np.array([1, 2], np.int32)})] == [
        [1, 1]
    ]


@pytest.mark.parametrize(("size", "status"), [(0, "holds"), (2, "broken")])
def test_kernels_may_leave_unset_what_they_make_of_nothing(monkeypatch, size, status):
    """One runtime alone says that a sum of nothing is another one: it may not have set it."""

    class Unset(OnnxRuntime):
        def run(self, feeds):
            return [output + 84 for output in super().run(feeds)]

    before, after = pair(
        f"g (int32[{size}] x) => (int32[1] y) {{ y = ReduceSum(x) }}",
        f"g (int32[{size}] x) => (int32[1] y) {{ z = Identity(x)  y = ReduceSum(z) }}",
    )
    real = check_module._in_runtime

    def wrong(original, *others):
        if original.runtime is not OnnxRuntime:
            return real(original, *others)
        return real(replace(original, runtime=Unset), *others)

    monkeypatch.setattr(check_module, "_in_runtime", wrong)
    assert check(before, after, EXACT).status == status


def test_old_softmax_is_not_open():
    # the reference evaluator has the newest Softmax only; the standard has one meaning each
    text = "g (float[1,2,2] x) => (float[1,2,2] y) { y = Softmax <axis = 1> (x) }"
    (first, *_) = originals(model(text, 12), False, lambda doing: None)
    assert not is_open(first, first.runs[0])
    x = first.runs[0].feeds["x"].astype(np.float64)
    wanted = np.exp(x) / np.exp(x).sum()
    # In float32, by 2^-24 of the value each: x - max(x) is rounded once, which moves its power by
    # that difference, the power is off by one step (2); both stand above and below the line, where
    # the sum of 4 terms is rounded 3 times; then the quotient.
    roundings = 2 * (np.ptp(x) + 2) + 3 + 1
    assert np.allclose(first.runs[0].outputs[0], wanted, rtol=roundings * 2.0**-24, atol=0)


def test_steps_are_judged_by_the_oracle():
    text = """g (uint8[4] x) => (uint8[4] y) <float s = {0.5}, uint8 z = {7}>
    { f = DequantizeLinear(x, s, z)  y = QuantizeLinear(f, s, z) }"""
    one = text.replace("y = QuantizeLinear(f, s, z)", "q = QuantizeLinear(f, s, z)  y = Min(q, c)")
    one = one.replace("uint8 z = {7}", "uint8 z = {7}, uint8 c = {254}")
    assert check(model(text), model(one), Bound("lsb", 1)).status == "holds"
    whole = model(text.replace("[4]", "[256]")), model(one.replace("[4]", "[256]"))
    found = check(*whole, Bound("lsb", 0))
    assert (found.status, found.runtime) == ("broken", "the exact oracle")
    # the only code that differs is 255
    wrong = found.wanted["y"] != found.got["y"]
    assert found.feeds["x"][wrong].tolist() == [255]


def test_every_input_there_is():
    text = "g (uint8[256] x) => (uint8[256] y) { y = Max(x, x) }"
    found = domain(model(text), Plan(2, 4, 8), True)
    assert found.points == 256
    assert sorted(found.feeds[0][1]["x"].tolist()) == list(range(256))
    text = """g (uint8[65536] a, int8[65536] b) => (uint8[65536] y)
    { c = Cast <to = 2> (b)  y = Max(a, c) }"""
    found = domain(model(text), Plan(2, 4, 8), True)
    assert found.points == 65536
    ((_, feeds),) = found.feeds
    assert len(set(zip(feeds["a"].tolist(), feeds["b"].tolist(), strict=True))) == 65536
    assert (feeds["b"].min(), feeds["b"].max()) == (-128, 127)


def test_few_bits_are_counted_through():
    found = domain(model("g (bool[2] x) => (bool[2] y) { y = Not(x) }"), Plan(2, 4, 8), True)
    assert found.points == 4
    values = {tuple(feeds["x"].tolist()) for _, feeds in found.feeds}
    assert values == {(False, False), (False, True), (True, False), (True, True)}


@pytest.mark.parametrize(
    ("text", "extreme"),
    [
        ("g (int32[4] x) => (int32[4] y) { y = Neg(x) }", True),
        ("g (int64[2] s, float[4] x) => (float[2,2] y) { y = Reshape(x, s) }", False),
        ("g (int64[2] i, float[4] x) => (float[2] y) { j = Abs(i)  y = Gather(x, j) }", False),
        ("g (int64[4] x) => (int64[2,2] y) <int64[2] s = {2,2}> { y = Reshape(x, s) }", True),
    ],
)
def test_integers_are_extreme_where_they_are_numbers(text, extreme):
    found = domain(model(text), Plan(2, 4, 2), True)
    names = [what for what, _ in found.feeds]
    assert any("extreme integers" in name for name in names) == extreme


def test_sizes_that_are_open_are_tried():
    found = domain(model("g (float[N,3] x) => (float[N,3] y) { y = Neg(x) }"), Plan(2, 4, 8), True)
    sizes = {feeds["x"].shape[0] for _, feeds in found.feeds}
    assert {0, 1, 2, 3} <= sizes


def test_models_that_nothing_runs():
    # onnxruntime has BiasAdd for other devices only, and the reference evaluator has none
    header = '<ir_version: 8, opset_import: ["" : 18, "com.microsoft" : 1]>'
    text = """g (float[1,4,320] x, float[320] b, float[1,4,320] s) => (float[1,4,320] y)
    { y = com.microsoft.BiasAdd(x, b, s) }"""
    before = parser.parse_model(f"{header}\n{text}")
    found = check(before, before, EQUAL)
    assert found.status == "unrun"
    assert "onnxruntime" in found.reason
