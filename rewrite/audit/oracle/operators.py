"""All operators that the oracle has a value of its own for.

In: a domain and a name. Out: the function, or None. Importing this module registers them.
"""

from __future__ import annotations

from rewrite.audit.oracle import (  # noqa: F401 - each registers its operators
    contraction,
    integers,
    movement,
    qlinear,
    quantize,
    recurrent,
    reduction,
)
from rewrite.audit.oracle.integers import INTEGERS
from rewrite.audit.oracle.step import OPERATORS, Operator

# Operators on integers whose results are codes or real numbers by a meaning of their own.
MAKES_REALS = frozenset({"DequantizeLinear", "Cast", "CastLike", "DynamicQuantizeLinear"})

# Operators whose later operands are sizes, though they may be floats.
SIZED = frozenset({"Resize", "Upsample"})


def find(domain: str, op: str) -> Operator | None:
    return OPERATORS.get((domain, op))


__all__ = ["INTEGERS", "MAKES_REALS", "SIZED", "find"]
