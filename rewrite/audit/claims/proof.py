"""Proofs of rules, and who may give them.

In: a rule. Out: `Proof`, or None. A prover is a function in a module of `provers/` with `@prover`;
the folder is scanned, nothing else lists it. What it says is taken as proved: it must hold for
every match of the rule, on every target.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Protocol

from rewrite.match.rule import CompiledRule


@dataclass(frozen=True, slots=True)
class Proof:
    """`how`: one line ("bit-vectors, all int32"); `prover`: who says it.

    `values`: the claim about numbers; `types`: that dtypes and shapes stay. Both: nothing is left.
    """

    prover: str
    how: str
    values: bool
    types: bool

    def __str__(self) -> str:
        return f"{self.prover}, {self.how}" if self.how else self.prover


class Prover(Protocol):
    """Returns None where it has no proof; never a guess. `seconds` of processor time at most."""

    def __call__(self, rule: CompiledRule, seconds: float) -> Proof | None: ...


_FOUND: dict[str, Prover] = {}


def prover(name: str) -> Callable[[Prover], Prover]:
    """Registers a prover under a name."""

    def register(function: Prover) -> Prover:
        if name in _FOUND:
            raise ValueError(f"two provers are called {name!r}")
        _FOUND[name] = function
        return function

    return register


@cache
def provers() -> tuple[tuple[str, Prover], ...]:
    """All of them in the order of their names; the folder is read when first asked."""
    from rewrite.audit.claims import provers as folder

    for info in pkgutil.iter_modules(folder.__path__):
        importlib.import_module(f"{folder.__name__}.{info.name}")
    return tuple(sorted(_FOUND.items(), key=lambda item: item[0]))


def proofs(rule: CompiledRule, seconds: float) -> tuple[Proof, ...]:
    """What the provers have for the rule."""
    found = (function(rule, seconds) for _, function in provers())
    return tuple(proof for proof in found if proof is not None)
