"""Errors of applications stay with what later applications make of their places."""

from __future__ import annotations

MODEL = """
g (uint8[N] x) => (uint8[N] y)
<float s = {0.5}, uint8 z = {3}, float t = {0.25}, uint8 lo = {9}, uint8 hi = {200}>
{ d = DequantizeLinear(x, s, z)  r = Relu(d)  q = QuantizeLinear(r, s, z)
  c = Clip(q, lo, hi)  e = DequantizeLinear(c, s, z)  y = QuantizeLinear(e, t, z) }
"""


RELU = ("r = Relu(x)\n y = Q(r, Y: u8 per_tensor)", "y = @y(x, Y.scale, Y.zp)")


def drift(found):
    return {d.value: (d.error, d.reason) for d in found.journal.drift}


def test_an_error_begins_at_the_root(rewriter, make_rule):
    found = rewriter(make_rule(*RELU, claim="lsb(2)"), MODEL)
    assert drift(found) == {"q": (2.0, "")}


def test_an_error_moves_on_through_what_is_replaced(rewriter, make_rule):
    """q, off by 2, is gone; steps of y are half as large: it is off by 4 and one more."""
    later = make_rule(
        "q = Q(x, u8 per_tensor)\n c = Clip(q, l, h)\n y = Q(DQ(c), Y: u8 per_tensor)",
        "y = @y(x, Y.scale, Y.zp)",
        name="later",
        phase="lower",
    )
    found = rewriter(make_rule(*RELU, claim="lsb(2)") + later, MODEL)
    assert found.ops == ["DequantizeLinear", "QuantizeLinear"]
    assert drift(found) == {"y": (5.0, "")}


def test_errors_add_up_at_one_value(rewriter, make_rule):
    later = make_rule(
        "q = Q(x, Y: u8 per_tensor)\n c = Clip(q, l, h)",
        "c = @q(x, Y.scale, Y.zp)",
        name="later",
        phase="lower",
        claim="lsb(1)",
    )
    assert drift(rewriter(make_rule(*RELU, claim="lsb(2)") + later, MODEL)) == {"c": (3.0, "")}


def test_a_relative_error_has_no_bound_in_steps(rewriter, make_rule):
    found = rewriter(make_rule(*RELU, claim="equal(rtol=1e-6)"), MODEL)
    assert drift(found) == {"q": (0.0, "rule r is equal(rtol=1e-06)")}


def test_of_equal_values_the_worse_one_counts(rewriter, make_rule):
    model = """
    g (uint8[N] x) => (uint8[N] y, uint8[N] w)
    <float s = {0.5}, uint8 z = {3}, uint8 lo = {9}, uint8 hi = {200}>
    { i = Clip(x, lo, hi)  j = Max(x, lo)  k = Min(j, hi)  w = Identity(k)
      d = DequantizeLinear(i, s, z)  y = QuantizeLinear(d, s, z) }
    """
    rules = make_rule("y = Min(Max(x, l), h)", "y = Clip(x, l, h)", claim="lsb(1)")
    found = rewriter(rules, model, tidy=True)
    assert len([op for op in found.ops if op == "Clip"]) == 1
    ((error, reason),) = drift(found).values()
    assert (error, reason) == (1.0, "")


def test_float_models_have_none(rewriter, make_rule):
    rules = make_rule("y = Relu(Relu(x))", "y = Relu(x)", claim="equal(rtol=1e-6)")
    found = rewriter(rules, "g (float[N] x) => (float[N] y) { a = Relu(x)  y = Relu(a) }")
    assert found.ops == ["Relu"]
    assert found.journal.drift == ()
