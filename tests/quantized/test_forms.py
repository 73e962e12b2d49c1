"""Must hold 3 of quantization: one network, every form, the same groups and the same integers."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import onnx
import pytest
from network import FORMS, Form, build

import rewrite
from rewrite.engine.floats import PAIR, floats_left

ort = pytest.importorskip("onnxruntime")

TARGETS = ("hexagon", "x86-avx2", "cortex-m")
# Codes depend on the type of the activations; what they stand for does not.
SHIFTED = ("input_zero_point", "output_zero_point", "low", "high")


@cache
def _rewritten(form: Form, target: str) -> onnx.ModelProto:
    return _result(form, target).model


@cache
def _result(form: Form, target: str) -> rewrite.Result:
    return rewrite.apply(build(form), target=target)


def _calls(model: onnx.ModelProto) -> list[dict[str, Any]]:
    """Every group with its attributes, zero points and clamps as for u8."""
    found = []
    for node in model.graph.node:
        if node.domain == "":
            continue
        entry: dict[str, Any] = {"op": node.op_type.split("_")[0]}
        given = {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}
        for name, value in given.items():
            if name in SHIFTED and given["low"] < 0:
                value = [v + 128 for v in value] if isinstance(value, list) else value + 128
            entry[name] = value
        found.append(entry)
    return sorted(found, key=str)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("form", FORMS[1:], ids=lambda form: form.name)
def test_the_same_groups(form: Form, target: str) -> None:
    assert _calls(_rewritten(form, target)) == _calls(_rewritten(FORMS[0], target))


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.name)
def test_no_float_operator_is_left(form: Form, target: str) -> None:
    result = _result(form, target)
    assert floats_left(result.loaded.facts, result.journal.refused) == ()
    pairs = [node.op_type for node in result.model.graph.node if node.op_type in PAIR]
    assert sorted(pairs) == sorted(PAIR)


def _run(model: onnx.ModelProto, image: np.ndarray) -> list[np.ndarray]:
    session = ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return session.run(None, {"image": image})


@pytest.mark.parametrize("target", TARGETS)
def test_the_same_integers(target: str) -> None:
    rng = np.random.default_rng(1)
    for amplitude in (0.5, 1.0, 4.0):
        image = rng.normal(0, amplitude, (1, 3, 9, 9)).astype(np.float32)
        results = []
        for form in FORMS:
            scores, codes = _run(_rewritten(form, target), image)
            results.append((scores, codes.astype(int) + (128 if form.signed else 0)))
        for scores, codes in results[1:]:
            np.testing.assert_array_equal(codes, results[0][1])
            np.testing.assert_array_equal(scores, results[0][0])
