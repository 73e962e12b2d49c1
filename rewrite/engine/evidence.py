"""Certificates of applications, added up for the account of a run.

In: rules with the certificates of their applications. Out: one line of evidence for all those of
one rule that are of one kind and allow the same number of steps.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rewrite.quant.certificate import Certificate

LONGEST = 300  # characters of a certificate in a model

Key = tuple[str, int, str]
_WORDS = {"exhausted": "every operand compared", "steps": "every step compared", "bound": "derived"}


def key(rule: str, certificate: Certificate | None) -> Key:
    """What certificates that are added up have in common."""
    return (rule, 0, "") if certificate is None else (rule, certificate.max_lsb, certificate.kind)


def summed(uses: Iterable[tuple[str, Certificate]]) -> dict[Key, str]:
    """The evidence for each key: cases and differences are sums, the witness is the first one."""
    groups: dict[Key, list[Certificate]] = {}
    for rule, certificate in uses:
        groups.setdefault(key(rule, certificate), []).append(certificate)
    return {name: _text(found) for name, found in groups.items()}


def _text(certificates: list[Certificate]) -> str:
    kind, most = certificates[0].kind, certificates[0].max_lsb
    cases = sum(c.cases for c in certificates)
    differing = sum(c.mismatches for c in certificates)
    witness = next((c.witness for c in certificates if c.witness is not None), None)
    text = f"certified: {_WORDS.get(kind, kind)}"
    if cases:
        text += f", {differing:,} of {cases:,} cases differ"
    return text if witness is None else f"{text}, as at {witness} by {most}"


def short(certificate: Certificate) -> str:
    """A certificate as metadata of a node."""
    return str(certificate)[:LONGEST]
