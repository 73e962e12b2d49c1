"""Checks of what a pack does with rules of other packs, and with targets."""

from __future__ import annotations

from collections.abc import Iterator

import onnx_ir as ir

from rewrite.audit.examples import asks_target
from rewrite.audit.lint.conditions import conjuncts, verdicts
from rewrite.audit.lint.finding import Found
from rewrite.audit.lint.registry import check
from rewrite.audit.lint.subject import Subject
from rewrite.errors import Span
from rewrite.graph.facts import Facts
from rewrite.lang import ast
from rewrite.lang.printer import print_expr
from rewrite.lang.walk import nodes
from rewrite.match.expr import compile_condition
from rewrite.match.values import Env, Unknown
from rewrite.schema import DTYPES
from rewrite.target.target import Target


@check("RW923", "warning")
def refines_nothing(subject: Subject) -> Iterator[Found]:
    """A `refine` that changes nothing.

    The rule it names is disabled, or its conditions follow from those that the rule has already.
    (A `refine` or a `disable` of a rule that does not exist is an error when the pack is loaded,
    RW308.)

    ```yaml
    name: page
    doc: A page.
    extends: [quant-symmetric]
    ```

    ```rule bad
    refine symmetric_weights with where is_const(K)
    ```

    ```rule good
    refine symmetric_weights with where rank(K) == 2
    ```
    """
    for tree in subject.trees:
        for refinement in tree.refinements:
            problem = _idle(subject, refinement)
            if problem is not None:
                span = refinement.span
                place = Span(span.file, span.line, span.column, span.line, span.column + 6)
                yield Found(problem, place, refinement.rule, "remove it")


def _idle(subject: Subject, refinement: ast.Refine) -> str | None:
    rule = subject.expanded.get(refinement.rule)
    if rule is None:
        return f"`{refinement.rule}` is refined and disabled"
    added = {where.span for where in refinement.where}
    parts = sum(1 for where in refinement.where for _ in conjuncts(where.condition))
    idle = [
        v
        for v in verdicts(rule, subject.operators)
        if v.where is not None and v.where.span in added and v.truth in ("always", "repeated")
    ]
    if len(idle) < parts:
        return None
    return f"`{refinement.rule}` has these conditions already"


@check("RW925", "warning")
def no_target_lets_it_fire(subject: Subject) -> Iterator[Found]:
    '''A rule that asks for what no target has.

    A condition about the target alone is false for every shipped target that uses the pack, or for
    all of them where none does: the rule never fires.

    ```rule bad
    rule gelu_of_target in lower {
      """Gelu, where the target has one with a table for 12 bits."""
      match y = Neg(Neg(x))
      where target.lut(12)
      emit  y = x
      claim exact
      example fires plain """g (float x) => (float y) { a = Neg(x)  b = Neg(a)  y = Abs(b) }"""
      example rejects once """g (float x) => (float y) { a = Neg(x)  y = Abs(a) }"""
    }
    ```

    ```rule good
    rule gelu_of_target in lower {
      """-(-x) = x, where the target has tables for 8 bits."""
      match y = Neg(Neg(x))
      where target.lut(8)
      emit  y = x
      claim exact
      example fires plain """g (float x) => (float y) { a = Neg(x)  b = Neg(a)  y = Abs(b) }"""
      example rejects once """g (float x) => (float y) { a = Neg(x)  y = Abs(a) }"""
    }
    ```
    '''
    for rule in subject.own():
        if not asks_target(rule):
            continue
        for step in rule.steps:
            if not isinstance(step, ast.Where) or step.when is not None:
                continue
            for atom in conjuncts(step.condition):
                if _only_target(atom) and not any(_holds(atom, t) for t in subject.targets):
                    message = f"`{print_expr(atom)}` holds for no target"
                    names = ", ".join(target.name for target in subject.targets)
                    hint = f"looked at: {names}"
                    yield Found(message, atom.span, rule.name, hint)


def _only_target(expr: ast.Expr) -> bool:
    """Whether it asks the target and nothing of a match."""
    names = {n.name for n in nodes(expr) if isinstance(n, ast.Name)}
    asks = "target" in names or any(isinstance(n, ast.MethodCall) for n in nodes(expr))
    calls = any(isinstance(n, ast.Call) for n in nodes(expr))
    return asks and not calls and not names - {"target"} - DTYPES.keys()


def _holds(expr: ast.Expr, target: Target) -> bool:
    """Also where it cannot be told without a model."""
    nothing = Facts(ir.Model(ir.Graph((), (), nodes=()), ir_version=10))
    try:
        return compile_condition(expr)(Env({}, nothing, target))
    except Unknown:
        return True
