"""Source text before and after the parser: admissible characters, strings, indented blocks.

In: raw text. Out: text the parser can take, the contents of literals, and back.
"""

from __future__ import annotations

import re

from rewrite.errors import Diagnostic, Span
from rewrite.lang.limits import FILE_CHARACTERS

# Control characters, and those that make text look different from what it is (line separators,
# direction overrides; https://trojansource.codes).
_REFUSED = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff]")
_ESCAPES = {"n": "\n", "t": "\t", '"': '"', "\\": "\\"}
_UNESCAPES = {"\n": "\\n", "\t": "\\t", '"': '\\"', "\\": "\\\\"}


def normalize(text: str) -> str:
    """Without byte order mark, with `\\n` line ends."""
    if "\r" in text:
        text = text.replace("\r\n", "\n")
    return text.removeprefix("\ufeff")


def admissible(text: str, file: str, most: int = FILE_CHARACTERS) -> Diagnostic | None:
    """The reason why this text is not read at all, if there is one."""
    if len(text) > most:
        message = f"the file has {len(text)} characters; at most {most} are read"
        return Diagnostic("RW111", message, Span(file, 1, 1, 1, 1), "split it into several files")
    bad = _REFUSED.search(text)
    if bad is None:
        return None
    line, column = position(text, bad.start())
    span = Span(file, line, column, line, column + 1)
    message = f"the character U+{ord(bad[0]):04X} is not allowed in rule text"
    return Diagnostic("RW112", message, span, "remove it; only tabs and line ends may be used")


def position(text: str, offset: int) -> tuple[int, int]:
    """Line and column, from 1, of an offset."""
    line = text.count("\n", 0, offset) + 1
    return line, offset - (text.rfind("\n", 0, offset) + 1) + 1


def unescape(literal: str) -> str | None:
    """The content of a quoted string; None where an escape is unknown."""
    body = literal[1:-1]
    if "\\" not in body:
        return body
    parts = re.split(r"\\(.)", body)
    if any(escape not in _ESCAPES for escape in parts[1::2]):
        return None
    return "".join(_ESCAPES[p] if i % 2 else p for i, p in enumerate(parts))


def quote(content: str) -> str:
    """The quoted string with this content."""
    return '"' + "".join(_UNESCAPES.get(c, c) for c in content) + '"'


def dedent(raw: str) -> str:
    """The content of a triple-quoted block: no common indent, no blank first and last lines."""
    lines = [line.rstrip() for line in raw.split("\n")]
    first = lines[0].lstrip()
    rest = lines[1:]
    indents = [len(line) - len(line.lstrip()) for line in rest if line]
    cut = min(indents, default=0)
    lines = ([first] if first else []) + [line[cut:] for line in rest]
    while lines and not lines[0]:
        lines.pop(0)
    while lines and not lines[-1]:
        lines.pop()
    return "\n".join(lines)
