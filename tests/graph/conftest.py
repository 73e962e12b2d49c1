"""Models for the tests of reading, writing and editing."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, parser
from onnx.reference import ReferenceEvaluator

sys.path.insert(0, str(Path(__file__).parent))

FLOAT = TensorProto.FLOAT


def parsed(text: str) -> onnx.ModelProto:
    """A model in ONNX's own text form."""
    return parser.parse_model(text)


def model(
    nodes: Sequence[onnx.NodeProto],
    inputs: Sequence[onnx.ValueInfoProto],
    outputs: Sequence[onnx.ValueInfoProto],
    initializers: Sequence[TensorProto] = (),
    opset: int = 17,
    ir_version: int = 8,
    **more: object,
) -> onnx.ModelProto:
    """A model made of messages. Domains other than ai.onnx are imported at version 1."""
    graph = helper.make_graph(nodes, "g", inputs, outputs, initializers)
    domains = sorted({n.domain for n in nodes} - {""})
    imports = [helper.make_opsetid("", opset)] + [helper.make_opsetid(d, 1) for d in domains]
    return helper.make_model(graph, opset_imports=imports, ir_version=ir_version, **more)


def value(name: str, shape: Sequence[int | str | None] = (2,), dtype: int = FLOAT):
    return helper.make_tensor_value_info(name, dtype, shape)


def run(proto: onnx.ModelProto, **feeds: object) -> list[np.ndarray]:
    """The model's outputs by the reference evaluator."""
    return ReferenceEvaluator(proto).run(None, {k: np.asarray(v) for k, v in feeds.items()})


def run_runtime(proto: onnx.ModelProto, **feeds: object) -> list[np.ndarray]:
    """The model's outputs by onnxruntime, without its own rewriting."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(proto.SerializeToString(), options)
    return session.run(None, {k: np.asarray(v) for k, v in feeds.items()})


def corpus_folder() -> Path | None:
    """Where the collection of models lies, if it is here."""
    named = os.environ.get("REWRITE_CORPUS")
    beside = Path(__file__).parents[3] / "shared" / "models"
    for folder in (Path(named) if named else None, beside):
        if folder is not None and (folder / "MANIFEST.csv").is_file():
            return folder
    return None


@pytest.fixture
def corpus() -> Path:
    folder = corpus_folder()
    if folder is None:
        pytest.skip("no model collection at $REWRITE_CORPUS or ../shared/models")
    return folder
