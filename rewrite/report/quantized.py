"""What the report of `apply` says about a quantized model, in words.

In: the dictionary that `--json` writes. Out: lines for the terminal, rows of counts for both forms.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from rewrite.report.words import counted

Rows = list[tuple[int, str, list[str]]]

_MOST_OUTPUTS = 4  # named in the line of bounds


def lines(report: Mapping[str, Any]) -> Iterator[str]:
    """One line each on what bounds the outputs, and on sums that overflow."""
    if told := bound(report):
        yield f"lsb bound   {told}"
    for told in saturation(report):
        yield f"saturation  {told}"


def bound(report: Mapping[str, Any]) -> str:
    """How far the outputs may be from those of the original, in steps; "" of a float model."""
    bounds = report.get("lsb_bound") or {}
    known = {name: steps for name, steps in bounds.items() if steps is not None}
    if not bounds:
        return ""
    if not known:
        parts = []
    elif not any(known.values()):
        parts = ["0"] if len(known) == len(bounds) else [f"0 for {counted(len(known), 'output')}"]
    elif len(known) <= _MOST_OUTPUTS:
        parts = [f"{steps:.6g} ({name})" for name, steps in known.items()]
    else:
        parts = [f"{max(known.values()):.6g} at most for {counted(len(known), 'output')}"]
    reasons: dict[str, list[str]] = {}
    for name, reason in report.get("lsb_unbounded", {}).items():
        reasons.setdefault(reason, []).append(name)
    for reason, names in reasons.items():
        which = names[0] if len(names) == 1 else counted(len(names), "output")
        parts.append(f"not bounded for {which}: {reason}")
    return ", ".join(parts)


def saturation(report: Mapping[str, Any]) -> list[str]:
    """A sentence for each instruction with narrow sums."""
    found: dict[str, list[Mapping[str, Any]]] = {}
    for record in report.get("saturation", ()):
        found.setdefault(record["instruction"].split(";")[0], []).append(record)
    return [_overflows(instruction, records) for instruction, records in found.items()]


def _overflows(instruction: str, records: list[Mapping[str, Any]]) -> str:
    unsafe = [record for record in records if record["unsafe_channels"]]
    if not unsafe:
        count = len(records)
        any_of = "any of " if count > 1 else ""
        return f"{instruction} cannot overflow in {any_of}{counted(count, 'product')}"
    channels = sum(record["channels"] for record in unsafe)
    bad = sum(record["unsafe_channels"] for record in unsafe)
    return (
        f"{instruction} may overflow in {len(unsafe)} of {counted(len(records), 'product')}: "
        f"{bad} of {channels} channels"
    )


def sections(report: Mapping[str, Any]) -> list[tuple[str, Rows]]:
    """Title, and operators with reasons: how many, and the names of the nodes."""
    return [
        ("floats left", _rows(report.get("float_left", ()))),
        ("bad quantization", _rows(report.get("quantization_faults", ()))),
    ]


def _rows(records: Any) -> Rows:
    """Reasons that differ only in the values that they name are one row, with the first of them."""
    found: dict[tuple[str, str], tuple[str, list[str]]] = {}
    for record in records:
        key = record["operator"], re.sub(r"'[^']*'", "''", record["reason"])
        what = f"{record['operator']}: {record['reason']}"
        found.setdefault(key, (what, []))[1].append(record["node"])
    rows = [(len(nodes), what, nodes) for what, nodes in found.values()]
    return sorted(rows, key=lambda row: (-row[0], row[1]))
