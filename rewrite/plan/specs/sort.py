"""The k largest or smallest elements along an axis: TopK."""

from __future__ import annotations

from dataclasses import dataclass

from rewrite.plan.spec import Spec
from rewrite.plan.view import BYTES


@dataclass(frozen=True, slots=True)
class TopK(Spec):
    """x[rows, n] -> values and s64 places [rows, k], in order.

    Of equal elements the one with the lower place comes first; NaN counts as the largest number.
    n < 2^31. All tensors without gaps.

    Words: x, values, places, n, k, room of `room_for`. Items: rows. Scratch: `scratch_bytes`.
    """

    dtype: str
    largest: bool


_FEW = 64  # elements that are sorted faster than they are dismissed


def room_for(n: int, k: int, lanes: int) -> int:
    """For how many elements of a row there is room: a power of two; for all, or for k and a vector
    of 32-bit elements at least. `lanes`: of such a vector."""
    least = n if n <= _FEW else min(n, max(2 * k, k + lanes))
    return 1 << (max(least, lanes) - 1).bit_length()


def scratch_bytes(spec: TopK, room: int) -> int:
    """Room for so many keys with their places."""
    return room * (16 if BYTES[spec.dtype] == 8 else 8)
