"""Which nodes the target runs, and as which kernels.

In: the picture after, the groups of the journal, what is unsupported. Out: `Partition`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rewrite.engine.journal import Grouped
from rewrite.report.picture import Cell, Picture


@dataclass(frozen=True, slots=True)
class Kernel:
    """Calls of the same kind. `kind`: `group`, `operator` or `elsewhere` (not on the target)."""

    kind: str
    what: str
    rule: str
    cells: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Stretch:
    """Kernels that follow each other in the main graph, all on the target or all elsewhere."""

    on_target: bool
    cells: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Partition:
    kernels: tuple[Kernel, ...]
    stretches: tuple[Stretch, ...]
    # cell that is not on the target -> its operator, as the report spells it, and the reason
    reasons: Mapping[int, tuple[str, str]]


def partition(
    after: Picture, groups: Sequence[Grouped], unsupported: Sequence[Mapping[str, Any]]
) -> Partition:
    """Sort the kernels of a rewritten model."""
    why = {record["node"]: (record["operator"], record["reason"]) for record in unsupported}
    made = {(group.graph, group.node): group for group in groups}
    kinds: dict[tuple[str, str, str], list[int]] = {}
    reasons: dict[int, tuple[str, str]] = {}
    stretches: list[tuple[bool, list[int]]] = []
    for number, cell in enumerate(after.cells):
        if not _runs(after, cell):
            continue
        reason = why.get(cell.key[1])
        if reason is not None:
            reasons[number] = reason
        kinds.setdefault(_kind(cell, made.get(cell.key), reason is None), []).append(number)
        if cell.parent < 0:
            on_target = reason is None
            if not stretches or stretches[-1][0] is not on_target:
                stretches.append((on_target, []))
            stretches[-1][1].append(number)
    order = ("group", "operator", "elsewhere")
    kernels = [Kernel(*kind, tuple(cells)) for kind, cells in kinds.items()]
    kernels.sort(key=lambda k: (order.index(k.kind), -len(k.cells), k.what))
    found = tuple(Stretch(on_target, tuple(cells)) for on_target, cells in stretches)
    return Partition(tuple(kernels), found, reasons)


def _kind(cell: Cell, group: Grouped | None, is_taken: bool) -> tuple[str, str, str]:
    if not is_taken:
        return "elsewhere", cell.title, ""
    if group is not None:
        return "group", " + ".join(group.nodes), group.rule
    return "operator", cell.title, ""


def _runs(picture: Picture, cell: Cell) -> bool:
    """A node that counts as a kernel: no constant, and not inside of a function."""
    if cell.node is None or cell.kind == "constant":
        return False
    parent = cell.parent
    while parent >= 0:
        around = picture.cells[parent]
        if around.kind in ("group", "function"):
            return False
        parent = around.parent
    return True
