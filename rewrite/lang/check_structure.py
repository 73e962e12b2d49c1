"""Static checks of a rule as a whole: roots, groups, connectedness, progress, what is unused.

In: an expanded rule and the scope of its match. Out: diagnostics.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeGuard

from rewrite.errors import Collector, Label
from rewrite.lang import ast
from rewrite.lang.check_patterns import tops
from rewrite.lang.limits import EXPANDED_DEPTH
from rewrite.lang.quantized_words import is_parameter
from rewrite.lang.scope import Scope
from rewrite.lang.vocabulary import Vocabulary
from rewrite.lang.walk import depth, nodes

Statement = ast.MatchStatement | ast.EachStatement


def check_structure(rule: ast.Rule, vocabulary: Vocabulary, errors: Collector) -> None:
    _connected(rule.match, errors)
    _shared_roots(rule, errors)
    _deep_lets(rule, errors)
    if rule.group is not None:
        _group(rule, rule.group, vocabulary, errors)
    elif _changes_nothing(rule, vocabulary):
        message = f"the rule `{rule.name}` emits what it matches"
        hint = "it would apply to its own result again and again"
        errors.add("RW247", message, rule.emit[0].span, hint)


def statement_names(statement: Statement) -> tuple[str, ...]:
    if isinstance(statement, ast.EachStatement):
        return (statement.name,)
    return statement.names


def check_unused(rule: ast.Rule, scope: Scope, errors: Collector) -> None:
    """`let`s and attributes that are bound and never asked for."""
    for step in rule.steps:
        if isinstance(step, ast.Let) and step.name not in (*scope.used, "_"):
            message = f"`{step.name}` is computed and never used"
            errors.add("RW223", message, step.span, "remove the `let`")
    for binding in scope.bindings.values():
        if binding.sort != "attribute" or binding.places > 1 or binding.name in scope.used:
            continue
        if is_parameter(binding.name):
            continue
        message = f"the attribute is bound to `{binding.name}`, which is never used"
        hint = "write `ignored` where the attribute cannot matter"
        errors.add("RW223", message, binding.span, hint)


def _deep_lets(rule: ast.Rule, errors: Collector) -> None:
    """A `let` nests as deep as it would with those it names put in their places."""
    depths: dict[str, int] = {}
    for step in rule.steps:
        if not isinstance(step, ast.Let):
            continue
        inner = [depths[n.name] for n in nodes(step.value) if _names_let(n, depths)]
        depths[step.name] = depth(step.value) + max(inner, default=0)
        if depths[step.name] > EXPANDED_DEPTH:
            message = f"`{step.name}` and what it is computed from nest {depths[step.name]} deep"
            hint = f"at most {EXPANDED_DEPTH} levels are allowed"
            errors.add("RW110", message, step.span, hint)
            return


def _names_let(node: ast.Node, lets: Mapping[str, int]) -> TypeGuard[ast.Name | ast.Splat]:
    return isinstance(node, ast.Name | ast.Splat) and node.name in lets


# --- connectedness ------------------------------------------------------------------------------


def _connected(match: Sequence[Statement], errors: Collector) -> None:
    """Each statement shares a value with the others: report those apart from the last one."""
    values = [_values(s) for s in match]
    waiting = list(range(len(match) - 1))
    _take_connected(set(values[-1]) if values else set(), values, waiting)
    while waiting:
        first = waiting.pop(0)
        name = statement_names(match[first])[0]
        note = (Label(match[-1].span, "the last statement, where matching begins"),)
        message = f"the statement of `{name}` shares no value with the others"
        hint = f"use `{name}`, or one of its operands, in another statement"
        errors.add("RW242", message, match[first].span, hint, note)
        _take_connected(set(values[first]), values, waiting)


def _take_connected(
    reached: set[str], values: Sequence[frozenset[str]], waiting: list[int]
) -> None:
    """Remove from `waiting` every statement that hangs together with the values reached."""
    growing = True
    while growing:
        growing = False
        for i in tuple(waiting):
            if not reached.isdisjoint(values[i]):
                reached |= values[i]
                waiting.remove(i)
                growing = True


def _values(statement: Statement) -> frozenset[str]:
    found = set(statement_names(statement))
    if isinstance(statement, ast.EachStatement):
        found.add(statement.over)
    for node in nodes(statement.pattern):
        if isinstance(node, ast.Variable | ast.Rest):
            found.add(node.name)
    found.discard("_")
    return frozenset(found)


# --- roots and groups ---------------------------------------------------------------------------


def _shared_roots(rule: ast.Rule, errors: Collector) -> None:
    roots = {n for s in rule.emit for n in s.names}
    if rule.group is not None and not rule.emit:
        roots.add(rule.group.value)
    for statement in rule.match:
        if roots.isdisjoint(statement_names(statement)):
            continue
        for top in tops(statement.pattern):
            if top.shared:
                message = "a root is replaced wherever it is used; `shared` means nothing there"
                errors.add("RW243", message, top.span, "leave `shared` out")


def _group(rule: ast.Rule, group: ast.Group, vocabulary: Vocabulary, errors: Collector) -> None:
    last = rule.match[-1]
    if rule.emit:
        _emitted_group(rule, group, errors)
        return
    if rule.phase in vocabulary.phases[:-1]:
        message = f"matched nodes are grouped in phase `{vocabulary.phases[-1]}`, after all others"
        hint = "in other phases `emit` says what the group is made of"
        errors.add("RW244", message, group.span, hint)
    every = [n for s in rule.match for n in statement_names(s)]
    if group.value not in every:
        message = f"`group` names `{group.value}`, which no match statement names"
        errors.add("RW244", message, group.span, f"write `group {every[-1]} as {group.name}`")
    elif isinstance(last, ast.EachStatement) or last.names != (group.value,):
        message = "a group ends in the one value of the last match statement"
        errors.add("RW244", message, group.span, "put the statement of that value last")


def _emitted_group(rule: ast.Rule, group: ast.Group, errors: Collector) -> None:
    single = [n for s in rule.match if isinstance(s, ast.MatchStatement) for n in s.names]
    roots = [n for s in rule.emit for n in s.names if n in single]
    if group.value not in roots:
        message = f"`group` names `{group.value}`, which `emit` does not replace"
        hint = f"write `group {roots[0]} as {group.name}`" if roots else None
        errors.add("RW244", message, group.span, hint)


# --- progress -----------------------------------------------------------------------------------


def _changes_nothing(rule: ast.Rule, vocabulary: Vocabulary) -> bool:
    """Whether every emitted statement spells out the matched one."""
    if not rule.emit:
        return False
    matched = {s.names: s.pattern for s in rule.match if isinstance(s, ast.MatchStatement)}
    return all(
        s.names in matched and _same(matched[s.names], s.value, s.names[0], vocabulary)
        for s in rule.emit
    )


def _same(pattern: ast.Pattern, expr: ast.Expr, root: str, vocabulary: Vocabulary) -> bool:
    if isinstance(expr, ast.Name):
        return isinstance(pattern, ast.Variable) and pattern.name == expr.name
    if isinstance(pattern, ast.Number):
        return isinstance(expr, ast.Constant) and expr.value == pattern.value
    if isinstance(pattern, ast.Rest):
        return isinstance(expr, ast.Splat) and expr.name == pattern.name
    if not isinstance(pattern, ast.OpPattern):
        return False
    infix = {"Add": "+", "Sub": "-", "Mul": "*", "Div": "/"}
    if isinstance(expr, ast.Binary) and infix.get(pattern.op.name) == expr.operator:
        return _same_operands(pattern, (expr.left, expr.right), vocabulary)
    if not isinstance(expr, ast.OpExpr):
        return False
    if expr.op.prefix == "@" and expr.op.name == root and not expr.attributes:
        return _same_operands(pattern, expr.operands, vocabulary)
    if expr.op != pattern.op:
        return False
    return _same_operands(pattern, expr.operands, vocabulary) and (
        root in expr.carry or _same_attributes(pattern, expr)
    )


def _same_operands(
    pattern: ast.OpPattern, operands: Sequence[ast.Expr], vocabulary: Vocabulary
) -> bool:
    if len(operands) != len(pattern.operands):
        return False
    domain = vocabulary.domains.get(pattern.op.prefix, "")
    orders = [tuple(operands)]
    if (domain, pattern.op.name) in vocabulary.commutative and not pattern.ordered:
        orders.append(tuple(reversed(operands)))
    return any(
        all(_same(p, e, "", vocabulary) for p, e in zip(pattern.operands, order, strict=True))
        for order in orders
    )


def _same_attributes(pattern: ast.OpPattern, expr: ast.OpExpr) -> bool:
    emitted = {a.name: a.value for a in expr.attributes}
    for attribute in pattern.attributes:
        value = emitted.pop(attribute.name, None)
        if attribute.ignored:
            continue
        if attribute.bind is not None:
            if not isinstance(value, ast.Name) or value.name != attribute.bind:
                return False
        elif attribute.values is None or not _is_literal(value, attribute.values):
            return False
    return not emitted


def _is_literal(value: ast.Expr | None, allowed: tuple[object, ...]) -> bool:
    return len(allowed) == 1 and isinstance(value, ast.Constant) and value.value == allowed[0]
