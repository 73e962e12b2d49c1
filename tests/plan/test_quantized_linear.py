"""QLinear operators through sessions, against the exact values of rewrite/quant/reference.

Exact: every pair of codes there is, for scales of all kinds (ties included).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from onnx import helper

from rewrite.codegen.isa import Isa
from rewrite.plan.quantized_arithmetic import Operand, product_number, sum_numbers
from rewrite.quant import reference
from tests.codegen.harness import isas
from tests.plan.matmul_models import run

Array = np.ndarray[Any, np.dtype[Any]]
MACHINES = pytest.mark.parametrize("isa", isas(), ids=lambda i: f"{i.vector_bytes}")
RNG = np.random.default_rng(11)
DOMAIN = "com.microsoft"


def every(dtype: Any) -> Array:
    return np.arange(256, dtype=np.uint8).view(dtype)


def check(
    name: str, operands: Sequence[Array | None], isa: Isa | None = None,
    unknown: tuple[int, ...] = (0,), **attributes: Any,
) -> None:  # fmt: skip
    """Operands `unknown` are inputs, the others initializers."""
    names = ["" if a is None else f"i{k}" for k, a in enumerate(operands)]
    arrays = {n: np.asarray(a) for n, a in zip(names, operands, strict=True) if n}
    node = helper.make_node(name, names, ["y"], domain=DOMAIN, **attributes)
    const = [n for n in arrays if int(n[1:]) not in unknown]
    found = run([node], arrays, const, isa)[0]
    want = reference.evaluate(DOMAIN, name, operands, attributes)
    assert want is not None
    assert found.dtype == want[0].dtype
    np.testing.assert_array_equal(found, want[0])


def scale(number: float) -> Array:
    return np.array(number, np.float32)


SCALES = [
    (0.02, 0.03, 0.04), (0.5, 0.25, 0.125), (1.0, 1.0, 1.0), (0.0173, 0.0041, 0.0209),
    (1.5, 0.001, 0.7), (0.3, 0.2, 90.0), (1e-3, 1.0, 1e-2), (0.1, 1e-9, 0.2), (1e-8, 0.5, 1.0),
]  # fmt: skip


@MACHINES
@pytest.mark.parametrize("name", ["QLinearAdd", "QLinearMul"])
@pytest.mark.parametrize("dtype", [np.uint8, np.int8])
def test_all_pairs(dtype: Any, name: str, isa: Isa) -> None:
    a, b = every(dtype)[:, None], every(dtype)[None]
    zeros = [np.array(z).astype(dtype) for z in (7, 100, 3)]
    for x, y, z in SCALES:
        given = [a, scale(x), zeros[0], b, scale(y), zeros[1], scale(z), zeros[2]]
        check(name, given, isa, (0, 3))


@pytest.mark.parametrize("name", ["QLinearAdd", "QLinearMul"])
def test_random_scales(name: str) -> None:
    a, b = every(np.uint8)[:, None], every(np.uint8)[None]
    for _ in range(6):
        x, y, z = np.exp(RNG.uniform(-4, 1, 3)).astype(np.float32)
        zeros = RNG.integers(0, 256, 3).astype(np.uint8)
        given = [a, scale(x), zeros[0], b, scale(y), zeros[1], scale(z * 2), zeros[2]]
        check(name, [np.asarray(v) for v in given], None, (0, 3))


def test_float32_suffices_for_most_scales() -> None:
    """Else float64 is used: right, and slower."""
    sums = products = 0
    for _ in range(40):
        x, y, z = (float(np.float32(v)) for v in np.exp(RNG.uniform(-4, 1, 3)))
        a, b = (Operand(s, int(RNG.integers(0, 256)), 0, 255) for s in (x, y))
        to = Operand(z, int(RNG.integers(0, 256)), 0, 255)
        sums += sum_numbers(a, b, to) is not None
        products += product_number(a, b, to) is not None
    assert sums >= 38
    assert products >= 30


def test_absent_zero_points_and_broadcasting() -> None:
    a = RNG.integers(0, 256, (2, 3, 4)).astype(np.uint8)
    b = RNG.integers(0, 256, (3, 1)).astype(np.uint8)
    check("QLinearAdd", [a, scale(0.1), None, b, scale(0.2), None, scale(0.3)], None, (0, 3))
    check("QLinearMul", [b, scale(0.1), None, a, scale(0.2), None, scale(0.3)], None, (0,))


@MACHINES
@pytest.mark.parametrize("dtype", [np.uint8, np.int8])
def test_functions_of_one_code(dtype: Any, isa: Isa) -> None:
    zero = np.array(9, dtype)
    x = every(dtype).reshape(2, 128)
    check("QLinearSigmoid", [x, scale(0.04), zero, scale(1 / 256), np.array(0, dtype)], isa)
    given = [x, scale(0.04), zero, scale(0.03), np.array(5, dtype)]
    check("QLinearLeakyRelu", given, isa, alpha=0.1)


@MACHINES
@pytest.mark.parametrize("axis", [0, 1, -1])
def test_concatenation(axis: int, isa: Isa) -> None:
    parts: list[Array] = [scale(0.05), np.array(3, np.uint8)]
    for s, z in ((0.05, 3), (0.07, 3), (0.025, 200)):
        x = RNG.integers(0, 256, (3, 4, 5)).astype(np.uint8)
        parts += [x, scale(s), np.array(z, np.uint8)]
    check("QLinearConcat", list(parts), isa, (2, 5, 8), axis=axis)


def test_choice() -> None:
    condition = RNG.random((2, 1, 5)) < 0.5
    x, y = (RNG.integers(0, 256, (2, 3, 5)).astype(np.uint8) for _ in "xy")
    zero = np.array(7, np.uint8)
    given = [condition, x, scale(0.1), zero, y, scale(0.03), zero, scale(0.08), zero]
    check("QLinearWhere", given, None, (0, 1, 4))
