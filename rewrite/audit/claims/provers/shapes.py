"""That shapes and element types stay, by z3's integers."""

from __future__ import annotations

from rewrite.audit.claims.proof import Proof, prover
from rewrite.audit.claims.smt import is_installed
from rewrite.match.rule import CompiledRule


@prover("shapes")
def shapes(rule: CompiledRule, seconds: float) -> Proof | None:
    """A rule whose conditions and operators leave the shape and the type of each root no choice.

    The engine refuses to apply other rules where these change; here it never has to.
    """
    if not is_installed() or seconds <= 0:
        return None
    from rewrite.audit.claims.smt.shapes import shapes_hold

    if not shapes_hold(rule, seconds):
        return None
    return Proof("shapes", "", values=False, types=True)
