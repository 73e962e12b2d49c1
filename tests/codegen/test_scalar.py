"""What scalar bodies do where numpy, C and processors differ: each case by plain arithmetic."""

from __future__ import annotations

import numpy as np
import pytest

from rewrite.codegen.isa import Isa
from rewrite.ops.dtypes import BITS, integer_range, to_numpy
from rewrite.plan.spec import Body, Constant
from tests.codegen.bodies import one_step, run_checked, step
from tests.codegen.elements import SPECIAL, as_type, sample
from tests.codegen.harness import isas

ISAS = isas()
INTEGERS = ("s8", "u8", "s16", "u16", "s32", "u32", "s64", "u64")
by_isa = pytest.mark.parametrize("isa", ISAS, ids=lambda isa: f"{8 * isa.vector_bytes}")


def wrapped(values: list[int], dtype: str) -> np.ndarray:
    bits = BITS[dtype]
    low, _ = integer_range(dtype)
    return np.array([(v - low) % (1 << bits) + low for v in values], to_numpy(dtype))


def operands(dtype: str) -> tuple[np.ndarray, np.ndarray]:
    """Extremes beside each other, and others."""
    low, high = integer_range(dtype)
    special = np.array([low, low + 1, high, high - 1, 0, 1, 2, 3, 7], to_numpy(dtype))
    if low:
        special = np.append(special, np.array([-1, -2, -7], to_numpy(dtype)))
    x = np.concatenate([np.repeat(special, special.size), sample(dtype, 300, 1)])
    y = np.concatenate([np.tile(special, special.size), sample(dtype, 300, 2)])
    return x, y


def quotient(a: int, b: int) -> int:
    """Toward zero; 0 by zero."""
    if b == 0:
        return 0
    found = abs(a) // abs(b)
    return found if (a < 0) == (b < 0) else -found


@by_isa
@pytest.mark.parametrize("dtype", INTEGERS)
def test_integer_division(dtype: str, isa: Isa) -> None:
    x, y = operands(dtype)
    pairs = list(zip(x.tolist(), y.tolist(), strict=True))
    wanted = {
        "Div": [quotient(a, b) for a, b in pairs],
        "fmod": [a - quotient(a, b) * b if b else 0 for a, b in pairs],
        "Mod": [a % b if b else 0 for a, b in pairs],
    }
    for name, values in wanted.items():
        attributes = {"fmod": 1} if name == "fmod" else {"fmod": 0} if name == "Mod" else {}
        made = step("Mod" if name == "fmod" else name, (0, 1), dtype, **attributes)
        (found,), status = run_checked(Body((dtype, dtype), (made,), (2,)), [x, y], isa)
        assert status == 2
        assert np.array_equal(found, wrapped(values, dtype)), name


@by_isa
@pytest.mark.parametrize("dtype", INTEGERS)
def test_integer_arithmetic_wraps(dtype: str, isa: Isa) -> None:
    x, y = operands(dtype)
    pairs = list(zip(x.tolist(), y.tolist(), strict=True))
    for name, values in {
        "Add": [a + b for a, b in pairs],
        "Sub": [a - b for a, b in pairs],
        "Mul": [a * b for a, b in pairs],
        "Max": [max(p) for p in pairs],
        "Min": [min(p) for p in pairs],
    }.items():
        assert np.array_equal(one_step(name, [x, y], dtype, isa), wrapped(values, dtype)), name
    absolute = one_step("Abs", [x], dtype, isa)
    assert np.array_equal(absolute, wrapped([abs(a) for a in x.tolist()], dtype))


@by_isa
@pytest.mark.parametrize("dtype", ["u8", "u16", "u32", "u64", "s32"])
def test_shifts(dtype: str, isa: Isa) -> None:
    """By the width or more everything is shifted out."""
    x = sample(dtype, 200, 3)
    y = (np.arange(200) % (BITS[dtype] + 4)).astype(to_numpy(dtype))
    pairs = list(zip(x.tolist(), y.tolist(), strict=True))
    left = one_step("BitShift", [x, y], dtype, isa, attributes={"direction": "LEFT"})
    assert np.array_equal(left, wrapped([a << b for a, b in pairs], dtype))
    right = one_step("BitShift", [x, y], dtype, isa, attributes={"direction": "RIGHT"})
    assert np.array_equal(right, wrapped([a >> b for a, b in pairs], dtype))


@by_isa
@pytest.mark.parametrize("dtype", INTEGERS)
def test_integer_powers(dtype: str, isa: Isa) -> None:
    x = sample(dtype, 200, 4)
    y = np.resize(np.array([0, 1, 2, 3, 5, 11, 31, 63, 100]), 200).astype(np.int64)
    if dtype[0] == "s":
        y[::7] = -3
        y[1::7] = -4
    wanted = [_power(a, b) for a, b in zip(x.tolist(), y.tolist(), strict=True)]
    assert np.array_equal(one_step("Pow", [x, y], dtype, isa), wrapped(wanted, dtype))


def _power(a: int, b: int) -> int:
    if b >= 0:
        return int(a**b)
    return 0 if abs(a) != 1 else 1 if a == 1 or b % 2 == 0 else -1


def test_powers_of_mixed_types() -> None:
    x = np.linspace(0.1, 9, 200).astype(np.float32)
    n = (np.arange(200) % 9 - 4).astype(np.int64)
    wide = x.astype(np.float64)
    found = one_step("Pow", [x, n], "f32")
    assert np.max(np.abs(found / wide**n - 1)) < 1e-7
    found = one_step("Pow", [x.astype(np.float16), n.astype(np.int32)], "f16")
    with np.errstate(over="ignore"):
        assert np.array_equal(
            found, (x.astype(np.float16).astype(np.float64) ** n).astype(np.float16)
        )
    bases = np.arange(1, 201, dtype=np.int32)
    found = one_step("Pow", [bases, np.full(200, 0.5, np.float32)], "s32")
    assert np.array_equal(found, np.sqrt(bases).astype(np.int32))
    found = one_step("Pow", [wide, np.full(200, 1.3, np.float32)], "f64")
    np.testing.assert_allclose(found, wide ** np.float64(np.float32(1.3)), rtol=1e-15)


@by_isa
def test_extremes_keep_nan(isa: Isa) -> None:
    x = np.array([np.nan, 1, np.nan, 2, -np.inf, 5] * 8, np.float32)
    y = np.array([1, np.nan, np.nan, 3, np.nan, -5] * 8, np.float32)
    for name, reference in (("Max", np.maximum), ("Min", np.minimum)):
        assert np.array_equal(one_step(name, [x, y], "f32", isa), reference(x, y), equal_nan=True)
    low, high = np.full(48, -1, np.float32), np.full(48, 1, np.float32)
    clipped = one_step("Clip", [x, low, high], "f32", isa)
    assert np.array_equal(clipped, np.minimum(np.maximum(x, -1), 1), equal_nan=True)
    crossed = one_step("Clip", [x, high, low], "f32", isa)  # the upper bound wins
    assert np.array_equal(np.isnan(crossed), np.isnan(x))
    assert np.all(crossed[~np.isnan(x)] == -1)


@by_isa
def test_zeros_keep_their_sign(isa: Isa) -> None:
    x = np.array([0.0, -0.0, -1e-40, 1e-40] * 8, np.float32)
    for name in ("Relu", "Neg", "Floor", "Ceil", "Round", "Sqrt", "Identity", "LeakyRelu"):
        found = one_step(name, [x[:2]], "f32", isa, attributes={"alpha": 0.01})
        signs = [True, False] if name == "Neg" else [False, True]
        assert np.signbit(found).tolist() == signs, name
    assert np.array_equal(one_step("Floor", [x], "f32", isa), np.floor(x))
    assert np.array_equal(one_step("Mul", [x, np.ones_like(x)], "f32", isa), x)  # no flush to 0


@by_isa
@pytest.mark.parametrize("dtype", ["f32", "f64", "f16"])
def test_float_remainders(dtype: str, isa: Isa) -> None:
    special = np.array([0, -0.0, 1, -1, 5.5, -5.5, 0.1, 3, -3, np.inf, -np.inf, np.nan])
    x = np.repeat(special, special.size).astype(to_numpy(dtype))
    y = np.tile(special, special.size).astype(to_numpy(dtype))
    with np.errstate(all="ignore"):
        wanted = np.fmod(x, y)
        found = one_step("Mod", [x, y], dtype, isa, attributes={"fmod": 1})
        assert np.array_equal(found, wanted, equal_nan=True)
        wanted = np.remainder(x, y)
        found = one_step("Mod", [x, y], dtype, isa, attributes={"fmod": 0})
    assert np.array_equal(found, wanted, equal_nan=True)
    both = ~np.isnan(wanted)
    assert np.array_equal(np.signbit(found[both]), np.signbit(wanted[both]))


def test_division_by_constants() -> None:
    """By powers of two it is a multiplication, of the same bits."""
    x = np.concatenate([sample("f32", 300), as_type(SPECIAL, "f32")])
    for number in (8.0, -0.25, 3.0, 2.0**-125, 1.0):
        made = step("Div", (0, Constant("f32", number)), "f32")
        ((found,), _) = run_checked(Body(("f32",), (made,), (1,)), [x])
        with np.errstate(over="ignore"):
            assert np.array_equal(found, x / np.float32(number), equal_nan=True)


def test_sign_of_nan_is_nan() -> None:
    found = one_step("Sign", [np.array([np.nan, -2, 0, -0.0, 3] * 4, np.float32)], "f32")
    assert np.array_equal(found[:5], [np.nan, -1, 0, 0, 1], equal_nan=True)


def test_integers_beside_fractions() -> None:
    """Shrink of integers: compared and shifted by numbers that are none."""
    x = np.arange(-9, 10, dtype=np.int32)
    found = one_step("Shrink", [x], "s32", attributes={"lambd": 2.5, "bias": 1.5})
    wanted = [int(v + 1.5) if v < -2.5 else int(v - 1.5) if v > 2.5 else 0 for v in x.tolist()]
    assert found.tolist() == wanted
    x = np.arange(0, 256, dtype=np.uint8)
    found = one_step("Shrink", [x], "u8", attributes={"lambd": 2.0, "bias": 1.0})
    assert found.tolist() == [v - 1 if v > 2 else 0 for v in x.tolist()]
