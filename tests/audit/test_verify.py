"""`compare` accepts what a ledger allows, rejects the rest, and says what it could not run."""

import numpy as np
import onnx
import pytest
from onnx import parser

import rewrite
from rewrite.audit.verify import compare
from rewrite.engine.ledger import Bound, Entry, Ledger

HEADER = '<ir_version: 10, opset_import: ["" : 18, "com.microsoft" : 1]>\n'


def model(text: str) -> onnx.ModelProto:
    return parser.parse_model(HEADER + text)


def ledger(bound: Bound) -> Ledger:
    return Ledger((Entry("r", bound, 1, "test"),))


HEAD3 = "g (float[64] x, float[64] z, float[64] w) => (float[64] y) "
RELU = model("g (float[N,3] x) => (float[N,3] y) { y = Relu(x) }")


def test_the_same_model_is_exactly_equal() -> None:
    found = compare(RELU, RELU, 8, Ledger())
    assert found.ok
    assert found.runs == 8
    assert found.conditioning == 1.0


def test_a_wrong_model_is_named() -> None:
    wrong = model("g (float[N,3] x) => (float[N,3] y) { y = Abs(x) }")
    found = compare(RELU, wrong, 4, ledger(Bound("equal", rtol=1e-5)))
    assert found.status == "different"
    assert "'y'" in found.reason


def test_reassociation_is_within_equal_but_not_exact() -> None:
    a = model(HEAD3 + "{ t = Add(x, z) y = Add(t, w) }")
    b = model(HEAD3 + "{ t = Add(z, w) y = Add(x, t) }")
    assert compare(a, b, 4, ledger(Bound("equal", rtol=1e-6))).ok
    assert compare(a, b, 4, Ledger()).status == "different"


def test_the_largest_difference_is_told_where_it_is_allowed() -> None:
    """(x + z) + w is off by some 2^-24 of its terms, far below 1e-2 and far above nothing."""
    a = model(HEAD3 + "{ t = Add(x, z) y = Add(t, w) }")
    b = model(HEAD3 + "{ t = Add(z, w) y = Add(x, t) }")
    found = compare(a, b, 4, ledger(Bound("equal", rtol=1e-2)))
    assert found.ok
    assert 1e-7 < found.used < 1e-4
    assert compare(a, a, 4, ledger(Bound("equal", rtol=1e-2))).used == 0.0


def test_conditioning_scales_the_tolerance() -> None:
    """exp(30 x) magnifies a relative change of x by up to |30 x|."""
    body = "g (float[256] x) => (float[256] y) <float c = {30}> { t = Mul(x, c) y = Exp(t) }"
    found = compare(model(body), model(body), 2, ledger(Bound("equal", rtol=1e-6)))
    assert found.ok
    assert found.conditioning > 10.0


# All but the first give one of four results: now and then two runs agree, twelve never do.
DRAWS = {
    "operator": "g (float[4] x) => (float[4] y) { n = RandomNormalLike(x) y = Add(n, x) }",
    "training": """g (float[3] x) => (float[3] y) <float half = {0.5}, bool on = {1}> {
        y = Dropout(x, half, on) }""",  # onnxruntime drops the first element every time
    "subgraph": """g (float[2] x) => (float[2] y) <bool on = {1}, float[2] half = {0.5, 0.5}> {
        y = If(on) <then_branch = a () => (float[2] p) { b = Bernoulli(half) p = Add(x, b) },
                    else_branch = b () => (float[2] q) { q = Identity(x) }> }""",
    "function": """g (float[2] x) => (float[2] y) <float[2] half = {0.5, 0.5}> {
        b = own.draw(half) y = Add(x, b) }
        <domain: "own", opset_import: ["" : 18]> draw (p) => (r) { r = Bernoulli(p) }""",
}


@pytest.mark.parametrize("name", DRAWS)
def test_random_operators_are_not_called_verified(name: str) -> None:
    text = DRAWS[name]
    noise = parser.parse_model(HEADER.replace("]>", ', "own" : 1]>') + text)
    found = compare(noise, noise, 2, Ledger())
    assert found.status == "unverified"
    assert "random" in found.reason


def test_what_cannot_run_says_why() -> None:
    strange = parser.parse_model(
        '<ir_version: 10, opset_import: ["" : 18, "nowhere" : 1]> '
        "g (float[4] x) => (float[4] y) { y = nowhere.Thing(x) }"
    )
    found = compare(strange, strange, 2, Ledger())
    assert found.status == "unverified"
    assert "cannot be run" in found.reason


def test_a_rewritten_model_that_does_not_load_is_different() -> None:
    broken = model("g (float[N,3] x) => (float[N,3] y) { y = com.microsoft.NoSuchOp(x) }")
    found = compare(RELU, broken, 2, Ledger())
    assert found.status == "different"
    assert "does not load" in found.reason


def test_symbolic_dims_and_defaults_and_integers() -> None:
    gather = model(
        "g (float[V,D] table, int64[N] ids, float[N,D] z) => (float[N,D] y) "
        "{ t = Gather(table, ids) y = Add(t, z) }"
    )
    found = compare(gather, gather, 3, Ledger())
    assert found.ok, found.reason


def test_a_change_only_at_infinity_needs_exact_inputs() -> None:
    """NaN from inf - inf: before and after agree bit for bit."""
    same = model("g (float[4] x) => (float[4] y) { y = Sub(x, x) }")
    zero = model("g (float[4] x) => (float[4] y) <float z = {0}> { y = Mul(x, z) }")
    assert compare(same, same, 2, Ledger()).ok
    assert compare(same, zero, 2, ledger(Bound("equal", rtol=0.0))).ok
    assert compare(same, zero, 2, Ledger()).status == "different"  # -0 is not 0


def test_weights_are_perturbed_where_no_input_is_float() -> None:
    m = model(
        "g (int64[3] ids) => (float[3,2] y) "
        "<float[8,2] table = {1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16}> "
        "{ t = Gather(table, ids) y = Exp(t) }"
    )
    found = compare(m, m, 2, ledger(Bound("equal", rtol=1e-6)))
    assert found.ok
    assert found.conditioning > 5.0
    assert np.isfinite(found.conditioning)


def test_a_batch_in_the_middle_of_a_shape() -> None:
    """Sizes without names: the second input has the batch as its second size."""
    m = model(
        "g (float[?,?] x, float[2,?,3] s) => (float[2,?,?] y) "
        "{ c = Constant<value_ints = [0]>() t = Unsqueeze(x, c) "
        "  z = ReduceSum(s) y = Mul(t, z) k = Concat<axis = 1>(s, s) }"
    )
    assert compare(m, m, 2, Ledger()).ok


def test_inputs_that_would_be_huge_are_not_made() -> None:
    m = model("g (float[100000,100000] x) => (float[100000,100000] y) { y = Relu(x) }")
    found = compare(m, m, 2, Ledger())
    assert found.status == "unverified"
    assert "too large" in found.reason


GAIN = """<ir_version: 10, opset_import: ["" : 21]>
g (uint16[1,64] x) => (uint16[1,64] y, uint16[1,64] q)
<float s = {0.0002}, uint16 z = {32768}, float t = {0.00003051}, float u = {0.00001}>
{ d = DequantizeLinear(x, s, z)  h = Tanh(d)  q = QuantizeLinear(h, t, z)
  e = DequantizeLinear(q, t, z)  y = QuantizeLinear(e, u, z) }"""


def test_steps_that_a_finer_scale_makes_more_of_are_allowed_where_they_are_known() -> None:
    """A step of q is 3.051 steps of y: what is off by up to 3 there is off by up to 10 here."""
    before = parser.parse_model(GAIN)
    result = rewrite.apply(before, target="cortex-m")
    assert dict(result.ledger.outputs) == {"y": 10, "q": 3}
    assert result.ledger.total == Bound("lsb", lsb=3)
    found = compare(before, result.model, 3, result.ledger)
    assert found.status == "equal"
    assert 0 < found.used <= 1
    assert compare(before, result.model, 3, Ledger(result.ledger.entries)).status == "different"
