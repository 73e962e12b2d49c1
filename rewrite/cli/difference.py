"""What `diff` tells of two packs or two models: plain dictionaries, and their text.

In: paths. Out: the dictionary that `--json` writes, the lines that the terminal shows.
"""

from __future__ import annotations

import dataclasses
import json
import math
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rewrite.audit.layers import Layer, Layers
    from rewrite.graph.model import LoadedModel
    from rewrite.lang.pack import RulePack

Report = dict[str, Any]
MOST_ROWS = 20  # of any list on the terminal; the JSON has all of it
LEDGER = "rewrite.ledger"


# --- packs ------------------------------------------------------------------------------------


def packs(before: RulePack, after: RulePack) -> Report:
    """Rules that one pack has and the other lacks, and those that read differently."""
    old = {rule.name: _text(before, rule.name) for rule in before.rules}
    new = {rule.name: _text(after, rule.name) for rule in after.rules}
    claims = [{rule.name: str(_claim(rule)) for rule in pack.rules} for pack in (before, after)]
    changed = [name for name in old if name in new and old[name] != new[name]]
    return {
        "kind": "packs",
        "before": before.name,
        "after": after.name,
        "rules": [len(old), len(new)],
        "added": {name: claims[1][name] for name in new if name not in old},
        "removed": {name: claims[0][name] for name in old if name not in new},
        "changed": {name: [claims[0][name], claims[1][name]] for name in changed},
    }


def _claim(rule: Any) -> object:
    from rewrite.engine.ledger import Bound

    return "certified" if rule.claim.kind == "certified" else Bound.of(rule.claim)


def _text(pack: RulePack, name: str) -> str:
    """The rule as written, blanks apart."""
    rule = next(rule for rule in pack.rules if rule.name == name)
    text = pack.texts.get(rule.span.file)
    if text is None:
        text = Path(rule.span.file).read_text(encoding="utf-8")
    rows = text.splitlines()[rule.span.line - 1 : rule.span.end_line]
    return " ".join(" ".join(rows).split())


def packs_text(report: Report) -> Iterator[str]:
    yield f"{report['before']} -> {report['after']}"
    yield f"rules       {report['rules'][0]} -> {report['rules'][1]}"
    for word in ("added", "removed"):
        if report[word]:
            yield word
            yield from _rows(f"    {name}  {claim}" for name, claim in report[word].items())
    if report["changed"]:
        yield "changed"
        for name, (old, new) in report["changed"].items():
            yield f"    {name}  {old}" + (f" -> {new}" if old != new else "")
    if same_packs(report):
        yield "the same rules"


def same_packs(report: Report) -> bool:
    return not (report["added"] or report["removed"] or report["changed"])


# --- models -----------------------------------------------------------------------------------


def models(before: LoadedModel, after: LoadedModel) -> Report:
    """Operators, inputs and outputs, opsets, and the ledgers that rewriting left."""
    counts = [_operators(loaded) for loaded in (before, after)]
    names = sorted({*counts[0], *counts[1]})
    return {
        "kind": "models",
        "before": before.source,
        "after": after.source,
        "nodes": [sum(c.values()) for c in counts],
        "operators": {
            name: [counts[0][name], counts[1][name]]
            for name in names
            if counts[0][name] != counts[1][name]
        },
        "signature": [_signature(loaded) for loaded in (before, after)],
        "opsets": [dict(sorted(m.model.opset_imports.items())) for m in (before, after)],
        "ledger": [_ledger(loaded) for loaded in (before, after)],
    }


def _operators(loaded: LoadedModel) -> Counter[str]:
    """Nodes that run, by operator; calls of functions count under the function's name."""
    main = loaded.model.graph
    found: Counter[str] = Counter()
    for graph in loaded.facts.graphs():
        if graph is main or loaded.facts.root(graph) is main:
            for node in graph:
                found[f"{node.domain}::{node.op_type}" if node.domain else node.op_type] += 1
    return found


def _signature(loaded: LoadedModel) -> Report:
    return {
        side: [f"{value.name}: {loaded.facts.type(value).dtype or '?'}" for value in values]
        for side, values in (
            ("inputs", loaded.model.graph.inputs),
            ("outputs", loaded.model.graph.outputs),
        )
    }


def _ledger(loaded: LoadedModel) -> str | None:
    """The total that the last rewriting promised, if there was one."""
    kept = [v for k, v in sorted(loaded.model.metadata_props.items()) if k.startswith(LEDGER)]
    if not kept:
        return None
    try:
        return str(json.loads(kept[-1]).get("total"))
    except (ValueError, AttributeError):  # written by somebody else
        return "unreadable"


def models_text(report: Report) -> Iterator[str]:
    yield f"{report['before']} -> {report['after']}"
    yield f"nodes       {report['nodes'][0]} -> {report['nodes'][1]}"
    if report["operators"]:
        yield "operators"
        width = max(len(name) for name in report["operators"])
        rows = sorted(report["operators"].items(), key=lambda row: -abs(row[1][1] - row[1][0]))
        yield from _rows(f"    {name:{width}}  {old} -> {new}" for name, (old, new) in rows)
    for side in ("inputs", "outputs"):
        old, new = (signature[side] for signature in report["signature"])
        if old != new:
            yield f"{side:11} {', '.join(old)} -> {', '.join(new)}"
    if report["opsets"][0] != report["opsets"][1]:
        yield f"opsets      {_opsets(report['opsets'][0])} -> {_opsets(report['opsets'][1])}"
    old, new = report["ledger"]
    if old != new:
        yield f"ledger      {old or 'none'} -> {new or 'none'}"


def _opsets(imports: Mapping[str, int]) -> str:
    return ", ".join(f"{domain or 'ai.onnx'} {version}" for domain, version in imports.items())


def same_models(report: Report) -> bool:
    pairs = (report["signature"], report["opsets"], report["ledger"])
    return not report["operators"] and all(old == new for old, new in pairs)


# --- numbers ----------------------------------------------------------------------------------


def numbers(found: Layers) -> Report:
    """The layers that differ, the first of them explained."""
    first = found.first
    return {
        "equal": found.equal,
        "runs": found.runs,
        "sizes": found.plan,
        "runtimes": list(found.runtimes),
        "compared": len(found.layers),
        "only": list(found.only),
        "undecided": found.undecided,
        "first": None if first is None else {
            **_layer(first.layer),
            "histogram": {str(steps): count for steps, count in first.histogram.items()},
            "causes": dict(first.causes),
        },
        "outputs": [_layer(layer) for layer in found.outputs],
        "layers": [_layer(layer) for layer in found.layers if not layer.equal],
    }  # fmt: skip


def _layer(layer: Layer) -> Report:
    row = dataclasses.asdict(layer)
    return {k: (None if isinstance(v, float) and not math.isfinite(v) else v)
            for k, v in row.items()}  # fmt: skip


def numbers_text(report: Report) -> Iterator[str]:
    runs = f"{report['runs']} run{'' if report['runs'] == 1 else 's'}"
    where = " and ".join(dict.fromkeys(report["runtimes"]))
    yield f"numbers     {report['compared']} values in both, {runs} in {where}, {report['sizes']}"
    if report["undecided"]:
        yield f"undecided   {report['undecided']} codes hang on the rounding of float64"
    first = report["first"]
    if first is None:
        yield "equal       every value that both have"
        return
    yield "first"
    yield f"    {_row(first)}"
    if first["causes"]:
        causes = ", ".join(f"{cause} {count}" for cause, count in first["causes"].items())
        yield f"    cause      {causes}"
    yield from _bars(first["histogram"])
    later = [row for row in report["layers"] if row["name"] != first["name"]]
    if later:
        yield "others"
        yield from _rows(f"    {_row(row)}" for row in later)
    yield "outputs"
    yield from _rows(f"    {_row(row)}" for row in report["outputs"])


def _row(row: Report) -> str:
    head = f"{row['name']} ({row['operator']})" if row["operator"] else row["name"]
    if row["reason"]:
        return f"{head}: {row['reason']}"
    if not row["differing"]:
        return f"{head}: equal"
    largest = "infinite" if row["lsb"] is None else f"{row['lsb']:.4g} LSB"
    return f"{head}: {row['differing']} differ, by up to {largest}, {row['mean']:.3g} on average"


def _bars(histogram: Mapping[str, int]) -> Iterator[str]:
    """How often each difference was seen."""
    most = max(histogram.values(), default=1)
    for steps, count in histogram.items():
        yield f"    {int(steps):+6d} LSB  {count:8d}  {'#' * max(1, round(40 * count / most))}"


def _rows(rows: Iterator[str]) -> Iterator[str]:
    """The first rows of a list, and how many more there are."""
    listed = list(rows)
    yield from listed[:MOST_ROWS]
    if len(listed) > MOST_ROWS:
        yield f"    and {len(listed) - MOST_ROWS} more"
