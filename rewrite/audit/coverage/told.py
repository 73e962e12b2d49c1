"""Coverage as text and as JSON.

In: `PackCoverage`s. Out: rows of a table, lines about what is missing, a dictionary for JSON.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from rewrite.audit.coverage.item import Item
from rewrite.audit.coverage.report import PackCoverage, Part, Total, by_kind
from rewrite.errors import Span, visible

HEADS = ("rule or pattern", "tests", "fired", "shown", "items", "%")


def rows(pack: PackCoverage) -> Iterator[tuple[str, ...]]:
    """One row for each part, one for all."""
    for part in pack.parts:
        fired = ("yes" if part.fired else "no") if part.kind == "rule" else ""
        yield part.title, str(part.tests), fired, *_counts(Total.of([part]))
    total = Total.of(pack.parts)
    tests = sum(part.tests for part in pack.rules)
    yield f"all of {pack.name}", str(tests), f"{total.fired}/{total.rules}", *_counts(total)


def _counts(total: Total) -> tuple[str, str, str]:
    return str(total.shown), str(total.items), percent(total)


def percent(total: Total) -> str:
    """Rounded down: 100.0 only where nothing is missing."""
    return f"{int(10 * total.percent) / 10:.1f}"


def missing(pack: PackCoverage) -> Iterator[str]:
    """What no test shows: its place, its key, its text; and what cannot be shown, with why."""
    for part in pack.parts:
        for item in part.missing:
            yield visible(f"{place(item.span)}: {part.name}: {item.key}  {item.words}")
        for item in part.items:
            if item.unreachable:
                reason = f"cannot happen: {item.unreachable}"
                yield visible(f"{place(item.span)}: {part.name}: {item.key}  {reason}")


def sentence(total: Total) -> str:
    """How much is shown, without a full stop."""
    return (
        f"{total.shown} of {total.items} items are shown ({percent(total)} %), "
        f"{total.fired} of {total.rules} rules fired, {total.unreachable} items cannot happen"
    )


def kinds(packs: Sequence[PackCoverage]) -> Iterator[str]:
    """How much of each kind of item is shown."""
    parts = [part for pack in packs for part in pack.parts]
    for kind, (shown, count) in by_kind(parts).items():
        yield f"{kind:9} {shown:6} of {count:6}"


def place(span: Span) -> str:
    """`file:line:column`, the file as seen from here."""
    path = Path(span.file)
    try:
        path = path.relative_to(Path.cwd())
    except (ValueError, OSError):  # elsewhere, or the folder where we stand is gone
        path = Path(span.file)
    return f"{path}:{span.line}:{span.column}"


# --- JSON ----------------------------------------------------------------------------------------


def as_json(packs: Sequence[PackCoverage]) -> dict[str, Any]:
    """Everything, for machines. `shown_by` null: no test shows the item."""
    parts = [part for pack in packs for part in pack.parts]
    return {
        "total": _total(Total.of(parts)),
        "packs": [
            {
                "pack": pack.name,
                "total": _total(Total.of(pack.parts)),
                "parts": [_part(part) for part in pack.parts],
            }
            for pack in packs
        ],
    }


def _total(total: Total) -> dict[str, Any]:
    return {
        "rules": total.rules,
        "fired": total.fired,
        "items": total.items,
        "shown": total.shown,
        "unreachable": total.unreachable,
        "percent": round(total.percent, 2),
    }


def _part(part: Part) -> dict[str, Any]:
    return {
        "kind": part.kind,
        "name": part.name,
        "file": part.span.file,
        "line": part.span.line,
        "tests": part.tests,
        "items": [_item(item, part) for item in part.items],
    }


def _item(item: Item, part: Part) -> dict[str, Any]:
    return {
        "kind": item.kind,
        "key": item.key,
        "file": item.span.file,
        "line": item.span.line,
        "column": item.span.column,
        "words": item.words,
        "shown_by": part.shown.get(item.key),
        "unreachable": item.unreachable or None,
    }
