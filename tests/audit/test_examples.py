"""Examples inside rules: each way to fail has its code, position and words."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from rewrite.audit.cases.case import Outcome
from rewrite.audit.cases.run import RuleRunner
from rewrite.audit.examples import asks_target, with_header
from rewrite.lang.pack import RulePack, load_pack
from rewrite.match.vocabulary import vocabulary
from rewrite.target.target import Target

GENERIC = Target("generic", "Test.", "t.yaml", (), (7, 26), False, None)
GROUPING = Target("other", "Test.", "t.yaml", (), (7, 26), True, None)

REJECTS = 'example rejects other """g (float[2] x) => (float[2] y) { y = Neg(x) }"""'


def run_pack(pack: RulePack, targets: tuple[Target, ...] = (GENERIC,)) -> list[Outcome]:
    return [o for rule in pack.rules for o in RuleRunner(pack, rule, targets).outcomes()]


@pytest.fixture
def outcomes(tmp_path: Path):
    def run(rules: str, targets: tuple[Target, ...] = (GENERIC,)) -> list[Outcome]:
        return run_pack(pack(rules), targets)

    def pack(rules: str) -> RulePack:
        text = "name: test\ndoc: Test.\nopset: [7, 26]\nexample_opset: 18\n"
        (tmp_path / "pack.yaml").write_text(text)
        (tmp_path / "test.rules").write_text(rules)
        return load_pack(tmp_path, vocabulary())

    return run


def rule(match: str, emit: str, examples: str, claim: str = "exact", phase: str = "clean") -> str:
    emit = emit if emit.startswith("group") else f"emit {emit}"
    return (
        f'rule r in {phase} {{ """T."""\n match {match}\n {emit}\n claim {claim}\n {examples}\n}}'
    )


def fires(text: str) -> str:
    return f'example fires """{text}"""\n {REJECTS}'


RELU = "g (float[2] x) => (float[2] y) { y = Relu(x) }"
RELUS = "g (float[2] x) => (float[2] y) { m = Relu(x) y = Relu(m) }"


def test_examples_that_hold(outcomes):
    first, second = outcomes(rule("y = Relu(Relu(x))", "y = Relu(x)", fires(RELUS)))
    assert first.problem is None
    assert first.runtime == "onnxruntime"
    assert second.problem is None
    assert first.name == "r: fires 1"
    assert second.name == "r: rejects other"


@pytest.mark.parametrize(
    ("text", "code", "words"),
    [
        (rule("y = Relu(Relu(x))", "y = Relu(x)", fires("nonsense")), "RW701", "not a valid model"),
        (
            rule("y = Relu(Relu(x))", "y = Relu(x)", fires(RELUS.replace("Relu(m)", "Relu(m, m)"))),
            "RW701",
            "not a valid model",
        ),
        (
            rule("y = Relu(Relu(x))", "y = Relu(x)", fires(RELUS.replace("Relu(m)", "Abs(m)"))),
            "RW702",
            "does not fire",
        ),
        (
            rule("y = Relu(x)", "y = ReduceSum(x)", fires(RELUS)),
            "RW702",
            "the shape of 'm' would become [1]; it is [2] (refused)",
        ),
        (rule("y = Neg(x)", "y = x * (-1)", fires(RELUS)), "RW702", "does not fire"),
        (
            rule("y = Relu(x)", "y = Abs(x)", fires(RELUS), "equal(rtol=1e-5)"),
            "RW704",
            "equal(rtol=1e-05) allows",
        ),
        (
            rule("y = Sub(x, x)", "y = x * 0", fires(RELU.replace("Relu(x)", "Sub(x, x)"))),
            "RW704",
            "became",
        ),
        (
            rule(
                "y = Relu(Relu(x))",
                "y = Relu(x)",
                fires(
                    '<ir_version: 10, opset_import: ["" : 18, "own" : 1]> '
                    "g (float[2] x) => (float[2] y) <float[2] a> "
                    "{ a = own.Op(x) m = Relu(a) y = Relu(m) }"
                ),
            ),
            "RW705",
            "cannot be run",
        ),
    ],
)  # fmt: skip
def test_examples_that_fail(outcomes, text, code, words):
    problem = next(o.problem for o in outcomes(text) if o.problem is not None)
    assert problem.code == code
    assert words in problem.message
    assert problem.span is not None
    assert problem.span.line == 5


@pytest.mark.parametrize(
    "constant",
    ["int8[256] t = {}", "int8[4] t = {99999999999999999999999}", "float t = {1e999999}"],
)
def test_constants_that_the_parser_cannot_read(outcomes, constant):
    """ONNX's parser and checker raise errors of the standard library for these."""
    model = f"g (float[2] x) => (float[2] y) <{constant}> {{ m = Relu(x) y = Relu(m) }}"
    (first, _) = outcomes(rule("y = Relu(Relu(x))", "y = Relu(x)", fires(model)))
    assert first.problem is not None
    assert first.problem.code == "RW701"
    assert first.problem.span is not None
    assert first.problem.span.line == 5


# 9 steps of float32(0.1) are 1.49999996 of float32(0.6); in float32 1.5, which is rounded to 2.
IN_FLOAT32 = """g (int8[256] x) => (int8[256] y) <float s = {0.1}, float t = {0.6}, int8 z = {0}>
  { d = DequantizeLinear(x, s, z) y = QuantizeLinear(d, t, z) }"""


@pytest.mark.parametrize(("steps", "code"), [(0, "RW704"), (1, None)])
def test_steps_are_those_of_the_real_numbers(outcomes, steps, code):
    """A rule that computes as onnxruntime does, and claims to compute what is meant."""
    emit = "y = Cast(Round(Cast(X) { to: f32 } * X.scale / y.scale)) { to: s8 }"
    text = rule(
        "y = Q(DQ(X: s8 per_tensor), s8 per_tensor)", emit, fires(IN_FLOAT32), f"lsb({steps})"
    )
    (first, _) = outcomes(text)
    assert (first.problem.code if first.problem else None) == code
    if first.problem is not None:
        assert "under the exact oracle" in first.problem.message
    else:
        assert first.runtime == "the exact oracle"


def test_a_claim_of_steps_without_an_exact_value(outcomes):
    """The oracle knows no loops: then a runtime judges."""
    model = """g (float[2] x) => (float[2] y) <int64 n = {2}, bool c = {1}> {
      l = Loop(n, c, x) <body = b (int64 i, bool k, float[2] v) => (bool o, float[2] w)
        { o = Identity(k) w = Abs(v) }>
      m = Relu(l) y = Relu(m) }"""
    (first, _) = outcomes(rule("y = Relu(Relu(x))", "y = Relu(x)", fires(model), "lsb(0)"))
    assert first.problem is None
    assert first.runtime == "onnxruntime"


def test_a_rejecting_example_that_fires(outcomes):
    both = f'example fires """{RELUS}""" example rejects """{RELUS}"""'
    _, second = outcomes(rule("y = Relu(Relu(x))", "y = Relu(x)", both))
    assert second.problem is not None
    assert second.problem.code == "RW703"


def test_exact_is_tried_on_special_values(outcomes):
    """x * 1 keeps every bit; x + 0 turns -0 into 0."""
    kept = "g (float[64] x) => (float[64] y) <float c = {1}> { y = Mul(x, c) }"
    (first, _) = outcomes(rule("y = x * 1", "y = x", fires(kept)))
    assert first.problem is None
    lost = "g (float[64] x) => (float[64] y) <float c = {0}> { y = Add(x, c) }"
    (first, _) = outcomes(rule("y = x + 0", "y = x", fires(lost)))
    assert first.problem is not None
    assert first.problem.code == "RW704"
    (first, _) = outcomes(rule("y = x + 0", "y = x", fires(lost), "equal(rtol=0)"))
    assert first.problem is None


def test_rules_that_ask_for_the_target_are_tried_on_all(outcomes):
    text = "g (float[2] x) => (float[2] y) { m = Abs(x) y = Relu(m) }"
    grouped = rule("m = Abs(x) y = Relu(m)", "group y as Pair", fires(text), phase="group")
    assert outcomes(grouped)[0].problem is not None
    assert outcomes(grouped, (GENERIC, GROUPING))[0].problem is None


def test_headers():
    assert with_header("<ir_version: 8> g ...", 18) == "<ir_version: 8> g ..."
    made = with_header("g () => () { y = com.microsoft.Gelu(x) z = Relu(y) }", 17)
    assert '"" : 17, "com.microsoft" : 1' in made.splitlines()[0]


def test_the_opset_of_an_example_lies_in_the_range_of_the_rule(outcomes):
    text = rule("y = Relu(Relu(x))", "y = Relu(x)", fires(RELUS)).replace(
        "in clean", "in clean opset 20.."
    )
    assert all(outcome.problem is None for outcome in outcomes(text))


def test_asking_for_the_target():
    from rewrite.lang.parser import parse

    plain = rule("y = Relu(Relu(x))", "y = Relu(x)", fires(RELUS))
    asking = plain.replace("emit", "where target.has(Relu)\n emit")
    assert not asks_target(parse(plain, "t").rules[0])
    assert asks_target(parse(asking, "t").rules[0])


# --- packs that refine ---------------------------------------------------------------------------

PARENT = '''
rule r in clean {
  """T."""
  match y = Relu(Relu(x))
  emit  y = Relu(x)
  claim exact
  example fires vector """g (float[2] x) => (float[2] y) { m = Relu(x) y = Relu(m) }"""
  example fires matrix """g (float[2,2] x) => (float[2,2] y) { m = Relu(x) y = Relu(m) }"""
  example fires never """g (float[2] x) => (float[2] y) { m = Abs(x) y = Relu(m) }"""
  example rejects other """g (float[2] x) => (float[2] y) { y = Neg(x) }"""
}
'''


def extending(folder: Path, refinement: str, parent: str = PARENT) -> Path:
    """A pack that extends another one, whose example `never` is wrong."""
    for name, extends, rules in (
        ("parent", "", parent),
        ("child", "extends: [parent]\n", refinement),
    ):
        place = folder / name
        place.mkdir()
        head = f"name: {name}\ndoc: Test.\nopset: [7, 26]\nexample_opset: 18\n{extends}"
        (place / "pack.yaml").write_text(head)
        (place / "all.rules").write_text(rules)
    return folder / "child"


def test_examples_that_a_refinement_excludes(tmp_path):
    """Those that the rule as written takes need not fire; one that it does not take still fails."""
    child = extending(tmp_path, "refine r with where rank(x) == 2\n")
    found = {o.name: o for o in run_pack(load_pack(child, vocabulary()))}
    assert [name for name, o in found.items() if o.problem is not None] == ["r: fires never"]
    assert found["r: fires never"].problem.code == "RW702"
    assert found["r: fires matrix"].runtime
    assert not found["r: fires vector"].runtime  # nothing was compared


def test_a_variant_without_the_added_condition_keeps_the_conditions_of_the_rule(tmp_path):
    """What the variant lacks is not looked for among them."""
    own = PARENT.replace("emit ", "where rank(x) >= 2\n  emit ")
    child = extending(tmp_path, "refine r with where rank(x) == 2\n", own)
    pack = load_pack(child, vocabulary())
    (refined,) = pack.rules
    variant = replace(refined, steps=refined.steps[:-1])
    assert len(refined.steps) == 2
    found = {o.test.name: o for o in RuleRunner(pack, variant, (GENERIC,)).outcomes()}
    assert found["fires matrix"].problem is None
    assert not found["fires vector"].refined  # it is the rule's own condition that excludes it
    assert found["fires vector"].problem.code == "RW702"


def test_the_examples_of_a_pack_that_does_not_refine(tmp_path):
    child = extending(tmp_path, "")
    found = {o.name: o.runtime for o in run_pack(load_pack(child, vocabulary()))}
    assert found["r: fires vector"]
    assert found["r: fires matrix"]
