"""Every requantizer against its published formula in unbounded integers."""

from __future__ import annotations

from fractions import Fraction
from math import frexp

import numpy as np
import pytest

from rewrite.quant.faults import QuantError
from rewrite.quant.requantize import REQUANTIZERS, exact_ratio
from tests.quant import exact

INT32 = (-(1 << 31), (1 << 31) - 1)


def srdhm(a, b):
    """Half up; written as floor here, as nudge and truncation in test_rounding."""
    return min((a * b * 2 + (1 << 31)) // (1 << 32), INT32[1])


def half(x, bits, mode):
    return exact.rounded(x, 1 << bits, mode)


def q31(ratio):
    mantissa, exponent = frexp(float(ratio))
    q = exact.rounded(*Fraction(mantissa * 2**31).as_integer_ratio(), "half_away")
    return (q, exponent) if q < 1 << 31 else (q // 2, exponent + 1)


def onnx_qdq(acc, ratio):
    return exact.rounded(*(acc * ratio).as_integer_ratio(), "half_even")


def tflite(acc, ratio, second):
    q, exponent = q31(ratio)
    left = min(max(acc << max(exponent, 0), INT32[0]), INT32[1])
    return half(srdhm(left, q), max(-exponent, 0), second)


def tflite_single(acc, ratio):
    q, exponent = q31(ratio)
    shift = 31 - exponent
    return (acc * q + (1 << (shift - 1))) >> shift


def rndnu(acc, ratio):
    """The bits of a float32, as XNNPACK reads them."""
    bits = int(np.float32(float(ratio)).view(np.uint32))
    multiplier, shift = (bits & 0x7FFFFF) | 0x800000, 127 + 23 - (bits >> 23)
    return (acc * multiplier + (1 << (shift - 1))) >> shift


def vela_natural(acc, ratio):
    mantissa, exponent = frexp(float(ratio))
    scale = exact.rounded(*Fraction(mantissa * 2**31).as_integer_ratio(), "half_away")
    return half(acc * scale, 31 - exponent, "half_up")


def vela_truncate(acc, ratio):
    mantissa, exponent = frexp(float(ratio))
    scale = exact.rounded(*Fraction(mantissa * 2**31).as_integer_ratio(), "half_away")
    return half(acc * scale, 31 - exponent, "toward_zero")


FORMULAS = {
    "onnx_qdq": onnx_qdq,
    "tflite_double": lambda acc, r: tflite(acc, r, "half_away"),
    "tflite_single": tflite_single,
    "rndnu": rndnu,
    "vela": lambda acc, r: tflite(acc, r, "half_away"),
    "vela_natural": vela_natural,
    "vela_truncate": vela_truncate,
    "hvx": lambda acc, r: tflite(acc, r, "half_up"),
}


def accumulators(rng, ratio, count):
    """Ties and their neighbours, the ends of int32, and others where codes are not saturated."""
    near = [int((Fraction(int(k), 2)) / ratio) + d for k in rng.integers(-300, 300, count)
            for d in (-1, 0, 1)]  # fmt: skip
    ends = [INT32[0], INT32[0] + 1, -1, 0, 1, INT32[1] - 1, INT32[1]]
    wide = rng.integers(*INT32, 20).tolist()
    return [a for a in near + ends + wide if INT32[0] <= a <= INT32[1]]


def ratios(rng):
    dyadic = [Fraction(1, 1 << n) for n in (1, 2, 5, 8, 12, 14)]
    short = [Fraction(int(rng.integers(1, 99)), 4096) for _ in range(4)]
    free = [Fraction(float(np.float32(10.0 ** rng.uniform(-4, -0.1)))) for _ in range(12)]
    return dyadic + short + free


@pytest.mark.parametrize("name", FORMULAS)
def test_formula(name):
    rng = np.random.default_rng(11)
    requantizer = REQUANTIZERS[name]
    for ratio in ratios(rng):
        acc = accumulators(rng, ratio, 40)
        zero, low, high = int(rng.integers(-128, 128)), -128, 127
        found = requantizer.apply(np.array(acc), requantizer.derive(ratio), zero, low, high)
        wanted = [min(max(FORMULAS[name](a, ratio) + zero, low), high) for a in acc]
        assert found.tolist() == wanted, (name, ratio)


def test_float32_formula():
    """ort_x86: each operation rounded to float32 from the exact result, clamped, half to even."""
    rng = np.random.default_rng(12)
    requantizer = REQUANTIZERS["ort_x86"]
    for ratio in ratios(rng):
        acc, zero = accumulators(rng, ratio, 30), int(rng.integers(-128, 128))
        scale = Fraction(exact.f32(ratio))
        found = requantizer.apply(np.array(acc), requantizer.derive(ratio), zero, -128, 127)
        for a, f in zip(acc, found.tolist(), strict=True):
            product = Fraction(exact.f32(Fraction(exact.f32(a)) * scale))
            clamped = min(max(product, -128 - zero), 127 - zero)
            assert f == round(Fraction(clamped)) + zero


def test_scales_as_runtimes_multiply_them():
    """onnxruntime: x_s * w_s / y_s in float32; exact: the rational; both per channel."""
    rng = np.random.default_rng(13)
    x, y = np.float32(0.0371), np.float32(0.0521)
    w = (10.0 ** rng.uniform(-4, -1, 50)).astype(np.float32)
    stated = REQUANTIZERS["ort_x86"].derive_scales(np.asarray(x), w, np.asarray(y)).scale
    for s, f in zip(w, stated, strict=True):
        product = Fraction(exact.f32(exact.rational(x) * exact.rational(s)))
        assert float(f) == exact.f32(product / exact.rational(y))
    assert exact_ratio(x, w, y) == [
        exact.rational(x) * exact.rational(s) / exact.rational(y) for s in w
    ]


@pytest.mark.parametrize("name", REQUANTIZERS)
def test_channels(name):
    """Per-channel factors on any axis are those of each channel alone."""
    rng = np.random.default_rng(14)
    r = REQUANTIZERS[name]
    found = [Fraction(float(v)) for v in (10.0 ** rng.uniform(-3, -0.5, 5)).astype(np.float32)]
    acc = rng.integers(-40000, 40000, (3, 5, 4))
    whole = r.apply(acc, r.derive(found), 3, 0, 255, axis=1)
    for c, ratio in enumerate(found):
        assert np.array_equal(whole[:, c], r.apply(acc[:, c], r.derive(ratio), 3, 0, 255))


@pytest.mark.parametrize("name", REQUANTIZERS)
@pytest.mark.parametrize("bad", [0.0, -0.5, float("inf"), float("nan")])
def test_ratios_that_are_none(name, bad):
    with pytest.raises(QuantError, match="ratio"):
        REQUANTIZERS[name].derive(bad)


def test_ranges_of_ratios():
    with pytest.raises(QuantError, match="2\\^8"):
        REQUANTIZERS["rndnu"].derive(256.0)
    with pytest.raises(QuantError):
        REQUANTIZERS["tflite_double"].derive(2.0**31)
    tiny = REQUANTIZERS["tflite_double"].derive(2.0**-40)
    assert (int(tiny.multiplier), int(tiny.shift)) == (0, 31)
    vela = REQUANTIZERS["vela"].derive(2.0**-40)
    assert (int(vela.multiplier), int(vela.shift)) == (0, 16)
    almost = REQUANTIZERS["tflite_double"].derive(float(np.nextafter(1.0, 0.0)))
    assert (int(almost.multiplier), int(almost.shift)) == (1 << 30, 30)  # rounds up to one


def test_hvx_has_four_bits_of_shift():
    """Below 2^-16 the multiplier loses bits instead; the code is still that of one formula."""
    r = REQUANTIZERS["hvx"]
    for exponent, shift in ((-14, 45), (-15, 46), (-16, 46), (-17, 46)):
        assert int(r.derive(1.5 * 2.0 ** (exponent - 1)).shift) == shift
    ratio = Fraction(float(np.float32(3e-6)))
    factor = r.derive(ratio)
    assert int(factor.shift) == 46
    q = int(factor.multiplier)
    assert q == exact.rounded(*(ratio * (1 << 46)).as_integer_ratio(), "half_away")
    acc = [-(1 << 31), -70000000, -1, 0, 500000, 41000000, (1 << 31) - 1]
    wanted = [min(max(half(srdhm(a, q), 15, "half_up"), -128), 127) for a in acc]
    assert r.apply(np.array(acc), factor, 0, -128, 127).tolist() == wanted


def test_single_rounding_has_33_bits():
    """CMSIS-NN PR 220: the half that is added to a large positive product does not wrap."""
    r = REQUANTIZERS["tflite_single"]
    top = np.array([(1 << 31) - 1])
    assert r.apply(top, r.derive(float(np.nextafter(1.0, 0))), 0, -(1 << 40), 1 << 40) == [INT32[1]]
    factor = r.derive(Fraction((1 << 31) - 1, 1 << 31))
    wanted = ((1 << 31) - 1) ** 2 + (1 << 30) >> 31
    assert r.apply(top, factor, 0, -(1 << 40), 1 << 40).tolist() == [wanted]


NAMES = ("ort_x86", "rndnu", "tflite_single", "tflite_double")


def differences(ratio, acc, limit):
    """Of each of NAMES from rounding in Python's integers: how many, and the largest."""
    wanted = np.array([exact.rounded(*(int(a) * ratio).as_integer_ratio(), "half_even")
                       for a in acc])  # fmt: skip
    found = []
    for name in NAMES:
        r = REQUANTIZERS[name]
        codes = r.apply(acc, r.derive(ratio), 0, -limit, limit)
        found.append(np.abs(codes - np.clip(wanted, -limit, limit)))
    return [int((f > 0).sum()) for f in found], max(int(f.max()) for f in found)


def test_published_rates():
    """Accumulators -60000, -59993, ... and twelve float32 multipliers in [1e-4, 1e-2]: rndnu and
    single rounding are exact, float32 nearly, double rounding differs in about 0.2 %; by one."""
    acc = np.arange(-60000, 60000, 7)
    totals = np.zeros(4, int)
    for m in np.geomspace(1e-4, 1e-2, 12):
        counts, most = differences(Fraction(float(np.float32(m))), acc, 1 << 20)
        totals += counts
        assert most <= 1
    cases = 12 * acc.size
    assert cases == 205_716
    assert totals[0] / cases < 1e-3
    assert totals[1] == totals[2] == 0
    assert 0.001 < totals[3] / cases < 0.004


def test_published_ties():
    """2^-8, where every 128th accumulator of 256 is a tie: 0, 34, 34 and 67 of 17,143 differ."""
    assert differences(Fraction(1, 256), np.arange(-60000, 60000, 7), 1 << 20)[0] == [0, 34, 34, 67]
