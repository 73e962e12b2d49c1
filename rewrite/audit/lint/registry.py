"""`@check`: how a function becomes a check of `rewrite lint`.

In: functions of the modules of `checks/`, found by scanning the folder. Out: `Check`: its code,
title, severity, its page (the docstring) and the function, which takes a `Subject`.
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from typing import TYPE_CHECKING

from rewrite.audit.lint.finding import Finding, Found, Severity

if TYPE_CHECKING:
    from rewrite.audit.lint.subject import Subject


Function = Callable[["Subject"], Iterable[Found]]


@dataclass(frozen=True, slots=True)
class Check:
    """`page` is the text of its page below the title: what, why, a bad and a good example.

    `last`: it looks at what the other checks of the run found.
    """

    code: str
    title: str
    severity: Severity
    page: str
    function: Function
    last: bool = False

    def run(self, subject: Subject) -> Iterator[Finding]:
        for found in self.function(subject):
            yield Finding(
                found.message,
                found.span,
                found.subject,
                found.hint,
                found.labels,
                found.edits,
                code=self.code,
                severity=self.severity,
            )


_REGISTERED: list[Check] = []


def check(code: str, severity: Severity, last: bool = False) -> Callable[[Function], Function]:
    """Register a function. The first line of its docstring is the title, the rest the page."""

    def register(function: Function) -> Function:
        title, _, page = (inspect.getdoc(function) or "").partition("\n")
        _REGISTERED.append(
            Check(code, title.rstrip("."), severity, page.strip("\n"), function, last)
        )
        return function

    return register


@cache
def checks() -> tuple[Check, ...]:
    """Every check, in the order of codes."""
    package = importlib.import_module("rewrite.audit.lint.checks")
    for module in pkgutil.iter_modules(package.__path__, package.__name__ + "."):
        importlib.import_module(module.name)
    found = sorted(_REGISTERED, key=lambda c: c.code)
    for one, other in pairwise(found):
        if one.code == other.code:
            raise ValueError(f"two checks have the code {one.code}")
    return tuple(found)
