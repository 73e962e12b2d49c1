"""The report of `apply` as one self-contained page.

In: the dictionary of `report.build`. Out: HTML text; no script, no file besides.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

from rewrite.cli.report import Report
from rewrite.report.quantized import bound, saturation, sections
from rewrite.report.words import groups, stopped, tidied, unsupported, verdict

_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 60rem; padding: 0 1rem;
       color: #1c2430; background: #fff; }
h1 { font-size: 1.4rem; overflow-wrap: anywhere; } h2 { font-size: 1.1rem; margin: 2rem 0 0; }
p { margin: .5rem 0; } .note { color: #5a6675; }
table { border-collapse: collapse; width: 100%; }
th, td { text-align: left; padding: .25rem 1rem .25rem 0; border-bottom: 1px solid #dde3ea;
         vertical-align: top; overflow-wrap: anywhere; min-width: 9rem; }
.n { text-align: right; width: 3.5rem; min-width: 0; font-variant-numeric: tabular-nums; }
.sizes td { width: 7rem; min-width: 0; }
.sizes td:last-child { width: auto; vertical-align: middle; }
.bar { background: #dde3ea; height: .8rem; } .bar div { background: #2f6fb0; height: 100%; }
.bad { color: #a3261d; font-weight: 600; } .good { color: #1d6b38; font-weight: 600; }
@media (prefers-color-scheme: dark) {
  body { color: #dbe2ea; background: #14181d; } th, td { border-color: #303842; }
  .note { color: #93a0ae; } .bar { background: #303842; }
  .bad { color: #ff8a80; } .good { color: #7fd69b; } }
"""

_KERNELS = "A kernel is what runs as one: an operator, or a fused group. Constants are none."
_LEDGER = (
    "The promises of all steps added up. Errors made inside a model can grow on their way to its "
    "outputs; how much is the conditioning, which --verify measures."
)
_QUANTIZED = (
    "How many steps (LSB) the outputs are away from the original at most, both in real numbers "
    "between codes; and whether sums of 16 bits inside the target's instructions can overflow."
)
_FLOATS = "What still computes with floats between the first codes and the last, and why."
_FAULTS = "Quantizations with bad parameters. No rule touches them."
_GROUPS = "Each is a call of a local function of the model, which any runtime runs as its body."
_UNSUPPORTED = "Nodes outside of groups that the target does not take as they are."
_REFUSED = "Steps that matched but were not taken, and why; the model is as if they were not tried."


def page(report: Report) -> str:
    """The whole page."""
    title = f"{report['model']} for {report['target']}"
    output = report["output"]
    parts = [
        f"<h1>{escape(title)}</h1>",
        f"<p>{escape(f'Written to {output}.' if output else 'Not written.')}</p>",
        _sizes(report),
        _verdict(report),
        _fired(report),
        _table("Groups", _GROUPS, ("times", "group", "rule"), groups(report)),
        _ledger(report),
        _quantized(report),
        _unsupported(report),
        _table("Refused steps", _REFUSED, ("rule", "node", "reason"), _rows(report["refused"])),
        _run(report),
    ]
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width">'
        f"<title>{escape(title)}</title><style>{_STYLE}</style></head>\n"
        f"<body>{''.join(parts)}</body></html>\n"
    )


def _sizes(report: Report) -> str:
    rows = []
    for what in ("nodes", "kernels"):
        before, after = report[f"{what}_before"], report[f"{what}_after"]
        share = min(100.0, 100.0 * after / before) if before else 0.0
        bar = f'<div class="bar"><div style="width:{share:.1f}%"></div></div>'
        rows.append(f"<tr><td>{what}</td><td>{before} → {after}</td><td>{bar}</td></tr>")
    return f'<table class="sizes">{"".join(rows)}</table><p class="note">{escape(_KERNELS)}</p>'


def _verdict(report: Report) -> str:
    if "verified" not in report:
        return ""
    kind = "good" if report["verified"]["status"] == "equal" else "bad"
    return f'<p class="{kind}">{escape(verdict(report["verified"]))}</p>'


def _fired(report: Report) -> str:
    rows = [(n, rule, report["claims"][rule]) for rule, n in report["fired"].items()]
    return _table("Rules that fired", "", ("times", "rule", "claim"), rows)


def _ledger(report: Report) -> str:
    ledger = report["ledger"]
    rows = [(e["count"], e["rule"], e["claim"], e["evidence"]) for e in ledger["entries"]]
    title = f"Ledger: {ledger['total']}"
    return _table(title, _LEDGER, ("times", "rule", "claim", "evidence"), rows)


def _quantized(report: Report) -> str:
    told = [("bound in steps of the outputs", bound(report))]
    told += [("saturation", sentence) for sentence in saturation(report)]
    parts = [_table("Quantization", _QUANTIZED, ("", ""), [row for row in told if row[1]])]
    for (title, rows), note in zip(sections(report), (_FLOATS, _FAULTS), strict=True):
        named = [(n, what, ", ".join(nodes)) for n, what, nodes in rows]
        heads = ("nodes", "why", "names")
        parts.append(_table(title.capitalize(), note, heads, named))
    return "".join(parts)


def _unsupported(report: Report) -> str:
    rows = [(len(nodes), what, ", ".join(nodes)) for what, nodes in unsupported(report).items()]
    return _table("Unsupported", _UNSUPPORTED, ("nodes", "why", "names"), rows)


def _run(report: Report) -> str:
    rows: list[tuple[object, ...]] = [("stop", stopped(report["stop"]))]
    rows += [("tidied", done) for done in tidied(report)]
    rows += [("rules undo each other", " → ".join(c["rules"])) for c in report["cycles"]]
    rows += [("note", note) for note in report["notes"]]
    rows += [(f"seconds, {name}", f"{value:.3f}") for name, value in report["seconds"].items()]
    return _table("Run", "", ("", ""), rows)


def _rows(records: Iterable[dict[str, object]]) -> list[tuple[object, ...]]:
    return [tuple(record.values()) for record in records]


def _table(title: str, note: str, heads: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """A heading, a sentence and a table; nothing where there are no rows."""
    if not rows:
        return ""
    numbers = [isinstance(cell, int) for cell in rows[0]]
    parts = [f"<h2>{escape(title)}</h2>"]
    if note:
        parts.append(f'<p class="note">{escape(note)}</p>')
    head = _row("th", heads, numbers) if any(heads) else ""
    body = "".join(_row("td", row, numbers) for row in rows)
    return f"{''.join(parts)}<table>{head}{body}</table>"


def _row(tag: str, cells: Sequence[object], numbers: Sequence[bool]) -> str:
    marks = [' class="n"' if number else "" for number in numbers]
    inner = (f"<{tag}{m}>{escape(str(c))}</{tag}>" for c, m in zip(cells, marks, strict=True))
    return f"<tr>{''.join(inner)}</tr>"
