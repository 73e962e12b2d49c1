"""Certificates of bodies, held against every accumulator of a small range, one by one."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from rewrite.quant.body import Body, Clamp
from rewrite.quant.proof import prove
from rewrite.quant.requantize import REQUANTIZERS

BOUND = 3000


def _exact(acc: int, ratio: Fraction, clamp: Clamp) -> int:
    return min(max(round(acc * ratio) + clamp.zero_point, clamp.low), clamp.high)


def _differences(name: str, factor: object, ratio: list[Fraction], clamp: Clamp) -> np.ndarray:
    """Body minus exact code for every accumulator [acc, channel]; `round` is half to even."""
    acc = np.arange(-BOUND, BOUND + 1)[:, None].repeat(len(ratio), 1)
    given = (factor, clamp.zero_point, clamp.low, clamp.high, 1)
    made = Body(REQUANTIZERS[name], BOUND).apply(acc, *given)  # type: ignore[arg-type]
    wanted = [[_exact(int(a), r, clamp) for r in ratio] for a in acc[:, 0]]
    return np.abs(made - np.array(wanted))


@pytest.mark.parametrize("refine", [False, True])
@pytest.mark.parametrize("name", ["ort_x86", "hvx", "tflite_double", "tflite_single", "rndnu"])
def test_counts_what_enumeration_counts(name: str, refine: bool) -> None:
    rng = np.random.default_rng(3)
    ties = [Fraction(1, 8), Fraction(3, 64), Fraction(1, 1024)]
    for trial in range(12):
        some = [Fraction(float(np.float32(2.0 ** rng.uniform(-12, -1)))) for _ in range(3)]
        ratio = ties if trial % 3 == 0 else some
        clamp = Clamp(int(rng.integers(-20, 20)), -128, 127 - trial, "s8")
        proof = prove(name, ratio, clamp, BOUND, refine)
        differences = _differences(name, proof.factor, ratio, clamp)
        certificate = proof.certificate
        assert certificate.mismatches == (differences > 0).sum()
        assert certificate.max_lsb == differences.max()
        assert (certificate.claim.kind == "exact") == (not differences.any())
        if certificate.witness is not None:
            acc, channel = map(int, certificate.witness)
            assert differences[acc + BOUND, channel] == certificate.max_lsb


def test_a_multiplier_nearby_makes_it_exact() -> None:
    """Of many ratios some are wrong with the nearest multiplier; most of these can be put right."""
    rng = np.random.default_rng(5)
    ratio = [Fraction(float(r)) for r in (2.0 ** rng.uniform(-9, -7, 100)).astype(np.float32)]
    clamp = Clamp(3, -128, 127, "s8")
    for name in ("hvx", "ort_x86"):
        plain = prove(name, ratio, clamp, 1 << 20)
        better = prove(name, ratio, clamp, 1 << 20, refine=True)
        assert plain.certificate.mismatches > 0
        assert better.refined > 0
        assert better.certificate.mismatches < plain.certificate.mismatches


def test_a_tie_cannot_be_put_right() -> None:
    proof = prove("hvx", [Fraction(1, 4)], Clamp(0, -128, 127, "s8"), BOUND, refine=True)
    assert (proof.certificate.max_lsb, proof.refined) == (1, 0)
    assert (
        prove("ort_x86", [Fraction(1, 4)], Clamp(0, -128, 127, "s8"), BOUND).certificate.claim.kind
        == "exact"
    )
