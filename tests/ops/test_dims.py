"""Arithmetic on sizes: canonical names, and equal to arithmetic on numbers."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rewrite.ops import dims, opaque
from rewrite.ops.movement import TO_THE_END, slice_bounds, sliced
from tests.ops.harness import value_of

CANONICAL = [
    (dims.add("n", 3), "?=n+3"),
    (dims.sub(dims.add("n", 3), 3), "n"),
    (dims.sub(dims.add("n", 3), "n"), 3),
    (dims.add("b", "a"), dims.add("a", "b")),
    (dims.mul(dims.add("a", "b"), "c"), dims.add(dims.mul("c", "a"), dims.mul("b", "c"))),
    (dims.floordiv(dims.mul("n", 6), 3), "?=2*n"),
    (dims.add(dims.floordiv(dims.sub("h", 3), 2), 1), dims.floordiv(dims.sub("h", 1), 2)),
    (dims.quotient(["b", 3, "h", "w"], ["b", "w"]), "?=3*h"),
    (dims.quotient(["n", 4], [2]), "?=2*n"),
    (dims.quotient([dims.add("a", "b"), "c"], [dims.add("b", "a")]), "c"),
    (dims.broadcast_dim("a", "b"), "?=bc(a,b)"),
    (dims.broadcast_dim(dims.broadcast_dim("c", "a"), "b"), "?=bc(a,b,c)"),
    (dims.broadcast_dim(dims.broadcast_dim("a", "b"), "a"), "?=bc(a,b)"),
    (dims.broadcast_dim("n", 5), 5),
    (dims.broadcast_dim("n", 1), "n"),
    (dims.broadcast_dim("n", 0), 0),
    (dims.smaller("n", dims.add("n", 1)), "n"),
    (dims.larger(0, dims.sub("n", 2)), "?=max(0,n-2)"),
    (dims.add("?12", 1), "?={?12}+1"),
    (dims.sub(dims.add("batch size", 1), 1), "batch size"),
    (dims.sub(dims.add("a{b%}", 1), 1), "a{b%}"),
]


@pytest.mark.parametrize(("found", "wanted"), CANONICAL)
def test_canonical(found: object, wanted: object) -> None:
    assert found == wanted


def test_a_name_that_looks_like_arithmetic_is_a_name() -> None:
    assert dims.add("a+b", 1) != dims.add(dims.add("a", "b"), 1)
    assert dims.sub(dims.add("a+b", 1), 1) == "a+b"


def test_long_expressions_become_digests_that_stay_equal() -> None:
    def build(order: list[int]) -> dims.Dim:
        return dims.total(dims.mul(f"name_number_{i}", f"other_{i}") for i in order)

    forwards, backwards = build(list(range(6))), build(list(range(5, -1, -1)))
    assert isinstance(forwards, str)
    assert len(forwards) <= dims.LONGEST + 2
    assert forwards == forwards
    assert isinstance(backwards, str)
    assert len(backwards) <= dims.LONGEST + 2
    short = [build([1, 0]), build([0, 1])]
    assert short[0] == short[1]


@pytest.mark.parametrize(("a", "b"), [((2, 3), (4, 3)), ((3,), (2,)), ((2, 1, 5), (3, 4))])
def test_shapes_that_do_not_broadcast(a: tuple[int, ...], b: tuple[int, ...]) -> None:
    with pytest.raises(dims.SizeError):
        dims.broadcast(a, b)


NAMES = ("a", "b", "c")
SIZES = st.one_of(st.integers(1, 6), st.sampled_from(NAMES))


@st.composite
def expressions(draw: st.DrawFn, depth: int = 3) -> tuple[dims.Dim, str]:
    """A size, and the same in Python."""
    if depth == 0 or draw(st.booleans()):
        size = draw(SIZES)
        return size, str(size)
    operation = draw(st.sampled_from(["add", "sub", "mul", "floordiv", "ceildiv", "min", "max"]))
    left, left_text = draw(expressions(depth - 1))
    if operation in ("floordiv", "ceildiv"):
        k = draw(st.integers(1, 4))
        if operation == "floordiv":
            return dims.floordiv(left, k), f"(({left_text})//{k})"
        return dims.ceildiv(left, k), f"(-((-({left_text}))//{k}))"
    right, right_text = draw(expressions(depth - 1))
    if operation in ("min", "max"):
        function = dims.smaller if operation == "min" else dims.larger
        return function(left, right), f"{operation}({left_text},{right_text})"
    sign = {"add": "+", "sub": "-", "mul": "*"}[operation]
    return getattr(dims, operation)(left, right), f"(({left_text}){sign}({right_text}))"


@settings(max_examples=300, deadline=None)
@given(expressions(), st.tuples(*(st.integers(0, 9) for _ in NAMES)))
def test_names_compute_what_numbers_compute(
    pair: tuple[dims.Dim, str], numbers: tuple[int, ...]
) -> None:
    size, text = pair
    values = dict(zip(NAMES, numbers, strict=True))
    found = value_of(size, values)
    if found is not None:  # a digest has no value
        assert found == eval(text, {"min": min, "max": max}, dict(values))


@settings(max_examples=300, deadline=None)
@given(
    st.integers(0, 7),
    st.one_of(st.integers(-9, 9), st.just(TO_THE_END), st.just(-(2**63))),
    st.one_of(st.integers(-9, 9), st.just(TO_THE_END), st.just(-(2**63))),
    st.sampled_from([1, 2, 3, -1, -2]),
)
def test_slices_of_named_sizes(size: int, start: int, end: int, step: int) -> None:
    first, last = slice_bounds(size, start, end, step)
    wanted = len(range(first, last, step))
    assert sliced(size, start, end, step) == wanted
    found = sliced("n", start, end, step)
    if found is not None:
        assert value_of(found, {"n": size}) == wanted


def test_tokens_join_like_broadcasting() -> None:
    x, y = opaque.opaque("x"), opaque.opaque("y & z")
    assert opaque.join([x, x]) == x
    assert opaque.join([x, ()]) == x
    assert opaque.join([x, y]) == opaque.join([y, x])
    once = opaque.join([x, (3,)])
    assert once != x
    assert opaque.join([once, (3,)]) == once
    assert opaque.join([once, ("n", 1)]) == opaque.join([x, ("n", 3)])
    assert opaque.is_opaque(once)
    assert not opaque.is_opaque(("n",))
