"""The items of a rule: all that its tests should show.

In: a `CompiledRule`, the texts of the pack, the `Vocabulary`. Out: `Item`s in the order of kinds,
within a kind in the order of the text. What schemas make impossible says so itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from rewrite.audit.coverage.always import Always, is_demanded
from rewrite.audit.coverage.coupled import Coupled
from rewrite.audit.coverage.dtypes import ALL, possible
from rewrite.audit.coverage.item import Item, excerpt, keyed
from rewrite.audit.coverage.opsets import (
    OpsetClass,
    classes,
    impossible,
    in_force,
)
from rewrite.audit.coverage.order import commuting, differs
from rewrite.errors import Span
from rewrite.lang import ast
from rewrite.lang.quantized_words import is_parameter, written
from rewrite.lang.vocabulary import Vocabulary
from rewrite.lang.walk import nodes
from rewrite.match import form as f
from rewrite.match.items import Test, tests_of
from rewrite.match.rule import CompiledRule
from rewrite.schema import DTYPES

TRUE, FALSE = "true", "false"


def items_of(
    rule: CompiledRule, texts: Mapping[str, str], vocabulary: Vocabulary
) -> tuple[Item, ...]:
    """All items of the rule; what stands at one place of the text counts once."""
    found: dict[str, Item] = {}
    for item in _Reader(rule, texts, vocabulary).items():
        known = found.setdefault(item.key, item)
        if known.unreachable and not item.unreachable:
            found[item.key] = item
    return tuple(found.values())


def cases_of(rule: ast.Rule) -> tuple[ast.Case, ...]:
    """Every `case` of the rule, in the order of the text: conditions, `emit`, `group`."""
    parts = (*rule.steps, *rule.emit, *((rule.group,) if rule.group is not None else ()))
    return tuple(n for part in parts for n in nodes(part) if isinstance(n, ast.Case))


def optionals(pattern: f.Pattern) -> dict[int, str]:
    """Form -> key of an operand that may be absent, without `=present`."""
    forms = [x for x in pattern.forms if isinstance(x, f.Any) and x.optional]
    return keyed((x.index, x.span, f"optional:{_plain(x.name)}") for x in forms)


def typed(pattern: f.Pattern) -> dict[int, str]:
    """Form -> key of a value with element types, without `=f32`."""
    forms = [x for x in pattern.forms if isinstance(x, f.Any) and x.type and x.type.dtypes]
    return keyed((x.index, x.span, f"dtype:{_plain(x.name)}") for x in forms)


def typed_rests(pattern: f.Pattern) -> dict[int, str]:
    """Form of an operator -> key of its typed list of operands, without `=f32`."""
    forms = [(x.index, x.rest) for x in pattern.forms if isinstance(x, f.Op) and x.rest]
    typed = [(index, rest) for index, rest in forms if rest.type and rest.type.dtypes]
    return keyed((index, rest.span, f"dtype:*{_plain(rest.name)}") for index, rest in typed)


def choices(pattern: f.Pattern) -> dict[int, str]:
    """Form of an alternative -> its key, without the number of a branch."""
    forms = [x for x in pattern.forms if isinstance(x, f.Choice)]
    spans = list(dict.fromkeys(x.span for x in forms))
    return {x.index: f"branch:{spans.index(x.span) + 1}" for x in forms}


def is_made(test: Test, pattern: f.Pattern) -> bool:
    """Whether `DQ` and `Q` have made the test, so that no author can make it looser.

    Scales that are constant, attributes of the operator behind: what codes are in the language.
    """
    if test.kind == "const":
        return is_parameter(test.key.partition(":")[2].partition("#")[0])
    return test.kind == "attribute" and any(
        isinstance(x, f.Op) and x.span == test.span for x in pattern.forms
    )


def _plain(name: str | None) -> str:
    """A name as the author knows it."""
    return "_" if name is None else written(name)


@dataclass
class _Reader:
    rule: CompiledRule
    texts: Mapping[str, str]
    vocabulary: Vocabulary
    classes: tuple[OpsetClass, ...] = ()
    parents: dict[int, tuple[f.Op, int]] = field(default_factory=dict)

    def items(self) -> Iterator[Item]:
        rule = self.rule
        span = rule.rule.span
        last = Span(
            span.file, span.line, span.column, span.line, span.column + len(f"rule {rule.name}")
        )
        yield Item("fired", "fired", last, rule.name)
        self.classes = classes(rule, self.vocabulary)
        for form in rule.pattern.forms:
            if isinstance(form, f.Op):
                self.parents |= {x.index: (form, place) for place, x in enumerate(form.operands)}
        yield from self._branches()
        yield from self._optionals()
        yield from self._orders()
        coupled = Coupled(tests_of(rule))
        always = Always(rule, self.vocabulary, self.classes, self.parents)
        for test in tests_of(rule).every:
            if is_made(test, rule.pattern) or always.is_no_test(test):
                continue
            for value, word in ((True, TRUE), (False, FALSE)):
                reason = "" if value else always.reason(test)
                reason = reason or coupled.reason(test.key, value)
                yield Item("test", f"{test.key}={word}", test.span, test.words, reason)
        yield from self._arms()
        yield from self._dtypes()
        yield from self._opsets(last)
        for name in rule.over:
            yield Item("override", f"over:{name}", last, f"over {name}")

    def _text(self, span: Span) -> str:
        return excerpt(span, self.texts)

    # --- patterns

    def _branches(self) -> Iterator[Item]:
        for index, key in choices(self.rule.pattern).items():
            form = self.rule.pattern.forms[index]
            assert isinstance(form, f.Choice)
            for place, branch in enumerate(form.branches, 1):
                words = self._text(branch.form.span)
                words += f" as {branch.name}" if branch.name else ""
                yield Item("branch", f"{key}.{place}", branch.form.span, words, home=form.span)

    def _optionals(self) -> Iterator[Item]:
        for index, key in optionals(self.rule.pattern).items():
            form = self.rule.pattern.forms[index]
            present, absent = self._presence(index)
            words = key.partition(":")[2]
            yield Item("optional", f"{key}=present", form.span, words, present)
            yield Item("optional", f"{key}=absent", form.span, words, absent)

    def _presence(self, index: int) -> tuple[str, str]:
        """Why the operand is never present, and why it is never absent."""
        if index not in self.parents:
            return "", ""
        form, place = self.parents[index]
        if form.commutes or form.also:
            return "", ""
        versions = self.vocabulary.schemas(*form.operator)
        schemas = [in_force(versions, c.high) for c in self.classes]
        known = [s for s in schemas if s is not None]
        if not known:
            return "", ""
        name, number = form.operator[1], place + 1
        present = absent = ""
        if all(place >= len(s.inputs) for s in known):
            present = f"{name} has no operand {number} in the opsets of the rule"
        if all(place < len(s.inputs) and s.inputs[place].option == "single" for s in known):
            absent = f"operand {number} of {name} is required in the opsets of the rule"
        return present, absent

    def _orders(self) -> Iterator[Item]:
        for index, key in commuting(self.rule.pattern).items():
            form = self.rule.pattern.forms[index]
            if not differs(form, self.rule):
                continue
            words = self._text(form.span)
            yield Item("order", f"{key}=written", form.span, words)
            yield Item("order", f"{key}=swapped", form.span, words)

    # --- the rest

    def _arms(self) -> Iterator[Item]:
        for number, case in enumerate(cases_of(self.rule.rule), 1):
            for place, arm in enumerate(case.arms, 1):
                words = f"{arm.name or 'else'}: {self._text(arm.value.span)}"
                yield Item("arm", f"arm:{number}.{place}", arm.span, words)

    def _dtypes(self) -> Iterator[Item]:
        pattern = self.rule.pattern
        for index, key in typed(pattern).items():
            form = pattern.forms[index]
            assert isinstance(form, f.Any)
            yield from self._claimed(index, key, form.type, form.span, True)
        for index, key in typed_rests(pattern).items():
            op = pattern.forms[index]
            assert isinstance(op, f.Op)
            assert op.rest is not None
            yield from self._claimed(index, key, op.rest.type, op.rest.span, False)

    def _claimed(
        self, index: int, key: str, type_: f.TypeTest | None, span: Span, own: bool
    ) -> Iterator[Item]:
        assert type_ is not None
        allowed: frozenset[str] = frozenset()
        for c in self.classes:
            if not impossible(self.rule, c.high, self.vocabulary):
                allowed |= possible(self.rule, index, c.high, self.vocabulary) if own else ALL
        listed = frozenset(type_.words.partition("[")[0].split("|"))
        for name in DTYPES:
            if name not in (type_.dtypes or ()):
                continue
            if name in allowed:
                yield Item("dtype", f"{key}={name}", span, name)
            elif name in listed:  # a class stands for what the schemas allow, a name for itself
                reason = "the schemas of the pattern's operators do not allow it here"
                yield Item("dtype", f"{key}={name}", span, name, reason)

    def _opsets(self, span: Span) -> Iterator[Item]:
        for c in self.classes:
            reason = impossible(self.rule, c.high, self.vocabulary) or self._untyped(c.high)
            yield Item("opset", f"opset={c.words}", span, f"opset {c.words}", reason)

    def _untyped(self, opset: int) -> str:
        """Why no element types fit the pattern at this opset."""
        for index, key in typed(self.rule.pattern).items():
            form = self.rule.pattern.forms[index]
            if is_demanded(form, self.rule.pattern) and not possible(
                self.rule, index, opset, self.vocabulary
            ):
                return f"no element type fits {key.partition(':')[2]} in this opset"
        return ""
