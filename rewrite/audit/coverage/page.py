"""Coverage as one page: the text of the rules, coloured.

In: `PackCoverage`s. Out: HTML text that needs no script and no other file.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from html import escape
from itertools import pairwise

from rewrite.audit.coverage.item import Item
from rewrite.audit.coverage.report import PackCoverage, Part, Total, by_kind
from rewrite.audit.coverage.told import percent, place, sentence
from rewrite.errors import Span

_STYLE = """
:root { --ink: #1c2430; --page: #fff; --line: #dde3ea; --note: #5a6675; --all: #d3f0da;
        --some: #fdeebd; --none: #fbd3cf; --never: #e4e8ee; --full: #2e8b4f; --gap: #b3362b; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #dbe2ea; --page: #14181d; --line: #303842; --note: #93a0ae; --all: #1d4429;
          --some: #544716; --none: #5e2620; --never: #2a313a; --full: #5fc483; --gap: #ff8a80; } }
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 72rem; padding: 0 1rem;
       color: var(--ink); background: var(--page); }
h1 { font-size: 1.4rem; } h2 { font-size: 1.2rem; margin: 2.5rem 0 .5rem; }
h3 { font-size: 1rem; margin: 1.8rem 0 .3rem; } .note, .where { color: var(--note); }
.where { font-weight: 400; font-size: .85rem; }
table { border-collapse: collapse; } th, td { text-align: left; padding: .15rem 1rem .15rem 0;
  border-bottom: 1px solid var(--line); vertical-align: top; }
.n { text-align: right; font-variant-numeric: tabular-nums; } a { color: inherit; }
.bar { background: var(--none); width: 10rem; height: .7rem; }
.bar div { background: var(--full); height: 100%; }
pre { font: 13px/1.45 ui-monospace, monospace; margin: .3rem 0; overflow-x: auto;
      border: 1px solid var(--line); padding: .4rem 0; }
pre div { padding-left: 4.2rem; text-indent: -4.2rem; white-space: pre-wrap; }
pre .no { display: inline-block; width: 3.2rem; text-align: right; margin-right: .6rem;
  text-indent: 0; color: var(--note); border-right: .25rem solid transparent; padding-right: .3rem;
  user-select: none; }
.all { background: var(--all); } .some { background: var(--some); }
.none { background: var(--none); } .never { background: var(--never); }
.no.l-all { border-color: var(--full); } .no.l-some, .no.l-none { border-color: var(--gap); }
pre span[title] { border-radius: 2px; cursor: help; } summary { color: var(--note); }
td.key { font: 13px ui-monospace, monospace; }
@media print { body { max-width: none; margin: 0; } h3, pre, tr { break-inside: avoid; }
  details:not([open]) { display: none; } * { print-color-adjust: exact; } }
"""

_QUOTES = '"' * 3

_LEGEND = (
    ("all", "shown by tests"),
    ("some", "shown in part"),
    ("none", "not shown"),
    ("never", "cannot happen"),
)


def page(packs: Sequence[PackCoverage]) -> str:
    """The whole page."""
    title = "Coverage of " + ", ".join(pack.name for pack in packs)
    parts = [part for pack in packs for part in pack.parts]
    legend = " ".join(f'<span class="{kind}">&nbsp;{text}&nbsp;</span>' for kind, text in _LEGEND)
    body = [
        f"<h1>{escape(title)}</h1>",
        f"<p>{sentence(Total.of(parts))}.</p>",
        f'<p class="note">{legend} Point at a coloured text for the items that stand there.</p>',
        _kinds(parts),
    ]
    for number, pack in enumerate(packs):
        body.append(_summary(pack, number))
    for number, pack in enumerate(packs):
        body.append(f"<h2>{escape(pack.name)}</h2>")
        body += [_part(part, pack, _anchor(number, part)) for part in pack.parts]
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width">'
        f"<title>{escape(title)}</title><style>{_STYLE}</style></head>\n"
        f"<body>{''.join(body)}</body></html>\n"
    )


def _kinds(parts: Sequence[Part]) -> str:
    rows = [
        f'<tr><td>{kind}</td><td class="n">{shown}</td><td class="n">{count}</td>'
        f"<td>{_bar(shown, count)}</td></tr>"
        for kind, (shown, count) in by_kind(parts).items()
    ]
    return (
        f"<table><tr><th>kind</th><th>shown</th><th>items</th><th></th></tr>{''.join(rows)}</table>"
    )


def _bar(shown: int, count: int) -> str:
    share = 100.0 * shown / count if count else 100.0
    return f'<div class="bar"><div style="width:{share:.1f}%"></div></div>'


def _anchor(number: int, part: Part) -> str:
    return f"p{number}-{part.kind}-{part.name}"


def _summary(pack: PackCoverage, number: int) -> str:
    rows = []
    for part in pack.parts:
        total = Total.of([part])
        rows.append(
            f'<tr><td><a href="#{escape(_anchor(number, part))}">{escape(part.title)}</a></td>'
            f'<td class="n">{part.tests}</td><td class="n">{total.shown}</td>'
            f'<td class="n">{total.items}</td><td class="n">{percent(total)}</td>'
            f"<td>{_bar(total.shown, total.items)}</td></tr>"
        )
    heads = "".join(f"<th>{h}</th>" for h in ("", "tests", "shown", "items", "%", ""))
    return (
        f"<h2>{escape(pack.name)}</h2><p>{sentence(Total.of(pack.parts))}.</p>"
        f"<table><tr>{heads}</tr>{''.join(rows)}</table>"
    )


# --- one rule ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Mark:
    """`here`: the part with those of its items that stand at one place of the text."""

    span: Span
    here: Part

    @property
    def state(self) -> str:
        count, missing = len(self.here.reachable), len(self.here.missing)
        if not count:
            return "never"
        return "all" if not missing else "some" if missing < count else "none"

    @property
    def words(self) -> str:
        return "\n".join(self._of(item) for item in self.here.items)

    def _of(self, item: Item) -> str:
        if item.unreachable:
            return f"{item.key}: cannot happen, {item.unreachable}"
        test = self.here.shown.get(item.key)
        return f"{item.key}: not shown" if test is None else f"{item.key}: {test}"


def _part(part: Part, pack: PackCoverage, anchor: str) -> str:
    total = Total.of([part])
    where = place(part.span)
    head = (
        f'<h3 id="{escape(anchor)}">{escape(part.title)} <span class="where">'
        f"{total.shown} of {total.items} items, {part.tests} tests, {escape(where)}</span></h3>"
    )
    return head + _text(part, pack.texts.get(part.span.file, "")) + _missing(part)


def _text(part: Part, text: str) -> str:
    """The text of the rule, its examples folded away."""
    marks = [m for m in _marks(part) if m.span.file == part.span.file]
    rows = text.split("\n")
    numbers = range(part.span.line, min(part.span.end_line, len(rows)) + 1)
    parts: list[str] = []
    for folded, block in _blocks(rows, numbers):
        lines = "".join(_row(number, rows[number - 1], marks) for number in block)
        if folded:
            head = escape(rows[block[0] - 1].strip())
            parts.append(f"<details><summary>{head}</summary><pre>{lines}</pre></details>")
        else:
            parts.append(f"<pre>{lines}</pre>")
    return "".join(parts)


def _blocks(rows: Sequence[str], numbers: Sequence[int]) -> Iterator[tuple[bool, list[int]]]:
    """Lines in a row that belong together; `True` with those of an example."""
    block: list[int] = []
    quotes = 0  # of the example we are in
    for number in numbers:
        row = rows[number - 1]
        if not quotes and row.lstrip().startswith("example "):
            if block:
                yield False, block
            block, quotes = [], 2
        block.append(number)
        if quotes:
            quotes -= row.count(_QUOTES)
            if quotes <= 0:
                yield True, block
                block, quotes = [], 0
    if block:
        yield False, block


def _marks(part: Part) -> list[_Mark]:
    """By place, the smallest first: of texts inside each other the inner one counts."""
    places: dict[Span, list[Item]] = {}
    for item in part.items:
        places.setdefault(item.span, []).append(item)
    marks = [_Mark(span, replace(part, items=tuple(items))) for span, items in places.items()]
    return sorted(marks, key=lambda m: _size(m.span))


def _size(span: Span) -> tuple[int, int]:
    return span.end_line - span.line, span.end_column - span.column


def _row(number: int, row: str, marks: Sequence[_Mark]) -> str:
    """One line: its number, coloured by the worst of it; its text in pieces of one colour."""
    here = [m for m in marks if m.span.line <= number <= m.span.end_line]
    cuts = sorted({0, len(row), *(c for m in here for c in _columns(m.span, number, len(row)))})
    pieces = list(_pieces(row, number, cuts, here))
    states = {m.state for m in here if m.span.line == number}
    worst = next((s for s in ("none", "some", "all") if s in states), "")
    return f'<div><span class="no l-{worst}">{number}</span>{"".join(pieces)}</div>'


def _columns(span: Span, number: int, length: int) -> tuple[int, int]:
    """Where the span begins and ends in this line, from 0."""
    start = span.column - 1 if span.line == number else 0
    stop = span.end_column - 1 if span.end_line == number else length
    return min(start, length), min(stop, length)


def _pieces(row: str, number: int, cuts: Sequence[int], here: Sequence[_Mark]) -> Iterator[str]:
    last: tuple[_Mark | None, str] = (None, "")
    for start, stop in pairwise(cuts):
        mark = next((m for m in here if _covers(m.span, number, start, stop, len(row))), None)
        if last[1] and mark is last[0]:
            last = (mark, last[1] + row[start:stop])
            continue
        yield _piece(*last)
        last = (mark, row[start:stop])
    yield _piece(*last)


def _covers(span: Span, number: int, start: int, stop: int, length: int) -> bool:
    first, last = _columns(span, number, length)
    return first <= start and stop <= last


def _piece(mark: _Mark | None, text: str) -> str:
    if mark is None or not text.strip():
        return escape(text)
    return f'<span class="{mark.state}" title="{escape(mark.words)}">{escape(text)}</span>'


def _missing(part: Part) -> str:
    rows = [
        f'<tr><td class="n">{item.span.line}:{item.span.column}</td>'
        f'<td class="key">{escape(item.key)}</td><td>{escape(item.words)}</td></tr>'
        for item in part.missing
    ]
    if not rows:
        return ""
    count = f"{len(rows)} item{'s' if len(rows) > 1 else ''} not shown"
    return f"<details><summary>{count}</summary><table>{''.join(rows)}</table></details>"
