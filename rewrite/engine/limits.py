"""How long and how far a run may go, and who is told about it.

In: nothing. Out: `Limits`, `Options`, `Progress`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

# phase, nodes looked at so far, nodes known to be left; called now and then.
Progress = Callable[[str, int, int], None]


@dataclass(frozen=True, slots=True)
class Limits:
    """None: the default, which grows with the model."""

    applications: int | None = None  # 50 per node + 10,000
    seconds: float = 600.0
    rounds: int = 30
    nodes: int | None = None  # 4 per node of the original + 1,000
    bytes: int | None = None  # that constants grow by: 1/8 of those of the original + 128 MB
    fold_bytes: int = 16 << 20  # a folded result may always be this large

    def most_applications(self, nodes: int) -> int:
        return 50 * nodes + 10_000 if self.applications is None else self.applications

    def most_nodes(self, nodes: int) -> int:
        return 4 * nodes + 1_000 if self.nodes is None else self.nodes

    def most_bytes(self, nbytes: int) -> int:
        return nbytes // 8 + (128 << 20) if self.bytes is None else self.bytes

    @staticmethod
    def most_elements(nbytes: int) -> int:
        """Of a constant that a rule computes: float64 and two intermediate results of it."""
        return (128 << 20) // 24 + nbytes // 80


@dataclass(frozen=True, slots=True)
class Options:
    """What a run does besides applying rules."""

    fold: bool = True  # compute constant nodes
    tidy: bool = True  # dead code, common subexpressions, duplicate constants
    max_class: str = "approx"  # rules and folds with a weaker promise are not used
    phases: tuple[str, ...] | None = None  # None: all
