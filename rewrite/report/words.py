"""What the report of `apply` says in words, on a terminal and on a page.

In: the dictionary that `--json` writes, or a part of it. Out: sentences, rows of counts.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

TIDIED = {
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


def stopped(stop: Mapping[str, Any]) -> str:
    """Why the run ended."""
    reason = _STOPPED.get(stop["reason"], stop["reason"])
    return f"{reason} after {counted(stop['rounds'], 'round')}"


def verdict(verified: Mapping[str, Any]) -> str:
    """One line on the comparison with the original."""
    if verified["status"] == "unverified":
        return f"not compared: {verified['reason']}"
    runs = f"with {verified['runtime']}"
    if verified["runs"]:  # none where the rewritten model cannot even be loaded
        runs = f"in {counted(verified['runs'], 'run')} {runs}"
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


def groups(report: Mapping[str, Any]) -> list[tuple[int, str, str]]:
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


def tidied(report: Mapping[str, Any]) -> list[str]:
    """What was done besides rules."""
    parts = [("node computed", "nodes computed", sum(report["folded"].values()))]
    for kind, count in report["cleaned"].items():
        one, several = TIDIED.get(kind, (kind, kind))
        parts.append((one, several, count))
    return [f"{n} {one if n == 1 else several}" for one, several, n in parts if n]


def unsupported(report: Mapping[str, Any]) -> dict[tuple[str, str], list[str]]:
    """Operator and reason -> names of the nodes, the most frequent first."""
    nodes: dict[tuple[str, str], list[str]] = {}
    for row in report["unsupported"]:
        nodes.setdefault((row["operator"], row["reason"]), []).append(row["node"])
    return dict(sorted(nodes.items(), key=lambda item: (-len(item[1]), item[0])))


def counted(count: int, what: str) -> str:
    """`1 node`, `2 nodes`."""
    return f"{count} {what}{'' if count == 1 else 's'}"


def count(items: Iterable[str]) -> dict[str, int]:
    """Most frequent first, then by name."""
    counts: dict[str, int] = {}
    for item in items:
        counts[item] = counts.get(item, 0) + 1
    return dict(sorted(counts.items(), key=lambda pair: (-pair[1], pair[0])))
