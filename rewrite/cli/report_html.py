"""The report of `apply` as one self-contained page.

In: the dictionary of `report.build`. Out: HTML text; no script, no file besides.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from html import escape

from rewrite.cli.report import Report, stopped, verdict

_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 60rem; padding: 0 1rem;
       color: #1c2430; background: #fff; }
h1 { font-size: 1.4rem; overflow-wrap: anywhere; } h2 { font-size: 1.1rem; margin-top: 2rem; }
table { border-collapse: collapse; width: 100%; }
th, td { text-align: left; padding: .25rem .75rem .25rem 0; border-bottom: 1px solid #dde3ea;
         vertical-align: top; overflow-wrap: anywhere; }
td.n { text-align: right; width: 4rem; font-variant-numeric: tabular-nums; }
.sizes td { width: 7rem; } .sizes td:last-child { width: auto; vertical-align: middle; }
.bar { background: #dde3ea; height: .8rem; } .bar div { background: #2f6fb0; height: 100%; }
.bad { color: #a3261d; font-weight: 600; } .good { color: #1d6b38; font-weight: 600; }
@media (prefers-color-scheme: dark) {
  body { color: #dbe2ea; background: #14181d; } th, td { border-color: #303842; }
  .sizes td { width: 7rem; } .sizes td:last-child { width: auto; vertical-align: middle; }
.bar { background: #303842; } .bad { color: #ff8a80; } .good { color: #7fd69b; } }
"""


def page(report: Report) -> str:
    """The whole page."""
    title = f"{report['model']} for {report['target']}"
    parts = [
        f"<h1>{escape(title)}</h1>",
        f"<p>Written to {escape(str(report['output'] or 'no file'))}.</p>",
        _sizes(report),
        _verdict(report),
        _fired(report),
        _table("Groups", ("times", "name", "rule", "operators"), _group_rows(report)),
        _ledger(report),
        _table("Unsupported", ("node", "operator", "reason"), _rows(report["unsupported"])),
        _table("Refused steps", ("rule", "node", "reason"), _rows(report["refused"])),
        _run(report),
    ]
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
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
    return f'<table class="sizes">{"".join(rows)}</table>'


def _verdict(report: Report) -> str:
    if "verified" not in report:
        return ""
    kind = "good" if report["verified"]["status"] == "equal" else "bad"
    return f'<p class="{kind}">{escape(verdict(report["verified"]))}</p>'


def _fired(report: Report) -> str:
    rows = [(n, rule, report["claims"][rule]) for rule, n in report["fired"].items()]
    return _table("Rules that fired", ("times", "rule", "claim"), rows)


def _group_rows(report: Report) -> list[tuple[object, ...]]:
    """Equal groups are one row; their nodes are in the JSON."""
    kinds = Counter((g["name"], g["rule"], " + ".join(g["nodes"])) for g in report["groups"])
    return [(count, *kind) for kind, count in kinds.most_common()]


def _ledger(report: Report) -> str:
    ledger = report["ledger"]
    rows = [(e["count"], e["rule"], e["claim"], e["evidence"]) for e in ledger["entries"]]
    title = f"Ledger: {ledger['total']}"
    return _table(title, ("uses", "rule", "claim", "evidence"), rows)


def _run(report: Report) -> str:
    rows: list[tuple[object, ...]] = [("stop", stopped(report["stop"]))]
    rows += [(f"seconds, {name}", f"{value:.3f}") for name, value in report["seconds"].items()]
    return _table("Run", ("", ""), rows)


def _rows(records: Iterable[dict[str, object]]) -> list[tuple[object, ...]]:
    return [tuple(record.values()) for record in records]


def _table(title: str, heads: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    if not rows:
        return ""
    head = "".join(f"<th>{escape(h)}</th>" for h in heads)
    body = "".join(f"<tr>{''.join(_cell(c) for c in row)}</tr>" for row in rows)
    return f"<h2>{escape(title)}</h2><table><tr>{head}</tr>{body}</table>"


def _cell(value: object) -> str:
    kind = ' class="n"' if isinstance(value, int) else ""
    return f"<td{kind}>{escape(str(value))}</td>"
