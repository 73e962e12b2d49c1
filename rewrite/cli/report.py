"""What `apply` tells: one plain dictionary, and its text and trace forms.

In: the `Result` of `rewrite.apply`, and the `Verification` if one was asked for. Out: the
dictionary that `--json` writes, the lines that the terminal shows, the lines of `--trace`.
"""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from rewrite.report import quantized as quantized_text
from rewrite.report.words import count, groups, stopped, tidied, unsupported, verdict

if TYPE_CHECKING:
    from rewrite.api import Result
    from rewrite.audit.verify import Verification

Report = dict[str, Any]
QUANTIZED = ("lsb_bound", "lsb_unbounded", "float_left", "quantization_faults", "saturation")
MOST_ROWS = 20  # of any list on the terminal; the JSON has all of it


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
        "folded": count(f.operator for f in journal.folded),
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
    rows = [f"{len(nodes):5d}  {' '.join(what)}" for what, nodes in unsupported(report).items()]
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
    counts = count(step["rule"] for step in steps)
    return [f"{n:5d}  {rule}: {first[rule]}" for rule, n in counts.items()]


def _section(title: str, rows: list[str]) -> Iterator[str]:
    if rows:
        yield title
        yield from rows[:MOST_ROWS]
    if len(rows) > MOST_ROWS:
        yield f"       and {len(rows) - MOST_ROWS} more kinds, in --json"
