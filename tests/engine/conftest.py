"""Shared by the engine's tests: rules and models as text, results checked by onnxruntime."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import parser

from rewrite.engine import driver
from rewrite.engine.journal import Journal
from rewrite.engine.ledger import Ledger
from rewrite.engine.limits import Limits, Options
from rewrite.graph import io
from rewrite.lang.pack import load_pack
from rewrite.match import matcher
from rewrite.match.vocabulary import vocabulary
from rewrite.target.target import Target

TARGET = Target("test", "A target for tests.", "test.yaml", (), (7, 26), True, None)


@dataclass(frozen=True)
class Outcome:
    before: onnx.ModelProto
    model: onnx.ModelProto
    journal: Journal

    @property
    def ops(self) -> list[str]:
        return [node.op_type for node in self.model.graph.node]

    @property
    def reasons(self) -> list[str]:
        return [record.reason for record in self.journal.refused]

    @property
    def ledger(self) -> Ledger:
        return Ledger.of(self.journal)


Rewriter = Callable[..., Outcome]


def parse(text: str, opset: int = 18, ir: int = 10, domains: str = "") -> onnx.ModelProto:
    """A checked model from ONNX text; a header is added where it has none."""
    if not text.lstrip().startswith("<"):
        text = f'<ir_version: {ir}, opset_import: ["" : {opset}{domains}]>\n{text}'
    model = parser.parse_model(text)
    onnx.checker.check_model(model)
    return model


def rule(
    match: str,
    emit: str,
    name: str = "r",
    phase: str = "fold",
    claim: str = "exact",
    where: str = "",
    over: str = "",
) -> str:
    """The text of a rule with what a pack demands and these tests do not look at."""
    emit = emit if emit.startswith("group") else f"emit {emit}"
    where = f"where {where}" if where else ""
    over = f"over {over}" if over else ""
    examples = 'example fires """x"""\n example rejects """x"""'
    body = f'"""Test."""\n match {match}\n {where}\n {emit}\n claim {claim}\n {examples}'
    return f"rule {name} in {phase} {over} {{\n {body}\n}}\n"


@pytest.fixture
def rewriter(tmp_path: Path) -> Rewriter:
    """rewriter(rules, model): the rules applied, alone unless `fold` or `tidy` are asked for."""

    def run(
        rules: str,
        model: str | onnx.ModelProto,
        opset: int = 18,
        fold: bool = False,
        tidy: bool = False,
        limits: Limits | None = None,
        target: Target = TARGET,
        progress: Any = None,
        max_class: str = "approx",
    ) -> Outcome:
        (tmp_path / "pack.yaml").write_text("name: test\ndoc: Test.\nopset: [7, 26]\n")
        (tmp_path / "test.rules").write_text(rules)
        pack = load_pack(tmp_path, vocabulary())
        before = parse(model, opset) if isinstance(model, str) else model
        loaded = io.load(before)
        options = Options(fold=fold, tidy=tidy, max_class=max_class)
        built = matcher.build(pack, target)
        journal = driver.run(loaded, built, target, limits, options, progress)
        after = io.to_proto(loaded)
        onnx.checker.check_model(after)
        return Outcome(before, after, journal)

    return run


@pytest.fixture
def make_rule() -> Callable[..., str]:
    return rule


@pytest.fixture
def parse_model() -> Callable[..., onnx.ModelProto]:
    return parse


@pytest.fixture
def outputs() -> Callable[..., list[np.ndarray]]:
    """outputs(model, x=array): what onnxruntime computes without optimizing."""
    import onnxruntime

    def run(model: onnx.ModelProto, **feeds: Any) -> list[np.ndarray]:
        options = onnxruntime.SessionOptions()
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
        options.log_severity_level = 4
        session = onnxruntime.InferenceSession(
            model.SerializeToString(), options, providers=["CPUExecutionProvider"]
        )
        arrays = {name: np.asarray(value) for name, value in feeds.items()}
        return [np.asarray(output) for output in session.run(None, arrays)]

    return run
