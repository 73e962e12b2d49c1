"""What `apply` tells: one plain dictionary, and its text and trace forms.

In: the `Result` of `rewrite.apply`, and the `Verification` if one was asked for. Out: the
dictionary that `--json` writes, the lines that the terminal shows, the lines of `--trace`.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rewrite.api import Result
    from rewrite.audit.verify import Verification

Report = dict[str, Any]
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
        "folded": _count(f.operator for f in journal.folded),
        "cleaned": {c.kind: c.count for c in journal.cleaned},
        "ledger": result.ledger.to_json(),
        "unsupported": list(stats["unsupported"]),
        "refused": [{"rule": r.rule, "node": r.node, "reason": r.reason} for r in journal.refused],
        "cycles": [{"rules": list(c.rules), "nodes": list(c.nodes)} for c in journal.cycles],
        "stop": dataclasses.asdict(journal.stop),
        "seconds": _seconds(stats["seconds"]),
    }
    if verification is not None:
        report["verified"] = _verified(verification)
    return report


def _seconds(parts: Mapping[str, float]) -> dict[str, float]:
    """`total` of the run itself does not hold what came after it: saving."""
    whole = parts.get("total", 0.0) + parts.get("save", 0.0)
    return {name: round(value, 4) for name, value in {**parts, "total": whole}.items()}


def _verified(v: Verification) -> Report:
    return {
        "status": v.status,
        "runs": v.runs,
        "runtime": v.runtime,
        "bound": str(v.bound),
        "conditioning": v.conditioning,
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
    yield from _section("groups", _groups(report["groups"]))
    yield from _tidied(report)
    ledger = report["ledger"]
    yield f"ledger      {ledger['total']}"
    by_reason = _count(f"{u['operator']} {u['reason']}" for u in report["unsupported"])
    yield from _section("unsupported", [f"{n:5d}  {what}" for what, n in by_reason.items()])
    yield from _section("refused", _refused(report["refused"]))
    for cycle in report["cycles"]:
        yield f"cycle       {' -> '.join(cycle['rules'])}"
    yield f"stop        {stopped(report['stop'])}"
    yield "seconds     " + "  ".join(f"{k} {v:.3f}" for k, v in report["seconds"].items())
    if "verified" in report:
        yield f"verified    {verdict(report['verified'])}"


def stopped(stop: Mapping[str, Any]) -> str:
    """Why the run ended."""
    rounds = stop["rounds"]
    return f"{stop['reason']} after {rounds} round{'' if rounds == 1 else 's'}"


def verdict(verified: Mapping[str, Any]) -> str:
    """One line on the comparison with the original."""
    if verified["status"] == "unverified":
        return f"not compared: {verified['reason']}"
    count = verified["runs"]
    runs = f"{count} run{'' if count == 1 else 's'} with {verified['runtime']}"
    if verified["status"] == "different":
        return f"DIFFERENT in {runs}: {verified['reason']}"
    if verified["bound"] == "exact":
        return f"equal bit for bit in {runs}"
    return (
        f"equal within {verified['bound']}, conditioning {verified['conditioning']:.3g}, in {runs}"
    )


def _fired(report: Report) -> Iterator[str]:
    fired, claims = report["fired"], report["claims"]
    width = max(map(len, fired), default=0)
    rows = [f"{count:5d}  {rule:{width}}  {claims[rule]}" for rule, count in fired.items()]
    if rows:
        yield from _section("fired", rows)
    else:
        yield "fired       no rule"


def _groups(groups: list[dict[str, Any]]) -> list[str]:
    """Groups by what they hold, as `Conv + Relu`."""
    counts = _count(f"{g['name']}: {' + '.join(g['nodes'])}" for g in groups)
    return [f"{n:5d}  {what}" for what, n in counts.items()]


def _refused(steps: list[dict[str, str]]) -> list[str]:
    """One row per rule, with its first reason: reasons name values, so they are all different."""
    first: dict[str, str] = {}
    for step in steps:
        first.setdefault(step["rule"], step["reason"])
    counts = _count(step["rule"] for step in steps)
    return [f"{n:5d}  {rule}: {first[rule]}" for rule, n in counts.items()]


def _tidied(report: Report) -> Iterator[str]:
    folded = sum(report["folded"].values())
    parts = [f"{folded} nodes folded"] if folded else []
    parts += [f"{count} {kind}" for kind, count in report["cleaned"].items()]
    if parts:
        yield f"tidied      {', '.join(parts)}"


def _section(title: str, rows: list[str]) -> Iterator[str]:
    if rows:
        yield title
        yield from rows[:MOST_ROWS]
    if len(rows) > MOST_ROWS:
        yield f"       and {len(rows) - MOST_ROWS} more kinds, in --json"


def _count(items: Iterable[str]) -> dict[str, int]:
    """Most frequent first, then by name."""
    counts: dict[str, int] = {}
    for item in items:
        counts[item] = counts.get(item, 0) + 1
    return dict(sorted(counts.items(), key=lambda pair: (-pair[1], pair[0])))
