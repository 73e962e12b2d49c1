"""Proposed cases show what they say, hold as tests, and are put together."""

from lab import fires, lab, pack, rejects, rule

from rewrite.audit.cases.run import RuleRunner
from rewrite.audit.coverage.run import loaded
from rewrite.audit.coverage.suggest.combine import join
from rewrite.audit.coverage.suggest.run import suggest
from rewrite.audit.coverage.suggest.write import write
from rewrite.audit.examples import model_of

# c k = -(-c k), exactly
BODY = (
    "  match c = Clip(Relu(x) as relu | Abs(x) as abs | Neg(x), lo?: const)\n"
    "        y = c * (k: const f32|f16)\n  where rank(x) <= 2\n"
    "  emit y = Neg(Neg(case { abs: Clip(Abs(x), lo); relu: Clip(Relu(x), lo);\n"
    "                         else: Clip(Neg(x), lo) }) * k)"
)
RULES = rule(
    "r",
    BODY,
    fires(
        "a",
        "g (float[2] x) => (float[2] y) <float k = {3}>"
        " { m = Relu(x)  c = Clip(m)  y = Mul(c, k) }",
    ),
)


def test_proposals_show_what_they_say_and_hold(tmp_path):
    before = lab(tmp_path / "a", RULES, opset=(13, 18))
    found = suggest({before.job: before.measured})
    proposals = [proposal for one in found for proposal in one.proposals]
    promised = {key for proposal in proposals for key in proposal.keys}
    assert promised == before.missing("r") - {item.key for one in found for item in one.left}
    assert promised >= {
        "branch:1.2", "branch:1.3", "optional:lo=present", "order:Mul=swapped", "dtype:k=f16",
        "const:k=false", "uses:c=false", "where:1=false", "opset=13", "arm:1.1", "arm:1.3",
        "const:lo=true", "dtype:k=false", "uses:Relu=false",
    }  # fmt: skip
    after = lab(tmp_path / "b", RULES, opset=(13, 18), cases=write(proposals))
    assert promised <= after.shown("r")
    read, targets = loaded(after.job)
    outcomes = list(RuleRunner(read, read.rules[0], targets).outcomes())
    assert len(outcomes) == 2 + len(proposals)
    assert [outcome for outcome in outcomes if outcome.problem is not None] == []
    # put together: far fewer cases than items
    assert len(proposals) <= len(promised) / 2


def test_the_same_is_proposed_again(tmp_path):
    before = lab(tmp_path / "lab", RULES, opset=(18, 18))
    texts = [
        write([p for one in suggest({before.job: before.measured}) for p in one.proposals])
        for _ in range(2)
    ]
    assert texts[0] == texts[1]


def test_opsets_are_one_case_of_a_name_that_is_free(tmp_path):
    body = "  match y = Relu(Relu(x))\n  emit y = Relu(x)"
    text = "g (float[2] x) => (float[2] y) { r = Relu(x)  y = Relu(r) }"
    there = "- rule: r\n  name: other opsets\n  before: |\n    "
    there += text.replace("[2]", "[3]") + "\n  fired: 1\n"
    before = lab(tmp_path / "a", rule("r", body, fires("a", text)), opset=(7, 18), cases=there)
    (found,) = suggest({before.job: before.measured})
    cases = {proposal.case.name: proposal for proposal in found.proposals}
    # Relu has the versions 6, 13 and 14; the examples are of opset 18
    merged = cases["other opsets 2"]
    assert merged.keys == ("opset=13", "opset=7..12")
    assert [7 <= n < 14 for n in merged.case.opsets] == [True, True]
    after = lab(
        tmp_path / "b",
        rule("r", body, fires("a", text)),
        opset=(7, 18),
        cases=there + write(found.proposals),
    )
    assert set(merged.keys) <= after.shown("r")


def test_a_rule_that_is_wrong_is_doubted(tmp_path):
    body = "  match y = Clip(x, lo?: const)\n  emit y = Relu(x)"
    text = "g (float[2] x) => (float[2] y) <float l = {0}> { y = Clip(x, l) }"
    before = lab(tmp_path, rule("r", body, fires("a", text)))
    (found,) = suggest({before.job: before.measured})
    assert [doubt.keys for doubt in found.doubts] == [("optional:lo=absent",)]
    assert found.doubts[0].problem.code == "RW704"
    assert "optional:lo=absent" in {item.key for item in found.left}


def test_what_is_missing_of_a_pattern_is_proposed_once(tmp_path):
    rules = "pattern unary(x) = Relu(x) | Abs(x)\n\n"
    for name, operator in (("a", "Neg"), ("b", "Exp")):
        body = (
            f"  match v = unary(x)\n        y = {operator}(v)\n  emit y = {operator}(Identity(v))"
        )
        text = f"g (float[2] x) => (float[2] y) {{ m = Relu(x)  y = {operator}(m) }}"
        rules += rule(name, body, fires("a", text))
    before = lab(tmp_path, rules)
    found = suggest({before.job: before.measured})
    keys = [key for one in found for p in one.proposals for key in p.keys]
    assert keys.count("branch:1.2") == 1


def test_graphs_side_by_side_share_what_is_equal():
    first = model_of("g (float[2] x) => (float[2] y) <float k = {1}> { y = Mul(x, k) }", 18)
    second = model_of("g (float[2] x) => (float[2] y) <float k = {2}> { y = Mul(x, k) }", 18)
    both = join(first, second, shared=True)
    assert [v.name for v in both.graph.input] == ["x"]
    assert sorted(t.name for t in both.graph.initializer) == ["k", "k2"]
    assert [(list(n.input), list(n.output)) for n in both.graph.node] == [
        (["x", "k"], ["y"]), (["x", "k2"], ["y2"]),
    ]  # fmt: skip
    apart = join(first, second, shared=False)
    assert [v.name for v in apart.graph.input] == ["x", "x2"]


def test_nothing_is_proposed_where_nothing_is_missing(tmp_path):
    body = "  match y = Neg(Relu(x))\n  emit y = Neg(x)"
    text = "g (float[2] x) => (float[2] y) { m = Relu(x)  y = Neg(m) }"
    seen = "g (float[2] x) => (float[2] y, float[2] m) { m = Relu(x)  y = Neg(m) }"
    before = lab(tmp_path, rule("r", body, fires("a", text) + rejects("b", seen)))
    assert before.missing("r") == set()
    assert suggest({before.job: before.measured}) == ()
    assert pack
