"""Sums of codes, against TensorFlow Lite's formula in Python integers and exact fractions."""

from __future__ import annotations

import random
from fractions import Fraction

import numpy as np
import pytest

from rewrite.quant.body import Arrays, Clamp
from rewrite.quant.codes import code_type
from rewrite.quant.sums import derive_sum, prove_sum, sum_body

NAMES = ["ort_x86", "hvx", "rndnu", "tflite_single", "tflite_double", "vela"]


def _f32(value: float) -> Fraction:
    return Fraction(float(np.float32(value)))


def _doubled(x: int, ratio: Fraction) -> int:
    """MultiplyByQuantizedMultiplierSmallerThanOneExp of TensorFlow Lite, half away by hand."""
    exponent = 0
    while ratio * 2**exponent < Fraction(1, 2):
        exponent += 1
    scaled = ratio * 2 ** (exponent + 31)
    q = int(scaled + Fraction(1, 2))
    if q == 1 << 31:
        q, exponent = q // 2, exponent - 1
    high = (x * q + (1 << 30)) >> 31
    if exponent <= 0:
        return high << -exponent
    mask = (1 << exponent) - 1
    threshold = (mask >> 1) + (1 if high < 0 else 0)
    return (high >> exponent) + (1 if (high & mask) > threshold else 0)


def _tflite(a: int, b: int, scales: tuple[Fraction, ...], zero: int) -> int:
    twice = 2 * max(scales[:2])
    x = _doubled(a << 20, scales[0] / twice) + _doubled(b << 20, scales[1] / twice)
    return min(max(_doubled(x, twice / ((1 << 20) * scales[2])) + zero, -128), 127)


@pytest.mark.parametrize("name", NAMES)
def test_certificates_count_right(name: str) -> None:
    rng = random.Random(4)
    s8 = code_type("s8")
    codes = np.arange(-128, 128)
    a, b = np.repeat(codes, 256), np.tile(codes, 256)
    for trial in range(3):
        scales = tuple(_f32(rng.uniform(0.01, 0.2)) for _ in range(3))
        scales = scales if trial else (_f32(0.25), _f32(0.25), _f32(0.5))  # ties
        zeros, clamp = (rng.randrange(-9, 9), 3), Clamp(1, -128, 127, "s8")
        plan = derive_sum(name, *scales, 8)
        proof = prove_sum(plan, scales, zeros, clamp, (s8, s8, s8))
        first, second = (x - z for x, z in zip((a, b), zeros, strict=True))
        made = sum_body(Arrays(), plan, first.astype(np.int32), second.astype(np.int32), clamp, 256)
        exact = [
            min(max(round((int(x) * scales[0] + int(y) * scales[1]) / scales[2]) + 1, -128), 127)
            for x, y in zip(first[::7], second[::7], strict=True)
        ]
        difference = np.abs(made[::7].astype(int) - np.array(exact))
        assert difference.max() <= proof.max_lsb <= 1
        assert proof.mismatches >= (difference > 0).sum()
        if proof.mismatches == 0:
            assert not difference.any()


def test_tensorflow_lite() -> None:
    rng = random.Random(9)
    for _ in range(20):
        scales = tuple(_f32(rng.uniform(0.01, 0.2)) for _ in range(3))
        a, b = (np.array([rng.randrange(-255, 256) for _ in range(300)]) for _ in range(2))
        clamp = Clamp(rng.randrange(-128, 128), -128, 127, "s8")
        plan = derive_sum("tflite_double", *scales, 8)
        made = sum_body(Arrays(), plan, a.astype(np.int32), b.astype(np.int32), clamp, 256)
        wanted = [
            _tflite(int(x), int(y), scales, clamp.zero_point) for x, y in zip(a, b, strict=True)
        ]
        assert made.tolist() == wanted
