"""What a check finds.

In: nothing. Out: `Finding`, with the place in the rule text, and `Edit`s that mend it where that is
mechanical.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from rewrite.errors import Label, Span

Severity = Literal["error", "warning"]


@dataclass(frozen=True, slots=True)
class Edit:
    """The text of `span` becomes `text`; everything else of the file stays."""

    span: Span
    text: str


@dataclass(frozen=True, slots=True)
class Finding:
    """One problem of one rule. `subject` is the rule, pattern or pack that it is about."""

    code: str
    severity: Severity
    message: str
    span: Span
    subject: str
    hint: str | None = None
    labels: tuple[Label, ...] = ()
    edits: tuple[Edit, ...] = ()

    @property
    def place(self) -> tuple[str, int, int, str, str]:
        """What findings are sorted by."""
        return (self.span.file, self.span.line, self.span.column, self.code, self.message)
