"""Tables: the function at every code, composition, interpolation with its measured error."""

from __future__ import annotations

import math

import numpy as np
import pytest

from rewrite.quant.affine import dequantize, quantize
from rewrite.quant.codes import every_code
from rewrite.quant.faults import QuantError
from rewrite.quant.params import quant_params
from rewrite.quant.table import build, compose, interpolate


def sigmoid(x):
    return (1 / (1 + np.exp(-x))).astype(x.dtype)


def test_every_code_of_a_chain():
    source, target = quant_params("s8", 0.05, -11), quant_params("u8", 1 / 256)
    table = build(sigmoid, source, target, exact=True)
    for code in range(-128, 128):
        value = (code + 11) * float(np.float32(0.05))
        wanted = min(round(1 / (1 + math.exp(-value)) * 256), 255)
        assert table.apply(np.int8([code]))[0] == wanted
    floats = build(sigmoid, source, target)
    codes = every_code(source.code)
    assert np.array_equal(floats.apply(codes), quantize(sigmoid(dequantize(codes, source)), target))
    assert table.monotone
    assert table.entries.dtype == np.uint8


def test_shapes_and_channels():
    rng = np.random.default_rng(71)
    source = quant_params("s8", [0.05, 0.1, 0.02], [1, 2, 3], axis=1)
    target = quant_params("s8", [0.01, 0.02, 0.03], [-5, 0, 5], axis=1)
    table = build(np.tanh, source, target)
    assert table.entries.shape == (3, 256)
    x = rng.integers(-128, 128, (2, 3, 4)).astype(np.int8)
    assert np.array_equal(table.apply(x), quantize(np.tanh(dequantize(x, source)), target))
    with pytest.raises(QuantError, match="different axes"):
        build(np.tanh, source, quant_params("s8", [0.1, 0.2], axis=0))
    with pytest.raises(QuantError, match="s32"):
        build(np.tanh, quant_params("s32", 0.1), target)


def test_hardware_order():
    table = build(lambda x: x, quant_params("s8", 1.0), quant_params("s8", 1.0))
    assert table.identity
    assert table.by_bits().view(np.uint8).tolist() == list(range(256))
    assert not build(lambda x: -x, quant_params("s8", 1.0), quant_params("s8", 1.0)).identity


def test_composition():
    a, b, c = quant_params("u8", 0.1, 30), quant_params("s8", 0.02, 5), quant_params("u8", 0.01, 1)
    rows = quant_params("u8", [0.1, 0.2], [30, 3], axis=0)
    first, second = build(np.sin, a, b), build(np.cos, b, c)
    codes = every_code(a.code)
    assert np.array_equal(compose(first, second).apply(codes), second.apply(first.apply(codes)))
    x = np.stack([codes, codes])
    channels = build(np.sin, rows, b)
    assert np.array_equal(compose(channels, second).apply(x), second.apply(channels.apply(x)))
    back = build(np.abs, c, rows)
    assert np.array_equal(compose(second, back).apply(np.int8([[1, 2], [1, 2]])),
                          back.apply(second.apply(np.int8([[1, 2], [1, 2]]))))  # fmt: skip
    both = compose(compose(channels, second), back)
    assert np.array_equal(both.apply(x), back.apply(second.apply(channels.apply(x))))
    with pytest.raises(QuantError, match="u8 table behind s8 codes"):
        compose(first, first)


@pytest.mark.parametrize("bits", [4, 7, 9])
def test_interpolation_measures_its_error(bits):
    table = build(sigmoid, quant_params("s16", 1 / 2048), quant_params("u16", 1 / 65536), True)
    thin = interpolate(table, bits)
    assert len(thin.points) == (1 << (16 - bits)) + 1
    points, step = thin.points.tolist(), 1 << bits
    most = 0
    for at in range(1 << 16):
        i, r = divmod(at, step)
        value = points[i] + math.floor(((points[i + 1] - points[i]) * r) / step + 0.5)
        most = max(most, abs(value - int(table.entries[at])))
        assert thin.apply(np.array([at - 32768]))[0] == value
    assert thin.max_lsb == most
    assert (thin.witness is None) == (most == 0)
    # h^2 / 8 max |f''| for a line, half a step for each rounding: table, points, line.
    curvature = 1 / (6 * math.sqrt(3))
    assert most <= (step / 2048) ** 2 / 8 * curvature * 65536 + 1.5
