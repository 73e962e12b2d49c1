"""What a process that verifies rules is asked, and what it answers.

In: nothing. Out: `Task`, `Answer`, `Watch`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

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
    """Told before anything native is done: what ends the process is then known.

    `end`: when it is to be over, as `time.process_time` counts. `found`: the result, whatever
    becomes of what is done.
    """

    instance: int
    words: str
    doing: str
    end: float
    found: RuleResult | None = None

    def __str__(self) -> str:
        return f"{self.doing}, on {self.words}"


class Watch:
    """Told what is about to be done, and when it is over; this one does nothing about it."""

    def begins(self, doing: Doing) -> None:
        pass

    def over(self) -> None:
        pass


@dataclass(frozen=True, slots=True)
class Failed:
    """An exception of ours, in words."""

    text: str


@dataclass(frozen=True, slots=True)
class Ended:
    """A rule whose process came to no result; `how` as in `RuleResult`."""

    status: Literal["undecided", "crashed"]
    how: str


Answer = Doing | RuleResult | Failed
