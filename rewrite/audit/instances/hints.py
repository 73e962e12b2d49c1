"""What a rule speaks of: numbers, words, element types, operators, opsets.

In: a compiled rule. Out: `Hints`, from which variations take the values that may matter to it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from rewrite.lang import ast
from rewrite.lang.walk import nodes
from rewrite.match import form as f
from rewrite.match.rule import CompiledRule
from rewrite.schema import DTYPE_CLASSES, DTYPES

_MOST_NUMBERS = 12
_USUAL = ("f32", "f16", "f64", "s64", "s32", "u8", "s8", "bf16", "bool")


@dataclass(frozen=True, slots=True)
class Hints:
    """`dtypes`: those that the rule names, the usual ones after them; `opset`: its range."""

    numbers: tuple[float, ...]
    words: tuple[str, ...]
    dtypes: tuple[str, ...]
    named: frozenset[str]
    opset: tuple[int, int]
    tolerance: float | None

    @classmethod
    def of(cls, rule: CompiledRule) -> Hints:
        numbers: dict[float, None] = {}
        words: dict[str, None] = {}
        for literal in _literals(rule):
            if isinstance(literal, str):
                words[literal] = None
            elif isinstance(literal, (int, float)) and not isinstance(literal, bool):
                numbers[float(literal)] = None
        named = [t for w in words for t in sorted(DTYPE_CLASSES.get(w, {w} & DTYPES.keys()))]
        named += sorted(t for test in _tests(rule) for t in test.dtypes or ())
        known = frozenset(named)
        dtypes = tuple(dict.fromkeys([*(t for t in _USUAL if t in known), *named, *_USUAL]))
        return cls(
            tuple(numbers)[:_MOST_NUMBERS],
            tuple(words),
            dtypes,
            known,
            rule.opset,
            _tolerance(rule),
        )


def _literals(rule: CompiledRule) -> Iterator[object]:
    """Numbers and words of the pattern, then of conditions and definitions, in text order."""
    for form in rule.pattern.forms:
        if isinstance(form, f.Number):
            yield form.value
        if isinstance(form, f.Op):
            for test in form.attributes:
                for value in test.values or ():
                    yield from value if isinstance(value, tuple) else (value,)
    exprs = [s.condition if isinstance(s, ast.Where) else s.value for s in rule.rule.steps]
    for expr in (*rule.pattern.guards, *exprs):
        for node in nodes(expr):
            if isinstance(node, ast.Constant):
                yield node.value
            elif isinstance(node, ast.Name) and node.name in DTYPES:
                yield node.name


def _tests(rule: CompiledRule) -> Iterator[f.TypeTest]:
    for form in rule.pattern.forms:
        if isinstance(form, f.Any) and form.type is not None:
            yield form.type


def _tolerance(rule: CompiledRule) -> float | None:
    """The loosest tolerance written at a number of the pattern."""
    written = [x.tolerance for x in rule.pattern.forms if isinstance(x, f.Number) and x.tolerance]
    return max(written, default=None)
