"""Expressions: operators, unknown facts, conditions, `let`, `case`, `forall`."""

from __future__ import annotations

import re

import numpy as np
import pytest

from rewrite.match.values import OverBudget, Symbol, Tensor, Unknown, element_limit
from rewrite.target.target import GroupKind, Target
from tests.match.support import read_model

CONSTANTS = """g (float[N,3] x, float[2,3] z) => (float[N,3] y)
    <float[3] v = {1,2,4}, float[2,1] c = {10,20}, int64[2] i = {7,-2}, float16[1] h = {15360},
     double d = {0.5}> { y = Mul(x, v) }"""


@pytest.fixture
def model():
    return read_model(CONSTANTS)


@pytest.fixture
def of(compute, model):
    """The value of an expression over the values of CONSTANTS and some lists."""
    names = {n: model.value(n) for n in ("x", "z", "v", "c", "i", "h", "d", "y")}
    names |= {"p": (1, 0, 2), "n": 5, "absent": None, "a": 0.25, "mode": "linear"}
    return lambda text, **more: compute(text, {**names, **more}, model)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1 + 2 * 3", 7), ("2 ** 3 ** 2", 512), ("-2 ** 2", -4), ("7 // 2", 3), ("-7 // 2", -4),
        ("-7 % 3", 2), ("6 / 3", 2), ("7 / 2", 3.5), ("2 ** -1", 0.5), ("1 - 1 - 1", -1),
        ("n - 1", 4), ("a * 4", 1.0), ("[1, 2] + [3, 4]", (4, 6)), ("p + 1", (2, 1, 3)),
        ("p * 2 - [0, 0, 1]", (2, 0, 3)), ("concat([1], [2, 3])", (1, 2, 3)), ("p[0]", 1),
        ("p[-1]", 2), ("p[1:]", (0, 2)), ("p[:2]", (1, 0)), ("p[-2:]", (0, 2)),
        ("[n, a]", (5, 0.25)),
        ("absent ?? 3", 3), ("n ?? 3", 5), ("2 in p", True), ("3 in p", False),
        ("3 not in p", True),
        ("n == 5", True), ("i == [7, -2]", True), ("i == [7]", False), ("n != 5", False),
        ("n < 5", False), ("p == [1, 0, 2]", True),
        ("p == [1, 0]", False), ('mode == "linear"', True), ('mode in ["cubic", "linear"]', True),
        ("not (n == 4)", True), ("n > 1 and a < 1", True), ("n > 9 or a < 1", True),
        ("forall k in p: k >= 0", True), ("forall k in p: k > 0", False),
        ("forall k in []: false", True),
        ("f32 == dtype(v)", True), ("dtype(v) in [f16, bf16]", False), ("len(p) == 3", True),
        ("rank(x)", 2), ("shape(z)", (2, 3)), ("dim(z, -1)", 3), ("z.rank", 2),
        ("z.shape", (2, 3)),
        ("is_const(v) and not is_const(x)", True), ("scalar(h)", 1.0), ("x == x", True),
        ("x == z", False),
    ],
)  # fmt: skip
def test_values(of, text, value):
    found = of(text)
    assert found == value
    assert type(found) is type(value)


@pytest.mark.parametrize(
    ("text", "value", "dtype"),
    [
        ("v + 1", [2, 3, 4 + 1], "f32"), ("1 - v", [0, -1, -3], "f32"),
        ("v * c", [[10, 20, 40], [20, 40, 80]], "f32"),
        ("v / 2", [0.5, 1, 2], "f32"), ("v ** 2", [1, 4, 16], "f32"), ("-v", [-1, -2, -4], "f32"),
        ("v + [1, 0, 1]", [2, 2, 5], "f32"), ("i // 2", [3, -1], "s64"), ("i % 3", [1, 1], "s64"),
        ("v > 1", [False, True, True], "bool"), ("sqrt(v)", [1, 2**0.5, 2], "f32"),
    ],
)  # fmt: skip
def test_constants(of, text, value, dtype):
    found = of(text)
    assert isinstance(found, Tensor)
    assert found.dtype == dtype
    np.testing.assert_array_equal(found.array, np.array(value))


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("x + 1", "`x` is not constant"), ("v + d", "element types f32 and f64 differ"),
        ("dim(x, 0) == 3", "the size N is not known"),
        ("dim(x, 0) + 1", "the size N is not known"), ("1 // 0", "division by zero"),
        ("i % 0", "division by zero"),
        ("p[3]", "place 3 is not within"), ("p + [1]", "different lengths"),
        ("absent + 1", "absent operand"),
        ("sqrt(mode)", "is not a constant"), ("2 ** 70", "out of the range of int64"),
        ("9223372036854775807 + 1", "out of the range"),
        ("3037000500 * i ** 60", "out of the range of int64"), ('mode < "z"', "cannot be compared"),
        ("v + [1, 2]", "do not broadcast"),
        ("reshape(v, [2])", "reshape: "), ("case { absent: 1 }", "no arm"),
        ("1 and true", "neither true nor false"),
    ],
)  # fmt: skip
def test_unknown(of, text, reason):
    with pytest.raises(Unknown, match=re.escape(reason)):
        of(text)


# --- what is not known ---------------------------------------------------------------------------


def test_sizes_that_are_not_known(of):
    assert of("shape(x)") == (Symbol("N"), 3)
    assert of("dim(x, 0) == dim(y, 0)") is True, "equal names are equal sizes"
    assert of("shape(x) == shape(y)") is True
    assert of("shape(x) == [1, 2]") is False, "3 is not 2, whatever N is"
    for text in ("dim(x, 0) == 3", "dim(x, 0) != 3", "shape(x) == shape(z)", "size(x) > 1"):
        with pytest.raises(Unknown):
            of(text)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("unknown or true", True), ("true or unknown", True), ("unknown and false", False),
        ("false and unknown", False), ("unknown or false", None), ("unknown and true", None),
        ("not unknown", None), ("unknown or unknown", None), ("forall k in [1, 2]: unknown", None),
        ("forall k in [1, 2]: unknown and k > 1", False), ("3 in [dim(x, 0), 3]", True),
        ("4 in [dim(x, 0), 3]", None), ("5 == dim(x, 0)", None),
    ],
)  # fmt: skip
def test_kleene_logic(of, text, value):
    text = text.replace("unknown", "(dim(x, 0) == 3)")
    if value is not None:
        assert of(text) is value
        return
    with pytest.raises(Unknown):
        of(text)


def test_conditions_that_cannot_be_told_do_not_hold(ask):
    text = "g (float[N] x) => (float[N] y) { y = Relu(x) }"
    found = ask("y = Relu(x)", text, "y", "where dim(x, 0) == 3")
    assert (found.code, found.reason) == ("unknown", "the size N is not known")
    found = ask("y = Relu(x)", text, "y", "where dim(x, 0) != 3")
    assert found.code == "unknown"


# --- clauses -------------------------------------------------------------------------------------

RELU = "g (float[2] x) => (float[2] y) { y = Relu(x) }"


def test_let_and_where(ask):
    assert ask("y = Relu(x)", RELU, "y", "let n = dim(x, 0) m = n + 1 where m == 3")
    assert ask("y = Relu(x)", RELU, "y", "let n = dim(x, 0) where n == 3").code == "where"


def test_a_let_that_cannot_be_computed_matters_where_it_is_used(ask):
    assert ask("y = Relu(x)", RELU, "y", "let n = x + 1")
    found = ask("y = Relu(x)", RELU, "y", "let n = x + 1 where min_of(n) > 0")
    assert (found.code, found.reason) == ("unknown", "value `x` is not constant")


CLIP = "g (float[2] x) => (float[2] y) <float k = {3}> { y = Clip(x%s) }"


def test_conditions_on_what_is_present(ask):
    pattern = "y = Clip(x, lo?: const, hi?: const)"
    for text, matches in (("", True), (", k", False), (', "", k', True)):
        assert bool(ask(pattern, CLIP % text, "y", "where if lo: scalar(lo) < 0")) is matches


def test_case_takes_the_first_arm_that_holds(ask):
    pattern = "y = Clip(x, lo?: const, hi?: const)"
    let = "let b = case { hi: scalar(hi); lo: scalar(lo) + 1; else: 0 } where b == %d"
    for text, value in (("", 0), (", k", 4), (', "", k', 3), (", k, k", 3)):
        assert ask(pattern, CLIP % text, "y", let % value)


def test_case_on_a_condition(ask):
    more = "let big = dim(x, 0) > %d a = case { big: 1; else: 2 } where a == %d"
    assert ask("y = Relu(x)", RELU, "y", more % (1, 1))
    assert ask("y = Relu(x)", RELU, "y", more % (2, 2))


def test_a_comparison_of_constants_holds_where_all_elements_do(ask):
    text = "g (float[3] x) => (float[3] y) <float[3] v = {1,2,4}> { y = Mul(x, v) }"
    assert ask("y = Mul(x, v: const)", text, "y", "where v > 0")
    assert ask("y = Mul(x, v: const)", text, "y", "where v > 1").code == "where"
    assert ask("y = Mul(x, v: const)", text, "y", "where not (v > 1)"), "not all are above 1"


def test_what_a_target_says(ask):
    target = Target(
        "t", "", "t.yaml", (), (7, 20), True, frozenset({("", "Relu")}),
        kinds={"line": GroupKind(frozenset({("", "Relu")}), epilogue=frozenset({("", "Neg")}))},
    )  # fmt: skip
    text = "g (float[2] x) => (float[2] y) { t = Relu(x) y = Neg(t) }"
    pattern = "y = Neg(Relu(x))"
    for condition, matches in [
        ("target.has(Relu)", True), ("target.has(Relu, f32)", True),
        ("target.has(ms.Gelu)", False),
        ("target.fuses(y)", True), ("target.opset >= 20", True), ('target.name == "t"', True),
        ("target.groups", True), ("not target.groups", False),
    ]:  # fmt: skip
        assert bool(ask(pattern, text, "y", f"where {condition}", target=target)) is matches
    assert ask(pattern, text, "y", "where target.has(Relu)").reason == "no target is given"


# --- budgets -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "full([100, 100], 1)", "v * along(range(1000), 0, 2)", "zeros([1000, 1000, 1000])",
        "eye(100)",
        "range(100000)", "copies(1, 100000)", "tile(v, [100000])", "broadcast_to(v, [1000, 3])",
        "pad(v, [1000, 1000])", "outer(range(100), range(100))", "repeat(v, 10000)",
        "arange(0, 10000)",
        "matmul(along(range(500), 0, 2), along(range(500), 1, 2))", "diag(range(100))",
        "concat(range(900), range(900))", "stack([range(900), range(900)])",
        "expand(v, [1000, 3])",
    ],
)  # fmt: skip
def test_elements_are_limited(of, text):
    token = element_limit.set(1000)
    try:
        with pytest.raises(OverBudget):
            of(text)
    finally:
        element_limit.reset(token)


def test_a_large_constant_is_not_read_where_its_values_are_not_needed(ask):
    """`rank`, `shape` and `dtype` of a constant never load it."""
    text = "g (float[3] x) => (float[3] y) <float[3] v = {1,2,4}> { y = Mul(x, v) }"
    token = element_limit.set(1)
    try:
        assert ask("y = Mul(x, v: const f32[3])", text, "y", "where rank(v) == 1, size(v) == 3")
        found = ask("y = Mul(x, v: const f32[3])", text, "y", "where v > 0")
    finally:
        element_limit.reset(token)
    assert (found.code, found.reason) == ("unknown", "a constant of 3 elements is over the limit")
