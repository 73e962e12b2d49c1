"""Checks of two rules that match at one place."""

from __future__ import annotations

import re
from collections.abc import Iterator

from rewrite.audit.lint.finding import Edit, Found
from rewrite.audit.lint.fixes import within, without_item
from rewrite.audit.lint.normal import normal_form
from rewrite.audit.lint.outcome import outcomes
from rewrite.audit.lint.registry import check
from rewrite.audit.lint.shadow import covers, dead_branches
from rewrite.audit.lint.subject import Subject
from rewrite.audit.lint.unify import may_compete
from rewrite.audit.lint.witness import Meeting
from rewrite.errors import Label, Span
from rewrite.lang import ast

_GROUP = "group"


@check("RW901", "error")
def overlap_without_order(subject: Subject) -> Iterator[Found]:
    '''Two rules match at one node, and nothing says which goes first.

    Both rules of one phase have the same number of pattern nodes, so that only their places in the
    text decide which of them is tried first: moving one changes results. `over` says what is
    meant; a condition can keep them apart. The finding names a model in which both match and either
    could be applied. Rules of different size need no `over`: the larger goes first.

    ```rule bad
    rule add_zero in clean {
      """x + 0 = x, of integers."""
      match y = (x: int) + 0
      where shape(x) == shape(y)
      emit  y = x
      claim exact
      example fires plain """
        g (int32[2] x) => (int32[2] y) <int32 z = {0}> { a = Abs(x)  b = Add(a, z)  y = Neg(b) }
      """
      example rejects one """
        g (int32[2] x) => (int32[2] y) <int32 z = {1}> { a = Abs(x)  b = Add(a, z)  y = Neg(b) }
      """
    }

    rule add_to_subtract in clean {
      """x + c = x - (-c), of integers that may be negated."""
      match y = (x: s32) + (c: const)
      where c <= 0
      emit  y = x - (0 - c)
      claim exact
      example fires plain """
        g (int32[2] x) => (int32[2] y) <int32 c = {-1}> { y = Add(x, c) }
      """
      example rejects positive """
        g (int32[2] x) => (int32[2] y) <int32 c = {1}> { y = Add(x, c) }
      """
    }
    ```

    ```rule good
    rule add_zero in clean over add_to_subtract {
      """x + 0 = x, of integers."""
      match y = (x: int) + 0
      where shape(x) == shape(y)
      emit  y = x
      claim exact
      example fires plain """
        g (int32[2] x) => (int32[2] y) <int32 z = {0}> { a = Abs(x)  b = Add(a, z)  y = Neg(b) }
      """
      example rejects one """
        g (int32[2] x) => (int32[2] y) <int32 z = {1}> { a = Abs(x)  b = Add(a, z)  y = Neg(b) }
      """
    }

    rule add_to_subtract in clean {
      """x + c = x - (-c), of integers that may be negated."""
      match y = (x: s32) + (c: const)
      where c <= 0
      emit  y = x - (0 - c)
      claim exact
      example fires plain """
        g (int32[2] x) => (int32[2] y) <int32 c = {-1}> { y = Add(x, c) }
      """
      example rejects positive """
        g (int32[2] x) => (int32[2] y) <int32 c = {1}> { y = Add(x, c) }
      """
    }
    ```
    '''
    for (first, second), meetings in subject.meetings.pairs.items():
        if subject.above(first, second):
            continue
        if subject.compiled[first].size != subject.compiled[second].size:
            continue
        if _covered(subject, first, second):
            continue
        witness = next((m for m in meetings if m.same_anchor and _both_apply(m)), None)
        if witness is not None:
            yield _overlap(subject, first, second, witness)


def _covered(subject: Subject, first: str, second: str) -> bool:
    """What RW902 and RW906 tell is told once."""
    one, other = subject.expanded[first], subject.expanded[second]
    if normal_form(one) == normal_form(other):
        return True
    return covers(subject.compiled[first], subject.compiled[second], subject.operators)


def _both_apply(meeting: Meeting) -> bool:
    """Groups take what is matched as it is."""
    return meeting.phase == _GROUP or outcomes(meeting) is not None


def _overlap(subject: Subject, first: str, second: str, witness: Meeting) -> Found:
    here, other = (first, second) if first in subject.written else (second, first)
    message = f"`{first}` and `{second}` both match at one node; only the text puts one first"
    hint = f"write `over` in the rule that is to go first; they meet in `{witness.witness.label}`"
    note = Label(subject.expanded[other].span, "the other one")
    return Found(message, head(subject.expanded[here].span), here, hint, (note,))


@check("RW902", "error")
def shadowed(subject: Subject) -> Iterator[Found]:
    '''A rule that never fires, because an earlier one takes every match.

    The earlier rule matches wherever this one does, its conditions follow from those here, it holds
    for all opsets of this one and promises no less.

    ```rule bad
    rule twice_absolute in clean {
      """||x|| = |x|."""
      match y = Abs(Abs(x))
      emit  y = Abs(x)
      claim exact
      example fires plain """g (float[2] x) => (float[2] y) { a = Abs(x)  y = Abs(a) }"""
      example rejects once """g (float[2] x) => (float[2] y) { y = Abs(x) }"""
    }

    rule twice_absolute_of_small in clean {
      """||x|| = |x|, of half precision."""
      match y = Abs(Abs(x: f16))
      where rank(x) == 2
      emit  y = Abs(x)
      claim exact
      example fires plain """g (float16[2,2] x) => (float16[2,2] y) { a = Abs(x)  y = Abs(a) }"""
      example rejects once """g (float16[2] x) => (float16[2] y) { a = Abs(x)  y = Abs(a) }"""
    }
    ```

    ```rule good
    rule twice_absolute in clean {
      """||x|| = |x|."""
      match y = Abs(Abs(x))
      emit  y = Abs(x)
      claim exact
      example fires plain """g (float[2] x) => (float[2] y) { a = Abs(x)  y = Abs(a) }"""
      example rejects once """g (float[2] x) => (float[2] y) { y = Abs(x) }"""
    }
    ```
    '''
    for upper, lower, meeting in shadows(subject):
        message = f"`{lower}` never fires: `{upper}` is tried first and matches wherever it does"
        note = Label(subject.expanded[upper].span, "the rule that is tried first")
        hint = f"put it `over {upper}`, or remove it; they meet in `{meeting.witness.label}`"
        yield Found(message, head(subject.expanded[lower].span), lower, hint, (note,))


def shadows(subject: Subject) -> Iterator[tuple[str, str, Meeting]]:
    """The rule that takes every match, the one that never fires, and where they meet."""
    for (upper, lower), meetings in subject.meetings.pairs.items():
        same = normal_form(subject.expanded[upper]) == normal_form(subject.expanded[lower])
        if lower not in subject.written or same:
            continue
        rules = subject.compiled[upper], subject.compiled[lower]
        if covers(*rules, subject.operators):
            witness = next((m for m in meetings if m.same_anchor and _both_apply(m)), None)
            if witness is not None:
                yield upper, lower, witness


@check("RW906", "error")
def duplicate(subject: Subject) -> Iterator[Found]:
    '''Two rules say the same.

    They differ only in names, doc, claim and examples, and some opset has both.

    ```rule bad
    rule twice_absolute in clean {
      """||x|| = |x|."""
      match y = Abs(Abs(x: f16))
      emit  y = Abs(x)
      claim exact
      example fires plain """g (float16[2] x) => (float16[2] y) { a = Abs(x)  y = Abs(a) }"""
      example rejects once """g (float16[2] x) => (float16[2] y) { y = Abs(x) }"""
    }

    rule absolute_again in fold {
      """The magnitude of a magnitude."""
      match z = Abs(Abs(v: f16))
      emit  z = Abs(v)
      claim exact
      example fires plain """g (float16[2] x) => (float16[2] y) { a = Abs(x)  y = Abs(a) }"""
      example rejects once """g (float16[2] x) => (float16[2] y) { y = Abs(x) }"""
    }
    ```

    ```rule good
    rule twice_absolute in clean {
      """||x|| = |x|."""
      match y = Abs(Abs(x: f16))
      emit  y = Abs(x)
      claim exact
      example fires plain """g (float16[2] x) => (float16[2] y) { a = Abs(x)  y = Abs(a) }"""
      example rejects once """g (float16[2] x) => (float16[2] y) { y = Abs(x) }"""
    }
    ```
    '''
    first: dict[str, list[ast.Rule]] = {}
    for rule in subject.pack.rules:
        alike = first.setdefault(normal_form(rule), [])
        other = next((r for r in alike if _meet(r.opset, rule.opset)), None)
        alike.append(rule)
        if other is not None and rule.name in subject.written:
            message = f"`{rule.name}` says the same as `{other.name}`"
            note = Label(other.span, "the first one")
            yield Found(message, head(rule.span), rule.name, "remove one of them", (note,))


@check("RW907", "warning")
def over_without_effect(subject: Subject) -> Iterator[Found]:
    '''`over` orders two rules that never meet.

    Their patterns end in different operators or cannot both match one node, or no opset has both
    rules. (`over` a rule of another phase is an error when the pack is loaded, RW319.) `--fix`
    removes it.

    ```rule bad
    rule twice_absolute in clean over double_negation {
      """||x|| = |x|."""
      match y = Abs(Abs(x))
      emit  y = Abs(x)
      claim exact
      example fires plain """g (float[2] x) => (float[2] y) { a = Abs(x)  y = Abs(a) }"""
      example rejects once """g (float[2] x) => (float[2] y) { y = Abs(x) }"""
    }

    rule double_negation in clean {
      """-(-x) = x."""
      match y = Neg(Neg(x))
      emit  y = x
      claim exact
      example fires plain """g (float x) => (float y) { a = Neg(x)  b = Neg(a)  y = Abs(b) }"""
      example rejects once """g (float x) => (float y) { a = Neg(x)  y = Abs(a) }"""
    }
    ```

    ```rule good
    rule twice_absolute in clean {
      """||x|| = |x|."""
      match y = Abs(Abs(x))
      emit  y = Abs(x)
      claim exact
      example fires plain """g (float[2] x) => (float[2] y) { a = Abs(x)  y = Abs(a) }"""
      example rejects once """g (float[2] x) => (float[2] y) { y = Abs(x) }"""
    }

    rule double_negation in clean {
      """-(-x) = x."""
      match y = Neg(Neg(x))
      emit  y = x
      claim exact
      example fires plain """g (float x) => (float y) { a = Neg(x)  b = Neg(a)  y = Abs(b) }"""
      example rejects once """g (float x) => (float y) { a = Neg(x)  y = Abs(a) }"""
    }
    ```
    '''
    for rule in subject.own():
        for name in rule.over:
            below = subject.compiled.get(name)
            if below is None or may_compete(subject.compiled[rule.name], below):
                continue
            text = subject.text(rule.span)
            place = within(text, rule.span, rf"\b{name}\b(?=[^{{]*\{{)")
            message = f"`over {name}` has no effect: the two rules never match at one node"
            yield Found(message, place, rule.name, "remove it", (), _without(text, rule, place))


def _meet(one: tuple[int | None, int | None], other: tuple[int | None, int | None]) -> bool:
    """Whether some opset is in both ranges, which a loaded pack has resolved."""
    return max(one[0] or 0, other[0] or 0) <= min(one[1] or 0, other[1] or 0)


def _without(text: str, rule: ast.Rule, place: Span) -> tuple[Edit, ...]:
    if len(rule.over) == 1:
        return (Edit(within(text, rule.span, rf"\s+over\s+{re.escape(rule.over[0])}\b"), ""),)
    span = without_item(text, place)
    return () if span is None else (Edit(span, ""),)


@check("RW914", "error")
def unreachable_branch(subject: Subject) -> Iterator[Found]:
    '''A branch that is never taken, because an earlier one matches whatever it does.

    The earlier branch has no guard and matches whatever this one does, with the same names bound to
    the same values.

    ```rule bad
    rule absolute_of_sign in clean {
      """||x|| = |x|, also of x negated."""
      match y = Abs(Neg(x) | Neg(x: f16))
      emit  y = Abs(x)
      claim exact
      example fires plain """g (float[2] x) => (float[2] y) { a = Neg(x)  y = Abs(a) }"""
      example rejects once """g (float[2] x) => (float[2] y) { y = Abs(x) }"""
    }
    ```

    ```rule good
    rule absolute_of_sign in clean {
      """||x|| = |x|, also of x negated."""
      match y = Abs(Neg(x) | Abs(x))
      emit  y = Abs(x)
      claim exact
      example fires plain """g (float[2] x) => (float[2] y) { a = Neg(x)  y = Abs(a) }"""
      example rejects once """g (float[2] x) => (float[2] y) { y = Abs(x) }"""
    }
    ```
    '''
    for rule in subject.own():
        for later, earlier in dead_branches(subject.compiled[rule.name]):
            message = "this branch is never taken: an earlier one matches whatever it does"
            note = Label(earlier.form.span, "the earlier branch")
            yield Found(message, later.form.span, rule.name, "remove it", (note,))


def head(span: Span) -> Span:
    """The word `rule` at the beginning of a rule."""
    return Span(span.file, span.line, span.column, span.line, span.column + len("rule"))
