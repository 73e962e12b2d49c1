"""Rules up to the names that they bind.

In: an expanded rule. Out: its text with names numbered in the order of the text, and without doc,
claim and examples: equal texts are rules that say the same.
"""

from __future__ import annotations

import re

from rewrite.lang import ast
from rewrite.lang.printer import print_condition, print_expr, print_pattern
from rewrite.lang.walk import bound_names, nodes

_WORD = re.compile(r"(?<![\w.\"])[A-Za-z_]\w*(?![\w\"])")


def normal_form(rule: ast.Rule) -> str:
    """Rules of different phases or opsets may have one normal form."""
    text = "\n".join((*_match(rule), *map(_step, rule.steps), *_made(rule)))
    names = bound_names(rule) | _others(rule)
    numbers: dict[str, str] = {}

    def renamed(word: re.Match[str]) -> str:
        name = word[0]
        return numbers.setdefault(name, f"v{len(numbers)}") if name in names else name

    return _WORD.sub(renamed, text)


def _match(rule: ast.Rule) -> list[str]:
    return [
        f"each {s.name} over {s.over} = {print_pattern(s.pattern)} {s.least}..{s.most} {s.guard}"
        if isinstance(s, ast.EachStatement)
        else f"{', '.join(s.names)} = {print_pattern(s.pattern)}"
        for s in rule.match
    ]


def _step(step: ast.Let | ast.Where) -> str:
    if isinstance(step, ast.Where):
        return f"where {print_condition(step)}"
    return f"let {step.name} = {print_expr(step.value)}"


def _made(rule: ast.Rule) -> list[str]:
    found = [f"emit {', '.join(s.names)} = {print_expr(s.value)}" for s in rule.emit]
    if rule.group is not None:
        entries = [f"{a.name}: {print_expr(a.value)}" for a in rule.group.attributes]
        found.append(f"group {rule.group.value} as {rule.group.name} {entries}")
    return found


def _others(rule: ast.Rule) -> frozenset[str]:
    """Names of alternatives and temporaries, and those of `forall`."""
    found = {name for s in rule.emit for name in s.names}
    named = [n for n in nodes(rule) if isinstance(n, ast.Alternative | ast.ForAll)]
    return frozenset(found.union(n.name for n in named if n.name is not None))
