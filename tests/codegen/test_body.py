"""Scalar programs: every elementwise operator on every element type, against numpy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from rewrite.codegen.body import _STEPS, emit_body
from rewrite.codegen.ir import Module
from rewrite.codegen.isa import Isa
from rewrite.codegen.memory import register_type
from rewrite.ops import registry, schemas
from rewrite.ops.evaluate import differs, evaluate, tolerance
from rewrite.ops.registry import OpDef
from rewrite.plan import coded
from rewrite.plan.pointwise import STEPS, is_pointwise
from rewrite.plan.spec import Body, Constant
from tests.codegen.bodies import one_step, run_body, run_checked, step
from tests.codegen.elements import as_type, is_integer, pairs, sample
from tests.codegen.harness import isas

ISAS = isas()
COUNT = 83  # several vectors of every width, and a tail
NARROW_ISAS = ("f32", "f16", "s32", "u8", "s64", "bool")  # where code differs between machines
Key = tuple[str, str]


def elementwise() -> list[tuple[Key, OpDef]]:
    return [
        (key, found)
        for key, found in registry.operators().items()
        if found.kind == "elementwise" and callable(found.body)
    ]


def types_of(key: Key) -> list[str]:
    """Element types that the operator takes."""
    schema = schemas.versions(*key)[-1]
    first = schema.inputs[0].type
    found = schema.types.get(first, frozenset({first}))
    return sorted(t for t in found if t not in ("string", "c64", "c128"))


def operand_count(body: Any) -> int:
    return body.__code__.co_argcount - 1 + (2 if body.__code__.co_flags & 0x04 else 0)


def operands(key: Key, body: Any, dtype: str) -> list[np.ndarray]:
    """Arrays in the operator's domain."""
    arrays = [sample(dtype, COUNT, k) for k in range(operand_count(body))]
    name = key[1]
    if name in ("Div", "Mod"):
        arrays[1][arrays[1] == 0] = 1
    if name == "BitShift":
        arrays[1] = arrays[1] % np.array(8 * arrays[0].itemsize, arrays[0].dtype)
    if name == "Pow":
        arrays[1] = np.abs(np.arange(COUNT) % 6).astype(arrays[0].dtype)
    if name in ("Acos", "Asin", "Atanh"):
        arrays[0] = as_type(np.linspace(-0.99, 0.99, COUNT), dtype)
    if name == "Acosh":
        arrays[0] = as_type(np.linspace(1, 30, COUNT), dtype)
    return arrays


def attributes_of(key: Key, body: Any, dtype: str) -> dict[str, Any]:
    found = dict(body.__kwdefaults__ or {})
    if key[1] == "BitShift":
        found["direction"] = "LEFT"
    if key[1] == "Mod" and not is_integer(dtype):
        found["fmod"] = 1
    return found


def result_type(definition: OpDef, dtype: str) -> str:
    return "bool" if definition.infer.__name__.endswith("bool") else dtype


def expected(key: Key, arrays: list[np.ndarray], attributes: dict[str, Any]) -> np.ndarray | None:
    if key == ("", "Clip"):  # whose bounds are scalars in ONNX; of each element, as it defines it
        x, low, high = arrays
        with np.errstate(invalid="ignore"):
            return np.minimum(high, np.maximum(x, low))
    opset = schemas.versions(*key)[-1].since
    found = evaluate(*key, opset, arrays, attributes)
    return found[0] if found else None


@pytest.mark.parametrize("isa", ISAS, ids=lambda isa: f"{8 * isa.vector_bytes}")
def test_every_operator(isa: Isa) -> None:
    done = 0
    for key, definition in elementwise():
        for dtype in types_of(key):
            if isa is not ISAS[0] and dtype not in NARROW_ISAS:
                continue
            arrays = operands(key, definition.body, dtype)
            attributes = attributes_of(key, definition.body, dtype)
            wanted = expected(key, arrays, attributes)
            assert wanted is not None, (key, dtype)
            out = result_type(definition, dtype)
            found = one_step(key[1], arrays, out, isa, key[0], attributes)
            allowed = tolerance(*key, dtype)
            assert allowed is not None
            if key[1] == "Shrink" and dtype in ("s64", "u64"):
                continue  # numpy computes numbers above 2^53 in float64: see test_scalar.py
            problem = differs(wanted, found, allowed)
            assert problem is None, (key, dtype, problem)
            done += 1
    assert done > 150


@pytest.mark.parametrize("isa", ISAS, ids=lambda isa: f"{8 * isa.vector_bytes}")
@pytest.mark.parametrize("dtype", ["f32", "f16", "bf16"])
def test_special_numbers(isa: Isa, dtype: str) -> None:
    """Zeros, infinities and NaN of every operator. Numpy computes in float64: where float32 may
    overflow or have a subnormal factor on the way, large numbers are left out."""
    a, b = pairs(dtype)
    moderate = np.ones(a.shape, bool)
    for side in (a.astype(np.float64), b.astype(np.float64)):
        moderate &= (np.abs(side) < 1e30) | ~np.isfinite(side)
    for key, definition in elementwise():
        if dtype not in types_of(key):
            continue
        body: Any = definition.body
        arrays = [a, b, b][: operand_count(body)]
        attributes = attributes_of(key, body, dtype)
        wanted = expected(key, arrays, attributes)
        if wanted is None:  # the sign of NaN
            assert key[1] == "Sign"
            continue
        found = one_step(key[1], arrays, result_type(definition, dtype), isa, key[0], attributes)
        if wanted.dtype == bool:
            assert np.array_equal(wanted, found), key
            continue
        wide = key[1] in ("Mean", "BiasGelu", "FastGelu", "SwiGLU")
        at = moderate if wide else np.ones(a.shape, bool)
        _compare_special(key, wanted[at], found[at], tolerance(*key, dtype) or 0.0)


def _compare_special(key: Key, wanted: np.ndarray, found: np.ndarray, allowed: float) -> None:
    x, y = wanted.astype(np.float64), found.astype(np.float64)
    assert np.array_equal(np.isnan(x), np.isnan(y)), key
    kept = ~np.isnan(x)
    x, y = x[kept], y[kept]
    infinite = np.isinf(x) | np.isinf(y)
    assert np.array_equal(x[infinite], y[infinite]), key
    # Of products of a rounded factor with a large number the product's error counts.
    scale = np.maximum(np.abs(x[~infinite]), 1e-3)
    assert np.all(np.abs(x[~infinite] - y[~infinite]) <= max(allowed, 2e-6) * 20 * scale), key


def test_steps_agree_with_planning() -> None:
    """What planning calls pointwise is what code is written for, and nothing else."""
    without_body = {key for key in _STEPS if key in STEPS}
    assert without_body == STEPS
    for key in _STEPS:
        assert is_pointwise(*key, {}) != (key[0] == coded.DOMAIN), key  # which plans make up
    for key, _ in elementwise():
        assert is_pointwise(*key, {}), key
    for key in (("", "Softmax"), ("", "MatMul"), ("", "Nothing"), ("ai.onnx.ml", "Scaler")):
        assert not is_pointwise(*key, {}), key
    assert not is_pointwise("", "Cast", {"to": 8})
    assert not is_pointwise("", "Cast", {"to": 14})
    assert is_pointwise("", "Cast", {"to": 23})
    assert not is_pointwise("", "QuantizeLinear", {"block_size": 2})
    assert not is_pointwise("", "Add", {}, ["c64", "c64"])
    assert is_pointwise("", "Where", {}, ["bool", "c64", "c64"])
    assert not is_pointwise("", "Equal", {}, ["string", "string"])


# --- programs -----------------------------------------------------------------------------------


@pytest.mark.parametrize("isa", ISAS, ids=lambda isa: f"{8 * isa.vector_bytes}")
def test_program(isa: Isa) -> None:
    """Several steps, constants, absent operands, two results."""
    body = Body(
        ("f32", "f32"),
        (
            step("Mul", (0, Constant("f32", 0.1)), "f32"),
            step("Add", (2, 1), "f32"),
            step("Clip", (3, None, Constant("f32", 0.5)), "f32"),
            step("Greater", (3, Constant("f32", 0.0)), "bool"),
            step("Where", (5, 4, 0), "f32"),
        ),
        (6, 5),
    )
    x, y = sample("f32", 1000, 1), sample("f32", 1000, 2)
    total = x * np.float32(0.1) + y  # two roundings: no fused multiply-add between operators
    found = run_body(body, [x, y], isa, splits=3)
    positive = total > 0
    assert np.array_equal(found[1], positive)
    assert np.array_equal(found[0], np.where(positive, np.minimum(total, np.float32(0.5)), x))


@pytest.mark.parametrize("isa", ISAS, ids=lambda isa: f"{8 * isa.vector_bytes}")
@pytest.mark.parametrize("dtype", ["f16", "bf16"])
def test_every_step_is_rounded(isa: Isa, dtype: str) -> None:
    body = Body(
        (dtype, dtype),
        (step("Mul", (0, 1), dtype), step("Add", (2, 0), dtype), step("Sqrt", (3,), dtype)),
        (4,),
    )
    x = as_type(np.linspace(0.1, 50, 999), dtype)
    y = as_type(np.linspace(3, 0.01, 999), dtype)

    def once(value: np.ndarray) -> np.ndarray:
        return as_type(value, dtype).astype(np.float32)

    wide, other = x.astype(np.float32), y.astype(np.float32)
    wanted = once(np.sqrt(once(once(wide * other) + wide)))
    assert np.array_equal(run_body(body, [x, y], isa)[0].astype(np.float32), wanted)


def test_program_without_operands() -> None:
    body = Body((), (step("Add", (Constant("s32", 3), Constant("s32", 4)), "s32"),), (0,))
    f = Module("m").function("k", [])
    found = emit_body(f, ISAS[0], body, [])
    assert [v.type for v in found] == ["i32"]


@pytest.mark.parametrize(
    ("name", "reference"),
    [
        ("Gelu", lambda x: x / 2 * (1 + np.tanh(0.7978845608028654 * (x + 0.044715 * x**3)))),
        ("FastGelu", lambda x: x / 2 * (1 + np.tanh(0.7978845608028654 * (x + 0.044715 * x**3)))),
    ],
)
def test_approximate_gelu(name: str, reference: Callable[[np.ndarray], np.ndarray]) -> None:
    x = np.linspace(-12, 12, 4001).astype(np.float32)
    domain = "com.microsoft" if name == "FastGelu" else ""
    attributes = {"approximate": "tanh"} if name == "Gelu" else {}
    found = one_step(name, [x], "f32", None, domain, attributes)
    assert np.max(np.abs(found - reference(x.astype(np.float64)))) < 1e-6
    edges = np.array([np.inf, -3e38, np.nan, -0.0] * 4, np.float32)
    found = one_step(name, [edges], "f32", None, domain, attributes)
    assert np.array_equal(found[:4], [np.inf, 0, np.nan, 0], equal_nan=True)


def test_division_by_zero_is_reported() -> None:
    body = Body(("s32", "s32"), (step("Div", (0, 1), "s32"),), (2,))
    x, y = np.arange(50, dtype=np.int32), np.ones(50, np.int32)
    assert run_checked(body, [x, y])[1] == 0
    y[37] = 0
    found, status = run_checked(body, [x, y])
    assert status == 2
    assert found[0][37] == 0
    assert np.array_equal(found[0][:37], x[:37])


@pytest.mark.parametrize("lanes", [0, 4])
def test_values_keep_their_register_types(lanes: int) -> None:
    """What a step gives has the register of its element type."""
    f = Module("m").function("k", [])
    for dtype in ("f32", "f64", "f16", "s8", "u64", "bool", "f8e4m3fn", "s4"):
        type_ = register_type(dtype, lanes)
        body = Body((dtype,), (step("Identity", (0,), dtype),), (1,))
        assert emit_body(f, ISAS[0], body, [f.zero(type_)])[0].type == type_
