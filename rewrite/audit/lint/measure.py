"""What applications of a rule take away and what they add, counted by operator.

In: the expanded rules of a phase. Out: the `Change`s that each rule makes, and which of them a
measure of the phase orders.

The measure is lexicographic: the number of nodes of one operator after the other, chosen so that no
rule that is left makes more of it; a rule that makes fewer of it is ordered and out of the game.
Nodes are counted as if every use had a copy of its own, so that one which may be used elsewhere
(`shared`) counts like any other. When no operator is left, the number of all nodes counts. What is
ordered cannot go on for ever. A rule that is left and adds nodes has nothing that stops it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from rewrite.lang import ast
from rewrite.lang.kinds import MAKES_NODES
from rewrite.lang.vocabulary import Vocabulary
from rewrite.lang.walk import nodes

Counts = Mapping[str, int]  # operator, as it is written -> number of nodes

_MADE = "{nodes made by a function}"
_ARBITRARY = "{any operator}"
_MOST_WAYS = 256  # to apply a rule; beyond that only what is common to them counts


@dataclass(frozen=True, slots=True)
class Change:
    """What one way to apply a rule takes away for sure, and what it adds at most.

    A way: a branch of each alternative of the pattern and an arm of each `case`.
    """

    rule: str
    least: Counts
    most: Counts

    def grows(self, operator: str) -> int:
        return self.most.get(operator, 0) - self.least.get(operator, 0)

    @property
    def total(self) -> int:
        return sum(self.most.values()) - sum(self.least.values())


@dataclass(frozen=True, slots=True)
class _Way:
    """Nodes matched in one way; the alternatives taken; the operators of the statements."""

    counts: Counter[str]
    taken: frozenset[str] = frozenset()
    tops: tuple[tuple[str, str], ...] = ()

    def then(self, other: _Way) -> _Way:
        return _Way(self.counts + other.counts, self.taken | other.taken, self.tops + other.tops)


_NOTHING = _Way(Counter())


def changes_of(rule: ast.Rule, vocabulary: Vocabulary) -> tuple[Change, ...]:
    """Of every way to apply the rule."""
    ways = [_NOTHING]
    for statement in rule.match:
        times = statement.least if isinstance(statement, ast.EachStatement) else 1
        name = statement.name if isinstance(statement, ast.EachStatement) else statement.names[0]
        ways = _product(ways, [_repeated(w, times) for w in _matched(statement.pattern, name)])
    names = frozenset(
        n.name for s in rule.match for n in nodes(s) if isinstance(n, ast.Alternative) and n.name
    )
    found: dict[tuple[object, ...], Change] = {}
    for way in ways:
        for most in _Emission(rule, vocabulary, way, names).ways():
            change = Change(rule.name, way.counts, most)
            key = (tuple(sorted(way.counts.items())), tuple(sorted(most.items())))
            found.setdefault(key, change)
    return tuple(found.values())


def _repeated(way: _Way, times: int) -> _Way:
    return _Way(Counter({n: c * times for n, c in way.counts.items()}), way.taken, way.tops)


def _product(left: Sequence[_Way], right: Sequence[_Way]) -> list[_Way]:
    """Each with each; where that are too many, what is common to all on the right."""
    if len(left) * len(right) > _MOST_WAYS:
        right = [_Way(_common([way.counts for way in right]))]
    return [a.then(b) for a in left for b in right]


def _common(counters: Sequence[Counter[str]]) -> Counter[str]:
    names = dict.fromkeys(name for counter in counters for name in counter)
    return Counter({name: min(c[name] for c in counters) for name in names})


def _matched(pattern: ast.Pattern, top: str | None = None) -> list[_Way]:
    """The nodes of a match, shared ones too. `top`: of that statement."""
    if isinstance(pattern, ast.OpPattern):
        name = _name(pattern.op)
        ways = [_Way(Counter((name,)), tops=() if top is None else ((top, name),))]
        for operand in pattern.operands:
            ways = _product(ways, _matched(operand))
        return ways
    if isinstance(pattern, ast.Bag):
        inner = {"prod": "Mul", "sum": "Add"}[pattern.kind]
        ways = [_Way(Counter({inner: len(pattern.items) - 1}))]
        for item in pattern.items:
            ways = _product(ways, _matched(item))
        return ways
    if isinstance(pattern, ast.Alternatives):
        return [
            _Way(way.counts, way.taken | ({b.name} if b.name else frozenset()), way.tops)
            for b in pattern.branches
            for way in _matched(b.pattern, top)
        ]
    if isinstance(pattern, ast.Chain):
        chain = _Way(Counter({_ARBITRARY: pattern.least}))
        return _product([chain], _matched(pattern.start))
    return [_NOTHING]


@dataclass(frozen=True)
class _Emission:
    """The nodes that a rule makes when it was matched in one way."""

    rule: ast.Rule
    vocabulary: Vocabulary
    way: _Way
    names: frozenset[str]  # of alternatives

    def ways(self) -> list[Counter[str]]:
        if self.rule.group is not None:  # what a group is made of, no rule sees
            return [Counter({f"group {self.rule.group.name}": 1})]
        found = [Counter[str]()]
        for emitted in self.rule.emit:
            found = self._product(found, self._made(emitted.value))
        return found

    def _product(self, left: list[Counter[str]], right: list[Counter[str]]) -> list[Counter[str]]:
        if len(left) * len(right) > _MOST_WAYS:
            names = dict.fromkeys(name for counter in right for name in counter)
            right = [Counter({name: max(c[name] for c in right) for name in names})]
        return [a + b for a in left for b in right]

    def _made(self, expr: ast.Expr) -> list[Counter[str]]:
        if isinstance(expr, ast.Case):
            return [made for arm in self._arms(expr) for made in self._made(arm.value)]
        if isinstance(expr, ast.Binary) and expr.operator == "??":
            return [made for side in (expr.left, expr.right) for made in self._made(side)]
        own, parts = self._node(expr)
        found = [own]
        for part in parts:
            found = self._product(found, self._made(part))
        return found

    def _arms(self, case: ast.Case) -> list[ast.CaseArm]:
        """Those that may be chosen after the alternatives taken."""
        possible: list[ast.CaseArm] = []
        for arm in case.arms:
            if arm.name in self.names and arm.name not in self.way.taken:
                continue
            possible.append(arm)
            if arm.name in self.way.taken:
                break
        return possible

    def _node(self, expr: ast.Expr) -> tuple[Counter[str], Sequence[ast.Expr]]:
        """The node that the expression itself makes, and its operands."""
        if isinstance(expr, ast.OpExpr):
            name = dict(self.way.tops).get(expr.op.name) if expr.op.prefix == "@" else None
            return Counter((name or _name(expr.op),)), expr.operands
        if isinstance(expr, ast.Call) and self.vocabulary.functions[expr.function].makes:
            return Counter((_MADE,)), expr.arguments
        values = _values(self.rule)
        if (
            isinstance(expr, ast.Binary)
            and expr.operator in MAKES_NODES
            and _is_value(expr, values)
        ):
            return Counter((MAKES_NODES[expr.operator],)), (expr.left, expr.right)
        return Counter(), ()


def _is_value(expr: ast.Expr, values: frozenset[str]) -> bool:
    """Whether arithmetic makes a node: on one side stands a value that is computed."""
    if isinstance(expr, ast.Binary) and expr.operator in MAKES_NODES:
        return _is_value(expr.left, values) or _is_value(expr.right, values)
    return isinstance(expr, ast.OpExpr) or (isinstance(expr, ast.Name) and expr.name in values)


def _values(rule: ast.Rule) -> frozenset[str]:
    """Names of values that are no constants."""
    found: set[str] = set()
    constant: set[str] = set()
    for statement in rule.match:
        if isinstance(statement, ast.MatchStatement):
            found.update(statement.names)
        for node in nodes(statement):
            if isinstance(node, ast.Variable):
                sure = node.type is not None and node.type.const
                (constant if sure else found).add(node.name)
    found.update(n for s in rule.emit for n in s.names)
    return frozenset(found - constant)


def _name(op: ast.OpName) -> str:
    if op.prefix == "@":
        return f"@{op.name}"
    return f"{op.prefix}.{op.name}" if op.prefix else op.name


def unordered(changes: Iterable[Change]) -> tuple[Change, ...]:
    """The ways to apply rules of a phase that no measure orders, in the order given."""
    left = list(changes)
    while left:
        operators = sorted({name for c in left for name in (*c.least, *c.most)})
        good = next((o for o in operators if _orders(left, o)), None)
        if good is None:
            break
        left = [c for c in left if c.grows(good) >= 0]
    if all(c.total <= 0 for c in left):
        left = [c for c in left if c.total == 0]
    return tuple(left)


def _orders(left: Sequence[Change], operator: str) -> bool:
    """Whether no rule makes more of the operator, and some rule fewer."""
    growths = [change.grows(operator) for change in left]
    return max(growths) <= 0 and min(growths) < 0
