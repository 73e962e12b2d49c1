"""Attributes that a pattern ignores, given other values.

In: a rule with its examples. Out: `Changed`: an attribute whose value changes what the example
computes, while the rule does not ask for it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import onnx
from onnx import helper

from rewrite.audit.compare import differ
from rewrite.audit.feeds import NoFeedsError, coarsest, make_feeds
from rewrite.audit.instances.draft import graphs
from rewrite.audit.lint.witness import UNREADABLE, Witness
from rewrite.audit.runtimes import CannotRunError, Reference, source_of, working_plan
from rewrite.engine import driver
from rewrite.engine.ledger import Ledger
from rewrite.engine.limits import Options
from rewrite.graph import io
from rewrite.graph.uses import nodes_of
from rewrite.lang import ast
from rewrite.lang.versions import Operators, attributes
from rewrite.lang.walk import nodes
from rewrite.match.matcher import Matcher
from rewrite.schema import DTYPE_ATTRIBUTES
from rewrite.target.target import Target

_FLAGS = (0, 1)
_AXES = (0, 1, -1)
_REALS = (0.5, 2.0)
# Counts: other numbers make other models, or none that a library survives.
_COUNTS = frozenset((
    "block_size", "num_outputs", "start", "end", "seed", "q_num_heads", "kv_num_heads", "group",
    "qk_matmul_output_mode", "stash_type",
))  # fmt: skip
_MOST_EXAMPLES = 2
_RUNS = 2

Value = int | float


@dataclass(frozen=True, slots=True)
class Ignored:
    """`attribute` of `operator`, with the pattern that ignores it."""

    operator: str
    attribute: str
    pattern: ast.AttributePattern
    values: Sequence[Value]


@dataclass(frozen=True, slots=True)
class Changed:
    ignored: Ignored
    value: Value
    witness: Witness
    difference: str


def ignored_in(rule: ast.Rule, operators: Operators) -> tuple[Ignored, ...]:
    """Numbers that every pattern of their operator in the rule ignores."""
    opsets = (rule.opset[0] or 0, rule.opset[1] or operators.vocabulary.newest_opset)
    found: dict[tuple[str, str], Ignored | None] = {}
    patterns = [n for s in rule.match for n in nodes(s) if isinstance(n, ast.OpPattern)]
    for pattern in patterns:
        known = attributes(operators.within(pattern.op, opsets))
        for test in pattern.attributes:
            key = (pattern.op.name, test.name)
            values = _values(test.name, known[test.name].kind if test.name in known else "")
            if not test.ignored or not values:
                found[key] = None
            else:
                found.setdefault(key, Ignored(*key, test, values))
    return tuple(one for one in found.values() if one is not None)


def _values(name: str, kind: str) -> Sequence[Value]:
    if kind == "float":
        return _REALS
    if kind != "int" or name in _COUNTS or name in DTYPE_ATTRIBUTES:
        return ()
    return _AXES if name == "axis" else _FLAGS


def changed(
    rule: ast.Rule,
    witnesses: Sequence[Witness],
    matchers: Sequence[tuple[Target, Matcher]],
    operators: Operators,
) -> Iterator[Changed]:
    """Of each attribute the first value that makes a difference."""
    firing = [w for w in witnesses if w.rule == rule.name and w.fires]
    for ignored in ignored_in(rule, operators):
        for witness in firing[:_MOST_EXAMPLES]:
            found = _first(ignored, witness, matchers)
            if found is not None:
                yield found
                break


def _first(
    ignored: Ignored, witness: Witness, matchers: Sequence[tuple[Target, Matcher]]
) -> Changed | None:
    for value in ignored.values:
        model = _with_value(witness, ignored, value)
        if model is None:
            continue
        for target, matcher in matchers:
            alone = [e for e in matcher.entries if e.rule.name == witness.rule]
            reason = _difference(model, Matcher(alone, target), target)
            if reason is not None:
                return Changed(ignored, value, witness, reason)
    return None


def _is_axis(witness: Witness, ignored: Ignored, value: Value) -> bool:
    """Whether it is one of what the operators work on: libraries do not look."""
    loaded = witness.load()
    if loaded is None:
        return False
    nodes = [n for n in nodes_of(loaded.model.graph) if n.op_type == ignored.operator]
    for node in nodes:
        first = node.inputs[0] if node.inputs else None
        shape = None if first is None else loaded.facts.type(first).shape
        if shape is None or not -len(shape) <= value < len(shape):
            return False
    return True


def _with_value(witness: Witness, ignored: Ignored, value: Value) -> onnx.ModelProto | None:
    """The example with the attribute of all such operators changed; None where nothing changes."""
    if ignored.attribute == "axis" and not _is_axis(witness, ignored, value):
        return None
    if witness.model is None or _may_not_end(witness.model):
        return None
    model = onnx.ModelProto()
    model.CopyFrom(witness.model)
    changing = [n for n in model.graph.node if n.op_type == ignored.operator]
    for node in changing:
        old = [a for a in node.attribute if a.name == ignored.attribute]
        if any(a.i == value or a.f == value for a in old):
            return None
        for attribute in old:
            node.attribute.remove(attribute)
        node.attribute.append(helper.make_attribute(ignored.attribute, value))
    try:
        onnx.checker.check_model(model, full_check=True)
    except (onnx.checker.ValidationError, onnx.shape_inference.InferenceError, *UNREADABLE):
        return None
    return model if changing else None


def _may_not_end(model: onnx.ModelProto) -> bool:
    """Whether there is a loop: nothing ends a run of the reference evaluator."""
    return any(node.op_type == "Loop" for graph in graphs(model.graph) for node in graph.node)


def _difference(model: onnx.ModelProto, matcher: Matcher, target: Target) -> str | None:
    """What the rule makes of the model differs by more than it promises; None where it does not.

    Only the reference evaluator computes: odd attributes end the process in faster runtimes.
    """
    try:
        loaded = io.load(model)
        journal = driver.run(loaded, matcher, target, options=Options(fold=False, tidy=False))
        if not journal.applied:
            return None
        bound = Ledger.of(journal).total
        first, second = Reference(source_of(model)), Reference(source_of(io.to_proto(loaded)))
        plan, _ = working_plan(first, model, seed=0)
        for seed in range(_RUNS):
            feeds = make_feeds(model, plan, seed)
            names = [output.name for output in model.graph.output]
            for name, a, b in zip(names, first.run(feeds), second.run(feeds), strict=True):
                found = differ(name, a, b, bound, eps=coarsest(model))
                if found is not None:
                    return str(found)
    except (CannotRunError, NoFeedsError, *UNREADABLE):
        return None
    return None
