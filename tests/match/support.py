"""Shared by the matcher's tests: rules and models as text; every match is asked for three times.

`ask_everyone` runs the interpreter, the generated code (where there is some) and the matcher with
its early rejection, and fails where they do not agree.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import onnx.parser
import onnx_ir as ir

from rewrite.errors import Collector
from rewrite.graph import io
from rewrite.graph.facts import Facts
from rewrite.lang.expand import Expander
from rewrite.lang.parser import parse
from rewrite.match import codegen, interpreter, runtime
from rewrite.match.accept import applies
from rewrite.match.matcher import Entry, Matcher
from rewrite.match.pattern import compile_rule
from rewrite.match.rule import CompiledRule, Match, Mismatch
from rewrite.match.vocabulary import vocabulary
from rewrite.target.target import Target

ROOT = Path(__file__).resolve().parents[2]
EMIT = "y = Relu(y)"


def compile_text(text: str) -> CompiledRule:
    """The first rule of a text, its named patterns expanded."""
    tree = parse(text, "test.rules")
    errors = Collector()
    expander = Expander({p.name: p for p in tree.patterns}, errors)
    rule = expander.expand(tree.rules[0])
    errors.raise_if_any()
    assert rule is not None
    return compile_rule(rule, vocabulary())


def rule_text(match: str, more: str = "", *, emit: str = EMIT, claim: str = "exact") -> str:
    """A rule around a `match` clause; `more` holds `let` and `where`."""
    return f'rule r in fuse {{ """Test.""" match {match} {more} emit {emit} claim {claim} }}'


@dataclass(frozen=True)
class Model:
    facts: Facts
    model: ir.Model

    def value(self, name: str) -> ir.Value:
        for graph in self.facts.graphs():
            for value in (*graph.inputs, *graph.initializers.values()):
                if value.name == name:
                    return value
            for node in graph:
                for value in node.outputs:
                    if value.name == name:
                        return value
        raise KeyError(name)

    def node(self, output: str) -> ir.Node:
        found = self.value(output).producer()
        assert found is not None
        return found


def read_model(text: str, opset: int = 18, ir_version: int = 8) -> Model:
    """A model from ONNX's text; a header is put in front where there is none."""
    if not text.lstrip().startswith("<"):
        imports = f'["" : {opset}, "com.microsoft" : 1]'
        text = f"<ir_version: {ir_version}, opset_import: {imports}>\n{text}"
    loaded = io.load(onnx.parser.parse_model(text))
    return Model(loaded.facts, loaded.model)


def same_value(a: object, b: object) -> bool:
    if isinstance(a, tuple) and isinstance(b, tuple):
        return len(a) == len(b) and all(map(same_value, a, b))
    if isinstance(a, ir.Value) or isinstance(b, ir.Value):
        return a is b
    return type(a) is type(b) and repr(a) == repr(b)


def assert_same(a: Match | Mismatch, b: Match | None, rule: CompiledRule) -> None:
    """The interpreter's answer and another one are the same match, or both none."""
    assert isinstance(a, Match) == (b is not None), (rule.name, a, b)
    if isinstance(a, Match) and b is not None:
        assert a.nodes == b.nodes
        assert a.roots == b.roots
        assert a.branches == b.branches
        assert list(a.env) == list(b.env)
        for name in a.env:
            assert same_value(a.env[name], b.env[name]), name


def ask_everyone(
    entry: Entry, node: ir.Node, facts: Facts, target: Target | None = None
) -> Match | Mismatch:
    """What the interpreter says, after everyone said the same."""
    rule = entry.rule
    said = interpreter.match(rule, node, facts, target)
    if isinstance(entry.program, codegen.Program) and applies(rule, node, facts) is None:
        assert_same(said, runtime.load(entry.program)(node, facts, rule, target), rule)
    assert_same(said, Matcher([entry], target).match(rule.phase, node, facts), rule)
    return said


@dataclass(frozen=True)
class Answer:
    """A match in terms of names, so that a test reads like the model."""

    said: Match | Mismatch

    def __bool__(self) -> bool:
        return isinstance(self.said, Match)

    @property
    def code(self) -> str:
        return "match" if isinstance(self.said, Match) else self.said.code

    @property
    def reason(self) -> str:
        return "" if isinstance(self.said, Match) else self.said.reason

    @property
    def match(self) -> Match:
        assert isinstance(self.said, Match), self.said
        return self.said

    @property
    def names(self) -> dict[str, Any]:
        return {k: _named(v) for k, v in self.match.env.items()}

    @property
    def nodes(self) -> list[str | None]:
        return [n.outputs[0].name for n in self.match.nodes]


def _named(value: object) -> object:
    if isinstance(value, ir.Value):
        return value.name
    return tuple(map(_named, value)) if isinstance(value, tuple) else value
