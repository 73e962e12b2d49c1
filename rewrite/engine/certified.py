"""`claim certified(p)`: what an application promises is what its certificate says.

In: a match of such a rule. Out: its certificate and the bound that follows, or `RefusedError`.
"""

from __future__ import annotations

from collections.abc import Iterable

import onnx_ir as ir

from rewrite.engine.evidence import short
from rewrite.engine.ledger import Bound
from rewrite.engine.refused import RefusedError
from rewrite.match.rule import Match
from rewrite.match.values import Unknown
from rewrite.quant.certificate import Certificate

CERTIFICATE = "rewrite.certificate"  # metadata of nodes: the evidence that they stand on


def certified(match: Match, name: str, limit: str) -> tuple[Certificate, Bound]:
    """The certificate that the `let` has, itself or as `.certificate`, and what it allows.

    Codes without a difference are `lsb(0)`: what the real numbers give, rounded once.
    """
    try:
        value = match.scope.lookup(name)
    except Unknown as unknown:
        raise RefusedError(unknown.reason) from unknown
    found = getattr(value, "certificate", value)
    if not isinstance(found, Certificate):
        raise RefusedError(f"`{name}` is not a certificate")
    bound = Bound("lsb", found.max_lsb)
    if not bound.within(limit):
        raise RefusedError(f"certified for {bound}, which is more than `{limit}`")
    return found, bound


def note(nodes: Iterable[ir.Node], certificate: Certificate) -> None:
    """Keep the evidence with the nodes."""
    text = short(certificate)
    for node in nodes:
        node.metadata_props[CERTIFICATE] = text
