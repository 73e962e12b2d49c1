"""The k largest or smallest elements along an axis: TopK."""

from __future__ import annotations

from dataclasses import dataclass

from rewrite.plan.spec import Spec
from rewrite.plan.view import BYTES


@dataclass(frozen=True, slots=True)
class TopK(Spec):
    """x[outer, n, inner] -> values and s64 places [outer, k, inner], in order.

    Of equal elements the one with the lower place comes first; NaN counts as the largest number.
    n < 2^31. `inner_one`: inner is 1. All tensors without gaps.

    Words: x, values, places, n, inner, k. Items: outer times inner. Scratch: `scratch_bytes`.
    """

    dtype: str
    largest: bool
    inner_one: bool


def scratch_bytes(spec: TopK, k: int) -> int:
    """Room for k keys with their places."""
    return (k + 1) * (16 if BYTES[spec.dtype] == 8 else 8)
