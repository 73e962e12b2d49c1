"""What of a rule can be true or false at a place of a model: its tests.

In: a `CompiledRule`. Out: `Tests`: every `Test` in the order of the text, the formulas of its
conditions over `Atom`s, and the key of the test that a failure is about.

A test has a key that does not change while the text around it does: its kind, what it is about
and, where that is not enough, a number: `const:W`, `attribute:Conv.group`, `where:2.1`.
Conditions are split into atoms, the leaves of `and`, `or` and `not`; an atom under an odd number
of `not`s holds where its expression does not.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from rewrite.errors import Span
from rewrite.lang import ast
from rewrite.lang.printer import print_expr
from rewrite.lang.quantized_words import as_written, is_unnamed
from rewrite.match import form as f
from rewrite.match.expr import compile_condition
from rewrite.match.rule import CompiledRule, Condition
from rewrite.match.structure import operator_words
from rewrite.match.values import Env

# Failures that are ways for one test not to hold.
_TESTED = {"overridable": "const"}

# Failures that say that a value is nothing like what is written, not that one test does not hold,
# by the form that they are about.
_STRUCTURAL: Mapping[type[f.Form], tuple[str, ...]] = {
    f.Any: ("absent",),
    f.Number: ("absent",),
    f.Reference: ("output", "absent"),
    f.Op: ("operator", "graph", "operands", "absent"),
    f.Bag: ("bag", "absent"),
    f.Chain: ("chain", "absent"),
}


@dataclass(frozen=True, slots=True)
class Test:
    """One test of a rule. `words`: its text; `kind` is the code of the failure where it fails."""

    kind: str
    key: str
    span: Span
    words: str


@dataclass(frozen=True, slots=True)
class Atom:
    """A leaf of a condition. `holds` computes the expression, which `negated` turns round."""

    test: Test
    expr: ast.Expr
    negated: bool
    holds: Condition = field(compare=False, repr=False)

    def is_true(self, env: Env) -> bool:
        """Whether the leaf, its `not`s counted, holds. Raises `Unknown`."""
        return self.holds(env) is not self.negated


@dataclass(frozen=True, slots=True)
class Every:
    """All parts must hold."""

    parts: tuple[Formula, ...]


@dataclass(frozen=True, slots=True)
class Some:
    """One of the parts must hold."""

    parts: tuple[Formula, ...]


Formula = Atom | Every | Some


def atoms(formula: Formula) -> Iterator[Atom]:
    """The leaves, from left to right."""
    if isinstance(formula, Atom):
        yield formula
        return
    for part in formula.parts:
        yield from atoms(part)


@dataclass(frozen=True, slots=True)
class Conditional:
    """A condition of `where`; it matters only where what `when` names is there."""

    when: str | None
    formula: Formula


@dataclass(frozen=True, slots=True)
class Tests:
    """`every`: the tests in the order of the text; `wheres` and `guards`: their conditions.

    `keys`: of a failure, by its code and place in the text; also those that are no test.
    """

    every: tuple[Test, ...]
    wheres: tuple[Conditional, ...]
    guards: tuple[Formula, ...]
    keys: Mapping[tuple[str, Span], str]

    def test(self, key: str) -> Test | None:
        """The test of this key."""
        return next((test for test in self.every if test.key == key), None)

    def atom(self, key: str) -> Atom | None:
        """The leaf of a condition whose test has this key."""
        formulas = (*self.guards, *(condition.formula for condition in self.wheres))
        return next((a for x in formulas for a in atoms(x) if a.test.key == key), None)

    def key(self, code: str, span: Span | None) -> str:
        """The key of the failure; its code where it is about the rule as a whole."""
        if span is None:
            return code
        return self.keys.get((_TESTED.get(code, code), span), code)


@lru_cache(maxsize=1024)
def tests_of(rule: CompiledRule) -> Tests:
    """The tests of a rule."""
    return _Reader(rule).read()


class _Reader:
    def __init__(self, rule: CompiledRule) -> None:
        self.rule = rule
        self.pattern = rule.pattern
        self.found: list[Test] = []
        self.keys: dict[tuple[str, Span], str] = {}
        self.counts: dict[str, int] = {}
        self.places: dict[str, list[Span]] = {}  # where each name stands
        self.roots = frozenset(_root_forms(rule))
        self.of_several = {s.form.index for s in self.pattern.statements if len(s.names) > 1}
        self.labels = {
            s.form.index: name for s in self.pattern.statements for name in s.names[:1] if name
        }

    def read(self) -> Tests:
        for statement in self.pattern.statements:
            for form in f.walk(statement.form):
                self._form(form)
            for code in ("same", "siblings"):
                self._name(code, statement.names[0] or "", statement.span)
        guards = tuple(
            self._formula(guard, f"guard:{number}", "guard")
            for number, guard in enumerate(self.pattern.guards, 1)
        )
        conditions = [step for step in self.rule.rule.steps if isinstance(step, ast.Where)]
        wheres = tuple(
            Conditional(step.when, self._formula(step.condition, f"where:{number}", "where"))
            for number, step in enumerate(conditions, 1)
        )
        return Tests(tuple(self.found), wheres, guards, self.keys)

    # --- patterns ------------------------------------------------------------------------------

    def _form(self, form: f.Form) -> None:
        label = self._label(form)
        for code in _STRUCTURAL.get(type(form), ()):
            self._name(code, label, form.span)
        if isinstance(form, f.Op) and form.index not in self.of_several:
            self._name("output", label, form.span)
        if isinstance(form, f.Any):
            self._typed(form.type, label, form.span)
            self._named(form.name, form.span)
        elif isinstance(form, f.Reference):
            self._named(form.name, form.span)
        elif isinstance(form, f.Absent):
            self._test("present", label, form.span, "none")
        elif isinstance(form, f.Number):
            self._test("literal", str(form.value), form.span, str(form.value))
        elif isinstance(form, f.Op):
            self._operator(form, label)
        if isinstance(form, (f.Op, f.Bag, f.Chain)) and form.index not in self.roots:
            shared = isinstance(form, f.Op) and form.shared
            if not shared:
                self._test("uses", label, form.span, "not used elsewhere")

    def _operator(self, form: f.Op, label: str) -> None:
        name = form.operator[1]
        for test in form.attributes:
            if test.values is not None:
                words = " | ".join(_literal(v) for v in test.values if v is not None)
                self._test("attribute", f"{name}.{test.name}", test.span, f"{test.name}: {words}")
            self._named(test.bind, test.span)
        if form.rest is not None:
            self._typed(form.rest.type, form.rest.name or label, form.rest.span)
            self._named(form.rest.name, form.rest.span)

    def _typed(self, test: f.TypeTest | None, label: str, span: Span) -> None:
        if test is None:
            return
        if test.const:
            self._test("const", label, span, "const")
        if test.dtypes is not None:
            self._test("dtype", label, span, test.words.partition("[")[0])
        if test.shape is not None and _restricts(test.shape):
            self._test("shape", label, span, test.words)

    def _named(self, name: str | None, span: Span) -> None:
        """A name that is written twice must be the same value, whichever place is met first."""
        if name is None:
            return
        places = self.places.setdefault(name, [])
        places.append(span)  # twice, where a named pattern uses its parameter twice
        if len(places) == 2:
            self._test("same", name, span, name)
        if len(places) >= 2:
            for place in places:
                self.keys["same", place] = self.keys["same", places[1]]

    def _label(self, form: f.Form) -> str:
        """What the form is called: by its name, else by its operator."""
        named = self.labels.get(form.index)
        if named is not None and not is_unnamed(named):
            return named
        if isinstance(form, (f.Any, f.Reference)):
            return "_" if form.name is None or is_unnamed(form.name) else form.name
        if isinstance(form, (f.Op, f.Bag)):
            return operator_words(form.operator)
        return form.klass if isinstance(form, f.Chain) else type(form).__name__.lower()

    # --- conditions ----------------------------------------------------------------------------

    def _formula(self, expr: ast.Expr, prefix: str, kind: str) -> Formula:
        parts = list(leaves(expr))
        found: list[Atom] = []
        for number, (leaf, negated) in enumerate(parts, 1):
            key = prefix if len(parts) == 1 else f"{prefix}.{number}"
            words = ("not " if negated else "") + print_expr(as_written(leaf))
            test = Test(kind, key, leaf.span, words)
            self.found.append(test)
            self.keys[kind, leaf.span] = key
            found.append(Atom(test, leaf, negated, compile_condition(leaf)))
        return _joined(expr, iter(found), negated=False)

    # --- keys ----------------------------------------------------------------------------------

    def _test(self, kind: str, label: str, span: Span, words: str) -> None:
        known = (kind, span) in self.keys and any(
            t.kind == kind and t.span == span for t in self.found
        )
        if not known:  # a named pattern that is called twice is one text
            self.found.append(Test(kind, self._name(kind, label, span), span, words))

    def _name(self, kind: str, label: str, span: Span) -> str:
        key = self.keys.get((kind, span))
        if key is None:
            plain = f"{kind}:{label}"
            count = self.counts[plain] = self.counts.get(plain, 0) + 1
            key = self.keys[kind, span] = plain if count == 1 else f"{plain}#{count}"
        return key


def _root_forms(rule: CompiledRule) -> Iterator[int]:
    """The forms whose value may be a root: what replaces it may be used by everybody."""
    for statement in rule.pattern.statements:
        if any(name in rule.roots for name in statement.names):
            yield from _tops(statement.form)


def _tops(form: f.Form) -> Iterator[int]:
    if isinstance(form, f.Choice):
        for branch in form.branches:
            yield from _tops(branch.form)
    else:
        yield form.index


def _restricts(shape: f.ShapeTest) -> bool:
    """Whether some shape is not of this form."""
    free = all(dim.size is None and dim.name is None for dim in (*shape.front, *shape.back))
    return not (shape.ellipsis and free and not (shape.front or shape.back))


def _literal(value: object) -> str:
    if isinstance(value, tuple):
        return f"[{', '.join(_literal(item) for item in value)}]"
    return f'"{value}"' if isinstance(value, str) else str(value)


def leaves(expr: ast.Expr, negated: bool = False) -> Iterator[tuple[ast.Expr, bool]]:
    """The leaves of `and`, `or` and `not`, and whether a leaf is under an odd number of `not`s."""
    if isinstance(expr, ast.Binary) and expr.operator in ("and", "or"):
        yield from leaves(expr.left, negated)
        yield from leaves(expr.right, negated)
    elif isinstance(expr, ast.Unary) and expr.operator == "not":
        yield from leaves(expr.operand, not negated)
    else:
        yield expr, negated


def _joined(expr: ast.Expr, found: Iterator[Atom], negated: bool) -> Formula:
    """The formula of the expression; a `not` goes down to the leaves (de Morgan)."""
    if isinstance(expr, ast.Binary) and expr.operator in ("and", "or"):
        parts = (_joined(expr.left, found, negated), _joined(expr.right, found, negated))
        both = (expr.operator == "and") is not negated
        return Every(_flat(parts, Every)) if both else Some(_flat(parts, Some))
    if isinstance(expr, ast.Unary) and expr.operator == "not":
        return _joined(expr.operand, found, not negated)
    return next(found)


def _flat(parts: Sequence[Formula], kind: type[Every] | type[Some]) -> tuple[Formula, ...]:
    return tuple(
        inner for part in parts for inner in (part.parts if isinstance(part, kind) else (part,))
    )
