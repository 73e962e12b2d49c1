"""Tests that cannot be false, and why: the schemas of the operators say so.

In: a rule, one of its tests. Out: the reason, "" where there is none: then the test can be false,
or nobody has shown that it cannot.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from rewrite.audit.coverage.dtypes import possible
from rewrite.audit.coverage.opsets import OpsetClass, in_force, may_be_absent
from rewrite.audit.coverage.ranks import false_ranks_of_atom, false_ranks_of_shape, refusal
from rewrite.lang.vocabulary import Vocabulary
from rewrite.match import form as f
from rewrite.match.items import Test, tests_of
from rewrite.match.rule import CompiledRule
from rewrite.schema import DTYPES


@dataclass(frozen=True)
class Always:
    """`parents`: form -> the operator that it is an operand of, and its place there."""

    rule: CompiledRule
    vocabulary: Vocabulary
    classes: Sequence[OpsetClass]
    parents: Mapping[int, tuple[f.Op, int]]

    def reason(self, test: Test) -> str:
        """Why the test always holds, by the schemas."""
        found = [x for x in self.rule.pattern.forms if x.span == test.span]
        if test.kind == "dtype" and found and all(isinstance(x, f.Any) for x in found):
            return self._typed(found)
        if test.kind == "shape" and found:
            return self._shaped(found)
        if test.kind == "where":
            return self._where(test)
        if test.kind == "const" and found:
            return self._carried(found)
        if test.kind == "present":
            places = [self.parents.get(x.index) for x in found]
            if places and all(p is not None and self._never(*p) for p in places):
                return "the operator has no such operand in the opsets of the rule"
        if test.kind == "attribute":
            forms = [
                x
                for x in self.rule.pattern.forms
                if isinstance(x, f.Op) and any(a.span == test.span for a in x.attributes)
            ]
            name = test.key.partition(".")[2].partition("#")[0]
            if forms and all(self._lacks(x, name) for x in forms):
                return f"the operator has no attribute {name} in the opsets of the rule"
        return ""

    def is_no_test(self, test: Test) -> bool:
        """A name that stands in several branches of one alternative is met once in a match."""
        if test.kind != "same":
            return False
        named = list(_named(self.rule.pattern))
        here = [(n, x) for n, x, span in named if span == test.span]
        return bool(here) and not any(
            name in self._starts
            or any(
                other == name and y.index < x.index and not self._exclude(x, y)
                for other, y, _ in named
            )
            for name, x in here
        )

    @property
    def _starts(self) -> frozenset[str | None]:
        """Names that are bound before any form is met: of the statements that matching starts from.

        Any other statement is met, and named, where the first form mentions it.
        """
        pattern = self.rule.pattern
        indices = [pattern.anchor, *(step.statement for step in pattern.forward)]
        return frozenset(name for i in indices for name in pattern.statements[i].names)

    def _exclude(self, x: f.Form, y: f.Form) -> bool:
        """Whether the two lie in different branches of one alternative."""
        for form in self.rule.pattern.forms:
            if isinstance(form, f.Choice):
                sides = [{z.index for z in f.walk(b.form)} for b in form.branches]
                if any(x.index in a and y.index in b for a in sides for b in sides if a is not b):
                    return True
        return False

    def _typed(self, forms: list[f.Form]) -> str:
        words: set[str] = set()
        for form in forms:
            assert isinstance(form, f.Any)
            assert form.type is not None
            assert form.type.dtypes is not None
            for c in self.classes:
                free = possible(self.rule, form.index, c.high, self.vocabulary, own=False)
                if not free <= form.type.dtypes:
                    return ""
                words |= free
        listed = ", ".join(name for name in DTYPES if name in words)
        return f"the schemas allow {listed} only" if words else ""

    def _shaped(self, forms: list[f.Form]) -> str:
        names = list(_sizes(self.rule.pattern))
        reasons = []
        for form in forms:
            if not isinstance(form, f.Any) or form.type is None or form.type.shape is None:
                return ""
            ranks = false_ranks_of_shape(form.type.shape, names)
            reasons.append(self._refusal(form, ranks))
        return reasons[0] if reasons and all(reasons) else ""

    def _carried(self, forms: list[f.Form]) -> str:
        """Operands that are attributes in all opsets of the rule are constant."""
        words = ""
        for form in forms:
            parent = self.parents.get(form.index)
            if parent is None or parent[0].also:
                return ""
            op, place = parent
            versions = self.vocabulary.schemas(*op.operator)
            known = [s for c in self.classes if (s := in_force(versions, c.high)) is not None]
            if not known or not all(place in s.legacy for s in known):
                return ""
            words = (
                f"operand {place + 1} of {op.operator[1]} is an attribute in the opsets of the rule"
            )
        return words

    def _where(self, test: Test) -> str:
        atom = tests_of(self.rule).atom(test.key)
        name, ranks = ("", ()) if atom is None else false_ranks_of_atom(atom)
        pattern = self.rule.pattern
        for form in pattern.forms:
            if isinstance(form, f.Any) and form.name == name and is_demanded(form, pattern):
                reason = self._refusal(form, ranks)
                if reason:
                    return reason
        return ""

    def _refusal(self, form: f.Form, ranks: Sequence[int]) -> str:
        parent = self.parents.get(form.index)
        return "" if parent is None else refusal(ranks, *parent, self.classes, self.vocabulary)

    def _never(self, form: f.Op, place: int) -> bool:
        versions = self.vocabulary.schemas(*form.operator)
        known = [s for c in self.classes if (s := in_force(versions, c.high)) is not None]
        return bool(known) and all(place >= len(s.inputs) for s in known) and not form.variadic

    def _lacks(self, form: f.Op, name: str) -> bool:
        for operator in form.operators:
            versions = self.vocabulary.schemas(*operator)
            known = [s for c in self.classes if (s := in_force(versions, c.high)) is not None]
            if not known or any(name in s.attributes for s in known):
                return False
        return True


def is_demanded(form: f.Form, pattern: f.Pattern) -> bool:
    """Whether every match has the form."""
    inside = [c for c in pattern.forms if isinstance(c, f.Choice)]
    return not may_be_absent(form) and not any(
        x.index == form.index for c in inside for x in f.walk(c)
    )


def _named(pattern: f.Pattern) -> Iterator[tuple[str, f.Form, object]]:
    """Names, the forms that mention them, where they stand."""
    for form in pattern.forms:
        if isinstance(form, (f.Any, f.Reference)) and form.name is not None:
            yield form.name, form, form.span
        elif isinstance(form, f.Op):
            for test in form.attributes:
                if test.bind is not None:
                    yield test.bind, form, test.span
            if form.rest is not None and form.rest.name is not None:
                yield form.rest.name, form, form.rest.span


def _sizes(pattern: f.Pattern) -> Iterator[str]:
    """The names of sizes, as often as they stand there."""
    for form in pattern.forms:
        test = form.type if isinstance(form, f.Any) else None
        if test is not None and test.shape is not None:
            for dim in (*test.shape.front, *test.shape.back):
                if dim.name is not None:
                    yield dim.name
            if test.shape.name is not None:
                yield test.shape.name
