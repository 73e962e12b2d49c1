"""Conversions between all element types, against rewrite.ops and onnx's own tables."""

from __future__ import annotations

import numpy as np
import pytest
from onnx.reference.ops.op_cast import cast_to

from rewrite.codegen.isa import Isa
from rewrite.ops.dtypes import BITS, integer_range, to_numpy
from rewrite.ops.evaluate import evaluate
from rewrite.schema import DTYPES
from tests.codegen.bodies import one_step
from tests.codegen.elements import NUMERIC, SPECIAL, as_type, everything, is_integer, same
from tests.codegen.harness import isas

ISAS = isas()
OPSET = 28
EIGHT_BITS = ("f8e4m3fn", "f8e4m3fnuz", "f8e5m2", "f8e5m2fnuz")
# Pairs that other machines compute by other instructions; on this one, all pairs are compared.
ELSEWHERE = ("f32", "f16", "bf16", "f8e5m2", "f8e4m3fn", "u8", "s64", "s4", "bool", "f64", "u64")


def cast(
    x: np.ndarray, target: str, isa: Isa, saturate: int = 1, round_mode: str = "up"
) -> np.ndarray:
    attributes = {"to": DTYPES[target], "saturate": saturate, "round_mode": round_mode}
    return one_step("Cast", [x], target, isa, attributes=attributes)


def check(x: np.ndarray, target: str, isa: Isa, saturate: int = 1, round_mode: str = "up") -> int:
    """Compares where the standard gives a value; how many elements that were."""
    attributes = {"to": DTYPES[target], "saturate": saturate, "round_mode": round_mode}
    found = cast(x, target, isa, saturate, round_mode)
    whole = evaluate("", "Cast", OPSET, [x], attributes)
    if whole:
        assert same(whole[0], found).all()
        return x.size
    compared = 0
    for i in range(0, x.size, max(1, x.size // 150)):
        one = evaluate("", "Cast", OPSET, [x[i : i + 1]], attributes)
        if one:
            assert same(one[0], found[i : i + 1]).all(), (x[i], one[0], found[i])
            compared += 1
    return compared


@pytest.mark.parametrize("source", NUMERIC)
def test_every_pair(source: str) -> None:
    x = everything(source)
    for target in NUMERIC:
        assert check(x, target, ISAS[0]) > 0


@pytest.mark.parametrize("isa", ISAS[1:], ids=lambda isa: f"{8 * isa.vector_bytes}")
def test_other_machines(isa: Isa) -> None:
    for source in ELSEWHERE:
        x = everything(source)
        for target in ELSEWHERE:
            check(x, target, isa)


@pytest.mark.parametrize("isa", ISAS, ids=lambda isa: f"{8 * isa.vector_bytes}")
@pytest.mark.parametrize("target", EIGHT_BITS)
def test_not_saturating(target: str, isa: Isa) -> None:
    for source in ("f32", "f16", "bf16", "s16"):
        assert check(everything(source), target, isa, saturate=0) > 100


@pytest.mark.parametrize("mode", ["up", "down", "nearest"])
def test_powers_of_two(mode: str) -> None:
    for source in ("f32", "f16", "s32", "f64"):
        assert check(everything(source), "f8e8m0", ISAS[0], 1, mode) > 5


def test_powers_of_two_out_of_range() -> None:
    """The table of special values in the text of Cast."""
    x = np.array([0.0, np.nan, np.inf, 3e38, 1e-40, 1.0, 1.5, 2.0**-127], np.float32)
    codes = cast(x, "f8e8m0", ISAS[0]).view(np.uint8)
    assert codes.tolist() == [0, 255, 254, 254, 0, 127, 128, 0]
    codes = cast(x, "f8e8m0", ISAS[0], 0, "nearest").view(np.uint8)
    assert codes.tolist() == [255, 255, 255, 255, 255, 127, 128, 0]


@pytest.mark.parametrize("target", EIGHT_BITS)
@pytest.mark.parametrize("saturate", [0, 1])
def test_table_of_8_bit_floats(target: str, saturate: int) -> None:
    """Special numbers as the reference evaluator converts them, element for element."""
    x = np.concatenate([as_type(SPECIAL, "f32"), everything("f32")])
    wanted = cast_to(x, DTYPES[target], bool(saturate))
    assert same(wanted, cast(x, target, ISAS[0], saturate)).all()


@pytest.mark.parametrize("target", [d for d in NUMERIC if is_integer(d)])
def test_floats_out_of_range(target: str) -> None:
    """Nothing is undefined: what the documentation of rewrite/codegen/convert.py says."""
    numbers = [-1.5, -200.7, 300.2, 70000.0, 1e30, -1e30, np.inf, -np.inf, 0.9, -0.9]
    low, high = integer_range(target)
    width = BITS[target]
    wide = 32 if width < 32 else 64
    wanted = [0]
    for x in numbers:
        whole = int(max(min(x, 2.0**70), -(2.0**70)))
        if target in ("s32", "s64") or (target == "u64" and whole >= 0):
            wanted.append(max(low, min(high, whole)))
            continue
        whole = max(-(1 << (wide - 1)), min((1 << (wide - 1)) - 1, whole))
        wanted.append((whole - low) % (1 << width) + low)
    for kind in (np.float32, np.float64):
        x = np.array([np.nan, *numbers] * 5, kind)
        for isa in ISAS:
            assert cast(x, target, isa)[: len(wanted)].tolist() == wanted, kind


def test_nan_as_a_small_float() -> None:
    x = np.full(20, np.nan, np.float32)
    for target, code in (("f4e2m1", 8), ("f6e2m3", 32), ("f6e3m2", 32)):
        assert cast(x, target, ISAS[0]).view(np.uint8).tolist() == [code] * 20


def test_elements_below_a_byte_keep_their_bits() -> None:
    for dtype in ("u4", "s4", "u2", "s2", "f4e2m1", "f6e2m3"):
        x = everything(dtype)
        assert np.array_equal(x.view(np.uint8), cast(x, dtype, ISAS[0]).view(np.uint8))


@pytest.mark.parametrize(
    ("source", "target"),
    [("f32", "s32"), ("s32", "f32"), ("f16", "u16"), ("u16", "bf16"), ("f64", "s64"), ("u8", "s8")],
)
def test_bits(source: str, target: str) -> None:
    x = everything(source)
    wanted = x.view(to_numpy(target))
    found = one_step("BitCast", [x], target, attributes={"to": DTYPES[target]})
    assert same(wanted, found).all()


def test_cast_like() -> None:
    x = everything("f32")[:100]
    found = one_step("CastLike", [x, np.zeros(100, np.float16)], "f16")
    with np.errstate(over="ignore"):
        assert same(x.astype(np.float16), found).all()
