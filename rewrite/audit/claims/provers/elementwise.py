"""Elementwise rules, by z3: integers as bit vectors, floats as IEEE 754."""

from __future__ import annotations

from rewrite.audit.claims.proof import Proof, prover
from rewrite.audit.claims.smt import is_installed
from rewrite.match.rule import CompiledRule
from rewrite.schema import DTYPE_CLASSES


@prover("elementwise")
def elementwise(rule: CompiledRule, seconds: float) -> Proof | None:
    """A rule whose two sides give the same number for all operands, of all types it takes."""
    if not is_installed() or seconds <= 0:
        return None
    from rewrite.audit.claims.smt.values import settle

    found = settle(rule, seconds)
    if found.status != "closed":
        return None
    floats = [dtype for dtype in found.dtypes if dtype in DTYPE_CLASSES["f"]]
    others = [dtype for dtype in found.dtypes if dtype not in floats]
    named = ", ".join([*([] if not others else ["bit-vectors"]), *(["floats"] if floats else [])])
    return Proof(named, " ".join((*others, *floats)), values=True, types=False)
