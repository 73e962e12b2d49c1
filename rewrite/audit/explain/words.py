"""What would have to be true, in words: the second half of "it would match if ...".

In: a violation of a near match. Out: a clause.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from reprlib import Repr
from typing import TypeVar

import onnx_ir as ir

from rewrite.lang import ast
from rewrite.lang.printer import print_expr
from rewrite.lang.quantized_words import as_written, is_parameter, written
from rewrite.match.builtins.registry import to_items
from rewrite.match.expr import compile_condition, compile_expr, names_in
from rewrite.match.form import Form, Number, Op
from rewrite.match.items import Atom, tests_of
from rewrite.match.near import Near, Violation
from rewrite.match.rule import CompiledRule
from rewrite.match.structure import operator_words
from rewrite.match.values import ElementType, Env, Symbol, Tensor, Unknown, is_graph_value
from rewrite.schema import DTYPES

_COMPARISONS = frozenset({"==", "!=", "<", "<=", ">", ">=", "in", "not in"})
_MOST_NAMES = 3  # whose values a condition is told with
_MOST_ELEMENTS = 6  # of a constant that is told

FormT = TypeVar("FormT", bound=Form)

_short = Repr()
_short.maxtuple = _short.maxlist = 6
_short.maxstring = _short.maxother = 60


def would(rule: CompiledRule, way: Near, violation: Violation) -> str:
    """What would have to be different for this test to hold."""
    write = _CLAUSES.get(violation.code)
    return write(rule, way, violation) if write is not None else violation.reason


def _value(violation: Violation) -> str:
    """The value or node that it is about, as it is called in the model."""
    at = violation.at
    if isinstance(at, ir.Value):
        return f"`{at.name}`"
    if isinstance(at, ir.Node):
        return node_words(at)
    return "it"


def node_words(node: ir.Node) -> str:
    """What a node is called: its operator and its first output."""
    return f"{operator_words((node.domain, node.op_type))} `{node.outputs[0].name}`"


def _form(rule: CompiledRule, violation: Violation, kind: type[FormT]) -> FormT | None:
    """The part of the pattern that it is about."""
    forms = (x for x in rule.pattern.forms if isinstance(x, kind) and x.span == violation.span)
    return next(forms, None)


def _const(rule: CompiledRule, way: Near, violation: Violation) -> str:
    return f"{_value(violation)} were constant"


def _overridable(rule: CompiledRule, way: Near, violation: Violation) -> str:
    return f"initializer {_value(violation)} were not a graph input"


def _wanted(rule: CompiledRule, way: Near, violation: Violation) -> str:
    """An element type or a shape: what the pattern says and what is there."""
    test = tests_of(rule).test(violation.key)
    assert test is not None  # what is asked of a type is a test
    found = violation.reason.partition(", not ")[0].removeprefix("its ")
    has = "the shape" if violation.code == "shape" else "the element type"
    return f"{_value(violation)} had {has} {test.words} ({found})"


def _literal(rule: CompiledRule, way: Near, violation: Violation) -> str:
    form = _form(rule, violation, Number)
    number = "" if form is None else form.value
    found = way.scope.facts.scalar(violation.at) if isinstance(violation.at, ir.Value) else None
    is_now = "" if found is None else f" (it is {found:g})"
    return f"{_value(violation)} were the constant {number}{is_now}"


def _attribute(rule: CompiledRule, way: Near, violation: Violation) -> str:
    test = tests_of(rule).test(violation.key)
    name, _, wanted = (test.words if test is not None else "").partition(": ")
    found = violation.reason.rpartition(" is ")[2]
    return f"attribute {name} of {_value(violation)} were {wanted} (it is {found})"


def _same(rule: CompiledRule, way: Near, violation: Violation) -> str:
    name = violation.key.partition(":")[2].partition("#")[0]
    known = way.names.get(name)
    if isinstance(violation.at, ir.Node):
        attribute = violation.reason.removesuffix(" differs")
        return f"{attribute} of {_value(violation)} were {_shown(way.scope, known)}"
    called = f"`{known.name}`" if isinstance(known, ir.Value) else f"what `{written(name)}` is"
    return f"{_value(violation)} were {called}"


def _uses(rule: CompiledRule, way: Near, violation: Violation) -> str:
    _, found, use = violation.reason.partition("it is also ")
    if not found:
        return f"{_value(violation)}, which the pattern does not name, were not used"
    return f"{_value(violation)} were not also {use}"


def _absent(rule: CompiledRule, way: Near, violation: Violation) -> str:
    return f"{_value(violation)} had the operand `{written(violation.key.partition(':')[2])}`"


def _present(rule: CompiledRule, way: Near, violation: Violation) -> str:
    return f"the operand {_value(violation)} were not there"


def _operator(rule: CompiledRule, way: Near, violation: Violation) -> str:
    form = _form(rule, violation, Op)
    wanted = "what the pattern has there" if form is None else operator_words(form.operator)
    at = violation.at
    made = at.producer() if isinstance(at, ir.Value) else None
    found = "no node" if made is None else operator_words((made.domain, made.op_type))
    return f"{_value(violation)} were produced by {wanted} ({found} produces it)"


def _output(rule: CompiledRule, way: Near, violation: Violation) -> str:
    return f"{_value(violation)} were another output of its node: {violation.reason}"


def _graph(rule: CompiledRule, way: Near, violation: Violation) -> str:
    return f"{_value(violation)} were computed in the same graph"


def _operands(rule: CompiledRule, way: Near, violation: Violation) -> str:
    form = _form(rule, violation, Op)
    assert form is not None  # only an operator has operands
    count = len(form.operands)
    least = "" if form.rest is None else "more than "
    plural = "" if count == 1 else "s"
    wanted = f"{least}{count} operand{plural}"
    return f"{_value(violation)} had {wanted} ({violation.reason})"


def _tree(rule: CompiledRule, way: Near, violation: Violation) -> str:
    wanted = violation.reason.removeprefix("it is not ")
    return f"{_value(violation)} were {wanted}, of nodes used once"


def _chain(rule: CompiledRule, way: Near, violation: Violation) -> str:
    wanted = violation.reason.removeprefix("no ").removesuffix(" ends here")
    return f"a {wanted}, each used once, ended in {_value(violation)}"


def _siblings(rule: CompiledRule, way: Near, violation: Violation) -> str:
    found = violation.reason.removeprefix("it has ")
    return f"{_value(violation)} had more siblings ({found})"


def _opset(rule: CompiledRule, way: Near, violation: Violation) -> str:
    low, high = rule.opset
    return f"the model had an opset from {low} to {high} ({violation.reason.partition(',')[0]})"


def _unknown(rule: CompiledRule, way: Near, violation: Violation) -> str:
    words = _atom(rule, violation).test.words
    return f"`{words}` could be computed ({violation.reason})"


def _condition(rule: CompiledRule, way: Near, violation: Violation) -> str:
    atom = _atom(rule, violation)
    told = ", ".join(_told(atom.expr, violation.scope or way.scope))
    return f"`{atom.test.words}` held" + (f" ({told})" if told else "")


def _atom(rule: CompiledRule, violation: Violation) -> Atom:
    atom = tests_of(rule).atom(violation.key)
    assert atom is not None  # a condition fails by its leaves
    return atom


def _told(expr: ast.Expr, scope: Env) -> list[str]:
    """The sides of a comparison with their values, else the names that are read."""
    if isinstance(expr, ast.ForAll):
        return _told_of_item(expr, scope)
    if isinstance(expr, ast.Binary) and expr.operator in _COMPARISONS:
        sides = [side for side in (expr.left, expr.right) if not _is_literal(side)]
    else:
        sides = []
    found = [(print_expr(as_written(side)), _computed(side, scope)) for side in sides]
    if not found:
        names = sorted(name for name in names_in(expr) if name in scope.names)
        codes = {name.rpartition("__")[0] for name in names if is_parameter(name)}
        names = [name for name in names if name not in codes]  # told by their scale or axis
        found = [(written(name), _shown(scope, scope.names[name])) for name in names[:_MOST_NAMES]]
    return [f"`{text}` is {value}" for text, value in found if value]


def _told_of_item(expr: ast.ForAll, scope: Env) -> list[str]:
    """The same for the first item of which the condition does not hold."""
    over, holds = compile_expr(expr.over), compile_condition(expr.condition)
    for number, item in enumerate(to_items(scope, over(scope)), 1):
        inner = scope.bound(expr.name, item)
        if not holds(inner):
            return [f"item {number}: {text}" for text in _told(expr.condition, inner)[:1]]
    return []


def _is_literal(expr: ast.Expr) -> bool:
    if isinstance(expr, ast.ListExpr):
        return all(map(_is_literal, expr.items))
    return isinstance(expr, ast.Constant) or (isinstance(expr, ast.Name) and expr.name in DTYPES)


def _computed(expr: ast.Expr, scope: Env) -> str:
    try:
        return _shown(scope, compile_expr(expr)(scope))
    except Unknown:
        return ""


def _shown(scope: Env, value: object) -> str:
    """A value of the rule language in a few words."""
    if value is None:
        return "absent"
    if isinstance(value, Tensor):
        return _constant(value)
    if isinstance(value, (ElementType, Symbol)):
        return str(value)  # before strings: an element type is one
    if is_graph_value(value):
        known = scope.facts.constant(value)
        if known is not None and known.size <= _MOST_ELEMENTS:
            return _constant(scope.tensor(value))
        kind = scope.facts.type(value)
        shape = " of unknown shape" if kind.shape is None else str(list(kind.shape))
        return f"`{value.name}`, {kind.dtype or 'of unknown type'}{shape}"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, tuple):
        return "[" + ", ".join(_shown(scope, item) for item in value[:6]) + "]"
    return _short.repr(value) if not isinstance(value, float) else f"{value:g}"


def _constant(value: Tensor) -> str:
    array = value.array
    if array.size == 1:
        return f"{array.reshape(()).item()}"
    if array.size <= _MOST_ELEMENTS:
        return str(array.tolist())
    return f"a constant of shape {list(array.shape)}"


_CLAUSES: Mapping[str, Callable[[CompiledRule, Near, Violation], str]] = {
    "const": _const,
    "overridable": _overridable,
    "dtype": _wanted,
    "shape": _wanted,
    "literal": _literal,
    "attribute": _attribute,
    "same": _same,
    "uses": _uses,
    "absent": _absent,
    "present": _present,
    "operator": _operator,
    "output": _output,
    "graph": _graph,
    "operands": _operands,
    "bag": _tree,
    "chain": _chain,
    "siblings": _siblings,
    "opset": _opset,
    "unknown": _unknown,
    "where": _condition,
    "guard": _condition,
}
