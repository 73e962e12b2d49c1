"""Recognizers: whole groups that one kernel computes.

In: the members of a group, and what is needed of them. Out: a `Cluster` with its lowering, or None.
They are declared beside what they recognize and found by scanning `rewrite/plan/groups`:

    @recognizes
    def attention(members: Sequence[Instance], wanted: Sequence[Output]) -> Cluster | None: ...
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Sequence
from functools import cache

from rewrite.plan.cluster import Cluster, Output
from rewrite.plan.instance import Instance

Recognizer = Callable[[Sequence[Instance], Sequence[Output]], Cluster | None]

_RECOGNIZERS: list[Recognizer] = []


def recognizes(recognizer: Recognizer) -> Recognizer:
    """Declares a recognizer."""
    _RECOGNIZERS.append(recognizer)
    return recognizer


@cache
def recognizers() -> tuple[Recognizer, ...]:
    """All of them, in the order of their modules' names."""
    package = importlib.import_module("rewrite.plan.groups")
    for module in pkgutil.iter_modules(package.__path__):
        importlib.import_module(f"rewrite.plan.groups.{module.name}")
    return tuple(_RECOGNIZERS)
