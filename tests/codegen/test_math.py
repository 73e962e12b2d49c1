"""Elementary functions in float32, measured against numpy's in float64.

LIMITS are the largest errors in units in the last place, with fused multiply-adds and without,
over float32 numbers of all exponents and dense ranges: measured, rounded up.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest

from rewrite.codegen.compile import to_assembly, to_object
from rewrite.codegen.ir import Module
from rewrite.codegen.isa import AARCH64, Isa
from rewrite.codegen.kernel import Code
from rewrite.codegen.math import SINGLE, elementary
from rewrite.codegen.math_trig import _DIGITS
from rewrite.codegen.power import raised
from rewrite.codegen.types import vector
from rewrite.codegen.value import Value
from rewrite.runtime.objects import objects_for
from tests.codegen.elements import SPECIAL
from tests.codegen.harness import address, isas

ISAS = isas()
LIMITS = {
    "acos": 1.4, "acosh": 2.4, "asin": 2.5, "asinh": 1.8, "atan": 2.1, "atanh": 2.1, "cos": 1.6,
    "cosh": 1.5, "erf": 5.4, "exp": 1.0, "expm1": 1.6, "log": 0.9, "log1p": 0.9, "sin": 1.7,
    "sinh": 1.7, "tan": 3.5, "tanh": 1.4,
}  # fmt: skip
REFERENCE: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "acos": np.arccos, "acosh": np.arccosh, "asin": np.arcsin, "asinh": np.arcsinh,
    "atan": np.arctan, "atanh": np.arctanh,
    "erf": np.vectorize(math.erf, otypes=[np.float64]),
}  # fmt: skip
Write = Callable[..., Value]


def compiled(symbol: str, isa: Isa, type_: str, count: int, write: Write, arrays: int = 1) -> Code:
    """A loop that applies `write` to `count` lanes at a time."""
    m = Module(symbol)
    names = [f"x{i}" for i in range(arrays)]
    f = m.function(symbol, [*(("ptr", n) for n in names), ("ptr", "y"), ("i64", "n")])

    def turn(i: Value) -> None:
        given = [f.load(vector(type_, count), f.at(f.arg(n), i, type_)) for n in names]
        f.store(write(f, isa, *given), f.at(f.arg("y"), i, type_))

    f.loop(0, f.arg("n"), turn, step=max(1, count))
    f.ret()
    return Code(symbol, m.text())


def apply(
    symbol: str, isa: Isa, type_: str, count: int, write: Write, *xs: np.ndarray
) -> np.ndarray:
    code = compiled(symbol, isa, type_, count, write, len(xs))
    place = objects_for(isa).load(symbol, lambda: to_object(code, isa))
    function = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * (len(xs) + 1), ctypes.c_int64)(place)
    y = np.empty_like(xs[0])
    function(*[address(x) for x in xs], address(y), y.size)
    return y


def evaluated(name: str, isa: Isa, count: int, x: np.ndarray) -> np.ndarray:
    type_ = "float" if x.dtype == np.float32 else "double"

    def write(f: object, machine: Isa, v: Value) -> Value:
        return elementary(f, machine, name, v)  # type: ignore[arg-type]

    return apply(f"math_{name}_{type_}_{count}", isa, type_, count, write, x)


def reference(name: str, x: np.ndarray) -> np.ndarray:
    with np.errstate(all="ignore"):
        return REFERENCE.get(name, getattr(np, name, None))(x.astype(np.float64))  # type: ignore[misc]


def numbers(dtype: type = np.float32) -> np.ndarray:
    """Float32 numbers of all exponents and signs, NaN among them, and dense ranges."""
    everywhere = np.arange(0, 1 << 32, 9973, np.uint64).astype(np.uint32).view(np.float32)
    dense = [np.linspace(-r, r, 60_000).astype(np.float32) for r in (1.2, 4, 12, 100)]
    special = np.array([*SPECIAL, 88.72283, 88.7229, -87.4, -103.9, -104.1, 89.4159], np.float32)
    found = np.concatenate([special, everywhere, *dense])
    return found[: found.size // 64 * 64].astype(dtype)


@pytest.mark.parametrize("isa", ISAS, ids=lambda isa: f"{8 * isa.vector_bytes}")
@pytest.mark.parametrize("name", sorted(SINGLE))
def test_error(name: str, isa: Isa) -> None:
    x = numbers()
    found = evaluated(name, isa, isa.vector_bytes // 4, x)
    exact = reference(name, x)
    with np.errstate(all="ignore"):
        wanted = exact.astype(np.float32)
    assert np.array_equal(np.isnan(wanted), np.isnan(found))
    finite = np.isfinite(wanted) & np.isfinite(found)
    others = ~finite & ~np.isnan(wanted)
    assert np.array_equal(wanted[others], found[others])
    unit = np.maximum(np.spacing(np.abs(wanted[finite])).astype(np.float64), 2.0**-149)
    error = np.abs(found[finite].astype(np.float64) - exact[finite]) / unit
    worst = int(np.argmax(error))
    assert error[worst] <= LIMITS[name], (x[finite][worst], error[worst])
    zero = (wanted == 0) & (x == 0)
    assert np.array_equal(np.signbit(wanted[zero]), np.signbit(found[zero]))


@pytest.mark.parametrize("name", sorted(SINGLE))
def test_scalars_are_lanes(name: str) -> None:
    """One element on its own gives the bits that it gives in a vector."""
    x = numbers()[: 64 * 40]
    wide = evaluated(name, ISAS[0], ISAS[0].vector_bytes // 4, x)
    assert np.array_equal(evaluated(name, ISAS[0], 0, x), wide, equal_nan=True)


@pytest.mark.parametrize("name", ["tanh", "erf", "sin", "cos"])
def test_never_above_one(name: str) -> None:
    x = numbers()
    found = evaluated(name, ISAS[0], ISAS[0].vector_bytes // 4, x)
    assert np.nanmax(np.abs(found)) <= 1


@pytest.mark.parametrize("name", sorted(SINGLE))
def test_float64(name: str) -> None:
    x = np.linspace(1.0 if name == "acosh" else -0.99, 0.99 if name != "acosh" else 5, 640)
    found = evaluated(name, ISAS[0], 8, x)
    np.testing.assert_allclose(found, reference(name, x), rtol=1e-15)


def test_digits_of_two_over_pi() -> None:
    """Against Machin's formula, in integers."""
    bits = 400

    def arctan_of_inverse(n: int) -> int:
        total, power, k = 0, (1 << bits) // n, 0
        while power:
            total += (-1) ** k * (power // (2 * k + 1))
            power //= n * n
            k += 1
        return total

    pi = 4 * (4 * arctan_of_inverse(5) - arctan_of_inverse(239))
    wanted = (2 << (bits + 224)) // pi
    words = sum(word << (32 * (6 - i)) for i, word in enumerate(_DIGITS[1:]))
    assert _DIGITS[0] == 0
    assert words == wanted


def test_large_arguments() -> None:
    """Numbers whose distance from a multiple of pi/2 is small beside them."""
    x = np.array([16367173.0 * 2.0**72, 1e22, 3.4e38, 39000.004, -1e30, 1e6] * 16, np.float32)
    for name in ("sin", "cos", "tan"):
        exact = np.array([_exact(name, float(v)) for v in x])
        found = evaluated(name, ISAS[0], 16, x)
        assert np.max(np.abs(found / exact - 1)) < 3e-7


def _exact(name: str, x: float) -> float:
    """By subtracting multiples of pi/2 in rationals."""
    digits = sum(Fraction(word, 1 << (32 * i)) for i, word in enumerate(_DIGITS))
    turns = Fraction(x) * digits
    n = round(turns)
    r = float(turns - n) * (math.pi / 2)
    s, c = math.sin(r), math.cos(r)
    quadrant = [(s, c), (c, -s), (-s, -c), (-c, s)][n % 4]
    sine, cosine = quadrant
    return {"sin": sine, "cos": cosine, "tan": sine / cosine}[name]


# --- powers -------------------------------------------------------------------------------------


def powers(x: np.ndarray, y: np.ndarray, isa: Isa, count: int) -> np.ndarray:
    type_ = "float" if x.dtype == np.float32 else "double"

    def write(f: object, machine: Isa, a: Value, b: Value) -> Value:
        return raised(f, machine, a, b, True, True)  # type: ignore[arg-type]

    return apply(f"pow_{type_}_{count}", isa, type_, count, write, x, y)


@pytest.mark.parametrize("isa", ISAS, ids=lambda isa: f"{8 * isa.vector_bytes}")
def test_power(isa: Isa) -> None:
    rng = np.random.default_rng(3)
    x = np.exp(rng.standard_normal(64 * 500) * 3).astype(np.float32)
    y = (rng.standard_normal(x.size) * 8).astype(np.float32)
    with np.errstate(all="ignore"):
        exact = np.power(x.astype(np.float64), y.astype(np.float64))
        wanted = exact.astype(np.float32)
    found = powers(x, y, isa, isa.vector_bytes // 4)
    finite = np.isfinite(wanted)
    assert np.array_equal(found[~finite], wanted[~finite])
    unit = np.maximum(np.spacing(wanted[finite]).astype(np.float64), 2.0**-149)
    assert np.max(np.abs(found[finite] - exact[finite]) / unit) < 0.51


def test_special_powers() -> None:
    special = np.array([*SPECIAL, 2, -2, 3, -3, 0.5, 7], np.float32)
    x, y = np.repeat(special, special.size), np.tile(special, special.size)
    for dtype in (np.float32, np.float64):
        a, b = x.astype(dtype), y.astype(dtype)
        with np.errstate(all="ignore"):
            wanted = np.power(a.astype(np.float64), b.astype(np.float64)).astype(dtype)
        for count in (0, 16):
            found = powers(a, b, ISAS[0], count)
            assert np.array_equal(np.isnan(found), np.isnan(wanted))
            np.testing.assert_allclose(found, wanted, rtol=2e-7)
            zeros = wanted == 0
            assert np.array_equal(np.signbit(found[zeros]), np.signbit(wanted[zeros]))


@pytest.mark.parametrize("name", sorted(SINGLE))
def test_other_machines(name: str) -> None:
    """float32 needs no library: the only call is to what the module itself holds."""

    def write(f: object, machine: Isa, v: Value) -> Value:
        return elementary(f, machine, name, v)  # type: ignore[arg-type]

    text = to_assembly(compiled("k", AARCH64, "float", 4, write), AARCH64)
    calls = {line.split()[1] for line in text.splitlines() if line.strip().startswith("bl\t")}
    assert calls <= {"reduce_far"}
