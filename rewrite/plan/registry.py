"""Which operators have kernels: declarations found by scanning `rewrite/plan/lower`.

    @lowers("Conv", epilogue=True)
    def conv(low: Lowering, op: Instance) -> None: ...

    @refuses("Conv")
    def conv_refusal(op: Instance) -> str | None: ...

    @bounded("NonZero")
    def nonzero(op: Instance) -> tuple[Bound, ...]: ...

`needs`: operands whose value has to be known when the plan is made; where it is computed at run
time, the session runs what comes before and plans on with the value it found.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, TypeVar

from rewrite.plan.instance import Instance

if TYPE_CHECKING:
    from rewrite.plan.lowering import Lowering

Lower = Callable[["Lowering", Instance], None]
Refuse = Callable[[Instance], str | None]
F = TypeVar("F", bound=Callable[..., object])


@dataclass(frozen=True, slots=True)
class Bound:
    """The largest shape an output can have, and the axis whose true size the kernel counts (None:
    the shape is the true one). What is found stands at the beginning of the output, row-major at
    the true sizes."""

    shape: tuple[int, ...]
    axis: int | None


Bounds = Callable[[Instance], tuple[Bound, ...]]


@dataclass(frozen=True, slots=True)
class Lowered:
    """How one operator is lowered."""

    lower: Lower
    epilogue: bool  # takes pointwise operators behind it into its kernel
    needs: tuple[int, ...]


_LOWERED: dict[tuple[str, str], Lowered] = {}
_REFUSES: dict[tuple[str, str], Refuse] = {}
_BOUNDED: dict[tuple[str, str], Bounds] = {}


def lowers(
    *names: str, domain: str = "", epilogue: bool = False, needs: tuple[int, ...] = ()
) -> Callable[[F], F]:
    """Declares the kernels of operators."""

    def declare(function: F) -> F:
        for name in names:
            if (domain, name) in _LOWERED:
                raise ValueError(f"{name} is lowered twice")
            _LOWERED[domain, name] = Lowered(function, epilogue, needs)  # type: ignore[arg-type]
        return function

    return declare


def refuses(*names: str, domain: str = "") -> Callable[[F], F]:
    """Declares what the kernels of operators cannot do; a lowering never fails behind it."""

    def declare(function: F) -> F:
        for name in names:
            _REFUSES[domain, name] = function  # type: ignore[assignment]
        return function

    return declare


def bounded(*names: str, domain: str = "") -> Callable[[F], F]:
    """Declares operators the size of whose outputs follows from the data."""

    def declare(function: F) -> F:
        for name in names:
            _BOUNDED[domain, name] = function  # type: ignore[assignment]
        return function

    return declare


@cache
def _scan() -> None:
    package = importlib.import_module("rewrite.plan.lower")
    for module in pkgutil.iter_modules(package.__path__):
        importlib.import_module(f"rewrite.plan.lower.{module.name}")


def find(key: tuple[str, str]) -> Lowered | None:
    _scan()
    return _LOWERED.get(key)


def bounds(op: Instance) -> tuple[Bound, ...] | None:
    """The largest shapes of outputs whose size the data decide; None for other operators."""
    _scan()
    found = _BOUNDED.get(op.key)
    return None if found is None else found(op)


def refusal(op: Instance) -> str | None:
    """Why no kernel of ours computes this instance; None where one does."""
    _scan()
    if op.key not in _LOWERED:
        return f"{op.name} has no kernel"
    found = _REFUSES.get(op.key)
    return None if found is None else found(op)
