"""What `apply` tells: one plain dictionary, and its text and trace forms.

In: the `Result` of `rewrite.apply`, and the `Verification` if one was asked for. Out: the
dictionary that `--json` writes, the lines that the terminal shows, the lines of `--trace`.
"""

from __future__ import annotations

import dataclasses
import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from rewrite.cli import report_quantized as quantized_text

if TYPE_CHECKING:
    from rewrite.api import Result
    from rewrite.audit.verify import Verification

Report = dict[str, Any]
QUANTIZED = ("lsb_bound", "lsb_unbounded", "float_left", "quantization_faults", "saturation")
MOST_ROWS = 20  # of any list on the terminal; the JSON has all of it

_TIDIED = {
    "dead": ("unused node removed", "unused nodes removed"),
    "common": ("equal node merged", "equal nodes merged"),
    "duplicate": ("equal constant merged", "equal constants merged"),
    "lifted": ("Constant node made an initializer", "Constant nodes made initializers"),
    "inlined": ("function call inlined", "function calls inlined"),
}
_STOPPED = {
    "limit_applications": "stopped by the limit on applications",
    "limit_time": "stopped by the limit on time",
    "limit_growth": "stopped by the limit on growth",
    "cycle": "stopped because rules undo each other",
}


def build(
    result: Result, model: str, output: str | None, verification: Verification | None
) -> Report:
    """Everything, in the order in which it is read."""
    journal, stats = result.journal, result.stats
    claims = {record.rule: str(record.bound) for record in journal.applied}
    report: Report = {
        "model": model,
        "output": output,
        "target": stats["target"],
        "nodes_before": stats["nodes_before"],
        "nodes_after": stats["nodes_after"],
        "kernels_before": stats["kernels_before"],
        "kernels_after": stats["kernels_after"],
        "fired": journal.fired(),
        "claims": {rule: claims.get(rule, "exact") for rule in journal.fired()},
        "groups": [
            {"name": g.name, "rule": g.rule, "node": g.node, "nodes": list(g.nodes)}
            for g in journal.groups
        ],
        "folded": _count(f.operator for f in journal.folded),
        "cleaned": {c.kind: c.count for c in journal.cleaned},
        "ledger": result.ledger.to_json(),
        **{key: stats[key] for key in QUANTIZED if key in stats},
        "unsupported": list(stats["unsupported"]),
        "refused": [{"rule": r.rule, "node": r.node, "reason": r.reason} for r in journal.refused],
        "cycles": [{"rules": list(c.rules), "nodes": list(c.nodes)} for c in journal.cycles],
        "notes": list(result.loaded.notes),
        "stop": dataclasses.asdict(journal.stop),
        "seconds": {name: round(value, 4) for name, value in stats["seconds"].items()},
    }
    if verification is not None:
        report["verified"] = _verified(verification)
    return report


def _verified(v: Verification) -> Report:
    return {
        "status": v.status,
        "runs": v.runs,
        "runtime": v.runtime,
        "bound": str(v.bound),
        "conditioning": v.conditioning,
        "used": v.used if math.isfinite(v.used) else None,  # JSON has no infinity
        "reason": v.reason,
    }


def to_json(report: Report) -> str:
    return json.dumps(report, indent=1, ensure_ascii=False) + "\n"


def trace(result: Result) -> Iterator[str]:
    """The journal, one JSON object a line."""
    journal = result.journal
    parts: Iterable[tuple[str, Iterable[Any]]] = (
        ("folded", journal.folded),
        ("applied", journal.applied),
        ("refused", journal.refused),
        ("group", journal.groups),
        ("cleaned", journal.cleaned),
        ("cycle", journal.cycles),
        ("stop", (journal.stop,)),
    )
    for event, records in parts:
        for record in records:
            line = {"event": event, **dataclasses.asdict(record)}
            yield json.dumps(line, ensure_ascii=False) + "\n"


# --- text --------------------------------------------------------------------------------------


def text(report: Report) -> Iterator[str]:
    """The report on a terminal: what changed, by which rules, at what price, what did not."""
    output = report["output"] or "not written"
    yield f"{report['model']} -> {output} for {report['target']}"
    yield f"nodes       {report['nodes_before']} -> {report['nodes_after']}"
    yield f"kernels     {report['kernels_before']} -> {report['kernels_after']}"
    yield from _fired(report)
    yield from _section("groups", [f"{n:5d}  {what}" for n, what, _ in groups(report)])
    if done := tidied(report):
        yield f"tidied      {', '.join(done)}"
    yield f"ledger      {report['ledger']['total']}"
    yield from quantized_text.lines(report)
    for title, found in quantized_text.sections(report):
        yield from _section(title, [f"{n:5d}  {what}" for n, what, _ in found])
    rows = [f"{len(nodes):5d}  {what}" for what, nodes in unsupported(report).items()]
    yield from _section("unsupported", rows)
    yield from _section("refused", _refused(report["refused"]))
    for cycle in report["cycles"]:
        yield f"cycle       {' -> '.join(cycle['rules'])}"
    for note in report["notes"]:
        yield f"note        {note}"
    yield f"stop        {stopped(report['stop'])}"
    yield "seconds     " + "  ".join(f"{k} {v:.3f}" for k, v in report["seconds"].items())
    if "verified" in report:
        yield f"verified    {verdict(report['verified'])}"


def stopped(stop: Mapping[str, Any]) -> str:
    """Why the run ended."""
    reason = _STOPPED.get(stop["reason"], stop["reason"])
    return f"{reason} after {_counted(stop['rounds'], 'round')}"


def verdict(verified: Mapping[str, Any]) -> str:
    """One line on the comparison with the original."""
    if verified["status"] == "unverified":
        return f"not compared: {verified['reason']}"
    runs = f"with {verified['runtime']}"
    if verified["runs"]:  # none where the rewritten model cannot even be loaded
        runs = f"in {_counted(verified['runs'], 'run')} {runs}"
    if verified["status"] == "different":
        return f"DIFFERENT {runs}: {verified['reason']}"
    if verified["bound"] == "exact":
        return f"equal bit for bit {runs}"
    factor = verified["conditioning"]
    times = f" times {factor:.3g} (conditioning)" if factor > 1 else ""
    return f"equal within {verified['bound']}{times} {runs}, {_used(verified['used'])}"


def _used(share: float) -> str:
    """How much of what was allowed was needed."""
    if share == 0.0:
        return "without any difference"
    percent = 100.0 * share
    words = f"{percent:.0f}" if percent >= 10 else f"{percent:.2g}"
    return f"the largest difference {words} % of that"


def groups(report: Report) -> list[tuple[int, str, str]]:
    """How many, of what, by which rule: groups of the same operators are one row.

    Functions whose bodies differ in attributes or shapes are told apart by a number at the end of
    their name; the row says how many there are.
    """
    kinds: dict[tuple[str, str], list[str]] = {}
    for group in report["groups"]:
        what = f"{re.sub(r'_[0-9]+$', '', group['name'])}: {' + '.join(group['nodes'])}"
        kinds.setdefault((what, group["rule"]), []).append(group["name"])
    rows = []
    for (what, rule), names in kinds.items():
        functions = len(set(names))
        more = f" ({functions} functions)" if functions > 1 else ""
        rows.append((len(names), what + more, rule))
    return sorted(rows, key=lambda row: (-row[0], row[1], row[2]))


def tidied(report: Report) -> list[str]:
    """What was done besides rules."""
    parts = [("node computed", "nodes computed", sum(report["folded"].values()))]
    for kind, count in report["cleaned"].items():
        one, several = _TIDIED.get(kind, (kind, kind))
        parts.append((one, several, count))
    return [f"{n} {one if n == 1 else several}" for one, several, n in parts if n]


def unsupported(report: Report) -> dict[str, list[str]]:
    """Operator and reason -> names of the nodes, the most frequent first."""
    nodes: dict[str, list[str]] = {}
    for row in report["unsupported"]:
        nodes.setdefault(f"{row['operator']} {row['reason']}", []).append(row["node"])
    return dict(sorted(nodes.items(), key=lambda item: (-len(item[1]), item[0])))


def _fired(report: Report) -> Iterator[str]:
    fired, claims = report["fired"], report["claims"]
    width = max(map(len, fired), default=0)
    rows = [f"{count:5d}  {rule:{width}}  {claims[rule]}" for rule, count in fired.items()]
    if rows:
        yield from _section("fired", rows)
    else:
        yield "fired       no rule"


def _refused(steps: list[dict[str, str]]) -> list[str]:
    """One row per rule, with its first reason: reasons name values, so they are all different."""
    first: dict[str, str] = {}
    for step in steps:
        first.setdefault(step["rule"], step["reason"])
    counts = _count(step["rule"] for step in steps)
    return [f"{n:5d}  {rule}: {first[rule]}" for rule, n in counts.items()]


def _section(title: str, rows: list[str]) -> Iterator[str]:
    if rows:
        yield title
        yield from rows[:MOST_ROWS]
    if len(rows) > MOST_ROWS:
        yield f"       and {len(rows) - MOST_ROWS} more kinds, in --json"


def _counted(count: int, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"


def _count(items: Iterable[str]) -> dict[str, int]:
    """Most frequent first, then by name."""
    counts: dict[str, int] = {}
    for item in items:
        counts[item] = counts.get(item, 0) + 1
    return dict(sorted(counts.items(), key=lambda pair: (-pair[1], pair[0])))
