"""The mutants of a rule: the rule with one thing changed that somebody could have got wrong.

In: an `ast.Rule` as it is compiled (patterns expanded). Out: `Mutant`s in the order of the text.

A kind of mutation is a function from a node of the tree to the nodes that may stand in its place,
found by the decorator `@mutates`. A key names the kind and the text that was changed, and counts
where a rule has several of those: it stays the same while the rest of the rule changes.

What a named pattern brings into a rule, however often, is one text: it is changed everywhere.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import cast

from rewrite.errors import Span
from rewrite.lang import ast
from rewrite.lang.printer import print_expr, print_pattern
from rewrite.lang.quantized_words import is_parameter
from rewrite.lang.walk import nodes, replace_nodes
from rewrite.match.items import leaves
from rewrite.ops import registry
from rewrite.schema import DOMAINS

LONGEST = 60  # characters of rule text in a key


@dataclass(frozen=True, slots=True)
class Mutant:
    """`rule`: the wrong rule; `words`: what was changed, `0.5 -> any constant`."""

    key: str
    kind: str
    words: str
    span: Span
    rule: ast.Rule


@dataclass(frozen=True, slots=True)
class Change:
    """A node in place of another one, or None: the node is left out of its list."""

    old: ast.Node
    new: ast.Node | None
    words: str


Mutation = Callable[[ast.Node, ast.Rule], Iterator[Change]]
_MUTATIONS: dict[str, Mutation] = {}


def mutates(kind: str) -> Callable[[Mutation], Mutation]:
    """Registers a kind of mutation."""

    def register(mutation: Mutation) -> Mutation:
        _MUTATIONS[kind] = mutation
        return mutation

    return register


def mutants(rule: ast.Rule) -> Iterator[Mutant]:
    """Every mutant of the rule, each with a key of its own."""
    counts: dict[str, int] = {}
    for group in _in_order(rule):
        for kind, mutation in _MUTATIONS.items():
            for changes in zip(*(mutation(node, rule) for node in group), strict=False):
                first = changes[0]
                plain = f"{kind}: {first.words}"
                count = counts[plain] = counts.get(plain, 0) + 1
                key = plain if count == 1 else f"{plain} #{count}"
                yield Mutant(key, kind, first.words, group[0].span, _changed(rule, changes))


def is_shared(rule: ast.Rule, span: Span) -> bool:
    """Whether a place is in the text of a named pattern, not in that of the rule."""
    own = rule.span
    return span.file != own.file or not own.line <= span.line <= own.end_line


def _in_order(rule: ast.Rule) -> list[tuple[ast.Node, ...]]:
    """The nodes in the order of the text; those that are one text of a named pattern together."""
    parts = (rule.match, rule.steps, rule.emit, (rule.group,) if rule.group else ())
    found: dict[object, dict[int, ast.Node]] = {}
    for part in parts:
        for node in (node for top in part for node in nodes(top)):
            shared = is_shared(rule, node.span)
            place = (type(node), node.span) if shared else id(node)
            found.setdefault(place, {})[id(node)] = node
    groups = [tuple(group.values()) for group in found.values()]
    return sorted(groups, key=lambda group: (group[0].span.line, group[0].span.column))


def _changed(rule: ast.Rule, changes: tuple[Change, ...]) -> ast.Rule:
    if changes[0].new is None:
        dropped = [change.old for change in changes]
        steps = tuple(step for step in rule.steps if not any(step is old for old in dropped))
        return replace(rule, steps=steps)
    instead = {id(change.old): change.new for change in changes}

    def change(node: ast.Node) -> ast.Node:
        return instead.get(id(node)) or node

    return cast(ast.Rule, replace_nodes(rule, change))


def _short(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 3]}..."


# --- conditions --------------------------------------------------------------------------------


@mutates("drop condition")
def _condition(node: ast.Node, rule: ast.Rule) -> Iterator[Change]:
    """Each atom of a condition holds always."""
    if isinstance(node, ast.Where):
        for leaf, negated in leaves(node.condition):
            if leaf is node.condition:
                yield Change(node, None, _short(print_expr(leaf)))
                continue
            holds = _truth(leaf, not negated)
            condition = _put(node.condition, leaf, holds)
            yield Change(node, replace(node, condition=condition), _short(print_expr(leaf)))


@mutates("drop guard")
def _guard(node: ast.Node, rule: ast.Rule) -> Iterator[Change]:
    """The guard of an alternative, or of siblings, is left out."""
    if isinstance(node, (ast.Alternative, ast.EachStatement)) and node.guard is not None:
        yield Change(node, replace(node, guard=None), _short(print_expr(node.guard)))


_COMPARISONS = {"<": "<=", "<=": "<", ">": ">=", ">=": ">"}


@mutates("shift comparison")
def _comparison(node: ast.Node, rule: ast.Rule) -> Iterator[Change]:
    """`<` as `<=`, and the other way round."""
    if isinstance(node, ast.Binary) and node.operator in _COMPARISONS:
        other = _COMPARISONS[node.operator]
        yield Change(node, replace(node, operator=other), f"{_short(print_expr(node))}, {other}")


def _truth(at: ast.Expr, value: bool) -> ast.Constant:
    return ast.Constant(at.span, value, "true" if value else "false")


def _put(expr: ast.Expr, old: ast.Expr, new: ast.Expr) -> ast.Expr:
    return cast(ast.Expr, replace_nodes(expr, lambda node: new if node is old else node))


# --- patterns ----------------------------------------------------------------------------------


@mutates("drop const")
def _const(node: ast.Node, rule: ast.Rule) -> Iterator[Change]:
    """The value need not be constant; but scales of codes are, in the language."""
    if not isinstance(node, (ast.Variable, ast.Rest)) or is_parameter(node.name):
        return
    if node.type is not None and node.type.const:
        yield Change(node, replace(node, type=replace(node.type, const=False)), node.name)


@mutates("drop type")
def _dtypes(node: ast.Node, rule: ast.Rule) -> Iterator[Change]:
    """The value may have any element type."""
    if isinstance(node, (ast.Variable, ast.Rest)) and node.type is not None and node.type.dtypes:
        words = f"{node.name}: {'|'.join(node.type.dtypes)}"
        yield Change(node, replace(node, type=replace(node.type, dtypes=None)), words)


@mutates("drop shape")
def _shape(node: ast.Node, rule: ast.Rule) -> Iterator[Change]:
    """Each size, and the rank, of a shape may be any."""
    if not isinstance(node, (ast.Variable, ast.Rest)) or node.type is None:
        return
    shape = node.type.shape
    if shape is None:
        return
    for place, dim in enumerate(shape):
        if dim.kind == "size":
            free = replace(dim, kind="any", size=None)
            loose = (*shape[:place], free, *shape[place + 1 :])
            words = f"{node.name}: {dim.size} at {place}"
            yield Change(node, replace(node, type=replace(node.type, shape=loose)), words)


@mutates("widen literal")
def _literal(node: ast.Node, rule: ast.Rule) -> Iterator[Change]:
    """Any constant of one element will do for a number."""
    if isinstance(node, ast.Number):
        kind = ast.TypePattern(node.span, const=True, dtypes=None, shape=None)
        yield Change(node, ast.Variable(node.span, "_", type=kind), node.text)


@mutates("loosen attribute")
def _attribute(node: ast.Node, rule: ast.Rule) -> Iterator[Change]:
    """The attribute may have any value, unless `DQ` and `Q` have made it: then nobody wrote it."""
    if isinstance(node, ast.AttributePattern) and node.values is not None:
        patterns = (x for statement in rule.match for x in nodes(statement))
        if any(isinstance(x, ast.OpPattern) and x.span == node.span for x in patterns):
            return
        loose = replace(node, values=None, ignored=True)
        yield Change(node, loose, f"{node.name}: {' | '.join(map(str, node.values))}")


@mutates("share inner value")
def _shared(node: ast.Node, rule: ast.Rule) -> Iterator[Change]:
    """An inner value may be used by others, too."""
    if isinstance(node, ast.OpPattern) and not node.shared and node not in _roots(rule):
        yield Change(node, replace(node, shared=True), _short(print_pattern(node)))


def _roots(rule: ast.Rule) -> list[ast.Pattern]:
    """Patterns of values that are replaced: others may use these as they like."""
    emitted = {name for statement in rule.emit for name in statement.names}
    if rule.group is not None:
        emitted.add(rule.group.value)
    found: list[ast.Pattern] = []
    for statement in rule.match:
        names = statement.names if isinstance(statement, ast.MatchStatement) else (statement.name,)
        if emitted.intersection(names):
            found += _tops(statement.pattern)
    return found


def _tops(pattern: ast.Pattern) -> list[ast.Pattern]:
    if isinstance(pattern, ast.Alternatives):
        return [top for branch in pattern.branches for top in _tops(branch.pattern)]
    return [pattern]


@mutates("free order")
def _ordered(node: ast.Node, rule: ast.Rule) -> Iterator[Change]:
    """Operands of a commutative operator may stand in either order."""
    if isinstance(node, ast.OpPattern) and node.ordered:
        yield Change(node, replace(node, ordered=False), _short(print_pattern(node)))


# --- what is made ------------------------------------------------------------------------------


@mutates("swap operands")
def _operands(node: ast.Node, rule: ast.Rule) -> Iterator[Change]:
    """The first two operands of what is emitted, the sides of what does not commute."""
    if isinstance(node, ast.OpExpr) and len(node.operands) >= 2 and not _commutes(node.op):
        first, second, *others = node.operands
        if first != second:
            swapped = replace(node, operands=(second, first, *others))
            yield Change(node, swapped, _short(print_expr(node)))
    if isinstance(node, ast.Binary) and node.operator in ("-", "/", "//", "%", "**"):
        swapped_sides = replace(node, left=node.right, right=node.left)
        yield Change(node, swapped_sides, _short(print_expr(node)))


def _commutes(op: ast.OpName) -> bool:
    return (DOMAINS.get(op.prefix, op.prefix), op.name) in registry.commutative()


@mutates("off by one")
def _number(node: ast.Node, rule: ast.Rule) -> Iterator[Change]:
    """A number is one more; but a block size that is not there is 0, in the language."""
    if not isinstance(node, ast.Constant) or isinstance(node.value, (bool, str)):
        return
    if any(_gives_default(x, node) for s in (*rule.steps, *rule.emit) for x in nodes(s)):
        return
    if node.value is None or node.value in (float("inf"), float("-inf")):
        return
    value = node.value + 1
    yield Change(node, replace(node, value=value, text=str(value)), node.text)


def _gives_default(node: ast.Node, default: ast.Constant) -> bool:
    """Whether the node is a parameter of codes or, without one, this number, as `DQ` made it."""
    if not isinstance(node, ast.Binary) or node.operator != "??" or node.right is not default:
        return False
    return isinstance(node.left, ast.Name) and is_parameter(node.left.name)


_OTHER = {"min": "max", "max": "min", "qmin": "qmax", "qmax": "qmin", "floor": "ceil"}


@mutates("other function")
def _function(node: ast.Node, rule: ast.Rule) -> Iterator[Change]:
    """The least instead of the greatest."""
    other = _OTHER.get(node.function) if isinstance(node, ast.Call) else None
    if isinstance(node, ast.Call) and other is not None:
        yield Change(node, replace(node, function=other), _short(print_expr(node)))


@mutates("other sign")
def _sign(node: ast.Node, rule: ast.Rule) -> Iterator[Change]:
    """Plus instead of minus, times instead of divided by, and the other way round."""
    signs = {"+": "-", "-": "+", "*": "/", "/": "*"}
    if isinstance(node, ast.Binary) and node.operator in signs:
        changed = replace(node, operator=signs[node.operator])
        yield Change(node, changed, _short(print_expr(node)))


@mutates("lose attributes")
def _carried(node: ast.Node, rule: ast.Rule) -> Iterator[Change]:
    """What is carried over, and each attribute, is left to its default."""
    if not isinstance(node, ast.OpExpr):
        return
    if node.carry:
        yield Change(node, replace(node, carry=()), _short(f"..{', ..'.join(node.carry)}"))
    for attribute in node.attributes:
        rest = tuple(other for other in node.attributes if other is not attribute)
        yield Change(node, replace(node, attributes=rest), f"{node.op.name}.{attribute.name}")


@mutates("swap arms")
def _arms(node: ast.Node, rule: ast.Rule) -> Iterator[Change]:
    """The first two arms of a `case` give each other's values."""
    if isinstance(node, ast.Case) and len(node.arms) >= 2:
        first, second, *others = node.arms
        if first.value != second.value:
            one = replace(first, value=second.value)
            two = replace(second, value=first.value)
            yield Change(node, replace(node, arms=(one, two, *others)), _short(print_expr(node)))
