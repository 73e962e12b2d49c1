"""What a case expects besides that its rule fires or not.

In: a `Case`, what became of its model. Out: nothing, or `FailedError` with the `Finding`, in which
stands what `--update` may write in place of what was expected.
"""

from __future__ import annotations

import difflib
from collections.abc import Sequence

import onnx

from rewrite.audit.cases.canonical import canonical
from rewrite.audit.cases.case import OPEN, Case, Finding, RuleTest
from rewrite.audit.cases.reason import Reason, listed
from rewrite.audit.cases.words import NoTextError
from rewrite.audit.cases.writer import write_model
from rewrite.audit.examples import UnreadableError, has_header, model_of
from rewrite.engine.journal import Journal
from rewrite.errors import Diagnostic

_UPDATE = "`rewrite test --update` writes it, for you to review"
_MOST_ROWS = 80  # of a difference


class FailedError(Exception):
    """A test does not hold."""

    def __init__(self, finding: Finding) -> None:
        super().__init__(finding.problem.message)
        self.finding = finding


def check_end(test: RuleTest, journal: Journal) -> None:
    """Whether the rule came to an end on its own."""
    reason = journal.stop.reason
    if reason != "fixpoint":
        times = _times(journal.fired().get(test.rule, 0))
        message = f"`{test.rule}` does not come to an end: it fired {times} ({reason})"
        raise FailedError(Finding(Diagnostic("RW716", message, test.span)))


def check_count(case: Case, journal: Journal) -> None:
    """How many times the rule fired."""
    count = journal.fired().get(case.rule, 0)
    if case.fired is not None and count != case.fired:
        message = f"`{case.rule}` fires {_times(count)}, not {_times(case.fired)}"
        raise FailedError(Finding(Diagnostic("RW716", message, case.place("fired"))))


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"


def check_graph(case: Case, model: onnx.ModelProto, opset: int) -> None:
    """The rewritten model against `after`, up to names inside and the order of nodes."""
    if case.after is None:
        return
    place = case.place("after")
    try:
        text = write_model(model, opset, has_header(case.before))
    except NoTextError as problem:
        if case.after == OPEN:
            message = f"the rewritten model cannot be written as text: it has {problem}"
            hint = "leave `after` out, or choose another `target`"
            raise FailedError(Finding(Diagnostic("RW717", message, place, hint))) from None
        proposed: tuple[tuple[str, str], ...] = ()
    else:
        proposed = (("after", text),)
    if case.after == OPEN:
        message = "`after` is empty"
        raise FailedError(Finding(Diagnostic("RW717", message, place, _UPDATE), (), proposed))
    try:
        expected = model_of(case.after, opset)
    except UnreadableError as problem:
        message = f"`after` is not a valid model: {problem}"
        raise FailedError(Finding(Diagnostic("RW701", message, place), (), proposed)) from None
    rows = _difference(expected, model, has_header(case.after))
    if rows:
        message = f"`{case.rule}` makes another model than `after`"
        raise FailedError(Finding(Diagnostic("RW713", message, place), rows, proposed))


def _difference(
    expected: onnx.ModelProto, model: onnx.ModelProto, imports: bool
) -> tuple[str, ...]:
    """The canonical forms line by line; nothing where they are equal."""
    one, other = canonical(expected, imports), canonical(model, imports)
    if one == other:
        return ()
    rows = list(difflib.unified_diff(one, other, "expected", "found", n=2, lineterm=""))
    if len(rows) > _MOST_ROWS:
        rows = [*rows[:_MOST_ROWS], f"… and {len(rows) - _MOST_ROWS} more lines"]
    return tuple(rows)


def check_reason(case: Case, found: Sequence[Reason]) -> None:
    """Why the rule does not fire, against `rejects` and `because`."""
    place = case.place("rejects")
    if case.rejects == OPEN:
        proposed = (("rejects", found[0].code),)
        diagnostic = Diagnostic("RW717", f"`rejects` is empty: {found[0]}", place, _UPDATE)
        raise FailedError(Finding(diagnostic, (), proposed))
    fitting = [reason for reason in found if reason.code == case.rejects]
    if not fitting:
        wrong = f"the reason is not `{case.rejects}`: {listed(found)}"
        message = f"`{case.rule}` does not fire, but {wrong}"
        raise FailedError(Finding(Diagnostic("RW714", message, place)))
    because = case.because
    if because is not None and not any(reason.says(because) for reason in fitting):
        message = f"the reason does not say `{because}`: {listed(fitting)}"
        raise FailedError(Finding(Diagnostic("RW714", message, case.place("because"))))
