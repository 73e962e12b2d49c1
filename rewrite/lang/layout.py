"""Line breaking: documents with possible breaks become lines of bounded width.

In: a document of texts, breaks and groups (Wadler, A prettier printer, 1998). Out: text. A group is
written on one line if it fits, else each of its own breaks is a line end.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

WIDTH = 100


@dataclass(frozen=True, slots=True)
class Break:
    """A possible line end; `flat` is written where there is none. `broken` starts the new line."""

    flat: str = " "
    broken: str = ""
    always: bool = False


@dataclass(frozen=True, slots=True)
class Nest:
    """More indentation for the breaks inside."""

    by: int
    inner: Doc


@dataclass(frozen=True, slots=True)
class Group:
    inner: Doc


Doc = str | Break | Nest | Group | tuple["Doc", ...]

SPACE = Break()
HARD = Break(always=True)


def fill(items: Iterable[Doc], separator: str = ",") -> Doc:
    """Items one after the other, as many on a line as fit."""
    parts: list[Doc] = []
    for item in items:
        parts.append((separator, Group((SPACE, item))) if parts else item)
    return tuple(parts)


def render(doc: Doc, width: int = WIDTH) -> str:
    """The text of a document."""
    out: list[str] = []
    column = 0
    stack: list[tuple[int, bool, Doc]] = [(0, False, doc)]
    while stack:
        indent, flat, item = stack.pop()
        if isinstance(item, str):
            out.append(item)
            column += len(item)
        elif isinstance(item, tuple):
            stack += [(indent, flat, part) for part in reversed(item)]
        elif isinstance(item, Nest):
            stack.append((indent + item.by, flat, item.inner))
        elif isinstance(item, Group):
            room = width - column
            stack.append((indent, flat or _fits(item.inner, stack, room), item.inner))
        elif flat and not item.always:
            out.append(item.flat)
            column += len(item.flat)
        else:
            out.append("\n" + " " * indent + item.broken)
            column = indent + len(item.broken)
    return "\n".join(line.rstrip() for line in "".join(out).split("\n"))


def _fits(doc: Doc, rest: list[tuple[int, bool, Doc]], room: int) -> bool:
    """Whether the document fits flat, with what follows it up to the next possible line end."""
    stack: list[tuple[bool, Doc]] = [(True, doc)]
    following = len(rest)
    while room >= 0:
        if not stack:
            if following == 0:
                return True
            following -= 1
            stack.append((rest[following][1], rest[following][2]))
        flat, item = stack.pop()
        if isinstance(item, str):
            room -= len(item)
        elif isinstance(item, tuple):
            stack += [(flat, part) for part in reversed(item)]
        elif isinstance(item, Nest | Group):
            stack.append((flat, item.inner))
        elif item.always:
            return not flat
        elif not flat:
            return True
        else:
            room -= len(item.flat)
    return False
