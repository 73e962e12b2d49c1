"""Expressions that ask for too much: each ends soon, in little memory, with a reason."""

from __future__ import annotations

import resource
import time

import onnx.helper as h
import pytest

from tests.hostile.conftest import parse, rule

VECTORS = """let a = reshape(f32(range(50000)), [-1, 1])
 b = reshape(f32(range(1, 50001)), [1, -1])
"""


def doubled(first: str, step: str, times: int) -> str:
    lets = f"let a0 = {first} "
    return lets + " ".join(f"a{i + 1} = {step.replace('#', f'a{i}')}" for i in range(times))


BOMBS = {
    "a list of lists of lists": doubled("[1, 1]", "[#, #]", 40) + "\n where a40 == a40",
    "member": doubled("[1, 1]", "[#, #]", 40) + "\n where a40 in [1, a40]",
    "key": doubled("[1, 1]", "[#, #]", 40) + "\n where recode([a40], [1], 2, [a40]) == [1]",
    "concat": doubled("[1, 1]", "concat(#, #)", 40) + "\n where len(a40) > 1",
    "unknown or unknown": doubled("[1][5] == 1", "# or #", 30) + "\n where a30",
    "forall of unknown": doubled("[1][5] == 1", "forall q in [1, 2]: #", 30) + "\n where a30",
    "distinct": "where distinct(range(5000000))",
    "forall": "where forall i in range(5000000): forall j in range(5000000): i + j >= 0",
    "parts": "where len(split(f32(range(5000000)), copies(1, 5000000))) > 1",
    "rank": "where along(c, 0, 1000000000) == c",
    "tile": "let t = unsqueeze(f32([1]), [0])\n where size(tile(t, [1000000000, 0])) == 0",
    "pad": "let t = f32([1, 2])\n where size(pad(t, [-1000000000, 1000000001])) == 3",
    "copies": "where len(copies(1, 1000000000)) == 3",
    "range": "where len(range(1000000000)) == 3",
    "quantize": VECTORS + "where size(quantize(a, b, u8(0), u8)) > 0",
    "dequantize": VECTORS + "where size(dequantize(a, b, u8(0))) > 0",
    "all_equal": VECTORS + "where all_equal(a, b)",
    "close": VECTORS + "where close(a, b)",
    "compare": VECTORS + "where a < b",
    "add": VECTORS + "where a + b == 1",
    "outer": VECTORS + "where size(outer(flatten(a), flatten(b))) > 0",
    "identity": "let z = zeros([0, 30000, 30000])\n where is_identity_matrix(z)",
    "eye": "where size(eye(1000000)) == 0",
    "power": "where 10 ** 63 > 0",
    "matmul": "let a = reshape(arange(0, 5000000), [2000, 2500])\n"
    " where sum(matmul(a, transpose(a))) + sum(matmul(a, transpose(a)) * 2) < 0",
}


MODEL = """g (float[4] x) => (float[4] y) <float[4] c = {1,2,3,4}, float[1] s = {0}>
    { y = Sum(x, c, s) }"""


@pytest.mark.parametrize("bomb", BOMBS)
def test_bombs_go_off_in_the_sand(rewriter, bomb):
    text = rule("y = Sum(x, c: const, _)", "y = Add(x, c)", middle=BOMBS[bomb])
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    start = time.perf_counter()
    _, journal = rewriter(text, parse(MODEL))
    assert time.perf_counter() - start < 20
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert grown < 1_500_000, "kilobytes"
    assert not journal.applied


WRONG = {
    "square(4294967296) == 0": "wraps",
    "abs(-9223372036854775807 - 1) < 0": "wraps",
    "-(-9223372036854775807 - 1) > 0": "leaves int64",
    "sum([4611686018427387904, 4611686018427387904]) < 0": "wraps",
    "cumsum(s64([4611686018427387904, 4611686018427387904]), 0) != 1": "wraps",
    "dot(s64([4294967296]), s64([4294967296])) == 0": "wraps",
    "matmul(s64([[4294967296]]), s64([[4294967296]])) == 0": "wraps",
    "outer(s64([4294967296]), s64([4294967296])) == 0": "wraps",
    "mean(zeros([0])) != 1": "is nothing",
    "size(pad(f32([1, 2]), [-3, 2])) == 2": "crops more than there is",
}


@pytest.mark.parametrize("condition", WRONG)
def test_what_has_no_value_is_unknown(rewriter, recwarn, condition):
    text = rule("y = Sum(x, c: const, _)", "y = Add(x, c)", middle=f"where {condition}")
    _, journal = rewriter(text, parse(MODEL))
    assert not journal.applied
    assert not recwarn.list


def test_integer_products_are_exact(rewriter):
    """2^31 · 2^31 + 1 is no float64."""
    condition = "dot(s64([2147483648, 1]), s64([2147483648, 1])) == 4611686018427387905"
    text = rule("y = Sum(x, c: const, _)", "y = Add(x, c)", middle=f"where {condition}")
    assert not rewriter(text, parse(MODEL))[1].applied, "2^62 and above is left alone"


@pytest.mark.parametrize("condition", ["c < 1", "c < c", "c + 1 == 2", "-c == 1", "max(c) == 1"])
def test_strings_have_no_order(rewriter, condition):
    """A string constant of the model reaches every operator and function."""
    model = """g (string[2] x) => (bool[2] y) <string[2] c = {"a", "b"}> { y = Equal(x, c) }"""
    text = rule("y = Equal(x, c: const)", "y = Not(Not(Equal(x, c)))", middle=f"where {condition}")
    assert not rewriter(text, parse(model, opset=19))[1].applied


EMISSIONS = {
    "y = Transpose(x) { perm: a40 }": (
        "[1, 1]",
        "[#, #]",
        40,
        "a list of lists is not an attribute",
    ),
    "y = Transpose(x) { perm: a30 }": ("[1, 1]", "concat(#, #)", 30, "computes too much"),
    "y = Max(*a12)": ("[x, x]", "concat(#, #)", 12, "over the limit"),
    "y = LeakyRelu(x) { alpha: a1 }": ("1e300", "#", 1, "is not float"),
    "y = Unsqueeze(x, s64([a1]))": ("0", "#", 1, "the shape of"),
    "y = Cast(x) { to: a1 }": ("f16", "#", 1, "the element type of"),
}


@pytest.mark.parametrize("emit", EMISSIONS)
def test_what_is_emitted_is_bounded(rewriter, emit):
    *lets, reason = EMISSIONS[emit]
    text = rule("y = Relu(x)", emit, middle=doubled(*lets))
    model = parse("g (float[4] x) => (float[4] y) { y = Relu(x) }")
    _, journal = rewriter(text, model)
    assert not journal.applied
    assert [r.reason for r in journal.refused if reason in r.reason and len(r.reason) < 400]


LOOPS = {
    "there and back": [("y = Relu(x)", "y = Max(x, 0)"), ("y = Max(x, z: const)", "y = Relu(x)")],
    "grows": [("y = Relu(x)", "y = Relu(Neg(Neg(x)))")],
    "fresh constants": [("y = Add(x, c: const)", "y = Add(x, c + 1)")],
    "fresh attributes": [("y = Elu(x) { alpha: a }", "y = Elu(x) { alpha: a + 1.0 }")],
    "explodes": [("y = Relu(x)", "y = Sum(" + ", ".join(["Relu(Neg(x))"] * 20) + ")")],
    "associates": [("y = (a + b) + c", "y = a + (b + c)"), ("y = a + (b + c)", "y = (a + b) + c")],
    "in a ring": [
        ("y = Relu(x)", "y = Abs(x)"), ("y = Abs(x)", "y = Neg(x)"), ("y = Neg(x)", "y = Relu(x)"),
    ],
}  # fmt: skip


@pytest.mark.parametrize("tidy", [False, True])
@pytest.mark.parametrize("loop", LOOPS)
def test_loops_are_cut_and_named(rewriter, loop, tidy):
    """The fixture checks that the model that is left is valid."""
    names = "abc"
    rules = "".join(
        rule(match, emit, name=names[i], claim="approx(atol=1)")
        for i, (match, emit) in enumerate(LOOPS[loop])
    )
    model = parse("""g (float[4] x, float[4] z) => (float[4] y) <float[1] k = {1}>
        { a = Relu(x)  b = Add(a, k)  c = Elu(b)  d = Add(c, z)  e = Add(d, x)  y = Add(e, a) }""")
    after, journal = rewriter(rules, model, tidy=tidy, fold=tidy)
    assert journal.stop.reason in ("cycle", "limit_growth")
    if journal.stop.reason == "cycle":
        assert set(journal.cycles[0].rules) <= set(names)
    assert len(after.graph.node) < 1500


COMPLEX = [
    "positive_zero(c)",
    "c < 1",
    "all_positive(c)",
    "close(c, c)",
    "fits(c, f32)",
    "prod(c) == 1",
]


@pytest.mark.parametrize("condition", COMPLEX)
def test_complex_constants_are_not_taken_for_real(rewriter, recwarn, condition):
    node = h.make_node("Add", ["x", "c"], ["y"])
    infos = [h.make_tensor_value_info(name, 14, [2]) for name in "xy"]
    graph = h.make_graph([node], "g", infos[:1], infos[1:], [h.make_tensor("c", 14, [2], [-0j, 0])])
    model = h.make_model(graph, opset_imports=[h.make_opsetid("", 18)], ir_version=8)
    text = rule("y = Add(x, c: const)", "y = Sum(x, c)", middle=f"where {condition}")
    assert not rewriter(text, model)[1].applied
    assert not recwarn.list
