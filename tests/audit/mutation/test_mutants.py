"""The mutants of a rule: what is changed, one thing at a time; keys that tell them apart."""

from __future__ import annotations

import pytest

from rewrite import resources
from rewrite.audit.mutation.mutants import mutants
from rewrite.lang.pack import load_pack
from rewrite.lang.parser import parse
from rewrite.match.vocabulary import vocabulary

TEXT = '''
rule conv_scaled in fold opset 11.. {
  """Not right in all things; only its text counts."""
  match c = Conv(x, W: const f32|f64[O, ..., 3]) { group: 1 | 2, auto_pad: "NOTSET" }
        y = Clip(c * 0.5, lo: const, hi: const) as clip if (rank(x) == 4) | ordered (c + 2)
  let   k = min(W, 3) - 1
  where rank(W) < 5 and not shape(W) == [1], lo >= 0
  emit  y = Conv(x, W * k) { ..c }
  claim equal(rtol=1e-5)
  example fires a """g (float[1] x) => (float[1] y) { y = Abs(x) }"""
  example rejects b """g (float[1] x) => (float[1] y) { y = Abs(x) }"""
}
'''

CODES = '''
rule clamped in lower {
  """Only its text counts."""
  match y = Q(Relu(DQ(X: const u8, zp=0)), s8 per_tensor)
  where y.zp == X.zp, X.block == 0, (X.axis ?? 1) == 1
  emit  y = Cast(X + u8(X.block)) { to: s8 }
  claim exact
  example fires a """g (float[1] x) => (float[1] y) { y = Abs(x) }"""
  example rejects b """g (float[1] x) => (float[1] y) { y = Abs(x) }"""
}
'''


@pytest.fixture(scope="module")
def rule():
    return parse(TEXT, "a.rules").rules[0]


def test_every_kind_of_mutant(rule):
    found = {mutant.key for mutant in mutants(rule)}
    assert found >= {
        "drop condition: rank(W) < 5",
        "drop condition: shape(W) == [1]",
        "drop condition: lo >= 0",
        "drop guard: rank(x) == 4",
        "shift comparison: rank(W) < 5, <=",
        "shift comparison: lo >= 0, >",
        "drop const: W",
        "drop const: lo",
        "drop type: W: f32|f64",
        "drop shape: W: 3 at 2",
        "widen literal: 0.5",
        "widen literal: 2",
        "loosen attribute: group: 1 | 2",
        "loosen attribute: auto_pad: NOTSET",
        "free order: ordered (c + 2)",
        "swap operands: Conv(x, W * k) { ..c }",
        "swap operands: min(W, 3) - 1",
        "off by one: 1",
        "off by one: 5",
        "other function: min(W, 3)",
        "other sign: min(W, 3) - 1",
        "lose attributes: ..c",
    }
    shared = [key for key in found if key.startswith("share inner value")]
    assert len(shared) == 2  # the convolution and the product in Clip; the roots may be shared


def test_what_codes_are_is_not_changed(tmp_path):
    (tmp_path / "pack.yaml").write_text("name: p\ndoc: A pack.\nopset: [13, 26]\n")
    (tmp_path / "p.rules").write_text(CODES)
    (rule,) = load_pack(tmp_path, vocabulary(), []).rules
    found = {mutant.key for mutant in mutants(rule)}
    assert not [key for key in found if key.startswith("loosen attribute")]
    assert {key for key in found if key.startswith("drop const")} == {"drop const: X"}
    numbers = {key for key in found if key.startswith("off by one")}
    assert numbers == {"off by one: 0", "off by one: 0 #2", "off by one: 1", "off by one: 1 #2"}
    assert "drop condition: is_scalar(y__scale)" in found


def test_a_mutant_differs_in_one_thing(rule):
    seen = set()
    for mutant in mutants(rule):
        assert mutant.rule != rule, mutant.key
        assert mutant.rule not in seen
        seen.add(mutant.rule)
        assert (mutant.rule.name, mutant.rule.claim) == (rule.name, rule.claim)


def test_a_condition_is_dropped_whatever_stands_before_it(rule):
    changed = {m.key: m.rule for m in mutants(rule)}
    text = {key: str(mutated.steps) for key, mutated in changed.items()}
    assert "value=True" in text["drop condition: rank(W) < 5"]
    assert "value=False" in text["drop condition: shape(W) == [1]"]  # behind `not`
    assert len(changed["drop condition: lo >= 0"].steps) == len(rule.steps) - 1


@pytest.mark.parametrize("name", sorted(resources.shipped("rules")))
def test_keys_are_unique_in_shipped_rules(name):
    pack = load_pack(resources.shipped("rules")[name], vocabulary(), [resources.folder("rules")])
    for rule in pack.rules:
        if pack.origins[rule.name].pack == name:
            keys = [mutant.key for mutant in mutants(rule)]
            assert len(set(keys)) == len(keys)
