"""What `diff` tells on the terminal.

In: the dictionaries that `--json` writes. Out: lines of text.
"""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rewrite.audit.layers import Layer, Layers

Report = dict[str, Any]
MOST_ROWS = 20  # of any list on the terminal; the JSON has all of it
_LONGEST = 80  # characters of a value that are shown


# --- packs and targets ------------------------------------------------------------------------


def packs_text(report: Report) -> Iterator[str]:
    """Lines that tell of two packs."""
    yield f"{report['before']} -> {report['after']}"
    yield f"rules       {report['rules'][0]} -> {report['rules'][1]}"
    for word in ("added", "removed"):
        if report[word]:
            yield word
            yield from _rows(f"    {name}  {claim}" for name, claim in report[word].items())
    if report["changed"]:
        yield "changed"
        yield from _rows(
            f"    {name}  {_changes(changes)}" for name, changes in report["changed"].items()
        )
    if not (report["added"] or report["removed"] or report["changed"]):
        yield "the same rules"


def _changes(changes: Report) -> str:
    """`claim exact -> equal(rtol=1e-05), text`: what is different in one rule."""
    told = [
        key if key == "text" else f"{key} {_value(old)} -> {_value(new)}"
        for key, (old, new) in changes.items()
    ]
    return "; ".join(told)


def targets_text(report: Report) -> Iterator[str]:
    """Lines that tell of two targets."""
    yield f"{report['before']} -> {report['after']}"
    if report["facts"]:
        yield "facts"
        yield from _rows(f"    {key}  {_fact(pair)}" for key, pair in report["facts"].items())
    else:
        yield "the same facts"
    yield from packs_text(report["packs"])


def _fact(pair: Any) -> str:
    if isinstance(pair, dict):
        told = [f"+ {name}" for name in pair["added"]] + [f"- {name}" for name in pair["removed"]]
        return ", ".join(told)
    return f"{_value(pair[0])} -> {_value(pair[1])}"


def _value(value: Any) -> str:
    if value is None:
        return "none"
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."


def effects_text(report: Report) -> Iterator[str]:
    """Lines that tell what two sides do to models."""
    rows = report["models"]
    yield f"models      {len(rows)}, {len(report['differing'])} of them differently rewritten"
    for name in report["differing"]:
        row = rows[name]
        if "error" in row:
            yield f"    {name}: {row['error']}"
            continue
        old, new = row["sides"]
        told = [f"{key} {old[key]} -> {new[key]}" for key in old if old[key] != new[key]]
        yield f"    {name}: {', '.join(told) or 'other rules'}"
        yield from _rows(
            f"        {rule}  {old} -> {new}" for rule, (old, new) in row["fired"].items()
        )


# --- models -----------------------------------------------------------------------------------


def models_text(report: Report) -> Iterator[str]:
    yield f"{report['before']} -> {report['after']}"
    yield f"nodes       {report['nodes'][0]} -> {report['nodes'][1]}"
    if report["operators"]:
        yield "operators"
        width = max(len(name) for name in report["operators"])
        rows = sorted(report["operators"].items(), key=lambda row: -abs(row[1][1] - row[1][0]))
        yield from _rows(f"    {name:{width}}  {old} -> {new}" for name, (old, new) in rows)
    yield from _tables("nodes", report["changes"])
    if report["types"]:
        yield "types"
        yield from _rows(
            f"    {name}  {old} -> {new}" for name, (old, new) in report["types"].items()
        )
    yield from _tables("initializers", report["initializers"])
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


def _tables(what: str, tables: Report) -> Iterator[str]:
    """Rows that were added, removed and changed."""
    for word in ("added", "removed", "changed"):
        rows = tables[word]
        if rows:
            yield f"{what} {word}"
            told = _changed if word == "changed" else _one
            yield from _rows(f"    {name}  {told(row)}" for name, row in rows.items())


def _one(row: Report) -> str:
    if "operator" in row:
        return f"{row['operator']}({', '.join(name or '_' for name in row['inputs'])})"
    return f"{row['dtype']}{row['shape']}"


def _changed(row: Report) -> str:
    if "elements" in row:
        by = f", by up to {row['largest']:.4g}" if "largest" in row else ""
        return f"{row['elements']} elements differ{by}"
    return "; ".join(f"{key} {_value(old)} -> {_value(new)}" for key, (old, new) in row.items())


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
