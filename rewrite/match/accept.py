"""What must hold of a whole match, whoever found it.

In: bindings and matched nodes. Out: `Match`, or the `Failure` that prevents it: values used
outside, roots that coincide, guards of the branches taken, conditions of `where`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter

import onnx_ir as ir

from rewrite.errors import Span
from rewrite.graph.facts import Facts
from rewrite.match import budget
from rewrite.match import form as f
from rewrite.match.rule import CompiledRule, Condition, Match
from rewrite.match.values import Env, Unknown
from rewrite.target.target import Target

FORM = itemgetter(0)  # of something taken


@dataclass(frozen=True, slots=True)
class Failure:
    """Why an attempt ended. `subject` is the node or value it ended at."""

    code: str
    reason: str
    span: Span | None
    subject: object


# A node that a form matched: the number of the form, the node, whether uses outside are allowed,
# how many of its outputs the pattern names: the others must be unused.
Taken = tuple[int, ir.Node, bool, int]


def applies(rule: CompiledRule, node: ir.Node, facts: Facts) -> Failure | None:
    """Whether the rule may be tried here at all: the operator and the opset."""
    if (node.domain, node.op_type) not in rule.anchors:
        return Failure("operator", f"the rule does not end in {node.op_type}", None, node)
    if not node.outputs or node.graph is None:
        return Failure("graph", "the node is in no graph", None, node)
    opset = facts.import_of(node.graph, "")
    low, high = rule.opset
    if not low <= opset <= high:
        reason = f"the opset is {opset}, the rule is for {low} to {high}"
        return Failure("opset", reason, rule.rule.span, node)
    return None


def accept(
    rule: CompiledRule,
    names: dict[str, object],
    taken: Sequence[Taken],
    branches: Sequence[str],
    guards: Sequence[int],
    facts: Facts,
    target: Target | None,
) -> Match | Failure:
    """The match, if everything holds that concerns more than one node.

    `names` has every name of the pattern, `taken` is in the order of its text.
    """
    nodes = tuple(dict.fromkeys([t[1] for t in taken]))
    roots = roots_of(rule, names)
    if isinstance(roots, Failure):
        return roots
    failure = same_node(rule, names) or next(escapes(rule, taken, nodes, roots), None)
    if failure is not None:
        return failure
    env = Env(names, facts, target, frozenset(branches), nodes, rule.lets)
    for guard in guards:
        failure = accept_guard(rule, env, guard)
        if failure is not None:
            return failure
    failure = _conditions(rule, env)
    return Match(rule, env, roots) if failure is None else failure


def roots_of(rule: CompiledRule, names: Mapping[str, object]) -> tuple[ir.Value, ...] | Failure:
    """The values that the match replaces."""
    found: list[ir.Value] = []
    for name in rule.roots:
        value = names.get(name)
        values = value if isinstance(value, tuple) else (value,)
        for item in values:
            if not isinstance(item, ir.Value):
                return Failure("root", f"`{name}` was not matched", rule.rule.span, None)
            found.append(item)
    if len(found) > 1 and len(set(found)) != len(found):
        return Failure("root", "two roots are the same value", rule.rule.span, found[0])
    return tuple(found)


def same_node(rule: CompiledRule, names: Mapping[str, object]) -> Failure | None:
    """A statement that is found through uses must be another node than the other statements are.

    Backwards a node is reached by the operands that name it; through uses, the node that leads
    there is among those found. A statement with alternatives may be another one's value itself.
    """
    if not rule.pattern.forward:
        return None
    seen: dict[object, f.Statement] = {}
    for statement in rule.pattern.statements:
        if not isinstance(statement.form, f.Op) or isinstance(statement, f.Each):
            continue
        value = next((names.get(name) for name in statement.names if name is not None), None)
        node = value.producer() if isinstance(value, ir.Value) else None
        if node is not None and seen.setdefault(node, statement) is not statement:
            return Failure("same", "two statements are the same node", statement.span, node)
    return None


def escapes(
    rule: CompiledRule,
    taken: Sequence[Taken],
    nodes: Sequence[ir.Node],
    roots: Sequence[ir.Value],
) -> Iterator[Failure]:
    """Values of matched nodes that are used outside of the match and must not be."""
    for index, node, shared, named in taken:
        if shared:
            continue
        for place, output in enumerate(node._outputs):
            if output in roots:
                continue
            reason = _use_outside(output, nodes if place < named else ())
            if reason is not None:
                yield Failure("uses", reason, rule.pattern.forms[index].span, output)


def _use_outside(output: ir.Value, nodes: Sequence[ir.Node]) -> str | None:
    if output._is_graph_output:
        return "it is also an output of the graph"
    for use in output._uses:
        if use.node not in nodes:
            named = f"it is also used by {use.node.op_type}"
            return named if nodes else "an output that is not matched is used"
    return None


def accept_guard(rule: CompiledRule, env: Env, guard: int) -> Failure | None:
    """None where the guard of a branch holds."""
    condition, span = rule.guards[guard]
    return _holds(env, condition, "guard", span)


def _conditions(rule: CompiledRule, env: Env) -> Failure | None:
    for step in rule.steps:
        if step.when is not None and not env.holds(step.when):
            continue
        failure = _holds(env, step.condition, "where", step.span)
        if failure is not None:
            return failure
    return None


def _holds(env: Env, condition: Condition, code: str, span: Span) -> Failure | None:
    subject = env.nodes[0] if env.nodes else None
    try:
        if condition(env):
            return None
    except budget.Exhausted:
        raise
    except Unknown as unknown:
        return Failure("unknown", unknown.reason, span, subject)
    return Failure(code, "the condition does not hold", span, subject)
