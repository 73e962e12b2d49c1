"""Facts of a target that must agree with one another.

In: the merged `Facts` of a file and its parents. Out: problems with the place of the fact that
does not fit: RW412 (the mode of requantization has no such field) and RW413 (contradictions).
"""

from __future__ import annotations

from typing import Any, cast

from rewrite.errors import Collector
from rewrite.schema import DTYPE_CLASSES
from rewrite.target.read import Facts, Path, written
from rewrite.target.requantize import MODES


def check_facts(facts: Facts, problems: Collector) -> None:
    """Everything that can be said only once all facts are there."""
    values = cast(dict[str, Any], facts.values)
    if "requantize" in values:
        _requantize(facts, values["requantize"], problems)
    for i, row in enumerate(values.get("dtypes", ())):
        _arithmetic(facts, row, ("dtypes", i), problems)
    for operator, limits in values.get("limits", {}).items():
        for i, fixed in enumerate(limits.get("fixed_qparams", ())):
            path = ("limits", written(operator), "fixed_qparams", i, "zp")
            _code(facts, fixed["dtype"], (fixed["zp"],), path, problems)
    fusion = values.get("activation_fusion", {})
    if fusion.get("arbitrary_clamp") and fusion.get("clamps"):
        message = "with `arbitrary_clamp` any bounds may be used"
        problems.add("RW413", message, facts.spans[("activation_fusion", "clamps")])


def _requantize(facts: Facts, table: dict[str, Any], problems: Collector) -> None:
    mode = MODES[table["mode"]]
    for key, value in table.items():
        reason = None if key == "mode" else mode.problem(key, value)
        if reason is not None:
            message = f"`{key}: {value}` does not belong to mode `{table['mode']}`"
            problems.add("RW412", message, facts.spans[("requantize", key)], f"it {reason}")


def _arithmetic(facts: Facts, row: dict[str, Any], path: Path, problems: Collector) -> None:
    if "weight_range" in row:
        _code(facts, row["weight"], row["weight_range"], (*path, "weight_range"), problems)
    for kind in ("bias", "accumulator"):
        width, bits = _bits(row.get(kind, "")), row.get(f"{kind}_bits")
        if width and bits and bits > width:
            message = f"{row[kind]} has {width} bits, not {bits}"
            problems.add("RW413", message, facts.spans[(*path, f"{kind}_bits")])


def _code(
    facts: Facts, dtype: str, codes: tuple[int, ...], path: Path, problems: Collector
) -> None:
    """Codes lie in the range of their element type."""
    width = _bits(dtype)
    if not width:
        return
    low = 0 if dtype.startswith("u") else -(1 << (width - 1))
    high = low + (1 << width) - 1
    for code in codes:
        if not low <= code <= high:
            message = f"{code} is not a code of {dtype}, which has {low} to {high}"
            problems.add("RW413", message, facts.spans[path])


def _bits(dtype: str) -> int:
    """Width of an integer type, 0 for others."""
    return int(dtype[1:]) if dtype in DTYPE_CLASSES["int"] else 0
