"""Ledgers of class lsb are judged by the oracle, in steps."""

from __future__ import annotations

import math

import onnx
import pytest

from rewrite.audit import exactly
from rewrite.audit.oracle.compare import Comparison, Gap
from rewrite.audit.verify import compare
from rewrite.engine.ledger import Bound, Entry, Ledger

TEXT = """
<ir_version: 8, opset_import: ["" : 18]>
net (uint8[64] a, uint8[64] b) => (uint8[64] y)
<float s = {0.25}, float t = {0.5}, uint8 z = {1}, float one = {1}, float low = {0},
 float high = {255}>
{
  p = DequantizeLinear(a, s, z)
  q = DequantizeLinear(b, s, z)
  sum = Add(p, q)
  REST
}
"""
ADDS_FIRST = """
  steps = Div(sum, t)
  moved = Add(steps, one)
  whole = Round(moved)
  clamped = Clip(whole, low, high)
  y = Cast <to = 2> (clamped)
"""


def models():
    rests = ("y = QuantizeLinear(sum, t, z)", ADDS_FIRST)
    return [onnx.parser.parse_model(TEXT.replace("REST", rest)) for rest in rests]


def ledger(kind, lsb):
    return Ledger((Entry("rule", Bound(kind, lsb), 1, "claimed"),))


@pytest.mark.parametrize(("lsb", "status", "used"), [(0, "different", math.inf), (1, "equal", 1.0)])
def test_ties_take_one_step(lsb, status, used):
    one, other = models()
    found = compare(one, other, 2, ledger("lsb", lsb))
    assert (found.status, found.runtime, found.used) == (status, "the exact oracle", used)
    assert (found.runs, found.conditioning) == (2, 1.0)


def test_a_model_and_itself_take_none():
    one, _ = models()
    found = compare(one, one, 2, ledger("lsb", 0))
    assert (found.status, found.used) == ("equal", 0.0)


@pytest.mark.parametrize("kind", ["exact", "equal", "approx"])
def test_other_ledgers_are_judged_by_a_runtime(kind):
    one, _ = models()
    assert compare(one, one, 1, ledger(kind, 0)).runtime != "the exact oracle"


def test_where_the_oracle_has_no_value_a_runtime_judges_and_it_is_told():
    text = """
    <ir_version: 8, opset_import: ["" : 18]>
    net (bool c, float[4] x) => (float[4] y)
    {
      y = If(c) <
        then_branch = one () => (float[4] v) { v = Relu(x) },
        else_branch = two () => (float[4] w) { w = Neg(x) }>
    }
    """
    proto = onnx.parser.parse_model(text)
    found = compare(proto, proto, 1, ledger("lsb", 1))
    assert found.ok
    assert found.runtime != "the exact oracle"
    assert "the exact oracle has no value: node 'y' holds a graph (If)" in found.reason


def test_an_output_that_nothing_bounds_is_neither_right_nor_wrong() -> None:
    gap = Gap("y", 9.0, "code", 1.0, 1, 4)
    found = Comparison((gap,), 1, "random", (0, 0), ((), ()))
    assert not exactly._judged(found, Bound("lsb", 3), {"y": 8}).ok
    judged = exactly._judged(found, Bound("lsb", 3), {"y": None})
    assert judged.ok
    assert judged.unbounded
    assert not exactly._judged(found, Bound("lsb", 0), {"y": None}).ok
