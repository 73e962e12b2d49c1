"""`claim certified(p)`: bounds, evidence and metadata, held against exact rationals.

The ratio of scales 1/2 has ties, which the arithmetic of qnnpack (`rndnu`) rounds up and ONNX to
even: one step apart at every other odd number. 0.013/0.07 has none.
"""

from __future__ import annotations

import json
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from rewrite.target.target import Requantize
from tests.engine.conftest import TARGET

RNDNU = replace(TARGET, requantize=Requantize("rndnu", "half_up"))
HEAD = "y = Q(DQ(X: s32 per_tensor, zp=0), Y: s8 per_tensor)"
BODY = "y = requantize(X, r, 0) group y as Requantize { multiplier: multiplier(r) }"
MODEL = """
g (int32[N] x) => (int8[N] y, int8[N] z, int8[N] w)
<float s = {0.013}, float t = {0.07}, int8 o = {3},
 float h = {0.5}, float i = {1}, float j = {0.25}>
{ f = DequantizeLinear(x, s)  y = QuantizeLinear(f, t, o)
  g = DequantizeLinear(x, h)  z = QuantizeLinear(g, i, o)
  k = DequantizeLinear(x, j)  w = QuantizeLinear(k, h, o) }
"""
X = np.arange(-700, 700, dtype=np.int32)


def rules(make_rule) -> str:
    text = make_rule(HEAD, BODY, phase="lower", claim="certified(r)", where="X.scale > 0")
    r = "requantization(X.scale, Y.scale, number(Y.zp), qmin(Y), qmax(Y), 65536, dtype(Y))"
    return text.replace("where X.scale > 0", f"let r = {r} where X.scale > 0")


def exact(ratio: Fraction) -> np.ndarray:
    codes = [min(max(round(int(x) * ratio) + 3, -128), 127) for x in X]  # round: half to even
    return np.array(codes, np.int8)


def float32(x: float) -> Fraction:
    return Fraction(float(np.float32(x)))


def test_bounds_evidence_and_metadata(rewriter, make_rule, outputs):
    found = rewriter(rules(make_rule), MODEL, target=RNDNU)
    assert {node.domain for node in found.model.graph.node} == {TARGET.domain}
    y, z, w = outputs(found.model, x=X)
    np.testing.assert_array_equal(y, exact(float32(0.013) / float32(0.07)))
    for half in (z, w):
        apart = np.abs(half.astype(int) - exact(Fraction(1, 2)))
        assert apart.max() == 1
    none, one = found.ledger.entries
    assert (str(none.bound), none.count, str(one.bound), one.count) == ("lsb(0)", 1, "lsb(1)", 2)
    cases = 2 * 65536 + 1  # of each application
    assert none.evidence == f"certified: every step compared, 0 of {cases:,} cases differ"
    assert one.evidence.startswith("certified: every step compared, ")
    assert f"of {2 * cases:,} cases differ, as at (1, 0) by 1" in one.evidence
    assert json.loads(found.ledger.text())["total"] == "lsb(2)"
    notes = [
        {p.key: p.value for p in node.metadata_props}["rewrite.certificate"]
        for node in found.model.graph.node
    ]
    assert notes[0] == f"exact: steps, {cases} cases, 0 differ"
    assert notes[1] == notes[2]
    assert notes[1].startswith("lsb(1): steps")


def test_the_class_is_decided_at_each_application(rewriter, make_rule):
    found = rewriter(rules(make_rule), MODEL, target=RNDNU, max_class="exact")
    assert [str(a.bound) for a in found.journal.applied] == ["lsb(0)"]
    assert found.reasons == ["certified for lsb(1), which is more than `exact`"] * 2
    assert found.ops.count("Requantize") == 1


def test_what_cannot_be_certified_is_refused(rewriter, make_rule):
    found = rewriter(rules(make_rule), MODEL)  # the target has no arithmetic
    assert not found.journal.applied
    assert found.reasons == ["the target has no arithmetic for requantization"] * 3


def test_the_value_must_be_a_certificate(rewriter, make_rule):
    text = rules(make_rule).replace("certified(r)", "certified(p)")
    text = text.replace("let r", "let p = operand(y, 1)  r")
    found = rewriter(text, MODEL, target=RNDNU)
    assert found.reasons == ["`p` is not a certificate"] * 3


@pytest.mark.parametrize("limit", ["exact", "lsb", "approx"])
def test_no_steps_are_within_every_class(limit):
    from rewrite.engine.ledger import Bound

    assert Bound("lsb").within(limit)
    assert str(Bound("lsb")) == "lsb(0)"
