"""Models that declare shapes which their own nodes contradict, as edited models often do."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx.reference import ReferenceEvaluator

import rewrite
from rewrite.graph import io
from tests.hostile.conftest import parse

STALE = """g (float[2] x, float[1,2,2,2] z) => (float[1,2,2,2] y)
<float[1,2,2,2] c, float[1,2,2,2] e, int64[4] s = {1,2,2,2}>
{ c = Relu(x)  e = Expand(c, s)  y = Concat<axis = 0>(e) }"""


def test_what_the_nodes_say_counts():
    loaded = io.load(parse(STALE))
    types = {o.name: loaded.facts.type(o).shape for n in loaded.model.graph for o in n.outputs}
    assert types["c"] == (2,)
    assert types["e"] == (1, 2, 2, 2)
    assert [n for n in loaded.notes if "contradict" in n and "'c'" in n]


@pytest.mark.parametrize("target", ["generic", "onnxruntime-cpu", "hexagon"])
def test_no_rule_believes_a_stale_declaration(target: str):
    """An Expand that the declaration makes a no-op changes the shape in truth."""
    model = parse(STALE)
    result = rewrite.apply(model, target=target)
    feeds = {"x": np.array([-1, 2], np.float32), "z": np.zeros((1, 2, 2, 2), np.float32)}
    before = ReferenceEvaluator(model).run(None, feeds)[0]
    after = ReferenceEvaluator(result.model).run(None, feeds)[0]
    assert before.shape == after.shape == (1, 2, 2, 2)
    assert np.array_equal(before, after)


def test_declarations_that_fit_are_not_touched():
    text = "g (float[N] x) => (float[N] y) <float[N] c> { c = Relu(x)  y = Neg(c) }"
    loaded = io.load(parse(text))
    assert loaded.notes == []
    assert onnx.checker.check_model(io.to_proto(loaded)) is None
