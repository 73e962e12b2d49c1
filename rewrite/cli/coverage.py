"""What `rewrite coverage` prints.

In: `PackCoverage`s. Out: on a terminal a table, else the same as plain columns; what is missing.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence

from rewrite.audit.coverage import told
from rewrite.audit.coverage.report import PackCoverage, Total


def show(packs: Sequence[PackCoverage]) -> None:
    """Tables of all packs, what is missing, the kinds of items, the total."""
    for pack in packs:
        if not pack.parts:
            print(f"{pack.name}: no rules of its own")
            continue
        _table(pack)
        for line in told.missing(pack):
            print(line)
        print()
    for line in told.kinds(packs):
        print(line)
    print(told.sentence(Total.of(part for pack in packs for part in pack.parts)))


def _table(pack: PackCoverage) -> None:
    rows = list(told.rows(pack))
    if not sys.stdout.isatty():
        print("\n".join(_columns([told.HEADS, *rows])))
        return
    from rich.console import Console
    from rich.table import Table

    table = Table(show_edge=False, pad_edge=False)
    for head in told.HEADS:
        table.add_column(head, justify="left" if head == told.HEADS[0] else "right")
    for row in rows[:-1]:
        table.add_row(*row, style="" if row[-1] == "100.0" else "yellow")
    table.add_section()
    table.add_row(*rows[-1], style="bold")
    Console().print(table)


def _columns(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    for row in rows:
        first, *rest = (
            cell.ljust(width) if i == 0 else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        yield "  ".join([first, *rest]).rstrip()
