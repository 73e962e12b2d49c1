"""Rules that meet: order, shadows, what each order ends with, loops, the measure of a phase."""

from __future__ import annotations

from collections import Counter

import pytest

from rewrite.audit.lint.measure import Change, changes_of, unordered
from rewrite.audit.lint.outcome import outcomes
from rewrite.audit.lint.subject import open_pack
from rewrite.audit.lint.unify import may_compete
from rewrite.lang.parser import parse
from rewrite.match.vocabulary import vocabulary


def rule(
    name: str, match: str, emit: str, more: str = "", fires: str = "", claim: str = "exact"
) -> str:
    body = fires or "{ n = Neg(x)  y = Abs(n) }"
    return (
        f'rule {name} in clean {more}{{\n  """x becomes y."""\n  match {match}\n  emit  {emit}\n'
        f'  claim {claim}\n  example fires plain """g (float[2] x) => (float[2] y) {body}"""\n'
        '  example rejects other """g (float[2] x) => (float[2] y) { y = Abs(x) }"""\n}\n'
    )


NEGATED = rule("absolute_of_negated", "y = Abs(Neg(x))", "y = Abs(x)")
SAME = rule("same_size", "y = Abs(Neg(x: f32))", "y = Abs(Abs(x))", claim="equal(rtol=0.1)")
LARGER = rule(
    "larger", "y = Abs(Neg(Abs(x)))", "y = Abs(x)", fires="{ a = Abs(x)  n = Neg(a)  y = Abs(n) }"
)


def codes(lint, text: str, *chosen: str) -> list[tuple[str, str]]:
    return [(f.code, f.subject) for f in lint(text, *chosen)]


def test_two_rules_of_one_size_need_an_order(lint):
    assert codes(lint, SAME + NEGATED, "RW901") == [("RW901", "same_size")]
    ordered = SAME.replace("in clean {", "in clean over absolute_of_negated {")
    assert codes(lint, ordered + NEGATED, "RW901") == []


def test_the_larger_rule_needs_none(lint):
    assert codes(lint, NEGATED + LARGER, "RW901") == []


def test_an_order_by_way_of_a_third_rule_counts(lint):
    first = SAME.replace("in clean {", "in clean over middle {")
    middle = rule("middle", "y = Abs(Neg(x: f16|f32))", "y = Abs(x)", "over absolute_of_negated ")
    found = codes(lint, first + middle + NEGATED, "RW901")
    assert found == []


def test_rules_that_cannot_both_be_applied_do_not_overlap(lint):
    """The second one matches, but what it makes has another shape."""
    text = rule("keeps", "y = Abs(Neg(x: f32))", "y = Abs(x)") + rule(
        "widens", "y = Abs(Neg(x))", "y = Reshape(Abs(x), s64([1, 2]))"
    )
    assert codes(lint, text, "RW901") == []


def test_the_general_rule_shadows_the_special_one(lint):
    special = rule("special", "y = Abs(Neg(x: f32))\n  where rank(x) == 1", "y = Abs(x)")
    assert codes(lint, NEGATED + special, "RW902") == [("RW902", "special")]
    # the other way round the special one goes first
    assert codes(lint, special + NEGATED, "RW902") == []


@pytest.mark.parametrize(
    ("general", "special"),
    [
        # a condition that does not follow
        ("y = Abs(Neg(x))\n  where rank(x) == 2", "y = Abs(Neg(x: f32))\n  where rank(x) >= 1"),
        # a weaker promise may be refused where the other one is not
        ("y = Abs(Neg(x))", "y = Abs(Neg(x: f32))"),
        # another type
        ("y = Abs(Neg(x: f32))", "y = Abs(Neg(x: f32|f16))"),
    ],
)
def test_what_shadows_nothing(lint, general, special):
    claim = "equal(rtol=0.1)" if "where" not in general else "exact"
    text = rule("general", general, "y = Abs(x)", claim=claim) + rule(
        "special", special, "y = Abs(x)"
    )
    assert codes(lint, text, "RW902") == []


def test_a_condition_that_follows_from_those_of_the_other(lint):
    text = rule("general", "y = Abs(Neg(x))\n  where rank(x) >= 1", "y = Abs(x)") + rule(
        "special", "y = Abs(Neg(z))\n  where rank(z) == 1", "y = Abs(z)"
    )
    assert codes(lint, text, "RW902") == [("RW902", "special")]


@pytest.mark.parametrize(
    ("general", "special", "found"),
    [
        # statements are looked through
        ("n = Neg(x)\n        y = Abs(n)", "y = Abs(Neg(x: f32))", True),
        ("y = Abs(Neg(x))", "m = Neg(z: f32)\n        v = Abs(m)", True),
        ("n = Neg(x)\n        y = Abs(n)", "m = Neg(z: f32)\n        v = Abs(m)", True),
        # a condition on a statement, or on the root, in the names of the other rule
        (
            "n = Neg(x)\n        y = Abs(n)\n  where rank(n) >= 1, rank(y) >= 1",
            "m = Neg(z: f32)\n        v = Abs(m)\n  where rank(m) == 1, rank(v) == 1",
            True,
        ),
        (
            "n = Neg(x)\n        y = Abs(n)\n  where rank(y) >= 1",
            "m = Neg(y: f32)\n        v = Abs(m)\n  where rank(y) == 1",
            False,
        ),
    ],
)
def test_statements(lint, general, special, found):
    root = "v" if "v = " in special else "y"
    operand = special.split("Neg(")[1].split(":")[0]
    text = rule("general", general, "y = Abs(x)")
    text += rule("special", special, f"{root} = Abs({operand})")
    assert (codes(lint, text, "RW902") == [("RW902", "special")]) is found


def test_duplicates_differ_in_names_only(lint):
    other = rule("again", "b = Abs(Neg(a))", "b = Abs(a)")
    assert codes(lint, NEGATED + other, "RW90") == [("RW906", "again")]
    swapped = rule("again", "b = Neg(Abs(a))", "b = Abs(a)")
    assert codes(lint, NEGATED + swapped, "RW906") == []
    apart = (
        NEGATED.replace("in clean {", "in clean opset ..12 {"),
        other.replace("in clean {", "in clean opset 13.. {"),
    )
    assert codes(lint, "".join(apart), "RW906") == []


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        ("Abs(x)", "Abs(Neg(x))", True),
        ("Abs(x)", "Neg(x)", False),
        ("Abs(Neg(x))", "Abs(Relu(x))", False),
        ("Abs(Neg(x) | Relu(x))", "Abs(Relu(x))", True),
        ("x + (c: const)", "Neg(x) + Neg(z)", False),
        ("Add(Neg(x), z)", "Add(x, Abs(z))", True),
        ("Sub(Neg(x), z)", "Sub(Abs(x), z)", False),
        ("Sub(x, 2)", "Sub(x, 3)", False),
        ("x * 2", "x * 3", True),  # 2 * 3
        ("x * 2", "x * (k: const)", True),
        ("Softmax(x) { axis: 0 }", "Softmax(x) { axis: 1 }", False),
        ("Softmax(x) { axis: 0 | 1 }", "Softmax(x) { axis: 1 }", True),
        ("Abs(x: f32)", "Abs(x: f16)", False),
        ("Abs(x: [2, 3])", "Abs(x: [2])", False),
        ("Abs(x: [2, ...])", "Abs(x: [2])", True),
        ("Clip(x)", "Clip(x, lo: const)", False),
        ("Clip(x)", "Clip(x, lo?: const)", True),
        ("prod{a, b, c}", "Mul(a, b)", True),
        ("prod{a, b, c}", "Add(a, b)", False),
    ],
)
def test_which_patterns_can_meet(write, first, second, expected):
    text = rule("one", f"y = {first}", "y = zeros(shape(y), f32)") + rule(
        "two", f"y = {second}", "y = zeros(shape(y), f32)"
    )
    subject = open_pack(write(text))
    assert may_compete(subject.compiled["one"], subject.compiled["two"]) is expected


def test_an_unreachable_branch(lint):
    text = rule("r", "y = Abs(Neg(x) | Neg(x: f32))", "y = Abs(x)")
    assert codes(lint, text, "RW914") == [("RW914", "r")]
    for reached in (
        "Neg(x: f32) | Neg(x)",
        "Neg(x) if (rank(x) == 1) | Neg(x)",
        "Neg(x) | Relu(x)",
    ):
        text = rule("r", f"y = Abs({reached})", "y = Abs(x)")
        assert codes(lint, text, "RW914") == []


# --- results of both orders


def test_both_orders_are_run(write):
    """-|x| under |.|: either rule takes the Neg; one leaves |x|, and so does the other."""
    inner = rule(
        "negate_absolute", "y = Neg(Abs(x))", "y = Sub(0, Abs(x))", claim="equal(rtol=0)",
        fires="{ a = Abs(x)  y = Neg(a) }",
    )  # fmt: skip
    subject = open_pack(write(NEGATED + inner))
    (pair,) = subject.meetings.pairs
    assert set(pair) == {"absolute_of_negated", "negate_absolute"}
    (meeting, *_) = subject.meetings.pairs[pair]
    assert not meeting.same_anchor
    ends = dict(zip(pair, outcomes(meeting), strict=True))
    assert ends["absolute_of_negated"].operators == ("Abs", "Abs")
    assert ends["negate_absolute"].operators == ("Abs", "Abs", "Sub")


def test_the_finding_names_both_ends(lint):
    inner = rule(
        "negate_absolute", "y = Neg(Abs(x))", "y = Sub(0, Abs(x))", claim="equal(rtol=0)",
        fires="{ a = Abs(x)  y = Neg(a) }",
    )  # fmt: skip
    (finding,) = lint(NEGATED + inner, "RW903")
    assert "Abs, Abs or Abs, Abs, Sub" in (finding.hint or "")


def test_rules_that_undo_each_other(lint):
    there = rule("there", "y = Abs(Neg(x))", "y = Relu(x)", claim="approx(atol=1)")
    back = rule(
        "back", "y = Relu(x)", "y = Abs(Neg(x))", claim="approx(atol=1)",
        fires="{ y = Relu(x) }",
    )  # fmt: skip
    (finding,) = lint(there + back, "RW904")
    assert finding.message == "these rules do not come to an end: there -> back -> there"
    assert codes(lint, there, "RW904") == []


# --- the measure of a phase


def change(name: str, least: dict[str, int], most: dict[str, int]) -> Change:
    return Change(name, Counter(least), Counter(most))


def test_counts_of_a_rule():
    (tree,) = (
        parse(rule("r", "y = prod{a, b, c} - Relu(shared Neg(x))", "y = Abs(a) * b"), "f").rules,
    )
    (found,) = changes_of(tree[0], vocabulary())
    assert found.least == {"Mul": 2, "Sub": 1, "Relu": 1, "Neg": 1}
    assert found.most == {"Abs": 1, "Mul": 1}


def test_ways_of_alternatives_and_cases():
    text = rule("r", "y = Neg(x) as neg | Abs(Relu(x))", "y = case { neg: Sub(x, x); else: x }")
    found = changes_of(parse(text, "f").rules[0], vocabulary())
    pairs = [(dict(c.least), dict(c.most)) for c in found]
    assert pairs == [({"Neg": 1}, {"Sub": 1}), ({"Abs": 1, "Relu": 1}, {})]


def test_repeated_operators_neither_come_nor_go():
    text = rule("r", "y = Neg(x) | Abs(x)", "y = @y(Relu(x))")
    found = changes_of(parse(text, "f").rules[0], vocabulary())
    assert [c.grows("Neg") for c in found] == [0, 0]
    assert [c.grows("Relu") for c in found] == [1, 1]


def test_a_chain_of_operators_is_ordered():
    """A -> B, B -> C C: no A is made, then no B, then nothing is left."""
    rules = [change("a", {"A": 1}, {"B": 1}), change("b", {"B": 1}, {"C": 2})]
    assert unordered(rules) == ()


def test_a_circle_is_not():
    rules = [change("a", {"A": 1}, {"B": 2}), change("b", {"B": 1}, {"A": 1})]
    assert unordered(rules) == tuple(rules)
    with_exit = [*rules, change("c", {"D": 1, "A": 1}, {"A": 3})]
    assert [c.rule for c in unordered(with_exit)] == ["a", "b"]  # D is never made
