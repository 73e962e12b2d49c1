"""Checks of conditions: always true, never true, told before."""

from __future__ import annotations

from collections.abc import Iterator

from rewrite.audit.lint.conditions import Truth, Verdict, verdicts
from rewrite.audit.lint.finding import Edit, Found
from rewrite.audit.lint.fixes import without_item
from rewrite.audit.lint.registry import check
from rewrite.audit.lint.subject import Subject
from rewrite.errors import Label
from rewrite.lang import ast
from rewrite.lang.printer import print_expr


@check("RW911", "warning")
def always_true(subject: Subject) -> Iterator[Found]:
    '''A condition that always holds.

    What the pattern has tested already is no condition: the element type of `x: f32`, the rank of a
    value with a shape, whether a `const` is constant. Such a condition makes rules longer, and no
    example can show that it is needed. A condition about what may not be known, as `rank(x) >= 0`
    of any value, asks whether it is known and is no such condition.

    ```rule bad
    rule add_nothing in clean {
      """x + 0 = x, of vectors of integers."""
      match y = (x: s32[_]) + 0
      where rank(x) == 1, shape(x) == shape(y)
      emit  y = x
      claim exact
      example fires plain """
        g (int32[2] x) => (int32[2] y) <int32 z = {0}> { a = Abs(x)  b = Add(a, z)  y = Neg(b) }
      """
      example rejects one """
        g (int32[2] x) => (int32[2] y) <int32 z = {1}> { a = Abs(x)  b = Add(a, z)  y = Neg(b) }
      """
    }
    ```

    ```rule good
    rule add_nothing in clean {
      """x + 0 = x, of vectors of integers."""
      match y = (x: s32[_]) + 0
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
    ```
    '''
    for rule, verdict in _verdicts(subject, "always"):
        message = f"`{print_expr(verdict.condition)}` holds for every match"
        edits = _removed(verdict, subject)
        yield Found(message, verdict.condition.span, rule.name, "remove it", (), edits)


@check("RW912", "error")
def never_true(subject: Subject) -> Iterator[Found]:
    '''A condition that never holds.

    The pattern, the operators or an earlier condition rule it out, so the rule never applies, or a
    part of the condition is dead.

    ```rule bad
    rule relu_of_integers in clean opset 14.. {
      """A Relu of codes of images changes nothing."""
      match y = Relu(x)
      where dtype(x) == u8 or dtype(x) == s8 and dtype(x) == u16
      emit  y = Max(x, 0)
      claim exact
      example fires plain """
        g (int8[2] x) => (int8[2] y) { y = Relu(x) }
      """
      example rejects float """g (float[2] x) => (float[2] y) { y = Relu(x) }"""
    }
    ```

    ```rule good
    rule relu_of_integers in clean opset 14.. {
      """A Relu of small integers is a maximum."""
      match y = Relu(x)
      where dtype(x) in ["s8", "s16"]
      emit  y = Max(x, 0)
      claim exact
      example fires plain """
        g (int8[2] x) => (int8[2] y) { y = Relu(x) }
      """
      example rejects float """g (float[2] x) => (float[2] y) { y = Relu(x) }"""
    }
    ```
    '''
    for rule, verdict in _verdicts(subject, "never"):
        message = f"`{print_expr(verdict.condition)}` holds for no match"
        labels = _labels(verdict)
        hint = "the types of the operands or the conditions before it rule it out"
        yield Found(message, verdict.condition.span, rule.name, hint, labels)


@check("RW913", "warning")
def told_before(subject: Subject) -> Iterator[Found]:
    '''A condition that an earlier one implies.

    It is the same condition once more, or a weaker one about the same term. `--fix` removes it
    where it stands by itself.

    ```rule bad
    rule relu_of_scaled in clean {
      """relu(k x) = k relu(x) for k > 0."""
      match y = Relu(x * (k: const))
      where size(k) == 1, k > 0, k >= 0
      emit  y = Relu(x) * k
      claim equal(rtol=1e-6)
      example fires plain """
        g (float[2] x) => (float[2] y) <float k = {2}> { a = Mul(x, k)  y = Relu(a) }
      """
      example rejects negative """
        g (float[2] x) => (float[2] y) <float k = {-2}> { a = Mul(x, k)  y = Relu(a) }
      """
    }
    ```

    ```rule good
    rule relu_of_scaled in clean {
      """relu(k x) = k relu(x) for k > 0."""
      match y = Relu(x * (k: const))
      where size(k) == 1, k > 0
      emit  y = Relu(x) * k
      claim equal(rtol=1e-6)
      example fires plain """
        g (float[2] x) => (float[2] y) <float k = {2}> { a = Mul(x, k)  y = Relu(a) }
      """
      example rejects negative """
        g (float[2] x) => (float[2] y) <float k = {-2}> { a = Mul(x, k)  y = Relu(a) }
      """
    }
    ```
    '''
    for rule, verdict in _verdicts(subject, "repeated"):
        message = f"`{print_expr(verdict.condition)}` is implied by an earlier condition"
        edits = _removed(verdict, subject)
        labels = _labels(verdict)
        yield Found(message, verdict.condition.span, rule.name, "remove it", labels, edits)


def _verdicts(subject: Subject, truth: Truth) -> Iterator[tuple[ast.Rule, Verdict]]:
    for rule in subject.own():
        for verdict in verdicts(rule, subject.operators):
            # what `DQ` and `Q` demand is no condition that somebody wrote
            if verdict.truth == truth and "__" not in print_expr(verdict.condition):
                yield rule, verdict


def _labels(verdict: Verdict) -> tuple[Label, ...]:
    if verdict.earlier is None or verdict.earlier.span == verdict.condition.span:
        return ()
    return (Label(verdict.earlier.span, f"`{print_expr(verdict.earlier)}`"),)


def _removed(verdict: Verdict, subject: Subject) -> tuple[Edit, ...]:
    """Taken out of its list of conditions; nothing where it is a part of one, or the only one."""
    where = verdict.where
    if where is None or where.condition.span != verdict.condition.span:
        return ()
    span = without_item(subject.text(where.span), where.condition.span)
    return () if span is None else (Edit(span, ""),)
