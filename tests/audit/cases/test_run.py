"""Cases, run: what a case expects holds, or fails with its code at its place."""

from __future__ import annotations

from pathlib import Path

import pytest

from rewrite.audit.cases.case import Outcome
from rewrite.audit.cases.run import RuleRunner, models_of
from rewrite.audit.examples import UnreadableError, model_of, with_header
from rewrite.errors import RewriteError
from rewrite.lang.pack import RulePack, load_pack
from rewrite.match.vocabulary import vocabulary
from rewrite.target.target import Target

GENERIC = Target("generic", "Test.", "t.yaml", (), (7, 26), False, None)
GROUPING = Target("other", "Test.", "t.yaml", (), (7, 26), True, None)

# Of x / c one rounding is lost, 1 / c and the product add two: each 2^-24 of the value at most.
DIVIDE = '''
rule divide in lower {
  """x / c = x * (1 / c)."""
  match y = x / (c: const f32)
  where size(c) == 1
  emit  y = x * (1 / c)
  claim equal(rtol=1.8e-7)
  example fires """g (float[2] x) => (float[2] y) <float c = {4}> { y = Div(x, c) }"""
  example rejects """g (float[2] x, float c) => (float[2] y) { y = Div(x, c) }"""
}
'''
BEFORE = "g (float[2] x) => (float[2] y) <float c = {4}> { y = Div(x, c) }"
VECTOR = "g (float[2] x) => (float[2] y) <float[2] c = {4, 2}> { y = Div(x, c) }"


def load(folder: Path, rules: str, cases: str = "[]") -> RulePack:
    head = "name: test\ndoc: Test.\nopset: [7, 26]\nexample_opset: 18\n"
    (folder / "pack.yaml").write_text(head)
    (folder / "test.rules").write_text(rules)
    (folder / "test.cases.yaml").write_text(cases)
    return load_pack(folder, vocabulary())


@pytest.fixture
def case(tmp_path: Path):
    def run(keys: str, before: str = BEFORE, rules: str = DIVIDE, **options) -> Outcome:
        name = rules.split()[1]
        text = f"- rule: {name}\n  name: it\n  before: |\n    {before}\n{keys}\n"
        loaded = load(tmp_path, rules, text)
        targets = options.pop("targets", (GENERIC,))
        *_, last = RuleRunner(loaded, loaded.rules[0], targets, **options).outcomes()
        assert last.test.name == "case it"
        return last

    return run


def told(outcome: Outcome) -> tuple[str, int, int]:
    """Code, line and column of the problem."""
    assert outcome.problem is not None
    assert outcome.problem.span is not None
    span = outcome.problem.span
    assert span.file.endswith(("test.cases.yaml", "test.rules"))
    return outcome.problem.code, span.line, span.column


AFTER = "g (float[2] x) => (float[2] y) <float r = {0.25}> { y = Mul(x, r) }"


@pytest.mark.parametrize(
    "keys",
    [
        f"  after: {AFTER}",
        f"  after: '<ir_version: 8, opset_import: [\"\" : 18]> {AFTER}'",
        "  fired: 1",
        "  inputs: {x: [1, 2]}\n  outputs: {y: [0.25, 0.5]}",
        "  inputs: {x: [nan, -inf]}\n  outputs: {y: [nan, -inf]}",
        "  inputs: {x: [1, 3]}\n  outputs: {y: [0.2500001, 0.75]}",
    ],
)
def test_what_holds(case, keys):
    outcome = case(keys)
    assert outcome.problem is None
    assert outcome.runtime == "onnxruntime"
    assert outcome.test.fires


@pytest.mark.parametrize(
    ("keys", "expected", "words"),
    [
        (f"  after: {AFTER.replace('0.25', '4')}", ("RW713", 5, 10), "another model than `after`"),
        (f"  after: {AFTER.replace('Mul(x, r)', 'Mul(r, x)')}", ("RW713", 5, 10), "another model"),
        (f"  after: '<ir_version: 8, opset_import: [\"\" : 17]> {AFTER}'", ("RW713", 5, 10), ""),
        ("  after: nonsense", ("RW701", 5, 10), "`after` is not a valid model"),
        ("  after:", ("RW717", 5, 3), "`after` is empty"),
        ("  fired: 2", ("RW716", 5, 10), "fires once, not 2 times"),
        (
            "  inputs: {x: [1, 2]}\n  outputs: {y: [0.25, 0.6]}",
            ("RW715", 6, 12),
            "`y` at [1]: 0.6 expected, 0.5 found, ",
        ),
        ("  inputs: {x: [1, 2]}\n  outputs: {y: [0.25, nan]}", ("RW715", 6, 12), "nan expected"),
        ("  inputs: {x: [1, nan]}\n  outputs: {y: [0.25, 2]}", ("RW715", 6, 12), "nan found"),
        ("  inputs: {x: [1, inf]}\n  outputs: {y: [0.25, -inf]}", ("RW715", 6, 12), "inf found"),
        ("  inputs: {x: [1]}\n  outputs: {y: [1, 2]}", ("RW711", 5, 11), "has shape [2], "),
        ("  inputs: {x: [1, 2]}\n  outputs: {y: [1]}", ("RW711", 6, 12), "has shape [2], "),
        ("  inputs: {z: [1, 2]}\n  outputs: {y: [1, 2]}", ("RW711", 5, 11), "no input `z`"),
        ("  inputs: {x: [1, 2]}\n  outputs: {z: [1, 2]}", ("RW711", 6, 12), "no output `z`"),
        ("  outputs: {y: [1, 2]}", ("RW711", 1, 3), "the input `x` is not given"),
        ("  rejects: where", ("RW703", 1, 3), "fires, and must not"),
    ],
)
def test_what_fails(case, keys, expected, words):
    outcome = case(keys)
    assert told(outcome) == expected
    assert words in outcome.problem.message


def test_the_difference_of_models_is_shown(case):
    outcome = case(f"  after: {AFTER.replace('0.25', '4')}")
    assert "-y = Mul(x, float{4})" in outcome.finding.details
    assert "+y = Mul(x, float{0.25})" in outcome.finding.details
    assert [key for key, _ in outcome.finding.proposed] == ["after"]


def test_wrong_numbers_of_the_original_are_told_apart(case):
    lying = DIVIDE.replace("x * (1 / c)\n  claim", "x * (3 / c)\n  claim").replace("1.8e-7", "0.9")
    right = "  inputs: {x: [1, 2]}\n  outputs: {y: [0.25, 0.5]}"
    problem = case(right, rules=lying).problem
    assert problem.code == "RW704"  # the claim is held first
    problem = case(right.replace("0.5", "0.6")).problem
    assert problem.message.endswith("; so does the model before")


def test_rules_that_do_not_fire(case):
    outcome = case("  fired: 1", VECTOR)
    assert told(outcome) == ("RW702", 1, 3)
    assert "condition" in outcome.problem.message or "where" in outcome.problem.message


@pytest.mark.parametrize(
    ("keys", "before"),
    [
        ("  rejects: where", VECTOR),
        ("  rejects: where\n  because: where:1", VECTOR),
        ("  rejects: where\n  because: size(c) == 1", VECTOR),
        ("  rejects: where\n  because: does not hold", VECTOR),
        ("  rejects: const", "g (float[2] x, float c) => (float[2] y) { y = Div(x, c) }"),
        (
            "  rejects: dtype\n  because: dtype:c",
            "g (int32[2] x) => (int32[2] y) <int32 c = {4}> { y = Div(x, c) }",
        ),
        (
            "  rejects: overridable\n  because: const:c",
            "g (float[2] x, float c = {4}) => (float[2] y) { y = Div(x, c) }",
        ),
        ("  rejects: operator", "g (float[2] x) => (float[2] y) { y = Relu(x) }"),
    ],
)
def test_reasons_that_hold(case, keys, before):
    assert case(keys, before).problem is None


@pytest.mark.parametrize(
    ("keys", "expected", "words"),
    [
        (
            "  rejects: const",
            ("RW714", 5, 12),
            "the reason is not `const`: at Div node of `y`: `size(c)",
        ),
        (
            "  rejects: where\n  because: where:2",
            ("RW714", 6, 12),
            "the reason does not say `where:2`: at",
        ),
        ("  rejects:", ("RW717", 5, 3), "`rejects` is empty: at Div node of `y`: `size(c) == 1`"),
    ],
)
def test_reasons_that_fail(case, keys, expected, words):
    outcome = case(keys, VECTOR)
    assert told(outcome) == expected
    assert words in outcome.problem.message


def test_a_reason_is_told_with_its_code_and_its_test(case):
    before = "g (float[2] x, float c = {4}) => (float[2] y) { y = Div(x, c) }"
    assert case("  rejects: where", before).problem.message.endswith("(overridable, const:c)")
    assert case("  rejects: const", VECTOR).problem.message.endswith("does not hold (where:1)")
    relu = "g (float[2] x) => (float[2] y) { y = Relu(x) }"
    assert case("  rejects: where", relu).problem.message.endswith("(operator)")


def test_an_application_that_is_refused(case):
    """The shape of the root would become another one. What it claims is never asked."""
    rules = '''rule r in clean {
      """T."""
      match y = Relu(x)
      emit  y = ReduceSum(x)
      claim exact
      example fires """g (float[2] x) => (float[2] y) { y = Relu(x) }"""
      example rejects """g (float[2] x) => (float[2] y) { y = Neg(x) }"""
    }'''
    before = "g (float[2] x) => (float[2] y) { y = Relu(x) }"
    assert case("  rejects: refused\n  because: the shape", before, rules).problem is None
    assert told(case("  rejects: where", before, rules))[0] == "RW714"


QUANTIZED = '''
rule r in clean {
  """T."""
  match y = Relu(Relu(x: s8|s32|f32|bool))
  emit  y = Relu(x)
  claim CLAIM
  example fires """g (float[2] x) => (float[2] y) { m = Relu(x) y = Relu(m) }"""
  example rejects """g (float[2] x) => (float[2] y) { y = Relu(x) }"""
}
'''
CODES = "g (int8[2] x) => (int8[2] y) { m = Relu(x) y = Relu(m) }"


@pytest.mark.parametrize(
    ("claim", "outputs", "code"),
    [
        ("exact", "[0, 100]", None),
        ("exact", "[0, 99]", "RW715"),
        # what is claimed of floats, however much, allows nothing of integers
        ("equal(rtol=0.5)", "[0, 99]", "RW715"),
        ("approx(atol=3)", "[0, 99]", "RW715"),
        ("lsb(1)", "[0, 99]", None),
        ("lsb(1)", "[0, 98]", "RW715"),
        ("exact", "[0, 128]", "RW711"),
        ("exact", "[0, 1.5]", "RW711"),
        ("exact", "[0, nan]", "RW711"),
        ("exact", "[0, true]", "RW715"),
    ],
)
def test_integers_are_equal_but_for_claimed_steps(case, claim, outputs, code):
    keys = f"  inputs: {{x: [-3, 100]}}\n  outputs: {{y: {outputs}}}"
    outcome = case(keys, CODES, QUANTIZED.replace("CLAIM", claim))
    assert (outcome.problem.code if outcome.problem else None) == code


def test_sizes_that_the_model_leaves_open_come_from_the_numbers(case):
    before = BEFORE.replace("[2]", "[N,2]")
    nested = (
        "  inputs: {x: [[4, 8], [0, -4], [1, 2]]}\n  outputs: {y: [[1, 2], [0, -1], [0.25, 0.5]]}"
    )
    assert case(nested, before).problem is None
    outcome = case("  inputs: {x: [4, 8]}\n  outputs: {y: [1, 2]}", before)
    assert told(outcome) == ("RW711", 5, 11)
    assert "`x` has shape [?, 2], its numbers have [2]" in outcome.problem.message


def test_a_flat_list_takes_the_declared_shape(case):
    before = BEFORE.replace("[2]", "[2,2]")
    keys = "  inputs: {x: [4, 8, 0, -4]}\n  outputs: {y: [1, 2, 0, -1]}"
    assert case(keys, before).problem is None


def test_a_default_need_not_be_given(case):
    before = BEFORE.replace("x)", "x, float k = {1})", 1).replace("Div(x", "Div(m")
    before = before.replace("{ y", "{ m = Add(x, k) y")
    assert case("  inputs: {x: [3, 7]}\n  outputs: {y: [1, 2]}", before).problem is None
    keys = "  inputs: {x: [3, 7], k: 5}\n  outputs: {y: [2, 3]}"
    assert case(keys, before).problem is None


def test_models_that_are_not_valid(case):
    assert told(case("  fired: 1", "nonsense")) == ("RW701", 3, 11)


def test_the_opset_of_a_case(case):
    """ReduceSum takes its axes as an attribute before opset 13."""
    keys = "  opset: 12\n  fired: 1"
    before = (
        "g (float[2] x) => (float y) <float c = {4}> "
        "{ m = Div(x, c) y = ReduceSum<axes = [0], keepdims = 0>(m) }"
    )
    assert case(keys, before).problem is None
    assert told(case("  fired: 1", before))[0] == "RW701"


def test_a_case_for_several_opsets(tmp_path):
    """A test for each: ReduceSum takes its axes as an attribute before opset 13 alone."""
    before = (
        "g (float[2] x) => (float y) <float c = {4}> "
        "{ m = Div(x, c) y = ReduceSum<axes = [0], keepdims = 0>(m) }"
    )
    cases = f"- rule: divide\n  name: v\n  opset: [11, 12, 13]\n  before: '{before}'\n  fired: 1\n"
    loaded = load(tmp_path, DIVIDE, cases)
    outcomes = RuleRunner(loaded, loaded.rules[0], (GENERIC,)).outcomes()
    found = {o.test.name: o.problem and o.problem.code for o in outcomes if o.test.case}
    assert found == {
        "case v, opset 11": None,
        "case v, opset 12": None,
        "case v, opset 13": "RW701",
    }
    models = [m for m in models_of(loaded, loaded.rules[0]) if m.name.startswith("case")]
    assert [(m.name, m.opset) for m in models] == [
        ("case v, opset 11", 11),
        ("case v, opset 12", 12),
    ]


def test_without_numbers_nothing_is_run(case):
    """What models become is still looked at."""
    keys = "  inputs: {x: [1, 2]}\n  outputs: {y: [9, 9]}"
    outcome = case(keys, numbers=False)
    assert outcome.problem is None
    assert outcome.runtime == ""
    assert told(case(f"  after: {AFTER.replace('0.25', '4')}", numbers=False))[0] == "RW713"


GROUP = '''rule pair in group {
  """T."""
  match m = Abs(x)
        y = Relu(m)
  group y as Pair
  claim exact
  example fires """g (float[2] x) => (float[2] y) { m = Abs(x) y = Relu(m) }"""
  example rejects """g (float[2] x) => (float[2] y) { y = Neg(x) }"""
}'''
PAIR = "g (float[2] x) => (float[2] y) { m = Abs(x) y = Relu(m) }"


def test_the_target_of_a_case(case):
    both = (GENERIC, GROUPING)
    assert case("  fired: 1", PAIR, GROUP, targets=both).problem is None
    assert told(case("  fired: 1\n  target: generic", PAIR, GROUP, targets=both))[0] == "RW702"
    outcome = case("  rejects: refused\n  target: generic", PAIR, GROUP, targets=both)
    assert outcome.problem is None
    outcome = case("  fired: 1\n  target: hexagon", PAIR, GROUP, targets=(GENERIC,))
    assert outcome.problem is None


def test_a_model_without_words_is_said_so(case):
    outcome = case("  after:\n  target: cortex-m", PAIR, GROUP)
    assert told(outcome) == ("RW717", 5, 3)
    assert "the domain `rewrite.cortex-m`" in outcome.problem.message
    assert outcome.finding.proposed == ()


def test_models_of_a_rule(tmp_path):
    cases = f"- rule: divide\n  name: v\n  opset: 13\n  before: {VECTOR}\n  rejects: where\n"
    cases += "  target: hexagon\n"
    wrong = "- rule: divide\n  name: w\n  before: nonsense\n  fired: 1\n"
    loaded = load(tmp_path, DIVIDE, cases + wrong)
    found = list(models_of(loaded, loaded.rules[0]))
    assert [(m.name, m.fires, m.opset) for m in found] == [
        ("fires 1", True, 18),
        ("rejects 2", False, 18),
        ("case v", False, 13),
    ]
    assert [m.target.name if m.target else None for m in found] == [None, None, "hexagon"]
    assert [n.op_type for n in found[2].proto.graph.node] == ["Div"]


def test_faults_of_files_are_raised(tmp_path):
    loaded = load(tmp_path, DIVIDE, "- rule: other\n  name: x\n  before: g\n  fired: 1\n")
    with pytest.raises(RewriteError, match="RW712"):
        RuleRunner(loaded, loaded.rules[0], (GENERIC,)).outcomes()
    with pytest.raises(RewriteError, match="RW712"):
        list(models_of(loaded, loaded.rules[0]))


@pytest.mark.parametrize("keys", ["  fired: 1", "  inputs: {x: [1, 2]}\n  outputs: {y: [1, 2]}"])
def test_a_model_without_end(case, monkeypatch, keys):
    """Every run is ended after a while, and no other runtime is tried."""
    monkeypatch.setattr("rewrite.audit.cases.run.MOST_SECONDS", 0.2)
    before = (
        "g (float[2] x) => (float[2] y) <int64 n = {9000000000000}, bool k = {1}, float c = {4}> "
        "{ l = Loop(n, k, x) <body = b (int64 i, bool j, float[2] v) => (bool o, float[2] w) "
        "{ o = Identity(j) w = Abs(v) }> y = Div(l, c) }"
    )
    outcome = case(keys, before)
    assert outcome.problem.code == "RW705"
    assert outcome.problem.message == "the test cannot be run: a run took more than 0.2 s"


GROWING = '''rule r in clean {
  """T."""
  match y = Abs(x)
  emit  y = Abs(Abs(x))
  claim exact
  example fires """g (float[2] x) => (float[2] y) { y = Abs(x) }"""
  example rejects """g (float[2] x) => (float[2] y) { y = Neg(x) }"""
}'''
TURNING = '''rule r in clean {
  """T."""
  match y = ordered (a + b)
  emit  y = b + a
  claim equal(rtol=0)
  example fires """g (float[2] a, float[2] b) => (float[2] y) { y = Add(a, b) }"""
  example rejects """g (float[2] x) => (float[2] y) { y = Neg(x) }"""
}'''


@pytest.mark.parametrize("rules", [GROWING, TURNING])
def test_a_rule_that_fires_on_its_own_result(tmp_path, rules):
    loaded = load(tmp_path, rules)
    first, second = RuleRunner(loaded, loaded.rules[0], (GENERIC,)).outcomes()
    assert told(first)[0] == "RW716"
    assert "`r` does not come to an end: it fired " in first.problem.message
    assert second.problem is None


def test_where_a_text_is_no_model(case):
    """The line is that of the text, whether a header was added or not."""
    words = "is not a valid model: line 2, column 18: Integer value expected, but not found."
    text = "g (float[2] x) => (float[2] y)\n<float16 t = {0.1}>\n{ y = Relu(x) }"
    with pytest.raises(UnreadableError, match=r"^line 2, column 18: Integer value expected"):
        model_of(text, 18)
    with pytest.raises(UnreadableError, match=r"^line 3, column 18: Integer value expected"):
        model_of(with_header(text, 18), 18)
    outcome = case("  fired: 1", text.replace("\n", "\n    "))
    assert words in outcome.problem.message
