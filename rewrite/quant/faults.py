"""The one exception of exact arithmetic: inputs that have no defined result.

In: nothing. Out: `QuantError`. Whoever rewrites models catches it, leaves the node alone and
reports the faults; each is a short phrase that names the bad value.
"""

from __future__ import annotations


class QuantError(ValueError):
    """Parameters or values outside the domain of the arithmetic; `faults` names each."""

    def __init__(self, *faults: str) -> None:
        super().__init__("; ".join(faults))
        self.faults: tuple[str, ...] = faults
