"""Models that do not come to an end take no longer than the rule may."""

import resource

import pytest

from rewrite.audit.claims import packs
from rewrite.audit.claims.pairs_run import pairs_in
from rewrite.audit.instances.instance import Budget

SECONDS = 1.0
MOST = 12.0  # of the processor: a process that starts, proofs, what the rule may take
PACK = "name: endless\ndoc: Models without an end.\nopset: [13, 22]\n"
LOOP = """
    g ({type}[2] x) => ({type}[2] y) <int64 n = {{9000000000000000000}}, bool k = {{1}}> {{
      l = Loop(n, k, x) <body = b (int64 i, bool j, {type}[2] v) => (bool o, {type}[2] w)
        {{ o = Identity(j)  w = Abs(v) }}>
      {rest}
    }}
"""
ABSOLUTE = '''rule twice_absolute in clean {
  """||x|| = |x|."""
  match y = Abs(Abs(x))
  emit  y = Abs(x)
  claim exact
  example fires endless """%s"""
  example rejects once """g (float[2] x) => (float[2] y) { y = Abs(x) }"""
}
'''
# The second one is wrong after the first one alone: its own example is a model with an end.
NEGATED = '''rule negated in clean {
  """-x = x * -1."""
  match y = Neg(x: f32)
  emit  y = x * -1
  claim exact
  example fires endless """%s"""
  example rejects other """g (float[2] x) => (float[2] y) { y = Abs(x) }"""
}

rule doubled in clean {
  """x * -1 = 0 - x."""
  match y = (x: f32) * -1
  emit  y = 0 - x
  claim exact
  example fires plain """g (float[2] x) => (float[2] y) <float t = {-1}> { y = Mul(x, t) }"""
  example rejects other """g (float[2] x) => (float[2] y) <float t = {1}> { y = Mul(x, t) }"""
}
'''


@pytest.fixture
def pack(tmp_path):
    def write(text, type_, rest):
        (tmp_path / "pack.yaml").write_text(PACK)
        (tmp_path / "a.rules").write_text(text % LOOP.format(type=type_, rest=rest))
        return tmp_path

    return write


def children():
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


# onnxruntime has no kernel for Abs of bfloat16: there the reference evaluator runs it.
@pytest.mark.parametrize(
    ("type_", "runtime"), [("float", "onnxruntime"), ("bfloat16", "onnx.reference")]
)
def test_a_rule_is_undecided_within_its_time(pack, type_, runtime):
    folder = pack(ABSOLUTE, type_, "a = Abs(l)  y = Abs(a)")
    begin = children()
    (result,) = packs.verify(packs.units([folder], []), ["generic"], Budget(seconds=SECONDS), 1)
    assert children() - begin < MOST
    assert (result.status, result.problem().code) == ("undecided", "RW732")
    assert result.how == (
        f"is undecided: 1 s of processor time were over while {runtime} runs the original, "
        "on example endless"
    )
    assert result.crashes == ()


def test_pairs_are_late_within_their_time(pack, monkeypatch):
    folder = pack(NEGATED, "float", "y = Neg(l)")
    monkeypatch.setattr("rewrite.audit.claims.pairs_run.LEAST_SECONDS", 0.0)
    begin = children()
    (found,) = pairs_in([folder], 4.0, 1, frozenset())
    assert children() - begin < MOST
    assert (found.late, found.results) == (1, ())
