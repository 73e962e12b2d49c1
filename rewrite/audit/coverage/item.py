"""What can be covered of a rule: one item per thing that a test may show.

In: nothing. Out: `Item`. docs/coverage.md defines each kind.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from rewrite.errors import Span

Kind = Literal["fired", "branch", "optional", "order", "test", "arm", "dtype", "opset", "override"]
KINDS: tuple[Kind, ...] = (
    "fired", "branch", "optional", "order", "test", "arm", "dtype", "opset", "override"
)  # fmt: skip

_LONGEST = 60  # characters of rule text that an item shows


@dataclass(frozen=True, slots=True)
class Item:
    """`key` is stable within the rule, `words` its piece of the rule's text.

    `unreachable`: why no model can show it, "" where one may. `home`: where the text stands that
    the item is about, if not at `span`: of a branch its alternatives.
    """

    kind: Kind
    key: str
    span: Span
    words: str
    unreachable: str = ""
    home: Span | None = None

    @property
    def place(self) -> Span:
        return self.home or self.span


def excerpt(span: Span, texts: Mapping[str, str]) -> str:
    """The text of a span in one line, cut where it is long; "" where its file is not at hand."""
    text = texts.get(span.file)
    if text is None:
        return ""
    rows = text.split("\n")[span.line - 1 : span.end_line]
    if not rows:
        return ""
    rows[-1] = rows[-1][: span.end_column - 1]
    rows[0] = rows[0][span.column - 1 :]
    return shortened(" ".join(" ".join(rows).split()))


def shortened(text: str) -> str:
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"


def keyed(labels: Iterable[tuple[int, Span, str]]) -> dict[int, str]:
    """Things by number -> keys: `a`, then `a#2`. What stands at one place of the text is one."""
    found: dict[int, str] = {}
    places: dict[tuple[Span, str], str] = {}
    counts: dict[str, int] = {}
    for thing, span, label in labels:
        if (span, label) not in places:
            counts[label] = count = counts.get(label, 0) + 1
            places[span, label] = label if count == 1 else f"{label}#{count}"
        found[thing] = places[span, label]
    return found
