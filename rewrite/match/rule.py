"""A rule ready to be matched, and the match of one.

In: the parts that `pattern.compile_rule` makes. Out: `CompiledRule`, `Match`, `Mismatch`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property

import onnx_ir as ir

from rewrite.errors import Span
from rewrite.graph.uses import use_count
from rewrite.lang import ast
from rewrite.match import trees
from rewrite.match.expr import Closure, compile_condition, compile_expr, names_in
from rewrite.match.form import Chain, Operator, Pattern, tops
from rewrite.match.values import Env

Condition = Callable[[Env], bool]


@dataclass(frozen=True, slots=True)
class Step:
    """One condition of `where`; `when` is the name it depends on."""

    condition: Condition
    when: str | None
    span: Span


@dataclass(frozen=True)
class Source:
    """The syntax tree and the pattern, kept as bytes until somebody needs them.

    The bytes were written by this process, or see cache.py.
    """

    rule_data: bytes = field(repr=False)
    pattern_data: bytes = field(repr=False)

    @classmethod
    def of(cls, rule: ast.Rule, pattern: Pattern) -> Source:
        """What compiling made; code is generated from the pattern next."""
        made = cls(trees.dumps(rule), trees.dumps(pattern))
        made.__dict__["pattern"] = pattern
        return made

    @cached_property
    def rule(self) -> ast.Rule:
        rule: ast.Rule = trees.loads(self.rule_data)
        return rule

    @cached_property
    def pattern(self) -> Pattern:
        pattern: Pattern = trees.loads(self.pattern_data)
        return pattern

    def forget(self) -> None:
        """Keep the bytes alone."""
        self.__dict__.pop("rule", None)
        self.__dict__.pop("pattern", None)

    def __getstate__(self) -> dict[str, object]:
        return {"rule_data": self.rule_data, "pattern_data": self.pattern_data}


@dataclass(frozen=True, eq=False)
class CompiledRule:
    """A rule of one phase. What matching looks at first is here; the rest loads when needed.

    `anchors`: operators that the anchor may be. `radius`: how many nodes away from the anchor the
    match may depend on the graph. `sideways`: whether it also goes from a value to its other users.
    `siblings`: how many users the value at one of `shared` must have.
    """

    name: str
    phase: str
    opset: tuple[int, int]
    anchors: frozenset[Operator]
    size: int
    radius: int
    sideways: bool
    siblings: int
    shared: tuple[tuple[int, ...], ...]
    over: tuple[str, ...]
    roots: tuple[str, ...]
    source: Source

    @property
    def rule(self) -> ast.Rule:
        return self.source.rule

    @property
    def pattern(self) -> Pattern:
        return self.source.pattern

    @property
    def emit(self) -> tuple[ast.EmitStatement, ...]:
        return self.rule.emit

    @property
    def group(self) -> ast.Group | None:
        return self.rule.group

    @property
    def claim(self) -> ast.Claim:
        return self.rule.claim

    def may_have_siblings(self, node: ir.Node) -> bool:
        """Whether some value that the anchor's siblings would share has users enough."""
        for way in self.shared:
            value = _above(node, way)
            if value is not None and use_count(value) >= self.siblings:
                return True
        return False

    @cached_property
    def lets(self) -> Mapping[str, Closure]:
        """The definitions of `let`, in text order."""
        return {s.name: compile_expr(s.value) for s in self.rule.steps if isinstance(s, ast.Let)}

    @cached_property
    def steps(self) -> tuple[Step, ...]:
        """The conditions: those that need nothing computed first, else in text order."""
        conditions = [s for s in self.rule.steps if isinstance(s, ast.Where)]
        plain = [s for s in conditions if not names_in(s.condition) & self.lets.keys()]
        rest = [s for s in conditions if s not in plain]
        return tuple(Step(compile_condition(s.condition), s.when, s.span) for s in plain + rest)

    @cached_property
    def starts(self) -> Mapping[int, frozenset[Operator] | None]:
        """For each chain, by number of its form, the operators that its start may be."""
        pattern = self.pattern
        chains = [form for form in pattern.forms if isinstance(form, Chain)]
        return {c.index: tops(c.start, pattern.statements) for c in chains}

    @cached_property
    def guards(self) -> tuple[tuple[Condition, Span], ...]:
        """The guards of branches and siblings, by number."""
        return tuple((compile_condition(e), e.span) for e in self.pattern.guards)

    def __getstate__(self) -> dict[str, object]:
        keep = self.__dataclass_fields__
        return {k: v for k, v in self.__dict__.items() if k in keep}


def _above(node: ir.Node | None, way: tuple[int, ...]) -> ir.Value | None:
    """The value that a way of operand places leads to."""
    value: ir.Value | None = None
    for place in way:
        if node is None or place >= len(node._inputs):
            return None
        value = node._inputs[place]
        node = None if value is None else value._producer
    return value


@dataclass(frozen=True, slots=True, eq=False)
class Match:
    """Where a rule matches. `nodes` are in the order of the pattern's text, each once."""

    rule: CompiledRule
    scope: Env
    roots: tuple[ir.Value, ...]

    @property
    def nodes(self) -> tuple[ir.Node, ...]:
        return self.scope.nodes

    @property
    def env(self) -> Mapping[str, object]:
        return self.scope.names

    @property
    def branches(self) -> frozenset[str]:
        return self.scope.branches


@dataclass(frozen=True, slots=True)
class Mismatch:
    """Why a rule does not match at an anchor: the attempt that got furthest.

    `code` is one stable word, `reason` is for people, `span` is the part of the rule that did not
    hold, `subject` the node or value it was tried on, `matched` how many nodes of the pattern had
    been found.
    """

    code: str
    reason: str
    span: Span | None
    subject: str
    matched: int
