"""Generated graphs against the reference evaluator; graphs that once failed.

REWRITE_GRAPHS: how many are generated. The full run is tests/runtime/graphs/campaign.py.
"""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import onnx
import pytest
from hypothesis import given

from rewrite.ops.dtypes import of_numpy
from tests.runtime.graphs import cases
from tests.runtime.graphs.campaign import settings_of
from tests.runtime.graphs.judge import by_device, disagreement, judged
from tests.runtime.graphs.models import Drawn, models

EXAMPLES = int(os.environ.get("REWRITE_GRAPHS", "60"))


@settings_of(EXAMPLES, derandomize=True)
@given(models())
def test_generated(drawn: Drawn) -> None:
    assert disagreement(drawn) is None


@settings_of(EXAMPLES, derandomize=True)
@given(models())
def test_reference_device(drawn: Drawn) -> None:
    """The generator makes valid models of the types it declares, and node by node they run."""
    onnx.checker.check_model(drawn.model, full_check=True)
    found = by_device(drawn.model, drawn.feeds)
    assert found is not None
    assert judged(drawn, found) is None


@pytest.mark.parametrize("file", cases.kept(), ids=lambda file: file.stem)
def test_kept(file: Path) -> None:
    assert disagreement(cases.load(file)) is None


@settings_of(5, derandomize=True)
@given(models())
def test_cases_are_kept_whole(tmp_path_factory: pytest.TempPathFactory, drawn: Drawn) -> None:
    again = cases.load(cases.keep(drawn, tmp_path_factory.mktemp("cases")))
    assert again.exact == drawn.exact
    assert [n.op_type for n in again.model.graph.node] == [
        n.op_type for n in drawn.model.graph.node
    ]
    for name, x in drawn.feeds.items():
        assert of_numpy(again.feeds[name].dtype) == of_numpy(x.dtype)
        assert np.array_equal(again.feeds[name], x)


def test_judge_sees_a_wrong_result() -> None:
    text = """<ir_version: 10, opset_import: ["" : 23]>
    g (float[2,3] x) => (float[2,3] y, int64[2] s) { y = Exp(x) s = Shape(x) }"""
    model = onnx.parser.parse_model(text)
    feeds = {"x": np.arange(6, dtype=np.float32).reshape(2, 3)}
    drawn = Drawn(model, feeds, {"y": False, "s": True})
    y, s = np.exp(feeds["x"]), np.array([2, 3])
    assert judged(drawn, [y, s]) is None
    assert judged(drawn, [y * np.float32(1 + 1e-7), s]) is None
    assert judged(drawn, [y * np.float32(1.001), s]) is not None
    assert judged(drawn, [y, s + 1]) is not None
    assert judged(drawn, [y.astype(np.float64), s]) is not None
    assert judged(drawn, [y.T, s]) is not None
