"""Operands that are missing, empty, of another type, shape or scale: a value or a named fault."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

from rewrite.quant.faults import QuantError
from rewrite.quant.params import faults, quant_params
from rewrite.quant.reference import OPERATORS, evaluate
from tests.quant.cases import CASES, calls

MICROSOFT = "com.microsoft"


def spoilt(rng, operands):
    """The operands with one of them replaced or cut off; and what was done."""
    bad, i = list(operands), int(rng.integers(len(operands)))
    if bad[i] is None:
        return None
    x = np.asarray(bad[i])
    changes = {
        "absent": None, "empty": x.reshape(-1)[:0], "s32": x.astype(np.int32),
        "doubled": np.stack([x, x]), "deeper": x[None], "zero": np.zeros_like(x),
    }  # fmt: skip
    if x.dtype.kind == "f":
        changes |= {"nan": np.full_like(x, np.nan), "inf": np.full_like(x, np.inf),
                    "negative": -np.abs(x)}  # fmt: skip
    what = list(changes)[rng.integers(len(changes))]
    bad[i] = changes[what]
    return bad


@pytest.mark.parametrize("operator", OPERATORS, ids=lambda o: f"{o[0] or 'ai.onnx'}-{o[1]}")
def test_a_value_or_a_named_fault(operator):
    rng = np.random.default_rng(131)
    cases = operator if operator in CASES else (MICROSOFT, "QLinearLeakyRelu")
    named = 0
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for operands, attributes in calls(cases, 60, 132, 4):
            bad = spoilt(rng, operands)
            if bad is None:
                continue
            try:
                evaluate(*operator, bad, attributes)
            except QuantError as problem:
                named += len([f for f in problem.faults if f])
    assert named > 10


@pytest.mark.parametrize("name", [n for d, n in CASES if d == MICROSOFT and n[:2] == "QL"])
@pytest.mark.parametrize("scale", [0.0, -1.0, np.inf, np.nan])
def test_every_scale_is_checked(name, scale):
    operands, attributes = calls((MICROSOFT, name), 1, 133, 4)[0]
    for i, x in enumerate(operands):
        if np.asarray(x).dtype != np.float32:
            continue
        bad = [*operands[:i], np.float32(scale), *operands[i + 1 :]]
        with pytest.raises(QuantError, match="scale"):
            evaluate(MICROSOFT, name, bad, attributes)


def test_faults_never_raise():
    rng = np.random.default_rng(134)
    scales = [np.float32(0.1), np.zeros((0, 2), np.float32), np.full((2, 2), np.nan), np.int8(3),
              np.array("x"), np.array([True])]  # fmt: skip
    zeros = [None, np.int8(3), np.zeros((3, 1), np.uint8), np.float32(np.nan), np.array("y"),
             np.zeros(0, np.int64), -1000]  # fmt: skip
    for _ in range(600):
        params = quant_params(
            str(rng.choice(["u8", "s4", "f8e5m2", "s32"])),
            scales[rng.integers(len(scales))],
            zeros[rng.integers(len(zeros))],
            [None, 0, 1, 7, -1][rng.integers(5)],
            [None, 0, -2, 3][rng.integers(4)],
        )
        shape = [None, (), (2, 3), ("n", 3), (0, 3), (None, None)][rng.integers(6)]
        found = faults(params, shape)
        assert all(isinstance(f, str) for f in found)
        good = params.scale.dtype == np.float32 and params.scale.size == 1 and params.axis is None
        if not good:
            assert found or shape is None or params.scale.size > 0
    assert evaluate("", "Conv", [], {}) is None
