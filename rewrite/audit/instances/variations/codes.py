"""Inputs that hold every code there is: what is pointwise is then tried on its whole domain."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from rewrite.audit.instances.draft import Draft, dtype_of
from rewrite.audit.instances.hints import Hints
from rewrite.audit.instances.registry import Change, variation
from rewrite.audit.instances.variations.shapes import reshape
from rewrite.ops.dtypes import BITS

MOST_BITS = 16


@variation("every code")
def every(draft: Draft, _: Hints) -> Iterator[Change]:
    """A vector of as many elements as there are combinations of the inputs' codes."""
    given = draft.open_inputs()
    bits = [bits_of(dtype_of(v)) for v in given]
    total = sum(b or MOST_BITS for b in bits)
    if given and all(bits) and total <= MOST_BITS:
        yield Change(f"inputs of {1 << total} elements", partial(_spread, size=1 << total))


def bits_of(dtype: str | None) -> int | None:
    """Bits of an element of a type with few values; None for others."""
    if dtype == "bool":
        return 1
    if dtype is None or dtype == "string" or dtype[0] not in "su":
        return None
    return BITS[dtype] if BITS[dtype] <= 8 else None


def _spread(draft: Draft, size: int) -> None:
    for given in draft.open_inputs():
        reshape(draft, given.name, [size])
