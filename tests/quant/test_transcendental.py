"""QLinearSigmoid and QLinearSoftmax against 80 digits."""

from __future__ import annotations

from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
import pytest

from rewrite.quant.reference import Arithmetic, evaluate
from rewrite.quant.rounding import Order
from tests.quant import exact

MICROSOFT = "com.microsoft"


@pytest.mark.parametrize("kind", [np.uint8, np.int8])
@pytest.mark.parametrize("order", list(Order))
def test_sigmoid_at_every_code(kind, order):
    rng = np.random.default_rng(111)
    info = np.iinfo(kind)
    x = np.arange(info.min, info.max + 1).astype(kind)
    for y_s in (1 / 256, 1 / 255, 0.0040, 0.25):
        x_s, y_s = np.float32(rng.uniform(0.005, 0.3)), np.float32(y_s)
        zx, zy = (int(rng.integers(info.min, info.max + 1)) for _ in range(2))
        operands = [x, x_s, kind(zx), y_s, kind(zy)]
        (found,) = evaluate(MICROSOFT, "QLinearSigmoid", operands, {}, Arithmetic(order=order))
        for code, f in zip(x.tolist(), found.tolist(), strict=True):
            with localcontext() as context:
                context.prec = 80
                power = ((code - zx) * Decimal(float(x_s))).exp()
                quotient = Fraction(power / (1 + power)) / exact.rational(y_s)
            if code == zx:
                quotient = Fraction(1, 2) / exact.rational(y_s)
            wanted = exact.code(*quotient.as_integer_ratio(), zy, (info.min, info.max),
                                order is Order.ADD_THEN_ROUND)  # fmt: skip
            assert f == wanted


@pytest.mark.parametrize("opset", [11, 13])
def test_softmax(opset):
    rng = np.random.default_rng(112)
    for y_s in (1 / 256, 1 / 255, 0.1, 1 / 8):
        x = rng.integers(0, 256, (2, 3, 4)).astype(np.uint8)
        x[0, 0] = x[0, 0, 0]  # equal numbers: exactly one quarter each
        x_s, y_s = np.float32(rng.uniform(0.01, 0.2)), np.float32(y_s)
        operands = [x, x_s, np.uint8(7), y_s, np.uint8(3)]
        axis = 2 if opset == 13 else 1
        (found,) = evaluate(MICROSOFT, "QLinearSoftmax", operands, {"axis": axis, "opset": opset})
        rows = x.reshape(-1, 4) if opset == 13 else x.reshape(2, 12)
        wanted = []
        for row in rows:
            with localcontext() as context:
                context.prec = 80
                powers = [(int(v) * Decimal(float(x_s))).exp() for v in row]
                parts = [Fraction(p) for p in powers]
            quotients = [p / sum(parts) / exact.rational(y_s) for p in parts]
            if len(set(row.tolist())) == 1:
                quotients = [Fraction(1, len(row)) / exact.rational(y_s)] * len(row)
            wanted += [exact.code(*q.as_integer_ratio(), 3, (0, 255)) for q in quotients]
        assert found.reshape(-1).tolist() == wanted
