"""What a process that verifies rules is asked, and what it answers.

In: nothing. Out: `Task`, `Answer`.
"""

from __future__ import annotations

from dataclasses import dataclass

from rewrite.audit.claims.result import RuleResult
from rewrite.audit.instances.instance import Budget


@dataclass(frozen=True, slots=True)
class Task:
    """One rule of the pack in a folder. `skip`: instances that ended a process before."""

    number: int
    folder: str
    search: str
    rule: str
    targets: tuple[str, ...]
    budget: Budget
    skip: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class Doing:
    """Told before anything native is done: what ends the process is then known."""

    instance: int
    words: str
    doing: str


@dataclass(frozen=True, slots=True)
class Failed:
    """An exception of ours, in words."""

    text: str


Answer = Doing | RuleResult | Failed
