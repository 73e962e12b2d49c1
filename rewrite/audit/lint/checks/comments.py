"""Checks of the comments that suppress findings."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rewrite.audit.lint.finding import Edit, Found
from rewrite.audit.lint.fixes import line_of
from rewrite.audit.lint.registry import check, checks
from rewrite.audit.lint.subject import Subject
from rewrite.audit.lint.suppress import Suppression, has_reason


@check("RW947", "error")
def suppressed_without_reason(subject: Subject) -> Iterator[Found]:
    '''A finding is suppressed without a reason.

    Who reads the rule has to know why a finding is wanted there: `# lint: allow RW903: reason`. A
    comment without a reason, with a code that no check has, or of another form allows nothing.

    ```rule bad
    rule double_negation in clean {
      """-(-x) = x."""
      # lint: allow RW911
      match y = Neg(Neg(x))
      emit  y = x
      claim exact
      example fires plain """g (float x) => (float y) { a = Neg(x)  b = Neg(a)  y = Abs(b) }"""
      example rejects once """g (float x) => (float y) { a = Neg(x)  y = Abs(a) }"""
    }
    ```

    ```rule good
    rule add_nothing in clean {
      """x + 0 = x, of vectors of integers."""
      match y = (x: s32[_]) + 0
      # lint: allow RW911: the same in all rules of this family, whatever their types
      where rank(x) == 1
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
    known = {one.code for one in checks()}
    hint = "write `# lint: allow RWnnn: why the finding is wanted here`"
    for comment in subject.comments:
        problem = _problem(comment, known)
        if problem is not None:
            yield Found(problem, comment.span, comment.span.file, hint)


@check("RW948", "warning", last=True)
def suppresses_nothing(subject: Subject) -> Iterator[Found]:
    '''A comment suppresses nothing.

    What it was written for is no longer found. `--fix` removes it.

    ```rule bad
    # lint: allow RW913: it is repeated for those who read only the last line
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
    for comment in subject.comments:
        idle = [c for c in comment.codes if c in subject.checked and c not in comment.used]
        if idle and has_reason(comment):
            message = f"nothing here is found by {', '.join(idle)}"
            edits = _removed(comment, idle)
            yield Found(message, comment.span, comment.span.file, "remove it", (), edits)


def _problem(comment: Suppression, known: set[str]) -> str | None:
    if not comment.codes:
        return "a comment that begins with `lint:` and allows nothing"
    unknown = [code for code in comment.codes if code not in known]
    if unknown:
        return f"there is no check {', '.join(unknown)}"
    if not has_reason(comment):
        return "a finding is suppressed without a reason"
    return None


def _removed(comment: Suppression, idle: Sequence[str]) -> tuple[Edit, ...]:
    """The comment without the codes that find nothing; the whole line where none is left."""
    left = [code for code in comment.codes if code not in idle]
    if left:
        return (Edit(comment.span, f"# lint: allow {', '.join(left)}: {comment.reason}"),)
    return (Edit(line_of(comment.span) if comment.alone else comment.span, ""),)
