"""What the forms of a pattern are made of: what a match without one of them lacks.

In: a `CompiledRule`. Out: `Parts`: of a form how many operators are written in it, and which names
it would bind. Near matches ask that of the same forms many thousand times.
"""

from __future__ import annotations

from collections.abc import Container, Iterator
from dataclasses import dataclass, field
from functools import lru_cache

from rewrite.match import form as f
from rewrite.match.pattern import form_names
from rewrite.match.rule import CompiledRule


@dataclass(frozen=True, slots=True)
class _Part:
    """Of one form alone: its operators, the references in it."""

    count: int
    references: tuple[f.Reference, ...]


@dataclass(frozen=True, slots=True)
class Parts:
    """What was asked is kept, by the numbers of forms."""

    pattern: f.Pattern
    _known: dict[int, _Part] = field(default_factory=dict)
    _lost: dict[int, frozenset[str]] = field(default_factory=dict)

    def operators(self, form: f.Form, bound: Container[str | None]) -> int:
        """How many operators are written in a form and in the statements that it leads to, those
        left out whose names are bound."""
        return self._operators(form, bound, set())

    def _operators(self, form: f.Form, bound: Container[str | None], seen: set[int]) -> int:
        part = self._part(form)
        count = part.count
        for reference in part.references:
            if reference.statement not in seen:
                seen.add(reference.statement)
                if reference.name not in bound:
                    led_to = self.pattern.statements[reference.statement].form
                    count += self._operators(led_to, bound, seen)
        return count

    def _part(self, form: f.Form) -> _Part:
        known = self._known.get(form.index)
        if known is None:
            inside = tuple(f.walk(form))
            references = tuple(x for x in inside if isinstance(x, f.Reference))
            known = self._known[form.index] = _Part(sum(map(_written, inside)), references)
        return known

    def lost(self, form: f.Form) -> frozenset[str]:
        """The names that the form would bind, and those of statements that it leads to."""
        known = self._lost.get(form.index)
        if known is None:
            known = self._lost[form.index] = frozenset(self._names(form, set()))
        return known

    def _names(self, form: f.Form, seen: set[int]) -> Iterator[str]:
        for statement in self.pattern.statements:
            if statement.form is form:
                yield from (name for name in statement.names if name is not None)
        for part in f.walk(form):
            yield from form_names(part)
            if isinstance(part, f.Reference) and part.statement not in seen:
                seen.add(part.statement)
                yield from self._names(self.pattern.statements[part.statement].form, seen)


@lru_cache(maxsize=256)
def parts_of(rule: CompiledRule) -> Parts:
    """The parts of a rule's pattern; one for all who ask."""
    return Parts(rule.pattern)


def _written(form: f.Form) -> int:
    """How many operators of its own the form has."""
    if isinstance(form, f.Bag):
        return len(form.items) - 1
    if isinstance(form, f.Chain):
        return form.least
    return int(isinstance(form, f.Op))
