"""Where the time of a plan goes.

In: the calls of a plan, nanoseconds per call. Out: `Profile`: rows that say what each call took and
moved, and a table of text.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from rewrite.plan.spec import Call


@dataclass(frozen=True, slots=True)
class Row:
    """One kernel of the plan; time is the mean of the runs."""

    label: str
    kind: str  # of kernel
    nodes: tuple[str, ...]
    nanoseconds: float
    share: float  # of the time of all kernels
    bytes: int
    flops: int

    @property
    def bytes_per_second(self) -> float:
        return self.bytes / self.nanoseconds * 1e9 if self.nanoseconds else 0.0

    @property
    def flops_per_second(self) -> float:
        return self.flops / self.nanoseconds * 1e9 if self.nanoseconds else 0.0


@dataclass(frozen=True, slots=True)
class Profile:
    """Rows in the order in which the kernels run."""

    runs: int
    rows: tuple[Row, ...]

    @property
    def nanoseconds(self) -> float:
        """Of one run, all kernels together."""
        return sum(row.nanoseconds for row in self.rows)

    @property
    def bytes(self) -> int:
        return sum(row.bytes for row in self.rows)

    @property
    def flops(self) -> int:
        return sum(row.flops for row in self.rows)

    def __str__(self) -> str:
        """The table that `rewrite run --profile` prints."""
        return table(self).rstrip("\n")

    def slowest(self, count: int) -> tuple[Row, ...]:
        return tuple(sorted(self.rows, key=lambda row: -row.nanoseconds)[:count])


def of(calls: Sequence[Call], nanoseconds: Sequence[int], runs: int) -> Profile:
    """`nanoseconds` are those of all runs together."""
    total = sum(nanoseconds)
    rows = tuple(
        Row(
            label=call.label or type(call.spec).__name__,
            kind=type(call.spec).__name__,
            nodes=call.nodes,
            nanoseconds=spent / max(runs, 1),
            share=spent / total if total else 0.0,
            bytes=call.bytes,
            flops=call.flops,
        )
        for call, spent in zip(calls, nanoseconds, strict=True)
    )
    return Profile(runs, rows)


def table(profile: Profile, most: int = 40) -> str:
    """The slowest kernels, slowest first, and a line for all of them."""
    shown = profile.slowest(most)
    repeated = Counter((row.label, row.nodes) for row in profile.rows)
    rows = [
        _HEAD,
        *(_cells(row, repeated[row.label, row.nodes] > 1) for row in shown),
        _total(profile),
    ]
    left = {0, len(_HEAD) - 1}
    widths = [max(len(row[k]) for row in rows) for k in range(len(_HEAD))]
    lines = [
        "  ".join(
            cell.ljust(width) if k in left else cell.rjust(width)
            for k, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]
    if len(profile.rows) > len(shown):
        lines.insert(-1, f"… and {len(profile.rows) - len(shown)} more")
    return "\n".join(lines) + "\n"


_HEAD = ("kernel", "time", "share", "moved", "GB/s", "MFLOP", "GFLOP/s", "nodes")


def _cells(row: Row, is_part: bool) -> tuple[str, ...]:
    """`is_part`: several kernels compute the same nodes, and the kind tells them apart."""
    nodes = ", ".join(row.nodes)
    return (
        f"{row.label} ({row.kind})" if is_part else row.label,
        duration(row.nanoseconds),
        f"{row.share:.1%}",
        size(row.bytes),
        f"{row.bytes_per_second / 1e9:.1f}",
        f"{row.flops / 1e6:.2f}",
        f"{row.flops_per_second / 1e9:.1f}",
        nodes if len(nodes) <= 60 else nodes[:57] + "...",
    )


def _total(profile: Profile) -> tuple[str, ...]:
    seconds = profile.nanoseconds / 1e9
    return (
        f"{len(profile.rows)} {'kernel' if len(profile.rows) == 1 else 'kernels'}",
        duration(profile.nanoseconds),
        f"{1:.1%}" if profile.nanoseconds else f"{0:.1%}",
        size(profile.bytes),
        f"{profile.bytes / seconds / 1e9:.1f}" if seconds else "0.0",
        f"{profile.flops / 1e6:.2f}",
        f"{profile.flops / seconds / 1e9:.1f}" if seconds else "0.0",
        f"mean of {profile.runs} {'run' if profile.runs == 1 else 'runs'}",
    )


def duration(nanoseconds: float) -> str:
    """`1.25 ms`."""
    for unit, scale in (("s", 1e9), ("ms", 1e6), ("µs", 1e3)):
        if nanoseconds >= scale:
            return f"{nanoseconds / scale:.2f} {unit}"
    return f"{nanoseconds:.0f} ns"


def size(count: int) -> str:
    """`1.5 MB`."""
    for unit, scale in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= scale:
            return f"{count / scale:.1f} {unit}"
    return f"{count} B"
