"""What a check finds.

In: nothing. Out: `Found`, with the place in the rule text, and `Edit`s that mend it where that is
mechanical; `Finding`, which says of which check it is.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from rewrite.errors import Label, Span

Severity = Literal["error", "warning"]


@dataclass(frozen=True, slots=True)
class Edit:
    """The text of `span` becomes `text`; everything else of the file stays."""

    span: Span
    text: str


@dataclass(frozen=True, slots=True)
class Found:
    """What a check yields: one problem. `subject` is the rule, pattern or pack it is about."""

    message: str
    span: Span
    subject: str
    hint: str | None = None
    labels: tuple[Label, ...] = ()
    edits: tuple[Edit, ...] = ()


@dataclass(frozen=True, slots=True)
class Finding(Found):
    """With what all that a check finds has in common."""

    code: str = field(kw_only=True)
    severity: Severity = field(kw_only=True)

    @property
    def place(self) -> tuple[str, int, int, str, str]:
        """What findings are sorted by."""
        return (self.span.file, self.span.line, self.span.column, self.code, self.message)
