"""Elementary functions in registers. In: floats. Out: floats."""

from __future__ import annotations

from collections.abc import Callable

from rewrite.codegen.ir import Function
from rewrite.codegen.isa import Isa
from rewrite.codegen.value import Value

Written = Callable[[Function, Isa, Value], Value]
_FUNCTIONS: dict[str, Written] = {}


def function(name: str) -> Written:
    """The writer of an elementary function, by the name that scalar bodies use."""
    found = _FUNCTIONS.get(name)
    if found is None:
        raise AttributeError(name)
    return found
