"""Means of codes against exact fractions: at most one step off, and only next to ties."""

from __future__ import annotations

import random
from fractions import Fraction

import numpy as np
import pytest

from rewrite.quant.body import Arrays, Clamp
from rewrite.quant.faults import QuantError
from rewrite.quant.means import MOST_COUNT, derive_mean, mean_body


@pytest.mark.parametrize("name", ["hvx", "ort_x86"])
def test_within_a_step(name: str) -> None:
    rng = random.Random(8)
    slack = Fraction(1, 1 << (16 if name == "hvx" else 13))
    for _ in range(300):
        ratio = Fraction(float(np.float32(2.0 ** rng.uniform(-12, 7))))
        count = rng.choice([1, 2, 49, rng.randrange(1, MOST_COUNT), MOST_COUNT])
        clamp = Clamp(rng.randrange(-128, 128), -128, 127, "s8")
        totals = [rng.randrange(-255 * count, 255 * count + 1) for _ in range(40)]
        totals += [-255 * count, 255 * count, 0]
        total = np.array(totals, np.int32)
        made = mean_body(Arrays(), derive_mean(name, ratio), total, np.array(count), clamp)
        for t, code in zip(totals, made.tolist(), strict=True):
            real = t * ratio / count
            exact = min(max(round(real) + clamp.zero_point, -128), 127)
            near = abs(real - (real.numerator // real.denominator) - Fraction(1, 2)) < slack
            assert code == exact or (near and abs(code - exact) == 1)


def test_large_ratios_are_refused() -> None:
    with pytest.raises(QuantError):
        derive_mean("hvx", Fraction(300))
