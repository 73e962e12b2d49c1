"""What is said of constants before they are computed: the ends of their elements, and whether two
are the same. The expected elements are numpy's own, of the whole array at once."""

from __future__ import annotations

import numpy as np
import pytest

from rewrite.match.builtins.tensors import _joint
from rewrite.match.deferred import _PIECE, MANY, Arithmetic, Deferred, Joined, ends
from rewrite.match.values import Tensor

RNG = np.random.default_rng(7)
FUNCTIONS = (np.add, np.subtract, np.multiply, np.divide)


def draw(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


def whole(late: Deferred | np.ndarray) -> np.ndarray:
    """All elements in float64."""
    if isinstance(late, np.ndarray):
        return late.astype(np.float64)
    if isinstance(late, Joined):
        return np.concatenate([whole(part) for part in late.parts], late.axis)
    with np.errstate(all="ignore"):
        found = late.function(late.left.astype(np.float64), late.right.astype(np.float64))
    return np.asarray(found)


def same_ends(late: Deferred, dtype: type[np.floating]) -> None:
    with np.errstate(all="ignore"):
        wanted = whole(late).astype(dtype)
        found = ends(late, np.dtype(dtype))
    assert np.array_equal(found, (np.min(wanted), np.max(wanted)), equal_nan=True)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("function", FUNCTIONS)
@pytest.mark.parametrize(
    ("left", "right"),
    [
        ((300, 700), ()), ((), (300, 700)), ((1, 1), (300, 700)), ((300, 700), (300, 1)),
        ((700,), (300, 700)), ((300, 700), (300, 700)), ((90000,), (90000,)), ((1,), (1,)),
        ((3, 70000), (3, 1)), ((), ()), ((1, 300, 700), (300, 1)), ((2, 1, 70000), (3, 1)),
    ],
)  # fmt: skip
def test_the_ends_are_those_of_the_stored_elements(function, left, right, dtype):
    a, b = draw(*left), draw(*right)
    same_ends(Arithmetic(function, a, b, np.broadcast_shapes(left, right)), dtype)


@pytest.mark.parametrize("shape", [(300, 700), (1, 300, 700), (2, 200000), (1, 1, 3, 70000), (5,)])
def test_the_ends_are_looked_for_piece_by_piece(shape):
    """No piece is large, and together they are all elements."""
    a, b = draw(*shape), draw(*shape)
    pieces = list(Arithmetic(np.multiply, a, b, shape)._pieces())
    assert max(piece.left.size for piece in pieces) <= _PIECE
    assert np.array_equal(np.concatenate([p.left.reshape(-1) for p in pieces]), a.reshape(-1))
    assert np.array_equal(np.concatenate([p.right.reshape(-1) for p in pieces]), b.reshape(-1))


def test_the_type_of_what_is_joined_is_found_without_computing():
    a = draw(2, MANY)
    late = Tensor(Arithmetic(np.multiply, a, a, a.shape), "f32")
    assert _joint((late, Tensor(a, "f32"))) == "f32"
    assert isinstance(late.late, Arithmetic)


@pytest.mark.parametrize("number", [np.nan, np.inf, -np.inf, 0.0, -3.0])
@pytest.mark.parametrize("function", FUNCTIONS)
@pytest.mark.parametrize("side", ["left", "right"])
def test_the_ends_say_what_is_not_finite(function, number, side):
    a, b = draw(500, 300), np.float32(number).reshape(())
    left, right = (a, b) if side == "left" else (b, a)
    same_ends(Arithmetic(function, left, right, a.shape), np.float32)
    a[3, 4] = number
    c = draw(500, 1)
    left, right = (a, c) if side == "left" else (c, a)
    same_ends(Arithmetic(function, left, right, a.shape), np.float32)


def test_the_ends_of_parts_are_those_of_the_whole():
    a, b, c = draw(200, 300), draw(200, 5), draw(200, 400)
    scaled = Arithmetic(np.multiply, c, np.float32(9).reshape(()), c.shape)
    late = Joined((a, b, Joined((scaled, a), 1)), 1)
    same_ends(late, np.float32)
    b[7, 2] = np.nan
    same_ends(late, np.float32)


def test_a_join_of_arrays_keeps_their_type():
    a, b = draw(20, 30), draw(20, 5)
    found = Joined((a, b), 1).wide()
    assert found.dtype == np.float32
    assert np.array_equal(found, np.concatenate([a, b], 1))
    assert Joined((a, b.astype(np.float16)), 1).wide().dtype == np.float64


def test_equal_keys_are_equal_elements():
    a, b = draw(200, 300), draw(200, 300)
    half = np.float32(0.5)

    def scaled(array: np.ndarray, by: np.floating) -> Arithmetic:
        return Arithmetic(np.multiply, array, np.asarray(by), array.shape)

    assert scaled(a, half).key == scaled(a, np.float32(0.5)).key
    others = [
        scaled(b, half), scaled(a, np.float32(0.25)), scaled(a[::-1], half), scaled(a.T, half),
        scaled(a, np.float64(0.5)), Arithmetic(np.add, a, np.asarray(half), a.shape),
        Joined((a, b), 0), Joined((b, a), 0), Joined((a, b), 1), Joined((a, a), 0),
        Joined((scaled(a, half), b), 0),
    ]  # fmt: skip
    keys = {scaled(a, half).key, *(late.key for late in others)}
    assert len(keys) == 1 + len(others)
