"""Walks over the syntax tree: without recursion, so that depth is a number and never a crash.

In: any node. Out: its nodes, its depth, the names it binds, the same tree with parts replaced.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import fields, replace
from typing import Any

from rewrite.lang import ast

_fields: dict[type, tuple[str, ...]] = {}


def child_fields(cls: type) -> tuple[str, ...]:
    """The fields of a node class that may hold nodes or tuples of nodes."""
    known = _fields.get(cls)
    if known is None:
        known = _fields[cls] = tuple(f.name for f in fields(cls) if _names_nodes(str(f.type)))
    return known


def _names_nodes(annotation: str) -> bool:
    """Whether the type of a field, as ast.py has it, is made of some class of nodes."""
    named = (getattr(ast, word, None) for word in re.findall(r"\w+", annotation))
    return any(isinstance(kind, type) and issubclass(kind, ast.Node) for kind in named)


def children(node: ast.Node) -> list[ast.Node]:
    """The nodes directly below, in the order of the fields."""
    return _last_first(node)[::-1]


def _last_first(node: ast.Node) -> list[ast.Node]:
    found: list[ast.Node] = []
    for name in reversed(child_fields(type(node))):
        value = getattr(node, name)
        if value.__class__ is not tuple:
            if value is not None:
                found.append(value)
            continue
        for item in reversed(value):
            if isinstance(item, ast.Node):
                found.append(item)
            else:  # keywords of a call
                found += [x for x in reversed(item) if isinstance(x, ast.Node)]
    return found


def nodes(root: ast.Node) -> Iterator[ast.Node]:
    """All nodes of the tree, parents first, in text order."""
    stack = [root]
    while stack:
        node = stack.pop()
        yield node
        if _fields.get(type(node)) != ():  # most nodes are names and numbers
            stack += _last_first(node)


def too_deep(root: ast.Node, limit: int) -> ast.Node | None:
    """A node at depth `limit + 1`, if there is one."""
    level = [root]
    for _ in range(limit):
        level = [child for node in level for child in children(node)]
        if not level:
            return None
    return level[0]


def depth(root: ast.Node) -> int:
    """How many nodes stand inside each other, the root included."""
    count, level = 0, [root]
    while level:
        count, level = count + 1, [child for node in level for child in children(node)]
    return count


def bound_names(rule: ast.Rule) -> frozenset[str]:
    """Every name that `match` and `let` bind anywhere in a rule."""
    found: set[str] = set()
    for statement in rule.match:
        if isinstance(statement, ast.MatchStatement):
            found.update(statement.names)
        else:
            found.add(statement.name)
        for node in nodes(statement):
            found.update(own_names(node))
    found.update(step.name for step in rule.steps if isinstance(step, ast.Let))
    return frozenset(found)


def own_names(node: ast.Node) -> tuple[str, ...]:
    """The names that this pattern node binds itself."""
    if isinstance(node, ast.Variable | ast.Rest):
        return () if node.name == "_" else (node.name,)
    if isinstance(node, ast.DimPattern) and node.name is not None:
        return (node.name,)
    if isinstance(node, ast.AttributePattern) and node.bind not in (None, "_"):
        assert node.bind is not None
        return (node.bind,)
    return ()


def resolve_method_arguments(rule: ast.Rule) -> ast.Rule:
    """`target.fuses(Y)`: `Y` is a value where the rule binds it, else an operator."""
    calls = [n for n in nodes(rule) if isinstance(n, ast.MethodCall)]
    names = bound_names(rule) if calls else frozenset()
    if not any(_is_bound(a, names) for call in calls for a in call.arguments):
        return rule
    result = replace_nodes(rule, lambda node: _resolved(node, names))
    assert isinstance(result, ast.Rule)
    return result


def _is_bound(argument: ast.Node, names: frozenset[str]) -> bool:
    return isinstance(argument, ast.OpName) and not argument.prefix and argument.name in names


def _resolved(node: ast.Node, names: frozenset[str]) -> ast.Node:
    if not isinstance(node, ast.MethodCall):
        return node
    arguments = tuple(
        ast.Name(a.span, a.name) if _is_bound(a, names) and isinstance(a, ast.OpName) else a
        for a in node.arguments
    )
    return replace(node, arguments=arguments)


def replace_nodes(root: ast.Node, change: Callable[[ast.Node], ast.Node]) -> ast.Node:
    """The tree with `change` applied to every node, children first.

    Recursive: only for trees whose depth the parser has bounded.
    """
    updates: dict[str, Any] = {}
    for name in child_fields(type(root)):
        value = getattr(root, name)
        changed = _replace_in(value, change)
        if changed is not value:
            updates[name] = changed
    return change(replace(root, **updates) if updates else root)


def _replace_in(value: object, change: Callable[[ast.Node], ast.Node]) -> object:
    if isinstance(value, ast.Node):
        return replace_nodes(value, change)
    if isinstance(value, tuple):
        changed = tuple(_replace_in(item, change) for item in value)
        return changed if any(a is not b for a, b in zip(changed, value, strict=True)) else value
    return value
