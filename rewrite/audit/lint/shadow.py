"""Rules and branches that an earlier one always takes the place of.

In: two compiled rules, or two branches of one alternative. Out: whether the first matches wherever
the second does, its conditions included. Yes only where it is sure.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from rewrite.audit.lint.conditions import Conditions, conjuncts, inlined
from rewrite.audit.lint.known import known_of
from rewrite.audit.lint.unify import Subsumption
from rewrite.engine.ledger import CLASSES, Bound
from rewrite.lang import ast
from rewrite.lang.versions import Operators
from rewrite.lang.walk import nodes, replace_nodes
from rewrite.match import form as f
from rewrite.match.rule import CompiledRule


def covers(upper: CompiledRule, lower: CompiledRule, operators: Operators) -> bool:
    """Whether `upper` may be used wherever `lower` may: pattern, conditions, opsets, promise."""
    opsets = upper.opset[0] <= lower.opset[0] and lower.opset[1] <= upper.opset[1]
    first, second = Bound.of(upper.claim), Bound.of(lower.claim)
    if not opsets or CLASSES.index(first.kind) > CLASSES.index(second.kind):
        return False
    matched = Subsumption(upper.pattern, lower.pattern)
    if not matched.holds():
        return False
    told = Conditions(known_of(lower.rule, operators))
    told.learn(lower.rule)
    return all(
        condition is not None and told.truth(condition, None)[0] is True
        for condition in _renamed_conditions(upper.rule, matched.names)
    )


def _renamed_conditions(
    rule: ast.Rule, names: Mapping[str, str | int | float | None]
) -> Iterator[ast.Expr | None]:
    """In terms of the other rule; None where that cannot be said."""
    lets: dict[str, ast.Expr] = {}
    for step in rule.steps:
        if isinstance(step, ast.Let):
            lets[step.name] = inlined(step.value, lets)
        elif step.when is not None:
            yield None
        else:
            for atom in conjuncts(step.condition):
                yield _renamed(inlined(atom, lets), names)


def _renamed(expr: ast.Expr, names: Mapping[str, str | int | float | None]) -> ast.Expr | None:
    asked = {n.name for n in nodes(expr) if isinstance(n, ast.Name)}
    if any(name in names and names[name] is None for name in asked):
        return None

    def change(node: ast.Node) -> ast.Node:
        if not isinstance(node, ast.Name) or node.name not in names:
            return node
        new = names[node.name]
        if isinstance(new, str):
            return ast.Name(node.span, new)
        return ast.Constant(node.span, new, str(new))

    found = replace_nodes(expr, change)
    assert isinstance(found, ast.Expr)
    return found


def dead_branches(rule: CompiledRule) -> Iterator[tuple[f.Branch, f.Branch]]:
    """A branch that is never taken, and the earlier one that is taken in its place."""
    asked = _asked(rule.rule)
    for form in rule.pattern.forms:
        if not isinstance(form, f.Choice):
            continue
        for i, later in enumerate(form.branches):
            for earlier in form.branches[:i]:
                if earlier.guard is not None or asked & {earlier.name, later.name}:
                    continue
                if _same_names(rule.pattern, earlier.form, later.form):
                    yield later, earlier
                    break


def _same_names(pattern: f.Pattern, earlier: f.Form, later: f.Form) -> bool:
    matched = Subsumption(pattern, pattern)
    if not matched.covers(earlier, later):
        return False
    return all(name == other for name, other in matched.names.items())


def _asked(rule: ast.Rule) -> frozenset[str | None]:
    """Names that conditions depend on: what they say may differ from branch to branch."""
    found: set[str | None] = set()
    for step in rule.steps:
        if isinstance(step, ast.Where):
            found.add(step.when)
        found.update(n.name for n in nodes(step) if isinstance(n, ast.CaseArm))
    return frozenset(found - {None})
