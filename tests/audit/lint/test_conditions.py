"""What is told of conditions before any match."""

from __future__ import annotations

import pytest

from rewrite.audit.lint.domain import Domain, compared, one_of
from tests.audit.lint.packs import rule

NEG = "  match y = Neg({})\n  where {}\n  emit  y = Neg(Identity({}))\n  claim exact"


def told(lint, operand: str, where: str, code: str = "RW91") -> list[tuple[str, str]]:
    name = operand.split(":", maxsplit=1)[0]
    text = rule(NEG.format(operand, where, name))
    return [(f.code, f.message.split("`")[1]) for f in lint(text, code)]


@pytest.mark.parametrize(
    ("operand", "where", "expected"),
    [
        # types of the pattern
        ("x: f32", "dtype(x) == f32", [("RW911", "dtype(x) == f32")]),
        ("x: f32|f16", 'dtype(x) in ["f32", "f16", "f64"]', ["RW911"]),
        ("x: f32|f16", "dtype(x) == f32", []),
        ("x: f32", "x.dtype != f16", ["RW911"]),
        ("x: f32", "dtype(x) == s8", ["RW912"]),
        ("x", "dtype(x) == u8", ["RW912"]),  # Neg takes no unsigned integers
        ("x", "dtype(x) == f32", []),
        ("x: s8|s16", "not dtype(x) == f32", ["RW911"]),
        # ranks
        ("x: [2, _]", "rank(x) == 2", ["RW911"]),
        ("x: [2, ...]", "rank(x) >= 1", ["RW911"]),
        ("x: [2, ...]", "rank(x) == 0", ["RW912"]),
        ("x: [2, ...]", "rank(x) >= 2", []),
        ("x", "rank(x) >= 0", []),  # asks whether the rank is known
        ("x", "rank(x) < 0", ["RW912"]),
        ("x: const", "rank(x) >= 0", ["RW911"]),
        ("x: const", "is_const(x)", ["RW911"]),
        ("x", "is_const(x)", []),
        # literals
        ("x", "rank(x) > 1 or 2 > 1", ["RW911"]),
        ("x", "rank(x) > 1 or 2 < 1", [("RW912", "2 < 1")]),
        # told before
        ("x", "rank(x) >= 3, rank(x) >= 2", [("RW913", "rank(x) >= 2")]),
        ("x", "rank(x) >= 3, 2 < rank(x)", ["RW913"]),
        ("x", "rank(x) >= 2, rank(x) >= 3", []),
        ("x", "rank(x) >= 3, rank(x) <= 2", ["RW912"]),
        ("x", "rank(x) == 3, rank(x) in [2, 3]", ["RW913"]),
        ("x", "rank(x) != 3, rank(x) != 3", ["RW913"]),
        ("x", "not rank(x) >= 3, rank(x) < 4", ["RW913"]),
        ("x", "rank(x) == 3 and dim(x, 0) == 1 and dim(x, 0) == 1", ["RW913"]),
        ("x: const", "x > 0, x >= 0", ["RW913"]),
        ("x: const", "not x > 0, x <= 0", []),  # some element above 0 is not all of them
        ("x: const", "x > 0, x > 1", []),
    ],
)
def test_verdicts(lint, operand, where, expected):
    found = told(lint, operand, where)
    assert [pair if isinstance(want, tuple) else pair[0]
            for pair, want in zip(found, expected, strict=False)] == expected  # fmt: skip
    assert len(found) == len(expected)


def test_lets_are_looked_through(lint):
    text = rule(
        "  match y = Neg(x)\n  let   n = rank(x)\n  where n >= 3, rank(x) > 1\n"
        "  emit  y = Neg(Identity(x))\n  claim exact"
    )
    assert [f.code for f in lint(text, "RW91")] == ["RW913"]


def test_conditions_of_an_alternative_do_not_hold_outside_of_it(lint):
    text = rule(
        "  match y = Neg(x) as neg | Identity(Neg(x))\n"
        "  where if neg: rank(x) >= 3\n  where rank(x) >= 2\n"
        "  emit  y = Neg(Identity(x))\n  claim exact"
    )
    assert lint(text, "RW91") == ()


def test_a_type_in_one_branch_only_is_not_certain(lint):
    text = rule(
        "  match y = Neg(x: f32) | Identity(Neg(x))\n  where dtype(x) == f32\n"
        "  emit  y = Neg(Identity(x))\n  claim exact"
    )
    assert lint(text, "RW91") == ()


def test_guards_of_branches(lint):
    text = rule(
        "  match y = Neg(x: f32) if (dtype(x) == f32) | Neg(x: f16)\n"
        "  emit  y = Neg(Identity(x))\n  claim exact"
    )
    assert [f.code for f in lint(text, "RW91")] == []  # x has another type in the other branch
    text = rule(
        "  match y = Neg(x: f32) | Identity(Neg(x: f32)) if (dtype(x) == f32)\n"
        "  emit  y = Neg(Identity(x))\n  claim exact"
    )
    assert [f.code for f in lint(text, "RW91")] == ["RW911"]


@pytest.mark.parametrize(
    ("first", "second", "within", "apart"),
    [
        (Domain(low=3), Domain(low=2), True, False),
        (Domain(low=2), Domain(low=2, low_open=True), False, False),
        (Domain(low=2, low_open=True, whole=True).meet(Domain()), Domain(low=3), True, False),
        (Domain(high=2), Domain(low=2), False, False),
        (Domain(high=2, high_open=True), Domain(low=2), False, True),
        (one_of(frozenset((1, 2))), Domain(low=1, high=2), True, False),
        (one_of(frozenset(("f32",))), one_of(frozenset(("f16",))), False, True),
        (Domain(low=2, high=2), one_of(frozenset((2, 3))), True, False),
    ],
)
def test_domains(first, second, within, apart):
    assert first.within(second) is within
    assert first.meet(second).empty is apart


def test_comparisons_as_domains():
    assert compared("<", 3) == Domain(high=3.0, high_open=True)
    assert compared(">=", 2) == Domain(low=2.0)
    assert compared("==", "f32") == one_of(frozenset(("f32",)))
    assert compared("<", "f32") is None
