"""Which names a match binds, of what sort, and in which branches.

In: the expanded match statements of a rule. Out: `Scope`. A name bound only in some branches of an
alternative, or an operand that may be absent, is present only under some facts; `available` tells
whether given facts suffice.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import count
from typing import Literal

from rewrite.errors import Collector, Label, Span
from rewrite.lang import ast
from rewrite.lang.vocabulary import Kind

Sort = Literal["value", "list of values", "attribute", "size", "list of sizes", "let", "item"]
Choice = tuple[int, int]  # (a set of branches, the branch taken)
Way = frozenset[Choice]
ALWAYS: Way = frozenset()
MOST_SPLITS = 64  # case distinctions tried before a name counts as not available


@dataclass
class Binding:
    """A name. `ways`: the name is bound if for any of them all choices are taken."""

    name: str
    sort: Sort
    span: Span
    kind: Kind
    const: bool = False
    ways: list[Way] = field(default_factory=list)
    listed: bool = False  # bound inside `each`: a list outside of it
    optional: bool = False  # an operand or attribute that may be absent
    places: int = 0  # how often the pattern names it


@dataclass
class Branch:
    """A named alternative: some branches of one choice, which lies within the branches `outer`.

    `choice` is None where a named pattern with this alternative is used twice: then the name says
    that one of the two took it, which tells nothing about either.
    """

    name: str
    span: Span
    choice: int | None
    taken: frozenset[int]
    outer: Way


@dataclass(frozen=True, slots=True)
class Facts:
    """What is known where an expression stands: branches still possible, names present."""

    possible: Mapping[int, frozenset[int]] = field(default_factory=dict)
    present: frozenset[str] = frozenset()

    def with_choices(self, way: Iterable[Choice]) -> Facts:
        possible = dict(self.possible)
        for choice, branch in way:
            possible[choice] = frozenset((branch,))
        return Facts(possible, self.present)


@dataclass
class Scope:
    bindings: dict[str, Binding] = field(default_factory=dict)
    branches: dict[str, Branch] = field(default_factory=dict)
    sizes: dict[int, int] = field(default_factory=dict)  # number of branches of each choice
    guards: list[tuple[ast.Expr, Way, bool]] = field(default_factory=list)  # True: inside `each`
    used: set[str] = field(default_factory=set)

    def available(self, name: str, facts: Facts) -> bool:
        """Whether the name is bound wherever the facts hold."""
        if name in facts.present:
            return True
        ways = self.bindings[name].ways
        if any(way == ALWAYS for way in ways):
            return True
        return self._covered(ways, dict(facts.possible), [MOST_SPLITS])

    def _covered(
        self, ways: list[Way], possible: dict[int, frozenset[int]], budget: list[int]
    ) -> bool:
        undecided: dict[int, None] = {}
        for way in ways:
            open_choices = [c for c, b in way if self._left(possible, c) != {b}]
            if not open_choices:
                return True
            undecided.update(dict.fromkeys(sorted(open_choices)))
        for choice in undecided:
            left = self._left(possible, choice)
            met = {b for way in ways for c, b in way if c == choice}
            if not left or not left <= met:
                continue
            budget[0] -= len(left)
            if budget[0] < 0:
                return False
            if all(self._branch_covered(ways, possible, choice, b, budget) for b in sorted(left)):
                return True
        return False

    def _branch_covered(
        self,
        ways: list[Way],
        possible: dict[int, frozenset[int]],
        choice: int,
        branch: int,
        budget: list[int],
    ) -> bool:
        fitting = [w for w in ways if all(c != choice or b == branch for c, b in w)]
        return self._covered(fitting, possible | {choice: frozenset((branch,))}, budget)

    def _left(self, possible: Mapping[int, frozenset[int]], choice: int) -> frozenset[int]:
        return possible.get(choice, frozenset(range(self.sizes[choice])))

    # --- facts from `if name:` and the arms of `case`

    def assume(self, name: str, facts: Facts, holds: bool) -> Facts:
        """The facts where the alternative was taken or the name is present, or where not."""
        branch = self._branch(name)
        if holds:
            facts = Facts(facts.possible, facts.present | {name})
        if branch is None or branch.choice is None:
            return facts
        if not holds and any(self._left(facts.possible, c) != {b} for c, b in branch.outer):
            return facts  # it may not hold because an outer branch was not taken
        left = self._left(facts.possible, branch.choice)
        left = left & branch.taken if holds else left - branch.taken
        possible = dict(facts.possible) | {branch.choice: left}
        return Facts(possible, facts.present).with_choices(branch.outer if holds else ())

    def impossible(self, facts: Facts) -> bool:
        """Whether no branch of some alternative is left."""
        return any(not left for left in facts.possible.values())

    def _branch(self, name: str) -> Branch | None:
        """The alternative of that name; an operand that may be absent is one of two branches."""
        if name in self.branches:
            return self.branches[name]
        binding = self.bindings.get(name)
        if binding is None or len(binding.ways) != 1 or not binding.ways[0]:
            return None
        way = binding.ways[0]
        choice, taken = max(way)  # the innermost: choices are numbered from outside in
        return Branch(name, binding.span, choice, frozenset((taken,)), way - {(choice, taken)})


class ScopeBuilder:
    """Walks the statements once."""

    def __init__(self, errors: Collector) -> None:
        self.scope = Scope()
        self.errors = errors
        self.choices = count()
        self.inside = False  # an `each` statement

    def statement(self, statement: ast.MatchStatement | ast.EachStatement) -> None:
        if isinstance(statement, ast.EachStatement):
            self._bind(statement.name, "list of values", statement.span, "list", ALWAYS)
            self._bind(statement.over, "value", statement.span, "value", ALWAYS)
            self.inside = True
            self._pattern(statement.pattern, ALWAYS)
            self.inside = False
            if statement.guard is not None:
                self.scope.guards.append((statement.guard, ALWAYS, True))
            return
        const = isinstance(statement.pattern, ast.Number)
        for name in statement.names:
            self._bind(name, "value", statement.span, "value", ALWAYS, const)

    def pattern(self, statement: ast.MatchStatement | ast.EachStatement) -> None:
        if isinstance(statement, ast.MatchStatement):
            self._pattern(statement.pattern, ALWAYS)

    def _pattern(self, pattern: ast.Pattern, way: Way) -> None:
        if isinstance(pattern, ast.Variable):
            self._variable(pattern, way)
        elif isinstance(pattern, ast.Rest):
            const = pattern.type is not None and pattern.type.const
            self._bind(pattern.name, "list of values", pattern.span, "list", way, const)
            self._shape(pattern.type, way)
        elif isinstance(pattern, ast.OpPattern):
            for attribute in pattern.attributes:
                if attribute.bind is not None:
                    self._bind(attribute.bind, "attribute", attribute.span, "any", way)
            for operand in pattern.operands:
                self._pattern(operand, way)
        elif isinstance(pattern, ast.Bag):
            for item in pattern.items:
                self._pattern(item, way)
        elif isinstance(pattern, ast.Chain):
            self._pattern(pattern.start, way)
        elif isinstance(pattern, ast.Alternatives):
            self._alternatives(pattern, way)

    def _variable(self, variable: ast.Variable, way: Way) -> None:
        const = variable.type is not None and variable.type.const
        if variable.optional:
            choice = next(self.choices)
            self.scope.sizes[choice] = 2
            way = way | {(choice, 1)}
        self._bind(variable.name, "value", variable.span, "value", way, const)
        if variable.optional and variable.name != "_":
            self.scope.bindings[variable.name].optional = True
        self._shape(variable.type, way)

    def _shape(self, pattern: ast.TypePattern | None, way: Way) -> None:
        for dim in (pattern.shape or ()) if pattern is not None else ():
            if dim.name is not None and dim.kind == "ellipsis":
                self._bind(dim.name, "list of sizes", dim.span, "list", way)
            elif dim.name is not None:
                self._bind(dim.name, "size", dim.span, "dim", way)

    def _alternatives(self, pattern: ast.Alternatives, way: Way) -> None:
        choice = next(self.choices)
        self.scope.sizes[choice] = len(pattern.branches)
        for i, branch in enumerate(pattern.branches):
            inner = way | {(choice, i)}
            if branch.name is not None:
                self._name_branch(branch.name, branch.span, choice, i, way)
            self._pattern(branch.pattern, inner)
            if branch.guard is not None:
                self.scope.guards.append((branch.guard, inner, self.inside))
        if any(isinstance(branch.pattern, ast.Absent) for branch in pattern.branches):
            self._may_be_absent(way, choice)
        self._bound_in_all([way | {(choice, i)} for i in range(len(pattern.branches))], way)

    def _may_be_absent(self, way: Way, choice: int) -> None:
        """An operand that one branch wants to be absent: what the others bind may be absent."""
        for binding in self.scope.bindings.values():
            inside = any(w >= way and choice in dict(w) for w in binding.ways)
            if inside and binding.sort == "value":
                binding.optional = True

    def _bound_in_all(self, inner: list[Way], way: Way) -> None:
        """What every branch binds is bound wherever the choice is met."""
        for binding in self.scope.bindings.values():
            if all(branch in binding.ways for branch in inner):
                binding.ways = [w for w in binding.ways if not w >= way]
                binding.ways.append(way)

    def _name_branch(self, name: str, span: Span, choice: int, i: int, way: Way) -> None:
        other = self.scope.branches.get(name)
        if other is None:
            self.scope.branches[name] = Branch(name, span, choice, frozenset((i,)), way)
        elif other.choice == choice:
            other.taken |= {i}
        elif other.span == span:  # the same named pattern, used twice
            other.choice = None
        else:
            note = (Label(other.span, "the first one"),)
            message = f"alternatives of two choices are named `{name}`"
            self.errors.add("RW229", message, span, "choose another name", note)

    def _bind(
        self,
        name: str,
        sort: Sort,
        span: Span,
        kind: Kind,
        way: Way,
        const: bool = False,
    ) -> None:
        if name == "_":
            return
        known = self.scope.bindings.get(name)
        if known is None:
            known = Binding(name, sort, span, kind, const, listed=self.inside)
            self.scope.bindings[name] = known
        elif known.sort != sort:
            note = (Label(known.span, f"here it is {_a(known.sort)}"),)
            message = f"`{name}` names {_a(sort)} here and {_a(known.sort)} elsewhere"
            self.errors.add("RW221", message, span, "choose another name", note)
        known.const |= const
        known.listed &= self.inside
        known.places += 1
        if way not in known.ways:
            known.ways.append(way)


def _a(sort: Sort) -> str:
    return f"an {sort}" if sort[0] in "ai" else f"a {sort}"


def build_scope(rule: ast.Rule, errors: Collector) -> Scope:
    """The names of a rule's `match`. Names of statements come first: they are always bound."""
    builder = ScopeBuilder(errors)
    plain = [s for s in rule.match if isinstance(s, ast.MatchStatement)]
    for named in plain:
        builder.statement(named)
    for statement in rule.match:
        if isinstance(statement, ast.EachStatement):
            builder.statement(statement)
        else:
            builder.pattern(statement)
    _check_names(rule, builder.scope, errors)
    return builder.scope


def _check_names(rule: ast.Rule, scope: Scope, errors: Collector) -> None:
    seen: dict[str, Span] = {}
    for statement in rule.match:
        names = statement.names if isinstance(statement, ast.MatchStatement) else (statement.name,)
        for name in names:
            if name in seen:
                note = (Label(seen[name], "the first one"),)
                message = f"two statements name `{name}`"
                errors.add("RW221", message, statement.span, "choose another name", note)
            elif name != "_":
                seen[name] = statement.span
    for name, branch in scope.branches.items():
        if name in scope.bindings:
            note = (Label(scope.bindings[name].span, "bound here"),)
            message = f"the alternative `{name}` has the name of {_a(scope.bindings[name].sort)}"
            errors.add("RW229", message, branch.span, "choose another name", note)
