"""HTML that is escaped unless it was made here.

In: text, which anybody may have written. Out: `Markup`. Whatever is not `Markup` is escaped, and
what a reader would not see, or would see turned around, is written out.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterable, Sequence
from html import escape

from rewrite.errors import visible


class Markup(str):
    """Text that is HTML already."""

    __slots__ = ()


Content = str | int | float | None


def element(tag: str, *content: Content, **attributes: Content) -> Markup:
    """`<tag attributes>content</tag>`. In names of attributes `_` stands for `-`, and one at the
    end for nothing; None and False leave an attribute out, True gives no value."""
    parts = [tag]
    for name, value in attributes.items():
        if value is None or value is False:
            continue
        name = name.rstrip("_").replace("_", "-")
        parts.append(name if value is True else f'{name}="{_escaped(value)}"')
    start = f"<{' '.join(parts)}>"
    return Markup(f"{start}{joined(content)}</{tag}>")


def joined(content: Iterable[Content]) -> Markup:
    """Pieces one after the other."""
    return Markup("".join(_escaped(piece) for piece in content if piece is not None))


def with_code(text: str) -> Markup:
    """Text in which what stands between backticks is code."""
    pieces = text.split("`")
    if len(pieces) % 2 == 0:
        return joined((text,))
    return joined([element("code", p) if i % 2 else p for i, p in enumerate(pieces)])


def text_block(text: str) -> Markup:
    """Text of several lines, for `pre`."""
    rows = (row.expandtabs(4) for row in text.split("\n"))
    return Markup("\n".join(_escaped(row) for row in rows))


def table(
    heads: Sequence[str],
    rows: Iterable[Sequence[Content]],
    label: str,
    numeric: Sequence[int] = (),
    kind: str = "",
) -> Markup:
    """A table that the script makes sortable. `numeric`: columns of numbers."""
    marks = ["n" if column in numeric else None for column in range(len(heads))]
    head = [element("th", h, class_=m, scope="col") for h, m in zip(heads, marks, strict=True)]
    body = [
        element("tr", *(element("td", c, class_=m) for c, m in zip(row, marks, strict=True)))
        for row in rows
    ]
    return element(
        "div",
        element(
            "table",
            element("thead", element("tr", *head)),
            element("tbody", *body),
            class_=f"sortable {kind}".rstrip(),
            aria_label=label,
        ),
        class_="scroll",
    )


def json_text(data: object) -> Markup:
    """JSON that can stand in a script element: nothing in it ends the element or opens another."""
    text = json.dumps(data, ensure_ascii=True, separators=(",", ":"))
    for character in "<>&":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return Markup(text)


def source_hash(text: str) -> str:
    """The name of an inline script or style in a Content-Security-Policy."""
    digest = hashlib.sha256(text.encode("utf-8")).digest()
    return f"'sha256-{base64.b64encode(digest).decode('ascii')}'"


def _escaped(piece: Content) -> str:
    if isinstance(piece, Markup):
        return piece
    return escape(visible(str(piece)))
