"""The text of a body gives what the requantizer itself gives, and never leaves 64 bits."""

from __future__ import annotations

import numpy as np
import pytest

from rewrite.quant.body import Body, has_body
from rewrite.quant.faults import QuantError
from rewrite.quant.requantize import REQUANTIZERS
from rewrite.target.requantize import MODES

NAMES = [name for name in REQUANTIZERS if has_body(name)]


def test_modes_of_targets_have_bodies() -> None:
    named = {name for mode in MODES.values() for name in mode.requantizers}
    assert named == set(NAMES)
    for mode in MODES.values():
        assert len(mode.requantizers) in (0, len(mode.roundings))
        assert mode.wide is None or mode.wide in mode.roundings


def _accumulators(rng: np.random.Generator, bound: int, channels: int) -> np.ndarray:
    wide = rng.integers(-bound, bound, (200, channels), endpoint=True)
    near = rng.integers(-2000, 2000, (200, channels))
    edges = np.repeat(np.array([[-bound], [bound], [0], [1], [-1]]), channels, axis=1)
    return np.concatenate([wide, np.clip(near, -bound, bound), edges])


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("bound", [1 << 15, 1 << 24, (1 << 30) - 1])
def test_equals_the_requantizer(name: str, bound: int) -> None:
    rng = np.random.default_rng(7)
    for channels in (1, 5):
        for _ in range(40):
            ratio = 2.0 ** rng.uniform(-20, -1, channels)
            base = REQUANTIZERS[name]
            acc = _accumulators(rng, bound, channels)
            factor = base.derive(ratio if channels > 1 else float(ratio[0]))
            given = (factor, int(rng.integers(-128, 127)), -128, 127, 1)
            np.testing.assert_array_equal(
                Body(base, bound).apply(acc, *given), base.apply(acc, *given)
            )


@pytest.mark.parametrize("name", NAMES)
def test_ties(name: str) -> None:
    base = REQUANTIZERS[name]
    acc = np.arange(-(1 << 14), 1 << 14)
    for power in (1, 3, 8):
        factor = base.derive(2.0**-power)
        given = (factor, 3, -128, 127, 0)
        np.testing.assert_array_equal(
            Body(base, 1 << 20).apply(acc, *given), base.apply(acc, *given)
        )


def test_products_that_do_not_fit_are_refused() -> None:
    base = REQUANTIZERS["tflite_single"]
    with pytest.raises(QuantError, match="64 bits"):
        Body(base, 1 << 33).apply(np.array([1]), base.derive(0.999), 0, -128, 127)
