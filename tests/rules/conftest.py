"""Shared by the tests of rule packs: packs loaded once, models as text, numbers by onnxruntime."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import parser

from rewrite import resources
from rewrite.engine import driver
from rewrite.engine.journal import Journal
from rewrite.engine.limits import Options
from rewrite.graph import io
from rewrite.lang.pack import RulePack, load_pack
from rewrite.match import matcher
from rewrite.match.vocabulary import vocabulary
from rewrite.target.target import Lut, Target

TARGET = Target(
    "test", "A target for tests.", "test.yaml", (), (7, 26), True, None,
    lut=(Lut(256, 8), Lut(65536, 16)),
)  # fmt: skip


@cache
def pack(name: str) -> RulePack:
    """A shipped pack."""
    folder = resources.shipped("rules")[name]
    return load_pack(folder, vocabulary(), [resources.folder("rules")])


@cache
def _matcher(name: str) -> matcher.Matcher:
    return matcher.build(pack(name), TARGET)


def parse(text: str, opset: int = 18, ir: int = 10) -> onnx.ModelProto:
    """A checked model from ONNX text; a header is added where it has none."""
    if not text.lstrip().startswith("<"):
        text = f'<ir_version: {ir}, opset_import: ["" : {opset}]>\n{text}'
    model = parser.parse_model(text)
    onnx.checker.check_model(model, full_check=True)
    return model


@dataclass(frozen=True)
class Rewritten:
    before: onnx.ModelProto
    model: onnx.ModelProto
    journal: Journal

    @property
    def ops(self) -> list[str]:
        return [node.op_type for node in self.model.graph.node]

    @property
    def rules(self) -> list[str]:
        return sorted({record.rule for record in self.journal.applied})

    def run(self, **feeds: Any) -> list[np.ndarray]:
        """The outputs of the rewritten model."""
        return run(self.model, feeds)


def run(model: onnx.ModelProto, feeds: Mapping[str, Any]) -> list[np.ndarray]:
    """Outputs by onnxruntime with its own rewriting switched off."""
    onnxruntime = pytest.importorskip("onnxruntime", reason="the numbers come from onnxruntime")
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    return list(session.run(None, {name: np.asarray(value) for name, value in feeds.items()}))


def rewrite(model: str | onnx.ModelProto, name: str = "algebra", opset: int = 18) -> Rewritten:
    """The model with all rules of one pack applied; valid ONNX, or the test fails."""
    before = parse(model, opset) if isinstance(model, str) else model
    loaded = io.load(before)
    journal = driver.run(loaded, _matcher(name), TARGET, options=Options())
    after = io.to_proto(loaded)
    onnx.checker.check_model(after, full_check=True)
    return Rewritten(before, after, journal)


@pytest.fixture(name="rewrite", scope="session")
def _rewrite() -> Callable[..., Rewritten]:
    return rewrite


@pytest.fixture(name="run", scope="session")
def _run() -> Callable[..., list[np.ndarray]]:
    return run
