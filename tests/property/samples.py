"""Models to start from: the examples of every rule of the shipped packs, as checked models.

In: the rules as text. Out: `Sample`s. An example that the ONNX checker does not take is no sample
(tests/rules/test_examples.py fails on it).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

import onnx
from onnx import parser

from rewrite import resources
from rewrite.audit.examples import with_header
from rewrite.lang import ast
from rewrite.lang.pack import RulePack, load_pack
from rewrite.match.vocabulary import vocabulary

INVALID = (
    onnx.checker.ValidationError,
    onnx.shape_inference.InferenceError,
    RuntimeError,
    TypeError,
    ValueError,
)


@dataclass(frozen=True)
class Sample:
    pack: str
    rule: str
    name: str
    fires: bool
    model: onnx.ModelProto

    def __str__(self) -> str:
        return f"{self.rule}/{'fires' if self.fires else 'rejects'}.{self.name}"


@cache
def pack(name: str) -> RulePack:
    return load_pack(resources.shipped("rules")[name], vocabulary(), [resources.folder("rules")])


@cache
def samples() -> tuple[Sample, ...]:
    """Every example of every rule, in the order of the text; packs in name order."""
    return tuple(s for name in sorted(resources.shipped("rules")) for s in _of_pack(name))


def _of_pack(name: str) -> Iterator[Sample]:
    loaded = pack(name)
    for rule in loaded.rules:
        if loaded.origins[rule.name].pack != name:
            continue
        for number, example in enumerate(rule.examples, 1):
            model = _model(example, _opset(rule, loaded.example_opset))
            if model is not None:
                yield Sample(name, rule.name, example.name or str(number), example.fires, model)


def _opset(rule: ast.Rule, wanted: int) -> int:
    """The pack's `example_opset`, moved into the range of the rule."""
    low, high = rule.opset or (wanted, wanted)
    return max(low, min(wanted, high if high is not None else wanted))


def _model(example: ast.Example, opset: int) -> onnx.ModelProto | None:
    try:
        model = parser.parse_model(with_header(example.text, opset))
    except parser.ParseError:
        return None
    return model if valid(model) else None


def ends_the_process(graph: onnx.GraphProto) -> bool:
    """Whether ONNX's shape inference reads beyond a vector: more outputs than `num_outputs`."""
    for node in graph.node:
        for attribute in node.attribute:
            parts = node.op_type == "Split" and attribute.name == "num_outputs"
            if parts and attribute.i < len(node.output):
                return True
            if attribute.HasField("g") and ends_the_process(attribute.g):
                return True
    return False


def valid(model: onnx.ModelProto) -> bool:
    if ends_the_process(model.graph):
        return False
    try:
        onnx.checker.check_model(model, full_check=True)
    except INVALID:
        return False
    return True
